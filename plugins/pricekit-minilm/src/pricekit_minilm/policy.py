"""Policy `minilm`: fine-tunes the backbone on a few thousand rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pricekit.plugin import Policy


class MiniLM(Policy):
    """A low learning rate for the encoder, a high one for the head; short lines first; piecewise-linear features."""

    notes = (
        "Chosen on one split of 6,856 products and measured by cross-validation (docs/accuracy.md of pricekit). It "
        "overfits so few rows after two or three epochs. Rows without a price (unpriced, teacher) improved it by two "
        "points there. With many more rows, try max_length=128 and more epochs."
    )
    defaults: Mapping[str, Any] = MappingProxyType(
        {
            "backbone": {"name": "minilm", "pooling": "lead"},
            "features": ["optimized22", "columns"],
            "loss": {"name": "smape"},
            "head": {
                "widths": [128],
                "dropout": [0.1],
                "norm": "none",
                "activation": "gelu",
                "feature_bins": 8,
            },
            "max_length": 64,
            "facts_first": True,
            "training": {
                "epochs": 3,
                "batch_size": 16,
                "gradient_accumulation_steps": 1,
                "eval_batch_size": 64,
                "learning_rate": 1e-4,
                "head_learning_rate": 1e-3,
                "embedding_learning_rate": 3.7e-4,
                "layer_decay": 0.95,
                "weight_decay": 0.01,
                "warmup_epochs": 0.4,
                "max_grad_norm": 1.0,
                "ema_decay": 0.998,
            },
        }
    )
