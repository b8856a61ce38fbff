"""Ensemble weights, fitted on rows that no member was trained on."""

from __future__ import annotations

import numpy as np

from pricekit.progress import tracked

MIN_WEIGHT = 0.02
"""A model with a lower weight is left out, because it costs as much prediction time as any other."""

PARTS = 5
"""The rows of a single fold are divided into so many parts for cross-fitting."""


def fit_weights(predicted: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return the weights w >= 0 with Σ w = 1 for which exp(Σ w·log p) has the lowest SMAPE, float64 (M,).

    With d = Σ w·log p - log a, a row's SMAPE term is 2·tanh(|d| / 2). SLSQP (Kraft 1988) minimises the mean, starting
    from equal weights and from each model alone, so the result is never worse than the best model on these rows.
    Weights below `MIN_WEIGHT` are set to 0 and the others are fitted again, unless all are below.

    Args:
        predicted: prices p of each model, float64 (N, M), positive.
        price: true prices a, float64 (N,), positive.
    """
    return _without_small(np.log(predicted), np.log(price))


def cross_fitted(predicted: np.ndarray, price: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return weighted predictions, each with weights that were fitted on the other folds, float64 (N,).

    Args:
        predicted: prices of each model, float64 (N, M).
        price: true prices, float64 (N,).
        fold: of each row, int64 (N,); the rows of a single fold are divided into `PARTS`.
    """
    if len(np.unique(fold)) == 1:
        fold = np.random.default_rng(0).permutation(len(price)) % min(PARTS, len(price))
    found = np.empty(len(price))
    with tracked("fitting ensemble weights", np.unique(fold).tolist(), lambda _: 1) as folds:
        for held in folds:
            others = fold != held
            if not others.any():  # a single row
                others = ~others
            weights = fit_weights(predicted[others], price[others])
            found[fold == held] = weighted(predicted[fold == held], weights)
    return found


def weighted(predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return exp(Σ w·log p) of prices (N, M), float64 (N,)."""
    mean: np.ndarray = np.exp(np.log(predicted) @ weights)
    return mean


def _without_small(predicted: np.ndarray, price: np.ndarray) -> np.ndarray:
    weights = _fit(predicted, price)
    kept = weights >= min(MIN_WEIGHT, weights.max())
    if kept.all():
        return weights
    found = np.zeros(len(weights))
    found[kept] = _without_small(predicted[:, kept], price)
    return found


def _fit(predicted: np.ndarray, price: np.ndarray) -> np.ndarray:
    from scipy.optimize import minimize

    models = predicted.shape[1]
    if models == 1:
        return np.ones(1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        distance = predicted @ weights - price
        terms = np.tanh(np.abs(distance) / 2)
        slope = np.sign(distance) * (1 - terms**2) / 2
        return float(terms.mean()), predicted.T @ slope / len(price)

    starts = [np.full(models, 1 / models), *np.eye(models)]
    ends = [
        minimize(
            loss,
            start,
            jac=True,
            method="SLSQP",
            bounds=[(0, 1)] * models,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        ).x
        for start in starts
    ]
    candidates = [np.clip(end, 0, None) / np.clip(end, 0, None).sum() for end in ends] + starts
    return min(candidates, key=lambda weights: loss(weights)[0])
