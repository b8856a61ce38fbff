"""What rows state: words, labelled lines, other columns, and the brand and the unit in their texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.features import brand_category
from pricekit.features.parsed import VectorizedTexts
from pricekit.insight.parts import label_of
from pricekit.insight.sketch import LONGEST_VALUE, MOST_LABELS, MOST_VALUES, FieldSketch
from pricekit.table import Table
from pricekit.table.vectors import has_vector, holds_lists
from pricekit.text.labelled_lines import as_strings, batches
from pricekit.text.units import FIRST_WORDS, SPELLINGS
from pricekit.text.words import LETTERS

MOST_CHARACTERS = 32_768
"""Longer texts are cut, as features do."""


@dataclass(frozen=True)
class Documents:
    """The distinct words of N texts, in lower case; a word is a run of letters.

    Attributes:
        count: the number of texts, N.
        vocabulary: the V distinct words of all texts.
        row: the text of each of the W pairs of a text and a word that it has, int64 (W,), ascending.
        word: the word of each pair, its number in the vocabulary, int64 (W,).
    """

    count: int
    vocabulary: list[str]
    row: np.ndarray
    word: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        """The number of texts that have each word, int64 (V,)."""
        return np.bincount(self.word, minlength=len(self.vocabulary))

    def outside(self, known: Collection[str]) -> np.ndarray:
        """Return which pairs have a word that is not among those that are known, bool (W,)."""
        unknown = np.array([word not in known for word in self.vocabulary], bool)
        outside: np.ndarray = unknown[self.word]
        return outside

    def words_of(self, row: int) -> list[str]:
        """Return the distinct words of a text, in their order."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return [self.vocabulary[word] for word in self.word[first:last]]


def documents_of(texts: Sequence[str]) -> Documents:
    """Return the distinct words of texts, (N,).

    Example:
        >>> documents = documents_of(["Green tea, 20 count", "Tea 12oz"])
        >>> documents.vocabulary, documents.rows.tolist(), documents.words_of(1)
        (['green', 'tea', 'count', 'oz'], [1, 2, 1, 1], ['tea', 'oz'])
    """
    numbers: dict[str, int] = {}
    words: list[int] = []
    counts = np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts):
        distinct = dict.fromkeys(LETTERS.findall(text[:MOST_CHARACTERS].lower()))
        words += [numbers.setdefault(word, len(numbers)) for word in distinct]
        counts[row] = len(distinct)
    row_of_pair = np.repeat(np.arange(len(texts)), counts)
    return Documents(len(texts), list(numbers), row_of_pair, np.array(words, np.int64))


BRAND, UNIT = "brand in the text", "unit in the text"
TEXT = "text"
"""The field of the whole text."""
TEXT_FIELDS = (TEXT, BRAND, UNIT)
VECTOR = "a vector"
"""The value of each vector of a field."""

LEAST_ROWS = 5
"""A sketch names no word and no value that fewer training rows have."""
LEAST_SHARE = 0.005
"""A sketch names no value that a smaller share of the training rows has."""
LEAST_FILLED = 0.05
"""Lines that a smaller share of the training rows has are no field."""
WHOLE = 0.8
"""A brand of several words has this share of the rows whose names begin with the first ones."""

_AMOUNT = re.compile(
    rf"(?<![\w.,/])[0-9][0-9.,/]*[ -]{{0,2}}((?:(?:{'|'.join(FIRST_WORDS)})[. -]{{1,2}})?(?:[^\W\d_]+|[%\"″]))"
)


def fields_of(
    table: Table, others: Iterable[str], labels: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Return the fields of rows.

    Args:
        table: N rows.
        others: columns besides the text that features read; those that are missing are left out.
        labels: the labels of lines that are fields; None: those that many rows have.
    """
    texts: list[str] = table.text.tolist()
    fields: dict[str, list[str]] = {TEXT: [text.strip()[:1] for text in texts]}
    lines = [_lines_of(text) for text in texts]
    if labels is None:
        counts = Counter(label for row in lines for label in row)
        some = counts.most_common(MOST_LABELS)
        labels = [
            label for label, count in some if count >= LEAST_FILLED * len(texts) and label not in TEXT_FIELDS
        ]
    for label in labels:
        fields[label] = [row.get(label, "") for row in lines]
    for name in others:
        if name in table.frame and name not in fields:
            fields[name] = _values(table.frame[name])
    fields[UNIT] = [_unit_of(text) for text in texts]
    return fields


def _lines_of(text: str) -> dict[str, str]:
    """Return the content of the first line of each label."""
    contents: dict[str, str] = {}
    for line in text.split("\n"):
        if (label := label_of(line)) and label not in contents:
            contents[label] = _value(line.partition(":")[2])
    return contents


def _values(column: pd.Series) -> list[str]:
    """Return the values of a column that features read; vectors have no values, but are there or not."""
    if holds_lists(column):
        return [VECTOR if filled else "" for filled in has_vector(column).tolist()]
    return [_value(cell) for cell in column.astype("str").fillna("")]


def _value(cell: str) -> str:
    return " ".join(cell.split()).lower()[:LONGEST_VALUE]


def _unit_of(text: str) -> str:
    """Return the unit behind the first amount of a text, in lower case, "" if there is none."""
    for amount in _AMOUNT.finditer(text.lower()):
        unit = " ".join(re.split("[. -]+", amount[1]))
        if unit.replace(" ", "") in SPELLINGS:
            return unit
    return ""


def frequent_brands(texts: pd.Series, label: str) -> list[str]:
    """Return the words with which many item names, (N,), begin; none if lines state brands, a field of their own.

    Of "acme", "acme green" and "acme green tea" it is the longest that most items with the shorter ones have, too.
    """
    titles = []
    for parsed in _parsed(texts, label):
        if brand_category.any_filled(brand_category.labelled(parsed.lines, "brand")):
            return []
        titles.append(parsed.title)
    counts = brand_category.count_names(brand_category.leading_words(pa.concat_arrays(titles)))
    least = least_rows(len(texts))
    frequent = {name: rows for name, rows in counts.items() if rows >= least}
    whole = []
    for name, rows in frequent.items():
        words = name.split(" ")
        shorter = [frequent.get(" ".join(words[:end]), 0) for end in range(1, len(words))]
        if rows >= WHOLE * max(shorter, default=0):
            whole.append(name)
    return whole[:MOST_VALUES]


def least_rows(count: int) -> float:
    """Return how many of the training rows a value has that a sketch names."""
    return max(LEAST_ROWS, LEAST_SHARE * count)


def brands_of(texts: pd.Series, label: str, names: Collection[str]) -> list[str]:
    """Return the longest of some names with which each item name begins, (N,), "" if there is none."""
    brands: list[str] = []
    for parsed in _parsed(texts, label):
        brands += brand_category.brand_names(parsed.title, names)
    return brands


def _parsed(texts: pd.Series, label: str) -> list[VectorizedTexts]:
    return [VectorizedTexts(part, {"label": label}) for part in batches(as_strings(texts))]


def sketch_field(values: Sequence[str]) -> FieldSketch:
    """Return how many rows have a value, (N,), and the values that many rows share."""
    counts = Counter(value for value in values if value)
    least = least_rows(len(values))
    frequent = {value: rows for value, rows in counts.most_common(MOST_VALUES) if rows >= least}
    rare = max((rows for value, rows in counts.items() if value not in frequent), default=0)
    return FieldSketch(filled=counts.total(), values=frequent, rare=rare)
