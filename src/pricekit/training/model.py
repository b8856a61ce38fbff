"""The model: encoding ‖ normalised features -> head -> raw -> price."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from pricekit.config import HeadConfig

FEATURE_BOUND = 10.0
"""Standardised features are clamped to ±10, so that one absurd cell cannot run away with a price."""

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
_NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class PriceModel(nn.Module):
    """Encoder, heads, loss with its link, and the constants that normalise the features.

    With an encoder of M members the encoding is M groups side by side. Each has its own head and its
    own loss; the prediction is the mean of their raw outputs.
    """

    feature_mean: Tensor
    feature_std: Tensor

    def __init__(self, encoder: Any, head: HeadConfig, loss: Any, features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss
        self.members = int(encoder.members)
        width = encoder.hidden_size // self.members + features
        self.heads = nn.ModuleList(build_head(width, head) for _ in range(self.members))
        self.register_buffer("feature_mean", torch.zeros(features))
        self.register_buffer("feature_std", torch.ones(features))

    def fit(self, features: Tensor, price: Tensor) -> None:
        """Learn the features' constants and the loss's link from the training rows, (N, K) and (N,)."""
        squashed = _squash(features.double())
        std = squashed.std(0, correction=0)
        self.feature_mean.copy_(squashed.mean(0))
        self.feature_std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))
        self.loss.fit(price)

    def raw(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor) -> Tensor:
        """Return the raw output of each member, (B, M)."""
        encoding = self.encoder(input_ids, attention_mask)
        normalised = (_squash(features) - self.feature_mean) / self.feature_std
        normalised = normalised.clamp(-FEATURE_BOUND, FEATURE_BOUND)
        groups = encoding.chunk(self.members, dim=1)
        heads = zip(groups, self.heads, strict=True)
        return torch.cat([head(torch.cat([group, normalised], 1)) for group, head in heads], 1)

    def training_loss(
        self, input_ids: Tensor, attention_mask: Tensor, features: Tensor, price: Tensor
    ) -> Tensor:
        """Return the loss of a batch, a scalar: the mean over rows and members."""
        raw = self.raw(input_ids, attention_mask, features)
        return cast(Tensor, self.loss(raw, price[:, None].expand_as(raw)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor) -> Tensor:
        """Return the price of each row, (B,), in the table's currency: what is exported."""
        raw = self.raw(input_ids, attention_mask, features).mean(1)
        return cast(Tensor, self.loss.to_price(raw))


def _squash(features: Tensor) -> Tensor:
    """Return sign(x)·log(1 + |x|): quantities span six decades, and a price follows their ratios."""
    return features.sign() * features.abs().log1p()


def build_head(inputs: int, config: HeadConfig) -> nn.Sequential:
    """Return Linear, norm, activation, dropout for each width, then a Linear to 1."""
    layers: list[nn.Module] = []
    for width, dropout in zip(config.widths, config.dropout, strict=True):
        layers.append(nn.Linear(inputs, width))
        if config.norm != "none":
            layers.append(_NORMS[config.norm](width))
        layers += [_ACTIVATIONS[config.activation](), nn.Dropout(dropout)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))
