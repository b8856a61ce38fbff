"""Rows to train on or to validate on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pricekit.preprocess import Inputs


@dataclass(frozen=True)
class Examples:
    """Rows with a price: model inputs and prices, float64 (N,)."""

    inputs: Inputs
    price: np.ndarray
