"""The feature sets fast15, balanced20, optimized22 and ultra25; each one extends the one before.

| column | meaning |
|---|---|
| value | quantity in its own unit: the Value line, else from a column of sizes or the item name (`quantity`); else 0 |
| pack_size | packs in the item name ("Pack of 6"), else pieces ("12 count"), else 1 |
| total_quantity | value in grams, millilitres, pieces or millimetres |
| log_quantity | log(1 + total_quantity) |
| value_per_unit | total_quantity / pack_size: the size of one piece; the price is not used |
| quantity_category | 0 for no quantity, else a bin from 1 to 7; pieces and measures have different edges |
| unit_type | 0 none or unknown, 1 weight, 2 volume, 3 pieces, 4 length |
| is_pack, is_large_pack | pack_size above 1, pack_size of 12 or more |
| has_value, has_description | a quantity was found; the description line is not empty |
| has_numbers, has_capitals, has_fraction | the item name has a digit, an upper-case word, "1/2" or "½" |
| brand, category | log(1 + training rows of that brand or category), 0 if unknown (see `brand_category`) |
| text_length, word_count, avg_word_length | characters, words, characters per word |
| vocab_richness | distinct words / words |
| bullet_points, num_sentences, comma_count | counts |
| price_keywords | premium words minus budget words in the item name |
| bulk_indicators | words for large quantities in the item name |

All values are finite and bounded for any text. Only the first 32,768 characters of a text are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pydantic import Field

from pricekit.core.contracts import Feature, State
from pricekit.features import brand_category
from pricekit.features.cells import LABEL_BYTES, MOST_LABELS, cut, find_labels, fit_texts
from pricekit.features.parsed import FEW, ParsedTexts, RowwiseTexts, VectorizedTexts
from pricekit.io.packing import Strict, interned
from pricekit.table import Table
from pricekit.text.labelled_lines import Block, LastOpened, Strings, as_strings, batches, kinds_of, shared
from pricekit.text.quantity import states_sizes
from pricekit.text.units import COUNT
from pricekit.text.words import Words, words_of

Column = npt.NDArray[Any]

_Label = Annotated[str, Field(max_length=LABEL_BYTES)]
_Counts = Annotated[
    dict[
        Annotated[str, Field(max_length=brand_category.NAME_CHARACTERS)],
        Annotated[int, Field(ge=0, le=1 << 53)],
    ],
    Field(max_length=brand_category.MAX_NAMES),
]


class Labels(Strict):
    """The label that begins most texts, and the labels of sizes."""

    label: _Label
    sizes: list[_Label] = Field(max_length=MOST_LABELS + 1)


class Names(Labels):
    """The state of a feature set: the labels, and the number of training rows of each brand and category."""

    brand: _Counts
    category: _Counts


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


def _of_words(parsed: ParsedTexts, statistic: Callable[[Words], Column]) -> Column:
    return np.concatenate([statistic(part) for part in parsed.words])


def _quantity_bin(parsed: ParsedTexts) -> Column:
    pieces = np.searchsorted(PIECE_EDGES, parsed.amounts.total) + 1
    measure = np.searchsorted(MEASURE_EDGES, parsed.amounts.total) + 1
    countable = (parsed.amounts.kind == COUNT) | (parsed.amounts.kind == 0)
    return np.where(parsed.amounts.total > 0, np.where(countable, pieces, measure), 0)


COLUMNS: dict[str, Callable[[ParsedTexts], Column]] = {  # each feature set has the first ones
    "value": lambda p: p.amounts.value,
    "pack_size": lambda p: p.packs.size,
    "total_quantity": lambda p: p.amounts.total,
    "text_length": lambda p: p.texts.characters,
    "has_value": lambda p: p.amounts.value > 0,
    "brand": lambda p: np.log1p(p.brand_rows),
    "category": lambda p: np.log1p(p.category_rows),
    "word_count": lambda p: _of_words(p, lambda words: words.count),
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


FAST15 = tuple(COLUMNS)[:15]
BALANCED20 = tuple(COLUMNS)[:20]
OPTIMIZED22 = tuple(COLUMNS)[:22]
ULTRA25 = tuple(COLUMNS)


WORDS = {
    "value": "quantity in its own unit",
    "pack_size": "pieces in a pack",
    "total_quantity": "quantity in grams, millilitres, pieces or millimetres",
    "text_length": "characters of the text",
    "has_value": "whether a quantity is stated",
    "brand": "number of training rows of its brand",
    "category": "number of training rows of its category",
    "word_count": "words of the text",
    "has_numbers": "whether the name has a digit",
    "has_capitals": "whether the name has a word in capitals",
    "log_quantity": "quantity, as a logarithm",
    "value_per_unit": "quantity of one piece",
    "is_pack": "whether it is a pack",
    "bullet_points": "bullet points",
    "quantity_category": "class of the quantity",
    "has_description": "whether there is a description",
    "num_sentences": "sentences",
    "avg_word_length": "characters of a word",
    "price_keywords": "words such as premium, less those such as budget",
    "unit_type": "kind of unit",
    "vocab_richness": "share of different words",
    "bulk_indicators": "words for large quantities",
    "comma_count": "commas",
    "is_large_pack": "whether it is a large pack",
    "has_fraction": "whether the name has a fraction",
}
"""What the columns contain, for readers who do not know their names."""


class Fast15(Feature):
    """The 15 features of the policy FAST: quantities, packs, brand, category and lengths."""

    names: tuple[str, ...] = FAST15

    def __init__(self) -> None:
        self._open = LastOpened(lambda state: interned(Names.model_validate(state)))

    def describe(self, state: State) -> dict[str, str]:
        """Return what the columns are."""
        return {name: WORDS[name] for name in self.names}

    def fit(self, table: Table) -> State:
        """Count the brands and categories of the training rows, without the price.

        Returns:
            {"label": label, "sizes": [label], "brand": {name: rows}, "category": {name: rows}}. The first label is an
            unknown one that begins most texts, usually "". The others are those of columns that state sizes.
        """
        return shared(table.text, fit_names, lambda: fit_names(as_strings(table.text))).copy()

    def check_state(self, state: State) -> None:
        """Raise ValueError unless a state is a `Names`."""
        self._open(state)

    def transform(self, table: Table, state: State) -> Block:
        """Return the columns of N rows in the order of `names`, float32 (N, K), finite.

        The state is the result of `fit`, possibly read back from JSON.
        """
        key = compute, self.names, self._open(state)
        return shared(table.text, key, lambda: compute(table.text, self.names, state)).copy()


class Balanced20(Fast15):
    """The 20 features of the policy BLAZING: `Fast15`, description, sentences, word lengths, keywords and unit."""

    names: tuple[str, ...] = BALANCED20


class Optimized22(Balanced20):
    """The 22 features of the policy OPTIMIZED: `Balanced20`, vocabulary richness and bulk words."""

    names: tuple[str, ...] = OPTIMIZED22


class Ultra25(Optimized22):
    """The 25 features of the policy ULTRA: `Optimized22`, commas, large packs and fractions."""

    names: tuple[str, ...] = ULTRA25


def compute(texts: pd.Series, columns: tuple[str, ...], state: State) -> Block:
    """Return columns of texts; a row does not depend on other rows.

    Args:
        texts: strings, (N,).
        columns: names of `COLUMNS`, K of them.
        state: the state from `fit` of a feature set.

    Returns:
        float32 (N, K).
    """
    block = np.empty((len(texts), len(columns)), np.float32)
    start = 0
    for parsed in _parse(texts, state):
        end = start + len(parsed.texts)
        for place, name in enumerate(columns):
            block[start:end, place] = COLUMNS[name](parsed)
        start = end
    return block


def _parse(texts: pd.Series, state: State) -> Iterator[ParsedTexts]:
    if len(texts) <= FEW:
        yield RowwiseTexts(texts, state)
        return
    parts = batches(as_strings(texts))
    words = words_of(texts) if len(parts) == 1 else None
    for part in parts:
        yield VectorizedTexts(part, state, words)


def fit_names(texts: Strings) -> State:
    """Learn the label that begins most texts and those of sizes, and count brands and categories."""
    parts = batches(texts)
    label = brand_category.common_label(texts)
    columns = [
        (*(brand_category.labelled(texts.lines, kind) for kind in ("brand", "category")), texts.title)
        for texts in (VectorizedTexts(part, {"label": label}) for part in parts)
    ]
    brand, category, title = (pa.concat_arrays(column) for column in zip(*columns, strict=True))
    brands = [brand] if brand_category.any_filled(brand) else brand_category.leading_words(title)
    categories = category if brand_category.any_filled(category) else brand_category.head_word(title)
    return {
        "label": label,
        "sizes": size_labels(texts, label),
        "brand": brand_category.count_names(brands),
        "category": brand_category.count_names([categories]),
    }


def size_labels(texts: Strings, title: str) -> list[str]:
    """Return the labels whose cells state sizes or packs, without the labels that have another meaning.

    Args:
        texts: strings without nulls, (N,).
        title: the label that begins most texts; its cells are the item names.
    """
    some = fit_texts(texts)
    labels = find_labels(some)
    cells = cut(some, labels)
    kinds = kinds_of(pa.array(labels, pa.large_string()))
    return [
        label
        for place, (label, kind) in enumerate(zip(labels, kinds, strict=True))
        if label not in ("", title) and not kind and states_sizes(cells.column(place))
    ]
