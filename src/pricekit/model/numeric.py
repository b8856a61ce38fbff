"""Encoding feature columns for a head; the constants are stored with the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

BOUND = 10.0
"""Standardised features are clamped to ±10, which bounds the effect of one absurd cell."""

_NONE = 1e-6
"""Smallest width of a bin, and the standard deviation up to which a feature is constant."""


class NumericEncoding(nn.Module):
    """Standardised signed logs, and a piecewise-linear encoding in `bins` bins.

    The first is sign(x)·log(1 + |x|), standardised: quantities span six decades, and prices follow their ratios. The
    second cuts a feature at its training quantiles e_0 … e_bins and gives clamp((x - e_t) / (e_{t+1} - e_t), 0, 1)
    for each bin, so a head can bend anywhere, as a tree can split anywhere (Gorishniy et al. 2022, arXiv:2203.05556).
    A bin of no width is a step. A feature that is constant in the training rows gives zeros: anything else would be a
    second bias of the head, which would learn many times as fast as the first.

    Args:
        features: number of feature columns, K.
        bins: of the piecewise-linear encoding; 0 leaves it out.
    """

    mean: Tensor
    std: Tensor
    varies: Tensor
    start: Tensor
    width: Tensor

    def __init__(self, features: int, bins: int) -> None:
        super().__init__()
        self.out_features = features * (1 + bins)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.register_buffer("varies", torch.ones(features))
        self.register_buffer("start", torch.zeros(features, bins))
        self.register_buffer("width", torch.ones(features, bins))
        before_loading: Any = self.register_load_state_dict_pre_hook
        before_loading(_add_varies)

    def fit(self, features: Tensor) -> None:
        """Fit the constants to the training rows, float32 (N, K)."""
        if not features.shape[1]:
            return
        squashed = _squash(features.double())
        std = squashed.std(0, correction=0)
        self.mean.copy_(squashed.mean(0))
        self.std.copy_(torch.where(std > _NONE, std, torch.ones_like(std)))
        self.varies.copy_(std > _NONE)
        bins = self.start.shape[1]
        if bins:
            edges = torch.quantile(features.double(), torch.linspace(0, 1, bins + 1).double(), dim=0).T
            self.start.copy_(edges[:, :-1])
            self.width.copy_(edges.diff(dim=1).clamp(min=_NONE, max=torch.finfo(torch.float32).max))

    def forward(self, features: Tensor) -> Tensor:
        """Return the encoding, float32 (B, K·(1 + bins))."""
        standardised = ((_squash(features) - self.mean) / self.std).clamp(-BOUND, BOUND) * self.varies
        if not self.start.shape[1]:
            return standardised
        parts = ((features[:, :, None] - self.start) / self.width).clamp(0, 1) - 0.5
        return torch.cat([standardised, (parts * self.varies[:, None]).flatten(1)], 1)


def _add_varies(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Load weights from before `varies` existed as they were trained: every feature counts."""
    if f"{prefix}mean" in state:
        state.setdefault(f"{prefix}varies", torch.ones_like(state[f"{prefix}mean"]))


def _squash(features: Tensor) -> Tensor:
    return features.sign() * features.abs().log1p()
