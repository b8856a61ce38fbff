"""Feature columns to numbers that a head can use; the constants travel with the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BOUND = 10.0
"""Standardised features are clamped to ±10, so that one absurd cell cannot run away with a price."""


class NumericEncoding(nn.Module):
    """Standardised signed logs, and beside them a piecewise-linear encoding in `bins` parts.

    The first is sign(x)·log(1 + |x|), standardised: quantities span six decades, and a price follows
    their ratios. The second cuts a feature at its training quantiles e_0 … e_bins and gives
    clamp((x - e_t) / (e_{t+1} - e_t), 0, 1) for each part, so that a head can bend anywhere, as a tree
    splits anywhere (Gorishniy et al. 2022, arXiv:2203.05556). A part of no width is a step.
    """

    mean: Tensor
    std: Tensor
    start: Tensor
    width: Tensor

    def __init__(self, features: int, bins: int) -> None:
        super().__init__()
        self.out_features = features * (1 + bins)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.register_buffer("start", torch.zeros(features, bins))
        self.register_buffer("width", torch.ones(features, bins))

    def fit(self, features: Tensor) -> None:
        """Learn the constants from the training rows, float32 (N, K)."""
        if not features.shape[1]:
            return
        squashed = _squash(features.double())
        std = squashed.std(0, correction=0)
        self.mean.copy_(squashed.mean(0))
        self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))
        bins = self.start.shape[1]
        if bins:
            edges = torch.quantile(features.double(), torch.linspace(0, 1, bins + 1).double(), dim=0).T
            self.start.copy_(edges[:, :-1])
            self.width.copy_(edges.diff(dim=1).clamp(min=1e-6))

    def forward(self, features: Tensor) -> Tensor:
        """Return the encoding, float32 (B, K·(1 + bins))."""
        standardised = ((_squash(features) - self.mean) / self.std).clamp(-BOUND, BOUND)
        if not self.start.shape[1]:
            return standardised
        parts = ((features[:, :, None] - self.start) / self.width).clamp(0, 1) - 0.5
        return torch.cat([standardised, parts.flatten(1)], 1)


def _squash(features: Tensor) -> Tensor:
    return features.sign() * features.abs().log1p()
