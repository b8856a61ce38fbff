"""Policies: how to train, as numbers, an optimizer and a schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from pricekit.config import TrainingConfig
from pricekit.training.optim import LazyAdamW


def warmup_cosine(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the factor of a linear warmup from 0 to 1 and a cosine from 1 down to 0.

    0.5·(1 + cos(π·t)), t the part done of the steps after the warmup: SGDR without restarts,
    Loshchilov & Hutter 2017, arXiv:1608.03983.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, total_steps - warmup_steps)))


class Quick:
    """Sized for `bag` on a CPU: a minute or so for a few thousand rows, with early stopping."""

    defaults: dict[str, Any] = {  # noqa: RUF012 (a constant)
        "backbone": {"name": "bag"},
        "features": ["optimized22"],
        "loss": {"name": "smape"},
        "head": {"widths": [], "dropout": []},
        "max_length": 384,
        "training": {
            "epochs": 12,
            "batch_size": 64,
            "learning_rate": 3e-3,
            "warmup_epochs": 0.5,
            "patience": 3,
        },
    }

    def optimizer(self, model: nn.Module, training: TrainingConfig) -> torch.optim.Optimizer:
        """Return an optimizer that updates only the embedding rows that a batch touched."""
        return LazyAdamW(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)

    def schedule(self, step: int, warmup_steps: int, total_steps: int) -> float:
        """Return the factor of warmup and cosine."""
        return warmup_cosine(step, warmup_steps, total_steps)
