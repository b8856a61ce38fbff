"""The weights of an ensemble's models, fitted to their predictions of held-out rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pricekit.evaluation.held_out import HeldOut
from pricekit.metrics import SMAPE, Metric
from pricekit.support.progress import tracked

MIN_WEIGHT = 0.02
"""A model with a lower weight is left out, because it costs as much prediction time as any other."""

GRADIENT_STEP = 0.01
"""Change of a weight for numerical gradients; wide, because a median is constant between the terms of two rows."""

PARTS = 5
"""Number of parts into which the rows of a single fold are divided for cross-fitting."""

MIN_COMMON_ROWS = 20
"""Rows that all runs must hold out; weights fitted on fewer are unreliable."""


def fit_weights(
    predicted: np.ndarray, price: np.ndarray, metric: Metric = SMAPE, counts: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights w >= 0 with Σ w = 1 for which exp(Σ w·log p) has the lowest metric, float64 (M,).

    SLSQP (Kraft 1988) with numerical gradients starts from equal weights and from each model alone, so the result is
    never worse than the best model on these rows. Weights below `MIN_WEIGHT` are set to 0 and the others are fitted
    again, unless all are below.

    Args:
        predicted: prices p of each model, float64 (N, M), positive.
        price: true prices a, float64 (N,), positive.
        metric: to minimise.
        counts: how much each row counts, (N,); None: equally.
    """
    return _without_small(np.log(predicted), lambda found: metric(found, price, counts))


def cross_fitted(
    predicted: np.ndarray,
    price: np.ndarray,
    fold: np.ndarray,
    metric: Metric = SMAPE,
    counts: np.ndarray | None = None,
) -> np.ndarray:
    """Return weighted predictions, each with weights that were fitted on the other folds, float64 (N,).

    Args:
        predicted: prices of each model, float64 (N, M).
        price: true prices, float64 (N,).
        fold: of each row, int64 (N,); the rows of a single fold are divided into `PARTS`.
        metric: to minimise.
        counts: how much each row counts, (N,); None: equally.
    """
    if len(np.unique(fold)) == 1:
        fold = np.random.default_rng(0).permutation(len(price)) % min(PARTS, len(price))
    found = np.empty(len(price))
    with tracked("fitting ensemble weights", np.unique(fold).tolist(), lambda _: 1) as folds:
        for held in folds:
            others = fold != held
            if not others.any():  # a single row
                others = ~others
            counted = None if counts is None or not counts[others].any() else counts[others]
            weights = fit_weights(predicted[others], price[others], metric, counted)
            found[fold == held] = weighted(predicted[fold == held], weights)
    return found


def weighted(predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return exp(Σ w·log p) of prices (N, M), float64 (N,)."""
    mean: np.ndarray = np.exp(np.log(predicted) @ weights)
    return mean


def _without_small(log_predicted: np.ndarray, score: Callable[[np.ndarray], float]) -> np.ndarray:
    weights = _fit(log_predicted, score)
    kept = weights >= min(MIN_WEIGHT, weights.max())
    if kept.all():
        return weights
    found = np.zeros(len(weights))
    found[kept] = _without_small(log_predicted[:, kept], score)
    return found


def _fit(log_predicted: np.ndarray, score: Callable[[np.ndarray], float]) -> np.ndarray:
    """Return the weights with the lowest score of the mixed prices, (M,), for log prices of each model, (N, M)."""
    from scipy.optimize import minimize

    models = log_predicted.shape[1]
    if models == 1:
        return np.ones(1)
    scale = score(np.exp(log_predicted.mean(1))) or 1.0  # near 1, as the solver expects

    def loss(weights: np.ndarray) -> float:
        return score(np.exp(log_predicted @ weights)) / scale

    starts = [np.full(models, 1 / models), *np.eye(models)]
    ends = [
        minimize(
            loss,
            start,
            method="SLSQP",
            options={"eps": GRADIENT_STEP},
            bounds=[(0, 1)] * models,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        ).x
        for start in starts
    ]
    candidates = [np.clip(end, 0, None) / np.clip(end, 0, None).sum() for end in ends] + starts
    return min(candidates, key=loss)


def choose_weights(predicted: np.ndarray, rows: HeldOut, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of models, float64 (M,), and the price of each row with weights that it had no part in, (N,).

    The weights are equal if fitted ones are no better on rows that they were not fitted on, as happens with few rows.

    Args:
        predicted: prices of each model, float64 (N, M).
        rows: with the true prices and the folds.
        metric: to minimise.
    """
    equal = np.full(predicted.shape[1], 1 / predicted.shape[1])
    mean = weighted(predicted, equal)
    if len(rows) < MIN_COMMON_ROWS:
        return equal, mean
    fitted = cross_fitted(predicted, rows.price, rows.fold, metric, rows.weight)
    if metric(mean, rows.price, rows.weight) <= metric(fitted, rows.price, rows.weight):
        return equal, mean
    return fit_weights(predicted, rows.price, metric, rows.weight), fitted
