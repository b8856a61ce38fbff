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

from pricekit.features.labelled_lines import Floats, Ints, evenly
from pricekit.features.words import Words
from pricekit.support.locks import renewed_in_child
from pricekit.support.packing import pack, unpack

BITS = 18
MOST_ROWS = 1 << 16
"""Maximum number of rows, spread over the table, that a model is fitted to."""

PENALTY = 0.7
TOLERANCE = 1e-3
"""Of the solver (Paige and Saunders 1982, LSQR); a smaller one changes no price by a percent."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SQUARE, _MOST_SQUARE = 1 << 8, 1 << 17
"""Squared idf are stored as multiples of 1 / 2^8, below this many."""
_MOST_WEIGHT = 1 << 15
"""Weights are less than this many units."""
_HALF = 32
"""A table holds weight · 2^32 + square, so one sum yields both. A text has fewer than 2^15 terms, so no sum of squares
reaches 2^32."""


def _terms(words: Words) -> tuple[Ints, Ints, Ints]:
    """Return the buckets of all terms, and where those of each text begin and end.

    Between the terms of two texts is the pair of the last word of one and the first word of the other, a term of none.
    """
    hashes, count = words.hashes, words.count
    code = np.empty(2 * len(hashes), np.uint64)
    code[::2] = hashes
    code[1:-1:2] = (hashes[:-1] * _ODD ^ hashes[1:]) * _ODD
    code[-1:] = 0
    last = np.cumsum(count)
    start = 2 * (last - count)
    return (code >> np.uint64(64 - BITS)).astype(np.int64), start, np.maximum(2 * last - 1, start)


@renewed_in_child
@dataclass(frozen=True)
class Linear:
    """A fitted model: offset + unit · Σ weight / sqrt(Σ square), over the terms of a text.

    Attributes:
        bucket: the buckets with a weight, ascending, int64 (B,).
        weight: int64 (B,).
        square: multiples of 1 / 2^8, int64 (B,).
        offset: log price of a text without known terms.
        unit: log price.
    """

    bucket: Ints
    weight: Ints
    square: Ints
    offset: float
    unit: float

    @classmethod
    def fit(cls, counts: Any, log_price: Floats, weight: Floats | None = None) -> Linear:
        """Fit a model to N texts.

        Args:
            counts: of their terms, as of `count_terms`.
            log_price: float64 (N,).
            weight: how much each row counts, float64 (N,); None: equally.
        """
        from scipy.sparse.linalg import lsqr

        rows = evenly(len(log_price), MOST_ROWS)
        inputs, log_price = counts[rows], log_price[rows]
        root = np.ones(len(rows)) if weight is None else np.sqrt(weight[rows] / weight[rows].mean())
        frequency = np.bincount(inputs.indices, minlength=inputs.shape[1])
        bucket = np.flatnonzero(frequency > 1)
        offset = float(np.average(log_price, weights=np.square(root))) if len(rows) else 0.0
        if not len(bucket):
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, nothing, offset, 1.0)
        idf = np.where(frequency > 1, 1 + np.log((1 + len(rows)) / (1 + frequency)), 0)
        square = np.rint(_SQUARE * np.square(idf))
        length = np.sqrt(np.maximum(inputs @ square, 1) / _SQUARE)
        inputs.data *= idf[inputs.indices] * np.repeat(root / length, np.diff(inputs.indptr))
        solution = lsqr(inputs, root * (log_price - offset), PENALTY**0.5, TOLERANCE, TOLERANCE)[0]
        effect = (idf * solution)[bucket]
        unit = float(max(np.abs(effect).max(), 1e-30) / (_MOST_WEIGHT - 1))
        whole = np.rint(effect / unit).astype(np.int64)
        return cls(bucket, whole, square[bucket].astype(np.int64), offset, unit)

    def predict(self, parts: Sequence[Words]) -> Floats:
        """Return the log price of each of N texts, float64 (N,), from their words in parts."""
        return np.concatenate([self._predict(part) for part in parts])

    def _predict(self, words: Words) -> Floats:
        bucket, start, end = _terms(words)
        total = np.zeros(len(bucket) + 1, np.int64)
        np.cumsum(self._table[bucket], out=total[1:])
        both = total[end] - total[start]
        square = np.maximum(both & ((1 << _HALF) - 1), 1)
        price: Floats = self.offset + self.unit * (both >> _HALF) / np.sqrt(square / _SQUARE)
        return price

    @cached_property
    def _table(self) -> Ints:
        """Weight · 2^32 + square of every bucket, 0 for unknown ones."""
        table = np.zeros(1 << BITS, np.int64)
        table[self.bucket] = (self.weight << _HALF) + self.square
        return table

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "bucket": pack(np.diff(self.bucket, prepend=0).astype(np.int32)),
            "weight": pack(self.weight.astype(np.int16)),
            "square": pack(self.square.astype(np.int32)),
            "offset": self.offset,
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Linear:
        """Return what `to_json` described; raises ValueError if it is damaged."""
        step, weight, square = (
            unpack(state[name], kind, most=1 << BITS).astype(np.int64)
            for name, kind in (("bucket", np.int32), ("weight", np.int16), ("square", np.int32))
        )
        bucket, offset, unit = np.cumsum(step), float(state["offset"]), float(state["unit"])
        if not len(step) == len(weight) == len(square):
            raise ValueError("expected a weight and a square for each bucket")
        if len(bucket) and (step.min() < 0 or (step[1:] == 0).any() or bucket[-1] >= 1 << BITS):
            raise ValueError(f"expected rising buckets below {1 << BITS:,}")
        small = (np.abs(weight) < _MOST_WEIGHT) & (square >= 0) & (square < _MOST_SQUARE)
        if not small.all() or not math.isfinite(offset + unit):
            raise ValueError("expected finite numbers, and squares within their limits")
        return cls(bucket, weight, square, offset, unit)


def count_terms(parts: Sequence[Words]) -> Any:
    """Return how often each of N texts has each bucket, a `scipy.sparse.csr_matrix` (N, 2**BITS)."""
    from scipy.sparse import csr_matrix

    buckets, lengths = [], [np.zeros(1, np.int64)]
    for part in parts:
        bucket, start, end = _terms(part)
        inside = np.ones(len(bucket), bool)
        inside[end[end > start]] = False
        buckets.append(bucket[inside])
        lengths.append(end - start)
    bucket, start = np.concatenate(buckets), np.cumsum(np.concatenate(lengths))
    counts = csr_matrix((np.ones(len(bucket)), bucket, start), shape=(len(start) - 1, 1 << BITS))
    counts.sum_duplicates()
    return counts


def linear_out_of_fold(
    parts: Sequence[Words], log_price: Floats, fold: Ints, weight: Floats | None = None
) -> Floats:
    """Return the log price of each row from a model of the rows of the other folds, float64 (N,)."""
    counts, found = count_terms(parts), np.empty(len(fold))
    for number in np.unique(fold):
        others = np.flatnonzero(fold != number)
        counted = None if weight is None else weight[others]
        price = Linear.fit(counts[others], log_price[others], counted).predict(parts)
        found[fold == number] = price[fold == number]
    return found
