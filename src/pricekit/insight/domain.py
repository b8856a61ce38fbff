"""Rows as vectors: a domain classifier without training rows, and the rows least like them.

A row's vector has 32 sums of its words, each with a sign and a place that a hash chooses, at length 1 (feature hashing,
Weinberger et al. 2009, arXiv:0902.2206), and the rank of each feature among the training rows. The sketch has
mean and covariance of the training rows' vectors, which suffice for Fisher's linear discriminant.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np

from pricekit.insight.fields import Documents
from pricekit.insight.sketch import HASHES, Distribution, VectorSketch, unpacked

RIDGE = 0.1
"""The weight of the identity in the matrix of correlations, which few rows estimate badly."""
LEAST_DEVIATION = 0.02
"""Numbers that are almost constant count as if they had this standard deviation."""
SEED = 0


def vectors_of(
    documents: Documents, features: np.ndarray, distributions: Sequence[Distribution]
) -> np.ndarray:
    """Return the vectors of rows, float64 (N, D).

    Args:
        documents: the words of N rows.
        features: the values of K features, (N, K).
        distributions: of the training rows, one for each feature.
    """
    codes = np.array([zlib.crc32(word.encode()) for word in documents.vocabulary], np.int64)
    place, sign = codes % HASHES, 1.0 - 2.0 * ((codes >> 16) & 1)
    cell = documents.row * HASHES + place[documents.word]
    sums = np.bincount(cell, sign[documents.word], documents.count * HASHES).reshape(-1, HASHES)
    sums = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1.0)
    scores = [each.scores(features[:, number]) for number, each in enumerate(distributions)]
    return np.column_stack([sums, *scores])


def sketch_vectors(vectors: np.ndarray, features: Sequence[str]) -> VectorSketch:
    """Return mean and covariance of vectors, (N, D); `features` are the names behind the words."""
    deviation = vectors.std(0)
    scaled = (vectors - vectors.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    correlation = scaled.T @ scaled / len(vectors)
    thousandths = np.clip(np.rint(1000 * correlation[np.triu_indices(len(deviation), 1)]), -1000, 1000)
    rounded = [[float(f"{value:.4g}") for value in each] for each in (vectors.mean(0), deviation)]
    return VectorSketch(
        features=list(features),
        mean=rounded[0],
        deviation=rounded[1],
        correlation=thousandths.astype(int).tolist(),
    )


class Domain:
    """The space in which the training rows have mean 0 and standard deviation 1.

    Args:
        sketch: of the N training rows.
        rows: N.
    """

    def __init__(self, sketch: VectorSketch, rows: int) -> None:
        self._rows, self._sketch = rows, sketch
        size = len(sketch.mean)
        self._correlation = unpacked(sketch.correlation, size)
        # Without negative eigenvalues: a stranger's numbers may be no correlations.
        values, axes = np.linalg.eigh(self._correlation)
        nearest = (axes * np.maximum(values, 0.0)) @ axes.T
        self._inverse = np.linalg.inv((1 - RIDGE) * nearest + RIDGE * np.eye(size))

    def scaled(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors of rows, (M, D), in this space."""
        mean, deviation = np.array(self._sketch.mean), np.maximum(self._sketch.deviation, LEAST_DEVIATION)
        return np.asarray((vectors - mean) / deviation)

    def auc(self, halves: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
        """Return how well a linear classifier tells new rows from training rows: 0.5 not at all, 1 without error.

        Fisher's discriminant w is fitted on one half of the new rows and judged on the other half, and vice versa.
        With normal scores, AUC = Φ(w·(m1 - m0) / sqrt(w·S0·w + w·S1·w)) (Green & Swets 1966). The mean of N
        training rows is itself off by chance, which both halves share: it adds trace(S⁻¹·S0) / N to the numerator,
        and is subtracted.

        Args:
            halves: of two random halves of the new rows: the mean of their vectors in this space, (D,), and
                of the products of each pair of their numbers, (D, D).
        """
        areas = [self._judged(one[0], *other) for one, other in (halves, halves[::-1])]
        return max(0.5, float(np.mean(areas)))

    def _judged(self, fitted: np.ndarray, mean: np.ndarray, second: np.ndarray) -> float:
        direction = self._inverse @ fitted
        by_chance = float(np.trace(self._inverse @ self._correlation)) / self._rows
        own = max(0.0, float(direction @ (second - np.outer(mean, mean)) @ direction))
        variance = float(direction @ self._correlation @ direction) + own
        apart = float(mean @ direction) - by_chance
        return 0.5 * (1 + math.erf(apart / math.sqrt(max(1e-12, variance)) / math.sqrt(2)))

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """Return the squared Mahalanobis distance of vectors in this space, (M, D), over D, float64 (M,).

        Training rows have about 1 on average.
        """
        distances = np.sum(vectors @ self._inverse * vectors, axis=1) / vectors.shape[1]
        return np.asarray(distances, np.float64)


def some_half(count: int) -> np.ndarray:
    """Return which of M rows are in the first of two random halves, with a fixed seed, bool (M,)."""
    chosen = np.zeros(count, bool)
    chosen[np.array_split(np.random.default_rng(SEED).permutation(count), 2)[0]] = True
    return chosen
