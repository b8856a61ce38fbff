"""Counts of rows in the bins of a sketch, and their sums."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pricekit.monitoring.domain import Moments
from pricekit.monitoring.sketch import (
    BINS,
    HASHES,
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_FEATURES,
    MOST_LABELS,
    MOST_OTHERS,
    MOST_SCORES,
    Sketch,
)

MOST_NEW_VALUES, MOST_NEW_WORDS = 1_000, 4_000
"""Values of a field, and words, that the training table did not often have, and that counts still name."""

_MOST_NAMES = 10_000
"""Names of a field or words in a file; more than the sketch's and the new ones."""
_MOST_SIZE = HASHES + MOST_SCORES

_Rows = Annotated[int, Field(ge=0, le=1 << 53)]
_Name = Annotated[str, Field(max_length=LONGEST_NAME)]
_Value = Annotated[str, Field(max_length=LONGEST_VALUE)]
_Bins = Annotated[list[_Rows], Field(max_length=BINS + 1)]
_Names = Annotated[dict[_Value, _Rows], Field(max_length=_MOST_NAMES)]


class Strict(BaseModel):
    """Exact types, finite numbers; later versions may add names."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, extra="ignore")


class FieldCounts(Strict):
    """Rows with a value of a field.

    Attributes:
        filled: rows with any value.
        values: rows of each value; {} if the sketch names no value of the field.
    """

    filled: _Rows
    values: _Names = Field(default_factory=dict)


class Half(Strict):
    """Sums over the vectors of about one half of the rows, in the space in which training rows have mean 0.

    Attributes:
        rows: their number.
        sums: of each of the D numbers.
        products: of each pair of them, row by row from the diagonal, D(D + 1)/2.
    """

    rows: _Rows
    sums: list[float] = Field(max_length=_MOST_SIZE)
    products: list[float]

    @model_validator(mode="after")
    def _is_consistent(self) -> Half:
        size = len(self.sums)
        if len(self.products) != size * (size + 1) // 2:
            raise ValueError("the numbers of sums and products do not fit")
        return self

    @classmethod
    def of(cls, vectors: np.ndarray) -> Half:
        """Return the sums over vectors, (N, D)."""
        size = vectors.shape[1]
        products = (vectors.T @ vectors)[np.triu_indices(size)]
        return cls(rows=len(vectors), sums=vectors.sum(0).tolist(), products=products.tolist())

    def moments(self) -> Moments:
        """Return means and second moments; raises ZeroDivisionError without rows."""
        size = len(self.sums)
        above = np.zeros((size, size))
        above[np.triu_indices(size)] = np.array(self.products) / self.rows
        return Moments(np.array(self.sums) / self.rows, above + np.triu(above, 1).T)

    def plus(self, other: Half) -> Half:
        """Return the sums over the vectors of both."""
        pairs = ((self.sums, other.sums), (self.products, other.products))
        sums, products = ((np.array(one) + np.array(two)).tolist() for one, two in pairs)
        return Half(rows=self.rows + other.rows, sums=sums, products=products)


class Counts(Strict):
    """Counts of N rows in the bins of a sketch.

    Attributes:
        rows: N.
        text_length: rows in each bin; [] if the rows have no text.
        features: rows in each bin, by feature; {} if the rows were not priced.
        predicted: rows in each bin of predicted prices; [] if they were not priced, or the sketch has no prices.
        fields: by name, those that the rows have.
        words: rows of each word.
        word_pairs: pairs of a row and a word that it has.
        unknown_words: pairs whose word the sketch does not name.
        tokens: of all rows.
        unknown_tokens: those that the tokenizer does not know.
        outside: rows with a feature beyond the range of the training rows.
        halves: the vectors of two halves of the rows; [] if they were not priced.
    """

    rows: _Rows
    text_length: _Bins
    features: dict[_Name, _Bins] = Field(max_length=MOST_FEATURES)
    predicted: _Bins
    fields: dict[_Name, FieldCounts] = Field(max_length=MOST_LABELS + MOST_OTHERS + 3)
    words: _Names
    word_pairs: _Rows
    unknown_words: _Rows
    tokens: _Rows
    unknown_tokens: _Rows
    outside: _Rows
    halves: list[Half] = Field(max_length=2)

    def fits(self, sketch: Sketch) -> bool:
        """Return whether priced rows were counted in the bins of this sketch."""
        bins = {name: len(each.rows) for name, each in sketch.features.items()}
        prices = 0 if sketch.prices is None else len(sketch.prices.predicted.rows)
        return (
            {name: len(rows) for name, rows in self.features.items()} == bins
            and (len(self.text_length), len(self.predicted)) == (len(sketch.text_length.rows), prices)
            and self.fields.keys() <= sketch.fields.keys()
            and [len(half.sums) for half in self.halves] == 2 * [len(sketch.vector.mean)]
        )

    def plus(self, other: Counts, sketch: Sketch) -> Counts:
        """Return the counts of both, which fit the sketch.

        Names that the sketch lacks are summarised by `most_frequent`, and merged as by Agarwal et al. 2012, Mergeable
        Summaries: the count of a name is too low by at most 1/(K + 1) of all counts, where K is `MOST_NEW_VALUES` or
        `MOST_NEW_WORDS`.
        """
        fields = {
            name: _field_sum(self.fields.get(name), other.fields.get(name), sketch.fields[name].values)
            for name in dict.fromkeys([*self.fields, *other.fields])
        }
        plain = ("rows", "word_pairs", "unknown_words", "tokens", "unknown_tokens", "outside")
        return Counts(
            text_length=_sum(self.text_length, other.text_length),
            features={name: _sum(rows, other.features[name]) for name, rows in self.features.items()},
            predicted=_sum(self.predicted, other.predicted),
            fields=fields,
            words=_names_sum(self.words, other.words, sketch.words, MOST_NEW_WORDS),
            halves=[one.plus(two) for one, two in zip(self.halves, other.halves, strict=True)],
            **{name: getattr(self, name) + getattr(other, name) for name in plain},
        )


def _sum(one: Sequence[int], two: Sequence[int]) -> list[int]:
    return [first + second for first, second in zip(one, two, strict=True)]


def _field_sum(one: FieldCounts | None, two: FieldCounts | None, known: Collection[str]) -> FieldCounts:
    one, two = one or FieldCounts(filled=0), two or FieldCounts(filled=0)
    values = _names_sum(one.values, two.values, known, MOST_NEW_VALUES)
    return FieldCounts(filled=one.filled + two.filled, values=values)


def _names_sum(
    one: Mapping[str, int], two: Mapping[str, int], known: Collection[str], most: int
) -> dict[str, int]:
    """Return the sums by name, summarised by `most_frequent`."""
    found = Counter(one)
    found.update(two)
    return most_frequent(found, known, most)


def most_frequent(found: Mapping[str, int], known: Collection[str], most: int) -> dict[str, int]:
    """Return the rows of all known names and of at most so many others, as summarised by Misra and Gries.

    If there are more others, the count of each is too low by the same number, at most 1/(K + 1) of all counts.

    Args:
        found: rows by name.
        known: names whose counts stay exact.
        most: K, the number of other names.
    """
    new = {name: rows for name, rows in found.items() if name not in known}
    if len(new) <= most:
        return dict(found)
    least = heapq.nlargest(most + 1, new.values())[-1]
    kept = {name: rows - least for name, rows in new.items() if rows > least}
    return {name: rows for name, rows in found.items() if name in known} | kept
