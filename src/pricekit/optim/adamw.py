"""The optimizer and the learning-rate schedule that the built-in policies share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pricekit.config import TrainingConfig
from pricekit.optim.adagrad import RowwiseAdagrad

_NORMS = (nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm)


def adamw(model: nn.Module, training: TrainingConfig, *, fused: bool = True) -> torch.optim.Optimizer:
    """Return AdamW over `parameter_groups`; embeddings with sparse gradients use row-wise Adagrad.

    Source: Loshchilov & Hutter 2019, arXiv:1711.05101.

    Args:
        model: all of its trainable parameters are optimized.
        training: gives the learning rates and the weight decay.
        fused: use torch's fused AdamW.
    """
    groups = parameter_groups(model, training)
    if sparse_embeddings(model):
        return RowwiseAdagrad(groups, lr=training.learning_rate, weight_decay=training.weight_decay)
    return torch.optim.AdamW(
        groups, lr=training.learning_rate, weight_decay=training.weight_decay, fused=fused
    )


def warmup_cosine(step: float, warmup_steps: int, total_steps: int) -> float:
    """Return the factor of the learning rate, 0 to 1: a linear warmup, then a cosine down to 0.

    The cosine is 0.5·(1 + cos(π·t)), where t is the finished share of the steps after the warmup: SGDR without
    restarts, Loshchilov & Hutter 2017, arXiv:1608.03983.

    Example:
        >>> [round(warmup_cosine(step, warmup_steps=2, total_steps=6), 2) for step in range(7)]
        [0.5, 1.0, 1.0, 0.85, 0.5, 0.15, 0.0]
    """
    if step < warmup_steps:
        return min(1.0, (step + 1) / warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, total_steps - warmup_steps)))


def parameter_groups(model: nn.Module, training: TrainingConfig) -> list[dict[str, Any]]:
    """Return the trainable parameters as groups, each with its `lr` and `weight_decay`.

    Layer i of the encoder's n layers has the rate learning_rate · layer_decay^(n - 1 - i) (Howard & Ruder 2018,
    arXiv:1801.06146), and the rest of the encoder learning_rate. The head has head_learning_rate and the token
    embeddings embedding_learning_rate, where these are set. Biases and norms have no weight decay unless
    `decay_biases_and_norms` is set.
    """
    rates = dict(_rates(model, training))
    undecayed = set() if training.decay_biases_and_norms else _biases_and_norms(model)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            decay = 0.0 if id(parameter) in undecayed else training.weight_decay
            groups.setdefault((rates[id(parameter)], decay), []).append(parameter)
    return [{"params": found, "lr": rate, "weight_decay": decay} for (rate, decay), found in groups.items()]


def _rates(model: nn.Module, training: TrainingConfig) -> Iterator[tuple[int, float]]:
    """Yield the id and the learning rate of each parameter; later pairs override earlier ones."""
    encoder = getattr(model, "encoder", nn.Module())
    of_encoder = {id(p) for p in encoder.parameters()}
    for parameter in model.parameters():
        of_head = training.head_learning_rate is not None and id(parameter) not in of_encoder
        yield id(parameter), (training.head_learning_rate or 0.0) if of_head else training.learning_rate
    layers = list(getattr(encoder, "layers", ()))
    for depth, layer in enumerate(reversed(layers)):
        for parameter in layer.parameters():
            yield id(parameter), training.learning_rate * training.layer_decay**depth
    if training.embedding_learning_rate is not None:
        table = getattr(encoder, "embedding", nn.Module())
        for parameter in [*sparse_embeddings(model), *table.parameters()]:
            yield id(parameter), training.embedding_learning_rate


def sparse_embeddings(model: nn.Module) -> list[Tensor]:
    """Return the weights of embeddings with sparse gradients, such as those of `bag`."""
    return [m.weight for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse]


def _biases_and_norms(model: nn.Module) -> set[int]:
    norms = {id(p) for m in model.modules() if isinstance(m, _NORMS) for p in m.parameters()}
    return norms | {id(p) for name, p in model.named_parameters() if name.endswith("bias")}
