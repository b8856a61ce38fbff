"""Metrics of predicted prices; numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def smape(predicted: ArrayLike, actual: ArrayLike) -> float:
    """Return the symmetric mean absolute percentage error, from 0 to 200: the mean of `smape_terms`.

    100 · mean(|p - a| / ((|p| + |a|) / 2)), the metric of the Amazon ML Challenge 2025.

    Args:
        predicted: prices p, (N,).
        actual: prices a, (N,), in the same currency.

    Raises:
        ValueError: the shapes differ, there are no rows, or a value is not finite.

    Example:
        >>> smape([3.0, 2.0], [1.0, 2.0])
        50.0
    """
    return float(smape_terms(predicted, actual).mean())


def smape_terms(predicted: ArrayLike, actual: ArrayLike) -> np.ndarray:
    """Return the SMAPE of each row, from 0 to 200, float64 (N,).

    100 · |p - a| / ((|p| + |a|) / 2), where 0/0 is 0.

    Args:
        predicted: prices p, (N,).
        actual: prices a, (N,), in the same currency.

    Raises:
        ValueError: the shapes differ, there are no rows, or a value is not finite.

    Example:
        >>> smape_terms([3.0, 2.0, 0.0], [1.0, 2.0, 5.0]).tolist()
        [100.0, 0.0, 200.0]
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if p.shape != a.shape or p.size == 0:
        raise ValueError(
            f"smape needs two arrays of the same shape with at least one row, got {p.shape} and {a.shape}"
        )
    if not (np.isfinite(p).all() and np.isfinite(a).all()):
        raise ValueError("smape needs finite prices")
    total = np.abs(p) + np.abs(a)
    terms = np.divide(2 * np.abs(p - a), total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(100 * terms)


def price_metrics(predicted: ArrayLike, actual: ArrayLike) -> dict[str, float]:
    """Return the metrics that pricekit reports, by name.

    Args:
        predicted: prices p, (N,), not negative.
        actual: prices a, (N,), positive.

    Returns:
        `smape` in percent; `mdape`, the median of |p - a| / a, in percent; `mae`, the mean of |p - a|, in the currency
        of the table; `rmsle`, the root mean square of log(1 + p) - log(1 + a); and `r2_log` if it is defined.

    Raises:
        ValueError: the shapes differ, there are no rows, or a value is not finite.

    Example:
        >>> metrics = price_metrics([12.0, 18.0], [10.0, 20.0])
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'smape': 14.354, 'mdape': 15.0, 'mae': 2.0, 'rmsle': 0.138, 'r2_log': 0.815}
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    error = np.abs(p - a)
    metrics = {
        "smape": smape(p, a),
        "mdape": float(100 * np.median(error / a)),
        "mae": float(error.mean()),
        "rmsle": float(np.sqrt(np.mean((np.log1p(p) - np.log1p(a)) ** 2))),
    }
    explained = r2_log(p, a)
    return metrics if explained is None else {**metrics, "r2_log": explained}


def r2_log(predicted: ArrayLike, actual: ArrayLike) -> float | None:
    """Return the explained share of the variance of log prices: 1 for perfect predictions, 0 for the mean.

    1 - Σ (log p - log a)² / Σ (log a - mean log a)², the coefficient of determination. It is None if it is
    undefined: all actual prices are equal, or a price is 0.

    Args:
        predicted: prices p, (N,), not negative.
        actual: prices a, (N,), not negative.

    Example:
        >>> r2_log([10.0, 20.0, 40.0], [10.0, 20.0, 40.0])
        1.0
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if not ((p > 0).all() and (a > 0).all()):
        return None
    log_p, log_a = np.log(p), np.log(a)
    if np.ptp(log_a) == 0:
        return None
    return float(1 - np.sum((log_p - log_a) ** 2) / np.sum((log_a - log_a.mean()) ** 2))


def best_constant(price: np.ndarray) -> float:
    """Return the constant price with the lowest SMAPE over prices, (N,), among 200 of their quantiles."""
    candidates = np.quantile(price, np.linspace(0.0, 1.0, 200))
    return float(min(candidates, key=lambda c: smape(np.full_like(price, c), price)))
