"""The columns of the catalogue features, each an expression over parsed texts.

`catalog` lists the columns of each feature set. `vectorized` and `rowwise` parse the texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pricekit.features.labelled_lines import Ints, Texts
from pricekit.features.quantity import COUNT, Amounts, Packs
from pricekit.features.words import Words

Column = npt.NDArray[Any]

LARGE_PACK = 12
# Upper edges of the bins of quantity_category: for pieces, and for grams, millilitres and millimetres.
PIECE_EDGES = np.array([1.0, 6.0, 12.0, 24.0, 48.0, 100.0])
MEASURE_EDGES = np.array([60.0, 150.0, 350.0, 700.0, 1500.0, 4000.0])

# All but CAPITALS run over the item name in ASCII lower case.
PREMIUM = (
    r"\b(?:premium|luxury|luxurious|gourmet|artisan|artisanal|deluxe|finest|handcrafted|handmade|imported|reserve"
    r"|organic|authentic|exclusive|professional|gifts?|aged|truffles?|saffron)\b"
)
BUDGET = (
    r"\b(?:budget|cheap|value|economy|discount|sale|saver|basic|affordable|clearance|bargain|everyday"
    r"|generic)\b"
)
BULK = (
    r"\b(?:bulk|wholesale|cases?|multi-?packs?|variety pack|jumbo|family|party|mega|giant|food ?service"
    r"|institutional|restaurant|club)\b"
)
FRACTION = r"[0-9] ?/ ?[0-9]"
CAPITALS = r"\b[A-Z]{2,}\b"
DIGIT = r"[0-9]"


class ParsedTexts(Protocol):
    """N parsed texts: the input of the columns below."""

    @property
    def texts(self) -> Texts:
        """The texts, end to end."""

    @property
    def words(self) -> list[Words]:
        """Their words, in parts of consecutive texts."""

    @property
    def name(self) -> Any:
        """The item names as written: N strings in the parser's own form."""

    @property
    def title(self) -> Any:
        """The item names in ASCII lower case and with ASCII fractions, in the same form."""

    @property
    def packs(self) -> Packs:
        """The pack sizes."""

    @property
    def amounts(self) -> Amounts:
        """The quantities."""

    @property
    def brand_rows(self) -> Ints:
        """Training rows of each text's brand, (N,)."""

    @property
    def category_rows(self) -> Ints:
        """Training rows of each text's category, (N,)."""

    def line_count(self, kind: str) -> Ints:
        """Count the lines of a kind in each text, (N,)."""

    def has_content(self, kind: str) -> npt.NDArray[np.bool_]:
        """Return whether the first line of a kind has content, (N,)."""

    def contains(self, strings: Any, expression: str) -> npt.NDArray[np.bool_]:
        """Return whether an expression matches anywhere in each name or title, (N,)."""

    def count(self, strings: Any, expression: str) -> Ints:
        """Count the matches of an expression in each name or title, (N,)."""


def _of_words(parsed: ParsedTexts, statistic: Callable[[Words], Column]) -> Column:
    return np.concatenate([np.zeros(0), *(statistic(part) for part in parsed.words)])


def _quantity_bin(parsed: ParsedTexts) -> Column:
    pieces = np.searchsorted(PIECE_EDGES, parsed.amounts.total) + 1
    measure = np.searchsorted(MEASURE_EDGES, parsed.amounts.total) + 1
    countable = (parsed.amounts.kind == COUNT) | (parsed.amounts.kind == 0)
    return np.where(parsed.amounts.total > 0, np.where(countable, pieces, measure), 0)


COLUMNS: dict[str, Callable[[ParsedTexts], Column]] = {
    "value": lambda p: p.amounts.value,
    "pack_size": lambda p: p.packs.size,
    "total_quantity": lambda p: p.amounts.total,
    "text_length": lambda p: p.texts.characters,
    "has_value": lambda p: p.amounts.value > 0,
    "brand": lambda p: np.log1p(p.brand_rows),
    "category": lambda p: np.log1p(p.category_rows),
    "word_count": lambda p: _of_words(p, Words.count),
    "has_numbers": lambda p: p.contains(p.title, DIGIT),
    "has_capitals": lambda p: p.contains(p.name, CAPITALS),
    "log_quantity": lambda p: np.log1p(p.amounts.total),
    "value_per_unit": lambda p: p.amounts.total / p.packs.size,
    "is_pack": lambda p: p.packs.size > 1,
    "bullet_points": lambda p: p.line_count("bullet"),
    "quantity_category": _quantity_bin,
    "has_description": lambda p: p.has_content("description"),
    "num_sentences": lambda p: _of_words(p, Words.sentences),
    "avg_word_length": lambda p: _of_words(p, Words.mean_length),
    "price_keywords": lambda p: p.count(p.title, PREMIUM) - p.count(p.title, BUDGET),
    "unit_type": lambda p: p.amounts.kind,
    "vocab_richness": lambda p: _of_words(p, Words.richness),
    "bulk_indicators": lambda p: p.count(p.title, BULK),
    "comma_count": lambda p: _of_words(p, Words.commas),
    "is_large_pack": lambda p: p.packs.size >= LARGE_PACK,
    "has_fraction": lambda p: p.contains(p.title, FRACTION),
}
