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


def fit_intervals(predicted: np.ndarray, actual: np.ndarray) -> Intervals:
    """Calibrate half widths of the log price, by split conformal prediction within bins of the predicted price.

    Each bin contains at least 100 rows if there are that many. A level is omitted if a bin has too few rows for it.

    Args:
        predicted: float (N,), N at least 1.
        actual: true prices, float (N,).
    """
    edges = _edges(predicted.astype(np.float64))
    residuals = np.abs(np.log(actual) - np.log(predicted.astype(np.float64)))
    regressor = ConformalRegressor()
    regressor.fit(residuals, bins=np.searchsorted(edges, predicted, side="right"))
    every = np.arange(len(edges) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels too high for so few rows are infinite, and dropped below
        widths = np.array(
            [
                regressor.predict_int(np.zeros(len(every)), bins=every, confidence=level - ROUNDING)[:, 1]
                for level in LEVELS
            ]
        )
    usable = np.isfinite(widths).all(axis=1)
    return Intervals(edges, np.array(LEVELS)[usable], widths[usable])


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
