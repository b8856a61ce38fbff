"""The log price of products as a linear function of what an encoder sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PENALTIES = 10.0 ** np.arange(-3, 7)
"""Penalties among which the one with the lowest error of rows that were left out is chosen."""
LEAST_ROWS = 20
"""With fewer rows, the result is their mean."""

Floats = npt.NDArray[np.floating[Any]]


def fit_ridge(encoded: Floats, log_price: Floats) -> dict[str, Any]:
    """Fit a ridge regression to N rows (Hoerl and Kennard 1970); return its state, as plain JSON.

    The penalty has the lowest mean squared error of leaving out one row at a time, by the hat matrix (Allen 1974).

    Args:
        encoded: float (N, D), finite.
        log_price: float (N,).
    """
    level = float(log_price.mean()) if len(log_price) else 0.0
    width = encoded.shape[1]
    if len(log_price) < LEAST_ROWS:
        return {"level": level, "mean": [0.0] * width, "weights": [0.0] * width}
    rows = encoded.astype(np.float64)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale < 1e-9] = np.inf  # constant columns count for nothing
    rows = (rows - mean) / scale
    values, vectors = np.linalg.eigh(rows.T @ rows)
    values, turned = np.maximum(values, 0), rows @ vectors
    target = turned.T @ (log_price - level)
    errors = []
    for penalty in PENALTIES:
        shrunk = 1 / (values + penalty)
        leverage = np.minimum(1 / len(rows) + (turned**2) @ shrunk, 1 - 1e-9)
        rest = (log_price - level - turned @ (shrunk * target)) / (1 - leverage)
        errors.append(float((rest**2).mean()))
    best = PENALTIES[int(np.argmin(errors))]
    weights = vectors @ (target / (values + best)) / scale
    return {"level": level, "mean": mean.tolist(), "weights": weights.tolist()}


def predict_ridge(encoded: Floats, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return log prices, float32 (N,); each depends on its own row only, to the last bit."""
    centred = encoded.astype(np.float64) - np.array(state["mean"])
    # Not a matrix product, whose sums depend on the number of rows.
    found = state["level"] + (centred * np.array(state["weights"])).sum(axis=1)
    return np.asarray(np.clip(found, -50, 50), np.float32)
