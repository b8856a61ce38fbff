"""Metrics of predicted prices; numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def smape(predicted: ArrayLike, actual: ArrayLike) -> float:
    """Return the symmetric mean absolute percentage error, 0 to 200.

    100/n · Σ |p - a| / ((|p| + |a|) / 2), where 0/0 counts as 0: the metric of the Amazon ML
    Challenge 2025.

    Args:
        predicted: prices p, (N,).
        actual: prices a, (N,), in the same currency.

    Raises:
        ValueError: the shapes differ, there are no rows, or a value is not finite.
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if p.shape != a.shape or p.size == 0:
        raise ValueError(
            f"smape needs two arrays of one shape and at least one row, got {p.shape}, {a.shape}"
        )
    if not (np.isfinite(p).all() and np.isfinite(a).all()):
        raise ValueError("smape needs finite prices")
    total = np.abs(p) + np.abs(a)
    terms = np.divide(2 * np.abs(p - a), total, out=np.zeros_like(total), where=total > 0)
    return float(100 * terms.mean())


def price_metrics(predicted: ArrayLike, actual: ArrayLike) -> dict[str, float]:
    """Return the metrics that pricekit reports.

    `smape` in percent; `mdape`, the median of |p - a| / a in percent; `mae` in the table's currency;
    `rmsle`, the root mean square of log(1 + p) - log(1 + a).

    Args:
        predicted: prices, (N,), not negative.
        actual: prices, (N,), positive.
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    error = np.abs(p - a)
    return {
        "smape": smape(p, a),
        "mdape": float(100 * np.median(error / a)),
        "mae": float(error.mean()),
        "rmsle": float(np.sqrt(np.mean((np.log1p(p) - np.log1p(a)) ** 2))),
    }
