"""The log price that a linear model predicts from the words and word pairs of a text: an input of the trees.

The model is ridge regression (Hoerl and Kennard 1970) of the log price, less its mean, on TF-IDF. A tree splits by few
words; the linear model adds up small effects of all of them. Words and pairs of neighbouring words share `2**BITS`
buckets by hash (Weinberger et al. 2009), so a bundle contains no texts. Bucket b, which occurs in df of N training
rows, has

    idf = 1 + log((1 + N) / (1 + df)), and 0 if df < 2,

and a text with c_b occurrences has the inputs c_b · idf_b / sqrt(Σ c_b · idf_b²).

A model is stored in whole numbers, whose sums are exact. So a text has the same log price alone and in a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.features.words import Words
from pricekit.support.packing import pack, unpack

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BITS = 18
MOST_ROWS = 1 << 16
"""Maximum number of rows, spread over the table, that a model is fitted to."""

PENALTY = 0.7
TOLERANCE = 1e-3
"""Of the solver (Paige and Saunders 1982, LSQR); a smaller one changes no price by a percent."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SQUARE = 1 << 10
"""Squared idf are stored as multiples of 1 / 2^10."""
_LARGEST = 1 << 30
"""Weights are below this many units, so a sum over all terms of a text is exact."""


@dataclass(frozen=True)
class Terms:
    """The buckets of the words and word pairs of N texts.

    Attributes:
        bucket: int64 (K,), in no order within a text.
        start: where the buckets of each text begin, and the end of the last ones, int64 (N + 1,).
    """

    bucket: Ints
    start: Ints

    def __len__(self) -> int:
        return len(self.start) - 1

    def sums(self, values: Ints) -> Ints:
        """Return the sum of the values of each text's terms, (N,), from one value for each term, int64 (K,)."""
        total = np.concatenate([[0], np.cumsum(values)])
        found: Ints = total[self.start[1:]] - total[self.start[:-1]]
        return found


def terms_of(parts: Sequence[Words]) -> Terms:
    """Return the terms of texts, from their words in parts."""
    found = [_terms(part) for part in parts]
    count = np.concatenate([np.zeros(1, np.int64), *(number for _, number in found)])
    bucket = np.concatenate([np.zeros(0, np.int64), *(bucket for bucket, _ in found)])
    return Terms(bucket, np.cumsum(count))


def _terms(words: Words) -> tuple[Ints, Ints]:
    """Return the bucket of each term, text by text, and the number of terms of each text."""
    hashes, count = words.hashes(), words.count()
    first = np.cumsum(count) - count
    terms = np.maximum(2 * count - 1, 0)  # words, and between any two of them a pair
    code = np.empty(2 * len(hashes), np.uint64)
    code[::2] = hashes
    code[1:-1:2] = (hashes[:-1] * _ODD ^ hashes[1:]) * _ODD
    kept = np.ones(len(code), bool)
    kept[2 * (first + count)[count > 0] - 1] = False  # no pair begins with the last word of a text
    return (code[kept] >> np.uint64(64 - BITS)).astype(np.int64), terms


@dataclass(frozen=True)
class Linear:
    """A fitted model: offset + unit · Σ weight / sqrt(Σ square), over the terms of a text.

    Attributes:
        bucket: the buckets with a weight, ascending, int64 (B,).
        weight: int64 (B,).
        square: multiples of 1 / 2^10, int64 (B,).
        offset: log price of a text without known terms.
        unit: log price.
    """

    bucket: Ints
    weight: Ints
    square: Ints
    offset: float
    unit: float

    @classmethod
    def fit(cls, counts: Any, log_price: Floats) -> Linear:
        """Fit a model to the term counts of N texts, as of `count_terms`, and their log prices, float64 (N,)."""
        from scipy.sparse.linalg import lsqr

        rows = np.linspace(0, len(log_price) - 1, min(len(log_price), MOST_ROWS)).round().astype(np.int64)
        inputs, log_price = counts[rows], log_price[rows]
        frequency = np.bincount(inputs.indices, minlength=inputs.shape[1])
        bucket = np.flatnonzero(frequency > 1)
        offset = float(log_price.mean()) if len(rows) else 0.0
        if not len(bucket):
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, nothing, offset, 1.0)
        idf = np.where(frequency > 1, 1 + np.log((1 + len(rows)) / (1 + frequency)), 0)
        square = np.rint(_SQUARE * np.square(idf))
        length = np.sqrt(np.maximum(inputs @ square, 1) / _SQUARE)
        inputs.data *= idf[inputs.indices] / np.repeat(length, np.diff(inputs.indptr))
        solution = lsqr(inputs, log_price - offset, PENALTY**0.5, TOLERANCE, TOLERANCE)[0]
        weight = (idf * solution)[bucket]
        unit = float(max(np.abs(weight).max(), 1e-30) / (_LARGEST - 1))
        whole = np.rint(weight / unit).astype(np.int64)
        return cls(bucket, whole, square[bucket].astype(np.int64), offset, unit)

    def predict(self, terms: Terms) -> Floats:
        """Return the log price of each text, float64 (N,)."""
        weight, square = self._table
        length = terms.sums(square[terms.bucket])
        total = terms.sums(weight[terms.bucket])
        return self.offset + self.unit * total / np.sqrt(np.maximum(length, 1) / _SQUARE)

    @cached_property
    def _table(self) -> tuple[Ints, Ints]:
        """The weight and the square of every bucket, 0 for unknown ones."""
        weight, square = np.zeros((2, 1 << BITS), np.int64)
        weight[self.bucket], square[self.bucket] = self.weight, self.square
        return weight, square

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "bucket": pack(np.diff(self.bucket, prepend=0).astype(np.int32)),
            "weight": pack(self.weight.astype(np.int32)),
            "square": pack(self.square.astype(np.int32)),
            "offset": self.offset,
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Linear:
        """Return what `to_json` described; raises ValueError if it is damaged."""
        step, weight, square = (
            unpack(state[name], np.int32, most=1 << BITS).astype(np.int64)
            for name in ("bucket", "weight", "square")
        )
        bucket, offset, unit = np.cumsum(step), float(state["offset"]), float(state["unit"])
        if not len(step) == len(weight) == len(square):
            raise ValueError("expected a weight and a square for each bucket")
        if len(bucket) and (step.min() < 0 or (step[1:] == 0).any() or bucket[-1] >= 1 << BITS):
            raise ValueError(f"expected rising buckets below {1 << BITS:,}")
        if (np.abs(weight) >= _LARGEST).any() or (square < 0).any() or not math.isfinite(offset + unit):
            raise ValueError("expected finite weights, and squares from 0")
        return cls(bucket, weight, square, offset, unit)


def count_terms(terms: Terms) -> Any:
    """Return how often each text has each bucket, a `scipy.sparse.csr_matrix` (N, 2**BITS)."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(terms.bucket))
    counts = csr_matrix((ones, terms.bucket, terms.start), shape=(len(terms), 1 << BITS))
    counts.sum_duplicates()
    return counts


def linear_out_of_fold(terms: Terms, log_price: Floats, fold: Ints) -> Floats:
    """Return the log price of each row from a model of the rows of the other folds, float64 (N,)."""
    counts, found = count_terms(terms), np.empty(len(fold))
    for number in np.unique(fold):
        others = np.flatnonzero(fold != number)
        price = Linear.fit(counts[others], log_price[others]).predict(terms)
        found[fold == number] = price[fold == number]
    return found
