"""Columns of vectors, such as embeddings, in a few numbers each; the feature `vectors`.

A vector x of D numbers is standardised by the training rows, z = (x - mean) / deviation, and projected: for the network
onto mixtures of its first principal components, for the trees onto these components, and onto the log price that ridge
regression predicts (Hoerl and Kennard 1970).

The sums of a projection are exact: z and the weights are whole numbers, whose products and sums are below 2^53. So they
have the same bits in every order of summation, and a row has the same values alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from pricekit.config import Section
from pricekit.core.contracts import Feature, State
from pricekit.errors import ConfigError
from pricekit.io.packing import pack, unpack
from pricekit.table import Table
from pricekit.table.table import column_name
from pricekit.table.vectors import MOST_WIDTH, read_vectors
from pricekit.text.labelled_lines import Block, Floats, Ints, LastOpened, evenly

COMPONENTS, OF_TREES = 64, 16
"""Components of a column that the network and the trees read."""
MOST_COMPONENTS = 256

BOUND = 10.0
"""Standardised numbers are clamped to ±10, which bounds the effect of one absurd number."""
_FINE = 1 << 12
"""z is a multiple of 1 / 2^12, so less than 2^16 such parts, and D is at most 2^14."""
_MOST_WEIGHT = 1 << 22
"""Weights are at most this number of units: 2^(16 + 14 + 22) is below 2^53."""

MOST_ROWS, MOST_WORK = 1 << 16, 10**11
"""Of more rows, some that are spread over the table are fitted to: so that rows · D² is at most `MOST_WORK`."""
LEAST_ROWS = 20
"""With fewer vectors, the log price is that of all rows."""
PENALTIES = 10.0 ** np.arange(-2, 3.5, 0.5)
"""Penalties, for each of the D numbers; generalised cross-validation chooses one (Golub, Heath and Wahba 1979)."""
MOST = 50.0
"""Log prices and components are between -50 and 50."""

_NONE = 1e-9
"""The variance up to which a component is rounding."""
_ROWS = 1024
"""Rows that are projected at a time."""


@dataclass(frozen=True)
class Projection:
    """What turns the vectors of a column into C numbers: a log price and components, or rotated components.

    Attributes:
        mean: float32 (D,).
        scale: one divided by the deviation of each number, 0 for a constant one, float32 (D,).
        weight: whole numbers, int64 (D, C).
        unit: of the weights of each column, float64 (C,).
        level: is added to the first column: the log price of a mean vector, and of a missing one.
        penalty: of the regression.
    """

    mean: np.ndarray
    scale: np.ndarray
    weight: Ints
    unit: Floats
    level: float = 0.0
    penalty: float = 0.0

    @classmethod
    def fit(
        cls,
        vectors: Block,
        components: int,
        log_price: Floats | None = None,
        weight: Floats | None = None,
    ) -> Projection:
        """Fit to N rows.

        Args:
            vectors: float32 (N, D), NaN for missing ones.
            components: their number; those beyond D are 0.
            log_price: float64 (N,); None: no log price is predicted, and the components are rotated.
            weight: how much each row counts for the log price, float64 (N,); None: equally.
        """
        rows, width, priced = _chosen(vectors, weight), vectors.shape[1], int(log_price is not None)
        prices = np.zeros(len(vectors)) if log_price is None else log_price
        mean, deviation = _moments(vectors, rows)
        varies = deviation > 1e-6 * np.abs(mean) + 1e-30
        weights = np.zeros((width, priced + components))
        level = float(np.average(prices, weights=weight)) if len(prices) else 0.0
        scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0)
        plain = cls(mean.astype(np.float32), scale.astype(np.float32), *_whole(weights), level)
        if len(rows) < LEAST_ROWS:
            return plain
        gram = plain.sums(vectors[rows], prices[rows], None if weight is None else weight[rows])
        values, axes = np.linalg.eigh(gram.products)
        values = np.maximum(values, 0)
        weights[:, priced : priced + min(components, width)] = _principal(
            values[::-1][:components], axes[:, ::-1][:, :components], len(rows), rotated=not priced
        )
        penalty = 0.0
        if priced:
            penalty = width * min(PENALTIES.tolist(), key=lambda each: gram.error(values, axes, width * each))
            weights[:, 0] = axes @ ((axes.T @ gram.target) / (values + penalty))
        return cls(plain.mean, plain.scale, *_whole(weights), gram.level, penalty)

    def sums(self, vectors: Block, log_price: Floats, weight: Floats | None = None) -> Gram:
        """Return sums over standardised vectors, float32 (N, D), from which a ridge regression is computed."""
        width = vectors.shape[1]
        counted = np.ones(len(vectors)) if weight is None or not len(weight) else weight / weight.mean()
        level = float(np.average(log_price, weights=counted)) if len(vectors) else 0.0
        products, target = np.zeros((width, width)), np.zeros(width)
        for start in range(0, len(vectors), _ROWS):
            part = slice(start, start + _ROWS)
            standardised = self._standardised(vectors[part]) / _FINE
            weighed = standardised * counted[part, None]
            products += weighed.T @ standardised
            target += weighed.T @ (log_price[part] - level)
        spread = float(np.sum(counted * np.square(log_price - level)))
        return Gram(len(vectors), products, target, spread, level)

    def _standardised(self, vectors: Block) -> Floats:
        """Return z in parts of 1 / 2^12, whole numbers as float64 (N, D)."""
        numbers = (vectors.astype(np.float64) - self.mean) * self.scale
        whole: Floats = np.rint(np.clip(np.nan_to_num(numbers, nan=0.0), -BOUND, BOUND) * _FINE)
        return whole

    def __call__(self, vectors: Block) -> Block:
        """Return the C numbers of vectors, float32 (N, C); for a missing vector those of the mean one."""
        block = np.empty((len(vectors), len(self.unit)), np.float32)
        for start in range(0, len(vectors), _ROWS):
            part = slice(start, start + _ROWS)
            numbers = (self._standardised(vectors[part]) @ self._weight) * (self.unit / _FINE)
            numbers[:, :1] += self.level
            block[part] = np.clip(numbers, -MOST, MOST)
        return block

    @cached_property
    def _weight(self) -> Floats:
        return self.weight.astype(np.float64)

    def out_of_fold(
        self, vectors: Block, log_price: Floats, fold: Ints, weight: Floats | None = None
    ) -> np.ndarray:
        """Return the log price of each row, float32 (N,), by regressions on the rows of other folds.

        Each fold is summed once; a regression adds the sums of the other folds.
        """
        rows = _chosen(vectors, weight)
        sums = {
            number: self.sums(vectors[own], log_price[own], None if weight is None else weight[own])
            for number in np.unique(fold)
            for own in [rows[fold[rows] == number]]
        }
        estimate = np.empty(len(vectors), np.float32)
        for number in sums:
            others = Gram.total(len(self.mean), [each for other, each in sums.items() if other != number])
            ridge: Floats = np.zeros(len(self.mean))
            if others.rows >= LEAST_ROWS:
                shrunk = others.products + self.penalty * np.eye(len(ridge))
                ridge = np.asarray(np.linalg.solve(shrunk, others.target), np.float64)
            model = Projection(self.mean, self.scale, *_whole(ridge[:, None]), others.level)
            own = fold == number
            estimate[own] = model(vectors[own])[:, 0]
        return estimate

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "mean": pack(self.mean),
            "scale": pack(self.scale),
            "weight": pack(self.weight.astype(np.int32).ravel()),
            "unit": self.unit.tolist(),
            "level": self.level,
            "penalty": self.penalty,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Projection:
        """Return what `to_json` described; raises ValueError or another exception if it is damaged."""
        mean, scale = (unpack(state[name], np.float32, most=MOST_WIDTH) for name in ("mean", "scale"))
        unit, level = np.array(state["unit"], np.float64), float(state["level"])
        if not (len(mean) == len(scale) > 0 and unit.ndim == 1 and 1 <= len(unit) <= 1 + MOST_COMPONENTS):
            raise ValueError("expected a mean and a scale for each number, and a unit for each column")
        weight = unpack(state["weight"], np.int32, most=len(mean) * len(unit)).astype(np.int64)
        weight = weight.reshape(len(mean), len(unit))
        if np.abs(weight).max() > _MOST_WEIGHT or not np.isfinite([*unit, level]).all():
            raise ValueError("expected weights within their limits, and finite units")
        if not (np.abs(unit) < 1e6).all() or abs(level) > MOST:
            raise ValueError("expected units and a log price within their limits")
        return cls(mean, scale, weight, unit, level, float(state["penalty"]))


@dataclass(frozen=True)
class Gram:
    """Sums over N rows: Σ z zᵀ, (D, D), and Σ z (y - level), (D,), and Σ (y - level)², of log prices y."""

    rows: int
    products: Floats
    target: Floats
    spread: float
    level: float

    @classmethod
    def total(cls, width: int, parts: Sequence[Gram]) -> Gram:
        """Return the sums over all rows of several parts, which have levels of their own."""
        rows = sum(part.rows for part in parts)
        level = sum(part.rows * part.level for part in parts) / max(rows, 1)
        products = sum((part.products for part in parts), np.zeros((width, width)))
        target = sum((part.target for part in parts), np.zeros(width))
        return cls(rows, products, target, sum(part.spread for part in parts), level)

    def error(self, values: Floats, directions: Floats, penalty: float) -> float:
        """Return the generalised cross-validation error of a penalty, from the eigenvalues of the products."""
        turned, shrunk = directions.T @ self.target, 1 / (values + penalty)
        rest = self.spread - float(np.sum(turned**2 * shrunk * (2 - values * shrunk)))
        free = max(self.rows - 1 - float(np.sum(values * shrunk)), 1e-3 * self.rows)
        return max(rest, 0.0) / free**2


def _chosen(vectors: Block, weight: Floats | None) -> Ints:
    """Return the rows that are fitted to: those with a vector and a weight above 0, or some of very many."""
    known = np.flatnonzero(~np.isnan(vectors[:, 0]) & (True if weight is None else weight > 0))
    most = min(MOST_ROWS, max(MOST_WORK // vectors.shape[1] ** 2, 4 * vectors.shape[1]))
    return known[evenly(len(known), most)]


def _principal(values: Floats, axes: Floats, rows: int, *, rotated: bool) -> Floats:
    """Return the weights of principal components, (D, K), from their eigenvalues over some rows, and unit vectors.

    They have the variance 1. Rotated ones are mixtures of all K, each in proportion to its deviation: a network
    standardises its inputs, which would otherwise make the last components as large as the first ones.
    """
    variance = values / rows
    variance = np.where(variance > _NONE * max(1.0, float(variance.max(initial=0))), variance, np.inf)
    if not np.isfinite(variance).any():
        return np.zeros_like(axes)
    if not rotated:
        signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(values))])
        return np.asarray(axes * (signs / np.sqrt(variance)))
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(len(values), len(values))))
    return np.asarray(axes @ turn / np.sqrt(variance[np.isfinite(variance)].sum() / len(values)))


def _moments(vectors: Block, rows: Ints) -> tuple[Floats, Floats]:
    """Return mean and deviation of each number over some rows, float64 (D,) each."""
    total, squares = np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])
    if not len(rows):
        return total, squares
    first = vectors[rows[0]].astype(np.float64)  # sums of differences lose fewer digits
    for start in range(0, len(rows), _ROWS):
        numbers = vectors[rows[start : start + _ROWS]] - first
        total += numbers.sum(axis=0)
        squares += np.square(numbers).sum(axis=0)
    mean = total / len(rows)
    return first + mean, np.sqrt(np.maximum(squares / len(rows) - np.square(mean), 0))


def _whole(weight: Floats) -> tuple[Ints, Floats]:
    """Return weights, (D, C), as whole multiples of a unit for each column, and the units."""
    unit = np.maximum(np.abs(weight).max(axis=0), 1e-30) / _MOST_WEIGHT
    return np.rint(weight / unit).astype(np.int64), unit


class Vectors(Feature):
    """Mixtures of the principal components of each column of vectors, and whether the vector is missing.

    The feature `trees` reads these columns, too: a few components, and the log price that ridge regression predicts.
    """

    class Options(Section):
        """Options of `vectors`."""

        vectors: list[str] = Field([], description="columns of vectors; default: those of columns.vectors")
        components: int = Field(
            COMPONENTS, ge=1, le=MOST_COMPONENTS, description="number of principal components of each column"
        )

    def __init__(self, options: Options) -> None:
        self.columns = tuple(map(column_name, options.vectors))
        if not self.columns:
            raise ConfigError(
                "the feature 'vectors' reads no column; name the columns in vectors, or leave the feature out",
                parameters=("vectors", "features"),
            )
        self.components = options.components
        parts = ("missing", *range(1, options.components + 1))
        self.names = tuple(f"{name} {part}" for name in self.columns for part in parts)
        self._open = LastOpened(lambda state: opened(state["projections"], self.columns, self.components))

    def check_state(self, state: State) -> None:
        """Open a state for `transform`; raises ValueError or another exception if it is damaged."""
        self._open(state)

    def describe(self, state: State) -> dict[str, str]:
        """Return the name of the vectors' column for each of their numbers."""
        parts = len(self.names) // len(self.columns)
        return {name: self.columns[place // parts] for place, name in enumerate(self.names)}

    def widths(self, state: State) -> dict[str, int]:
        """Return the length of the vectors in each column."""
        lengths = [len(projection.mean) for projection in self._open(state)]
        return dict(zip(self.columns, lengths, strict=True))

    def fit(self, table: Table) -> State:
        """Learn {"projections": for each column `Projection.to_json`} from N rows."""
        vectors = (read_column(table, name) for name in self.columns)
        return {"projections": [Projection.fit(each, self.components).to_json() for each in vectors]}

    def transform(self, table: Table, state: State) -> Block:
        """Return the columns, float32 (N, K)."""
        blocks = []
        for name, projection in zip(self.columns, self._open(state), strict=True):
            vectors = read_column(table, name, projection)
            blocks += [np.isnan(vectors[:, :1]), projection(vectors)]
        return np.hstack(blocks).astype(np.float32)


def opened(states: Sequence[Any], columns: Sequence[str], width: int) -> list[Projection]:
    """Return the projections of columns onto so many numbers; raises ValueError if they are damaged."""
    projections = [Projection.from_json(state) for state in states]
    if len(projections) != len(columns) or any(len(each.unit) != width for each in projections):
        raise ValueError(f"expected {width:,} numbers of each of {len(columns):,} columns")
    return projections


def read_column(table: Table, name: str, projection: Projection | None = None) -> Block:
    """Return the vectors in a column, float32 (N, D), of the width of a projection; see `read_vectors`."""
    width = None if projection is None else len(projection.mean)
    return read_vectors(table.frame[name], table.row_numbers, width)
