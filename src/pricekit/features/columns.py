"""Each column of the catalogue features, as one line over the parsed texts.

Which columns a set has is said in `catalog`; what they mean, in `COLUMNS` and the modules it calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.features import names, quantity
from pricekit.features.lines import Lines, Texts, join_texts, numpy_of, split_lines
from pricekit.features.quantity import Amounts, Packs
from pricekit.features.units import COUNT
from pricekit.features.words import Words

Column = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
State = Mapping[str, Any]

# Regular expressions are compiled once a batch, so batches are large; work on words takes many times their
# bytes, so its parts are small enough for the processor's cache.
BATCH_BYTES = 8 << 20
WORDS_BYTES = 1 << 19

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


class Parsed:
    """N texts, and what several columns share; each part is computed when first asked for."""

    def __init__(self, texts: pa.LargeStringArray, state: State) -> None:
        """Take the texts, (N,) without nulls, and the state that `fit` of a feature set returns."""
        self.state = state
        self.texts: Texts = join_texts(texts)
        self._words = [Words(part) for part in self.texts.parts(WORDS_BYTES)]

    @cached_property
    def lines(self) -> Lines:
        """The lines of the texts."""
        return split_lines(self.texts)

    @cached_property
    def name(self) -> pa.LargeStringArray:
        """The item names as written, (N,)."""
        return self.lines.titles(self.state["label"])

    @cached_property
    def title(self) -> pa.LargeStringArray:
        """The item names in ASCII lower case and with plain fractions, (N,)."""
        return quantity.clean_title(self.name)

    @cached_property
    def packs(self) -> Packs:
        """Packs and pieces that the item names speak of."""
        return quantity.packs(self.title)

    @cached_property
    def amounts(self) -> Amounts:
        """Value and unit of each text."""
        return quantity.amounts(self.lines, self.title, self.packs)

    def words(self, count: Callable[[Words], Column]) -> Column:
        """Count over the words of all texts, a part after the other, (N,)."""
        return np.concatenate([np.zeros(0), *(count(part) for part in self._words)])


def _has(text: pa.LargeStringArray, expression: str) -> Column:
    return numpy_of(pc.match_substring_regex(text, expression))


def _tally(text: pa.LargeStringArray, expression: str) -> Column:
    return numpy_of(pc.count_substring_regex(text, expression))


def _described(parsed: Parsed) -> Column:
    return numpy_of(pc.not_equal(parsed.lines.find("description"), ""))


def _quantity_bin(parsed: Parsed) -> Column:
    pieces = np.searchsorted(PIECE_EDGES, parsed.amounts.total) + 1
    measure = np.searchsorted(MEASURE_EDGES, parsed.amounts.total) + 1
    countable = (parsed.amounts.kind == COUNT) | (parsed.amounts.kind == 0)
    return np.where(parsed.amounts.total > 0, np.where(countable, pieces, measure), 0)


COLUMNS: dict[str, Callable[[Parsed], Column]] = {
    "value": lambda p: p.amounts.value,
    "pack_size": lambda p: p.packs.size,
    "total_quantity": lambda p: p.amounts.total,
    "text_length": lambda p: p.texts.characters,
    "has_value": lambda p: p.amounts.value > 0,
    "brand": lambda p: names.brand_frequency(p.lines, p.title, p.state["brand"]),
    "category": lambda p: names.category_frequency(p.lines, p.title, p.state["category"]),
    "word_count": lambda p: p.words(Words.count),
    "has_numbers": lambda p: _has(p.title, DIGIT),
    "has_capitals": lambda p: _has(p.name, CAPITALS),
    "log_quantity": lambda p: np.log1p(p.amounts.total),
    "value_per_unit": lambda p: p.amounts.total / p.packs.size,
    "is_pack": lambda p: p.packs.size > 1,
    "bullet_points": lambda p: p.lines.read_warnings("bullet"),
    "quantity_category": _quantity_bin,
    "has_description": _described,
    "num_sentences": lambda p: p.words(Words.sentences),
    "avg_word_length": lambda p: p.words(Words.mean_length),
    "price_keywords": lambda p: _tally(p.title, PREMIUM) - _tally(p.title, BUDGET),
    "unit_type": lambda p: p.amounts.kind,
    "vocab_richness": lambda p: p.words(Words.richness),
    "bulk_indicators": lambda p: _tally(p.title, BULK),
    "comma_count": lambda p: p.words(Words.commas),
    "is_large_pack": lambda p: p.packs.size >= LARGE_PACK,
    "has_fraction": lambda p: _has(p.title, FRACTION),
}


def compute(texts: pa.LargeStringArray, columns: tuple[str, ...], state: State) -> npt.NDArray[np.float32]:
    """Compute columns of texts, float32 (N, len(columns)); no row depends on another."""
    block = np.empty((len(texts), len(columns)), np.float32)
    start = 0
    for part in batches(texts):
        parsed = Parsed(part, state)
        for place, name in enumerate(columns):
            block[start : start + len(part), place] = COLUMNS[name](parsed)
        start += len(part)
    return block


def fit_names(texts: pa.LargeStringArray) -> dict[str, Any]:
    """Learn the label that begins most texts, and count brands and categories."""
    parts = batches(texts)
    label = names.common_label(pa.concat_arrays([Parsed(part, {}).lines.first_lines() for part in parts]))
    found = [_found_names(Parsed(part, {"label": label})) for part in parts]
    brand, category, title = (pa.concat_arrays(column) for column in zip(*found, strict=True))
    return {
        "label": label,
        "brand": names.count_brands(brand, title),
        "category": names.count_categories(category, title),
    }


def _found_names(parsed: Parsed) -> tuple[pa.LargeStringArray, ...]:
    return names.labelled(parsed.lines, "brand"), names.labelled(parsed.lines, "category"), parsed.title


def batches(texts: pa.LargeStringArray) -> list[pa.LargeStringArray]:
    """Cut texts into runs of about `BATCH_BYTES`, without copying; a longer text is one by itself."""
    end = np.cumsum(numpy_of(pc.binary_length(texts)) + 1)
    cuts = np.flatnonzero(np.diff(end // BATCH_BYTES, prepend=-1)).tolist()
    if not cuts:
        return [texts]
    return [texts.slice(a, b - a) for a, b in itertools.pairwise([*cuts, len(texts)])]
