"""Calibration of price intervals on the validation rows."""

from __future__ import annotations

import numpy as np

from pricekit.prediction.intervals import Intervals

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
