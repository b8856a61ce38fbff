"""Policy `lion`: the Lion optimizer with suitable settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import torch
from lion_pytorch import Lion as Optimizer
from pydantic import Field

from pricekit.plugin import (
    ConfigError,
    Policy,
    Section,
    TrainingConfig,
    parameter_groups,
    sparse_embeddings,
)

Beta = Annotated[float, Field(ge=0, lt=1)]


class Lion(Policy):
    """A small transformer from scratch, trained with Lion.

    c = β1·m + (1 - β1)·g;  θ ← θ - lr·(sign(c) + weight_decay·θ);  m ← β2·m + (1 - β2)·g

    for a weight θ with gradient g: Chen et al. 2023, Symbolic Discovery of Optimization Algorithms,
    arXiv:2302.06675, algorithm 2. Each weight moves by lr whatever the size of its gradient. Therefore the paper
    recommends a learning rate 3 to 10 times smaller than with AdamW, and a weight decay 3 to 10 times larger.
    """

    notes = (
        "Trains without a download. It works with every backbone except bag; use a learning rate 3 to 10 times smaller "
        "and a weight decay 3 to 10 times larger than with AdamW (arXiv:2302.06675, section 5)."
    )
    defaults: Mapping[str, Any] = MappingProxyType(
        {
            "backbone": {"name": "transformer", "pooling": "lead", "width": 128, "layers": 2},
            "features": ["optimized22"],
            "loss": {"name": "smape"},
            "head": {
                "widths": [128],
                "dropout": [0.1],
                "norm": "none",
                "activation": "gelu",
                "feature_bins": 8,
            },
            "max_length": 128,
            "training": {
                "epochs": 6,
                "batch_size": 64,
                "gradient_accumulation_steps": 1,
                "learning_rate": 3e-4,
                "weight_decay": 0.1,
                "warmup_epochs": 0.5,
                "max_grad_norm": 1.0,
                "patience": 3,
            },
        }
    )

    class Options(Section):
        """Options of `lion`."""

        betas: tuple[Beta, Beta] = Field(
            (0.9, 0.99),
            description="weights of the running mean in the step and in its update; 0.95 and 0.98 are more stable",
        )

    def __init__(self, options: Options) -> None:
        self.options = options

    def optimizer(
        self, model: torch.nn.Module, training: TrainingConfig, *, fused: bool
    ) -> torch.optim.Optimizer:
        """Return Lion over `parameter_groups`; raise ConfigError for sparse gradients. `fused` has no effect."""
        if sparse_embeddings(model):
            raise ConfigError(
                "the policy lion needs dense gradients, but the embeddings of this backbone, such as bag, have sparse "
                "ones; use another backbone, such as transformer, or another policy, such as quick",
                parameters=("backbone", "policy"),
            )
        optimizer: torch.optim.Optimizer = Optimizer(
            parameter_groups(model, training),
            lr=training.learning_rate,
            betas=self.options.betas,
            weight_decay=training.weight_decay,
        )
        return optimizer
