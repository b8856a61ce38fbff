"""Policies: how to train, as numbers, an optimizer and a schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from pydantic import Field
from torch import nn

from pricekit.config import Section, TrainingConfig
from pricekit.training.optim import RowwiseAdagrad


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

    class Options(Section):
        """Options of `quick`."""

        embedding_learning_rate: float = Field(
            0.2, gt=0, description="at its peak, for embeddings of sparse gradient"
        )

    defaults: Mapping[str, Any] = MappingProxyType(
        {
            "backbone": {"name": "bag"},
            "features": ["optimized22"],
            "loss": {"name": "smape"},
            "head": {
                "widths": [128],
                "dropout": [0.0],
                "norm": "none",
                "activation": "gelu",
                "feature_bins": 8,
            },
            "max_length": 192,
            "training": {
                "epochs": 10,
                "batch_size": 64,
                "gradient_accumulation_steps": 1,
                "learning_rate": 5e-3,
                "weight_decay": 0.0,
                "warmup_epochs": 1.0,
                "patience": 4,
            },
        }
    )

    def __init__(self, options: Options) -> None:
        self.options = options

    def optimizer(self, model: nn.Module, training: TrainingConfig) -> torch.optim.Optimizer:
        """Return row-wise Adagrad for sparse embeddings, AdamW for the rest."""
        sparse = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse}
        groups = [
            {
                "params": [p for p in model.parameters() if id(p) in sparse],
                "lr": self.options.embedding_learning_rate,
            },
            {"params": [p for p in model.parameters() if id(p) not in sparse]},
        ]
        return RowwiseAdagrad(groups, lr=training.learning_rate, weight_decay=training.weight_decay)

    def schedule(self, step: int, warmup_steps: int, total_steps: int) -> float:
        """Return the factor of warmup and cosine."""
        return warmup_cosine(step, warmup_steps, total_steps)
