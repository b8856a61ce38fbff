"""Price intervals: reading and applying the half widths that were fitted on the validation rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from numbers import Real

import numpy as np

from pricekit.errors import BundleError, ConfigError
from pricekit.wording import shorten

WIDEST = 80.0
"""Half width of a log price; exp(80) times a price is still a float32."""


BOUNDS = "price_low", "price_high"
"""The columns of an interval."""


@dataclass(frozen=True, repr=False)
class Intervals:
    """Half widths of the log price by level and by predicted price.

    Split conformal prediction: a share `level` of new prices is within [p·exp(-w), p·exp(w)] for any distribution, if
    the rows are exchangeable with the validation rows (Papadopoulos et al. 2002; by bins of the
    prediction: Boström & Johansson 2020, Mondrian conformal regressors).

    Attributes:
        edges: prices between the bins, ascending, float64 (B - 1,).
        levels: ascending, each in (0, 1), float64 (Q,).
        widths: w for each level and bin, float64 (Q, B).
    """

    edges: np.ndarray
    levels: np.ndarray
    widths: np.ndarray

    def bounds(self, price: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound for each predicted price, both float32 (N,).

        A level that was not fitted is rounded up to the next one.

        Raises:
            ConfigError: the level is not in (0, 1), or higher than the number of validation rows allows.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ConfigError(
                f"the interval is {level!r}; expected a share between 0 and 1, such as 0.9",
                parameters=("interval",),
            )
        known = np.flatnonzero(self.levels >= level - 1e-9)
        if not len(known):
            raise ConfigError(
                f"the interval is {level:g}; this model's validation rows allow levels above 0 and up to "
                f"{self.levels[-1]:g}; train with more validation rows for a higher one",
                parameters=("interval",),
                highest=float(self.levels[-1]),
            )
        factor = np.exp(self.widths[known[0]])[np.searchsorted(self.edges, price, side="right")]
        limits = np.finfo(np.float32)
        low = np.maximum(price / factor, np.float64(limits.smallest_subnormal))
        high = np.minimum(price * factor, np.float64(limits.max))
        return low.astype(np.float32), high.astype(np.float32)

    def __repr__(self) -> str:
        """Return one line without the numbers."""
        return f"Intervals(levels={self.levels[0]:g} to {self.levels[-1]:g}, bins={len(self.edges) + 1})"

    def to_text(self) -> str:
        """Return JSON for `read_intervals`."""
        return json.dumps({name: values.tolist() for name, values in vars(self).items()}) + "\n"


def read_intervals(text: str | bytes, where: object) -> Intervals:
    """Read the JSON of `to_text`; raises BundleError that names `where` if it is damaged."""
    try:
        record = json.loads(text)
        intervals = Intervals(
            *(np.asarray(record[name], np.float64) for name in ("edges", "levels", "widths"))
        )
        if not _is_consistent(intervals):
            raise ValueError("the numbers are inconsistent")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError(
            f"the intervals of {where} are damaged ({shorten(str(error), 200)}); train or export it again"
        ) from None
    return intervals


def _is_consistent(intervals: Intervals) -> bool:
    levels, edges, widths = intervals.levels, intervals.edges, intervals.widths
    shapes = levels.ndim == edges.ndim == 1 <= len(levels) and widths.shape == (len(levels), len(edges) + 1)
    return bool(
        shapes
        and ((levels > 0) & (levels < 1)).all()
        and (np.diff(levels) > 0).all()
        and (np.isfinite(edges) & (edges > 0)).all()
        and (np.diff(edges) >= 0).all()
        and ((widths >= 0) & (widths <= WIDEST)).all()
    )


ROWS_PER_BIN, MAX_BINS = 100, 10
ROUNDING = 1e-9
"""Keeps the rank level·(n + 1) from being rounded up: nine tenths of 10 rows is 9, not 9.01."""
LEVELS = (*np.arange(5, 100, 5) / 100, 0.96, 0.97, 0.98, 0.99)


def fit_intervals(predicted: np.ndarray, actual: np.ndarray, weight: np.ndarray | None = None) -> Intervals:
    """Calibrate half widths of the log price, by split conformal prediction within bins of the predicted price.

    Each bin contains at least 100 rows if there are that many. A level is omitted if a bin has too few rows for it.

    Args:
        predicted: float (N,), N at least 1.
        actual: true prices, float (N,).
        weight: how much each row counts, float (N,); None: equally. With weights, an interval contains a share of the
            weight (Tibshirani et al. 2019, arXiv:1904.06019, with an average weight for the new row).
    """
    edges = _edges(predicted.astype(np.float64))
    residuals = np.abs(np.log(actual) - np.log(predicted.astype(np.float64)))
    bins = np.searchsorted(edges, predicted, side="right")
    counts = np.ones(len(predicted)) if weight is None else weight
    widths = np.stack(
        [_widths(residuals[bins == number], counts[bins == number]) for number in range(len(edges) + 1)],
        axis=1,
    )
    usable = np.isfinite(widths).all(axis=1)
    return Intervals(edges, np.array(LEVELS)[usable], widths[usable])


def _widths(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the half width of each level in one bin, (levels,); infinite if it has too few rows for a level."""
    residuals, weight = residuals[weight > 0], weight[weight > 0]
    if not len(residuals):
        return np.full(len(LEVELS), np.inf)
    order = np.argsort(residuals, kind="stable")
    covered = np.cumsum(weight[order]) / (weight[order].sum() + weight[order].mean())
    ranks = np.searchsorted(covered, np.array(LEVELS) - ROUNDING)
    return np.append(residuals[order], np.inf)[ranks]


def _edges(predicted: np.ndarray) -> np.ndarray:
    """Return ascending prices that separate bins of about equally many rows.

    Each is the geometric mean of two neighbouring predictions. So equal predictions share a bin, even if another
    engine or precision rounds them differently.
    """
    bins = int(np.clip(len(predicted) // ROWS_PER_BIN, 1, MAX_BINS))
    prices, counts = np.unique(predicted, return_counts=True)
    least, rows, left = len(predicted) // bins, 0, len(predicted)
    edges = []
    for i in range(len(prices) - 1):
        rows, left = rows + counts[i], left - counts[i]
        if rows >= least and left >= least:
            edges.append(np.sqrt(prices[i] * prices[i + 1]))
            rows = 0
    return np.array(edges, np.float64)
