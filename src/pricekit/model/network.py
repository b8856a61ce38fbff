"""The model: encoding ‖ numeric features -> head -> raw -> price."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from pricekit.config import HeadConfig
from pricekit.model.numeric import NumericEncoding

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
_NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class PriceModel(nn.Module):
    """Encoder, numeric encoding of the features, heads, and the loss with its link.

    With an encoder of M members the encoding is M groups side by side. Each has its own head and its
    own loss; the prediction is the mean of their raw outputs.
    """

    def __init__(self, encoder: Any, head: HeadConfig, loss: Any, features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss
        self.members = int(encoder.members)
        self.numeric = NumericEncoding(features, head.feature_bins)
        width = encoder.hidden_size // self.members + self.numeric.out_features
        self.heads = nn.ModuleList(build_head(width, head) for _ in range(self.members))

    def fit(self, features: Tensor, price: Tensor) -> None:
        """Learn the features' constants and the loss's link from the training rows, (N, K) and (N,)."""
        self.numeric.fit(features)
        self.loss.fit(price)

    def raw(self, input_ids: Tensor, attention_mask: Tensor, features: Tensor) -> Tensor:
        """Return the raw output of each member, (B, M)."""
        encoding = self.encoder(input_ids, attention_mask)
        numeric = self.numeric(features)
        groups = encoding.chunk(self.members, dim=1)
        heads = zip(groups, self.heads, strict=True)
        raw = torch.cat([head(torch.cat([group, numeric], 1)) for group, head in heads], 1)
        return (
            raw.float()
        )  # whatever the precision of the products, a price needs more than bf16's three digits

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
