"""Calibration of price intervals on the validation rows."""

from __future__ import annotations

import warnings

import numpy as np
from crepes import ConformalRegressor

from pricekit.prediction.intervals import Intervals

ROWS_PER_BIN, MAX_BINS = 100, 10
ROUNDING = 1e-9
"""Keeps the rank (1 - level)·(n + 1) from being rounded down: a tenth of 10 rows is 1, not 0.99."""
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
    bins, every = np.searchsorted(edges, predicted, side="right"), np.arange(len(edges) + 1)
    widths = (
        _widths(residuals, bins, every)
        if weight is None
        else _weighted_widths(residuals, bins, every, weight)
    )
    usable = np.isfinite(widths).all(axis=1)
    return Intervals(edges, np.array(LEVELS)[usable], widths[usable])


def _widths(residuals: np.ndarray, bins: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Return the half width of each level in each bin, (levels, bins); infinite for a bin with too few rows."""
    regressor = ConformalRegressor()
    regressor.fit(residuals, bins=bins)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels too high for so few rows are infinite, and dropped below
        return np.array(
            [
                regressor.predict_int(np.zeros(len(every)), bins=every, confidence=level - ROUNDING)[:, 1]
                for level in LEVELS
            ]
        )


def _weighted_widths(
    residuals: np.ndarray, bins: np.ndarray, every: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return what `_widths` returns, for rows that count differently."""
    found = np.full((len(LEVELS), len(every)), np.inf)
    for place, number in enumerate(every):
        inside = np.flatnonzero((bins == number) & (weight > 0))
        if not len(inside):
            continue
        inside = inside[np.argsort(residuals[inside], kind="stable")]
        covered = np.cumsum(weight[inside]) / (weight[inside].sum() + weight[inside].mean())
        ranks = np.searchsorted(covered, np.array(LEVELS) - ROUNDING)
        found[:, place] = np.append(residuals[inside], np.inf)[ranks]
    return found


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
