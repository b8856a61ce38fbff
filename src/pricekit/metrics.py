"""Metrics of predicted prices; numpy only.

A `Metric` is what a training minimises on its validation rows, and what every report shows first. Its value combines
one term for each row: their mean, the root of their mean, or their median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pricekit.wording import did_you_mean


def smape(predicted: ArrayLike, actual: ArrayLike) -> float:
    """Return the symmetric mean absolute percentage error, from 0 to 200.

    100 · mean(|p - a| / ((|p| + |a|) / 2)), where 0/0 is 0, the metric of the Amazon ML Challenge 2025.

    Args:
        predicted: prices p, (N,).
        actual: prices a, (N,), in the same currency.

    Raises:
        ValueError: the shapes differ, there are no rows, or a value is not finite.

    Example:
        >>> smape([3.0, 2.0], [1.0, 2.0])
        50.0
    """
    return float(SMAPE.terms(predicted, actual).mean())


def _smape(p: np.ndarray, a: np.ndarray) -> np.ndarray:
    total = np.abs(p) + np.abs(a)
    return np.asarray(100 * np.divide(2 * np.abs(p - a), total, out=np.zeros_like(total), where=total > 0))


def _absolute(p: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(p - a))


def _percentage(p: np.ndarray, a: np.ndarray) -> np.ndarray:
    if not (a > 0).all():
        raise ValueError(f"a percentage of the true price needs prices above 0; found {a.min():g}")
    return np.asarray(100 * np.abs(p - a) / a)


def _squared(p: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.asarray((p - a) ** 2)


def _squared_log(p: np.ndarray, a: np.ndarray) -> np.ndarray:
    if (least := min(p.min(), a.min())) < 0:
        raise ValueError(f"rmsle needs prices of at least 0; found {least:g}")
    return np.asarray((np.log1p(p) - np.log1p(a)) ** 2)


@dataclass(frozen=True)
class Metric:
    """A measure of the error of predicted prices p against true prices a; lower is better.

    Attributes:
        name: as in settings and results, such as `rmsle`.
        title: as people write it, such as `RMSLE`.
        unit: `%`, `price` (the currency of the table) or "" (none).
        loss: the natural loss: training with it gives prices that are good by this metric.
        rows: of p and a, both float64 (N,), the term of each row, (N,).
        centre: how the terms become one number: the weighted mean, its square root, or the weighted median.
        by_price: multiply the weight of each row by its true price.
        words: for readers who do not know the title, such as `median error`; "" stands for the title.
    """

    name: str
    title: str
    unit: Literal["%", "price", ""]
    loss: str
    rows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    centre: Literal["mean", "root", "median"] = "mean"
    by_price: bool = False
    words: str = ""

    @property
    def heading(self) -> str:
        """The words, with a sign of percent where the values are percentages.

        Example:
            >>> METRICS["mdape"].heading, METRICS["rmsle"].heading
            ('median error, %', 'RMSLE')
        """
        return (self.words or self.title) + (", %" if self.unit == "%" else "")

    def __call__(self, predicted: ArrayLike, actual: ArrayLike, weight: ArrayLike | None = None) -> float:
        """Return the value of the metric.

        Args:
            predicted: prices p, (N,).
            actual: prices a, (N,), in the same currency.
            weight: of each row, (N,), at least 0; None: equal weights.

        Raises:
            ValueError: the shapes differ, there are no rows, a value is not finite, or the metric is undefined: a
                price below 0 in a logarithm, a true price of 0 in a percentage, or no weight above 0.

        Example:
            >>> METRICS["mae"]([3.0, 2.0], [1.0, 2.0], weight=[1.0, 3.0])
            0.5
        """
        return float(self.combine(self.terms(predicted, actual), self.weights(actual, weight)))

    def terms(self, predicted: ArrayLike, actual: ArrayLike) -> np.ndarray:
        """Return the error of each row, float64 (N,); arguments and errors as of a call."""
        return self.rows(*_checked(self.name, predicted, actual))

    def weights(self, actual: ArrayLike, weight: ArrayLike | None = None) -> np.ndarray:
        """Return the weight of each row's term, float64 (N,); arguments and errors as of a call."""
        a = np.asarray(actual, np.float64)
        w = np.ones(a.shape) if weight is None else np.asarray(weight, np.float64)
        if w.shape != a.shape:
            raise ValueError(f"{self.name} needs one weight for each row, {a.shape}; found {w.shape}")
        if not (np.isfinite(w).all() and (w >= 0).all() and (w > 0).any()):
            raise ValueError(f"{self.name} needs weights of at least 0, some above 0")
        return np.asarray(w * a) if self.by_price else w

    def combine(self, terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the value for terms and their weights, float64 (..., N) to (...)."""
        if self.centre == "median":
            return _weighted_median(terms, weights)
        mean = (terms * weights).sum(-1) / weights.sum(-1)
        return np.asarray(np.sqrt(mean) if self.centre == "root" else mean)

    def write(self, value: float, like: float | None = None, *, sign: bool = False) -> str:
        """Return a value as text: percentages with two decimals, others with at least two and four digits.

        Args:
            value: of the metric, or a difference of two.
            like: has as many decimals as this value; None: as `value` itself.
            sign: write + before a difference above 0.

        Example:
            >>> METRICS["mae"].write(1250.5), METRICS["rmsle"].write(-0.0012, like=0.73)
            ('1,250.50', '-0.0012')
        """
        size = abs(value if like is None else like)
        decimals = 2 if self.unit == "%" or not size else int(np.clip(3 - np.floor(np.log10(size)), 2, 12))
        return f"{value:{'+' * sign},.{decimals}f}"


def _weighted_median(terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the value up to which half of the weight lies, the mean of two values if it lies exactly between them."""
    order = np.argsort(terms, -1)
    ordered = np.take_along_axis(terms, order, -1)
    below = np.cumsum(np.take_along_axis(weights, order, -1), -1)
    half = below[..., -1:] / 2
    low, high = (below < half * (1 - 1e-12)).sum(-1), (below <= half * (1 + 1e-12)).sum(-1)
    last = terms.shape[-1] - 1
    ends = [np.take_along_axis(ordered, np.minimum(at, last)[..., None], -1)[..., 0] for at in (low, high)]
    return np.asarray((ends[0] + ends[1]) / 2)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("smape", "SMAPE", "%", "smape", _smape),
        Metric("mape", "MAPE", "%", "mape", _percentage),
        Metric("mdape", "MdAPE", "%", "smape", _percentage, centre="median", words="median error"),
        Metric("wape", "WAPE", "%", "log-l1", _percentage, by_price=True),
        Metric("mae", "MAE", "price", "log-l1", _absolute, words="mean absolute error"),
        Metric("medae", "MedAE", "price", "smape", _absolute, centre="median", words="median absolute error"),
        Metric("rmse", "RMSE", "price", "log-l2", _squared, centre="root", words="root mean square error"),
        Metric("rmsle", "RMSLE", "", "log-l2", _squared_log, centre="root"),
    )
}
"""The metrics that a training can minimise, by name.

`smape`: see `pricekit.metrics.smape`. `mape`, `mdape`: mean and median of |p - a| / a. `wape`: Σ|p - a| / Σa. `mae`,
`medae`: mean and median of |p - a|. `rmse`: root mean square of p - a. `rmsle`: root mean square of
log(1 + p) - log(1 + a). With weights, as scikit-learn defines them for the metrics that it has.
"""

SMAPE = METRICS["smape"]

REPORTED = ("smape", "mdape", "mae", "rmsle")
"""The metrics that every report contains, whatever a training minimises."""


def metric_named(name: str) -> Metric:
    """Return a metric by its name; raises ValueError.

    Example:
        >>> metric_named("rmsle").title
        'RMSLE'
    """
    if name not in METRICS:
        known = ", ".join(METRICS)
        raise ValueError(f"there is no metric {name!r}; expected {known}.{did_you_mean(name, METRICS)}")
    return METRICS[name]


def _checked(name: str, predicted: ArrayLike, actual: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if p.shape != a.shape or p.size == 0:
        raise ValueError(
            f"{name} needs two arrays of the same shape with at least one row, got {p.shape} and {a.shape}"
        )
    if not (np.isfinite(p).all() and np.isfinite(a).all()):
        raise ValueError(f"{name} needs finite prices")
    return p, a


def price_metrics(
    predicted: ArrayLike, actual: ArrayLike, metric: str = "smape", weight: ArrayLike | None = None
) -> dict[str, float]:
    """Return the metrics that pricekit reports, by name: first the one that counts, then the others.

    Args:
        predicted: prices p, (N,), not negative.
        actual: prices a, (N,), positive.
        metric: the name of the metric that counts.
        weight: of each row, (N,), at least 0; None: equal weights.

    Returns:
        The values of `metric` and of `smape`, `mdape`, `mae` and `rmsle` (see `METRICS`), and `r2_log` if it is
        defined.

    Raises:
        ValueError: as of `Metric`.

    Example:
        >>> metrics = price_metrics([12.0, 18.0], [10.0, 20.0])
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'smape': 14.354, 'mdape': 15.0, 'mae': 2.0, 'rmsle': 0.138, 'r2_log': 0.815}
    """
    names = dict.fromkeys((metric, *REPORTED))
    metrics = {name: metric_named(name)(predicted, actual, weight) for name in names}
    explained = r2_log(predicted, actual, weight)
    return metrics if explained is None else {**metrics, "r2_log": explained}


def r2_log(predicted: ArrayLike, actual: ArrayLike, weight: ArrayLike | None = None) -> float | None:
    """Return the explained share of the variance of log prices: 1 for perfect predictions, 0 for the mean.

    1 - Σ w·(log p - log a)² / Σ w·(log a - mean log a)², the coefficient of determination. It is None if it is
    undefined: all actual prices are equal, or a price is 0.

    Args:
        predicted: prices p, (N,), not negative.
        actual: prices a, (N,), not negative.
        weight: of each row, w, (N,), at least 0; None: equal weights.

    Example:
        >>> r2_log([10.0, 20.0, 40.0], [10.0, 20.0, 40.0])
        1.0
    """
    p, a = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if not ((p > 0).all() and (a > 0).all()):
        return None
    w = np.ones(a.shape) if weight is None else np.asarray(weight, np.float64)
    log_p, log_a = np.log(p), np.log(a)
    if np.ptp(log_a[w > 0]) == 0:
        return None
    spread = np.sum(w * (log_a - np.average(log_a, weights=w)) ** 2)
    return float(1 - np.sum(w * (log_p - log_a) ** 2) / spread)


def best_constant(price: np.ndarray, metric: Metric, weight: np.ndarray | None = None) -> float:
    """Return the constant price with the lowest metric over prices, (N,), among 201 of their quantiles and the mean."""
    candidates = [*np.quantile(price, np.linspace(0.0, 1.0, 201)), np.average(price, weights=weight)]
    return float(min(candidates, key=lambda c: metric(np.full_like(price, c), price, weight)))
