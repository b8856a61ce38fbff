"""Price intervals learned from the validation rows."""

from __future__ import annotations

import warnings

import numpy as np
from crepes import ConformalRegressor

from pricekit.intervals import Intervals

ROWS_PER_BIN, MAX_BINS = 100, 10
LEVELS = (*np.arange(5, 100, 5) / 100, 0.96, 0.97, 0.98, 0.99)


def fit_intervals(predicted: np.ndarray, actual: np.ndarray) -> Intervals:
    """Learn half widths of the log price from predicted and true prices, both (N,), N at least 1.

    Bins of the prediction hold at least about 100 rows each; a level that some bin has too few rows for is
    left out.
    """
    bins = int(np.clip(len(predicted) // ROWS_PER_BIN, 1, MAX_BINS))
    edges = np.unique(np.quantile(predicted, np.arange(1, bins) / bins).astype(np.float64))
    residuals = np.abs(np.log(actual) - np.log(predicted.astype(np.float64)))
    regressor = ConformalRegressor()
    regressor.fit(residuals, bins=np.searchsorted(edges, predicted, side="right"))
    every = np.arange(len(edges) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of levels that are too high for so few rows: infinite, dropped below
        widths = np.array(
            [
                regressor.predict_int(np.zeros(len(every)), bins=every, confidence=level)[:, 1]
                for level in LEVELS
            ]
        )
    usable = np.isfinite(widths).all(axis=1)
    return Intervals(edges, np.array(LEVELS)[usable], widths[usable])
