"""Policy `scratch`: for the encoders without pretrained weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pricekit.optim.optimizers import adamw, warmup_cosine
from pricekit.optim.policies import Quick

_TRAINING = {
    "epochs": "auto",
    "batch_size": 256,
    "gradient_accumulation_steps": 1,
    "eval_batch_size": 512,
    "learning_rate": 1e-3,
    "head_learning_rate": 5e-3,
    "weight_decay": 0.01,
    "warmup_epochs": 1.0,
    "max_grad_norm": 1.0,
    "patience": 10,
    "refit": True,
}


class Scratch:
    """SCRATCH: `lstm`, `transformer` or `mlp`, in batches of 256 rows."""

    notes = (
        "The batch of 256 rows is published, in a guide to training LSTMs and transformers on a GPU. All other numbers "
        "are ours; features and head are those of quick. learning_rate is that of the encoder, and head_learning_rate "
        "that of all else, which is the whole network of mlp."
    )
    defaults: Mapping[str, Any] = MappingProxyType(
        {
            **Quick.defaults,
            "backbone": {"name": "lstm"},
            "head": {**Quick.defaults["head"], "dropout": [0.1]},
            "training": _TRAINING,
            "speed": {"precision": "auto"},
        }
    )
    optimizer = staticmethod(adamw)
    schedule = staticmethod(warmup_cosine)
