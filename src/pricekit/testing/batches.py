"""Batches of drawn tokens and features, and how far prices lie apart."""

from __future__ import annotations

import numpy as np

from pricekit.core.contracts import Batch

VOCABULARY, FEATURES = 64, 3


def batch(rows: int, length: int) -> Batch:
    """Return a batch whose last row is as long as the batch, and each row before it a token shorter."""
    rng = np.random.default_rng((rows, length))
    live = length - np.arange(rows)[::-1] % length
    return {
        "input_ids": rng.integers(0, VOCABULARY, (rows, length)),
        "attention_mask": (np.arange(length) < live[:, None]).astype(np.int64),
        "features": rng.normal(scale=2.0, size=(rows, FEATURES)).astype(np.float32),
    }


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest relative difference of prices; infinite where some are no prices."""
    usable = found.shape == expected.shape and np.isfinite(found).all() and (found > 0).all()
    return float(np.max(np.abs(found - expected) / expected)) if usable else float("inf")
