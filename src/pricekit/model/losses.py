"""Losses on the log price, with their link to a price.

With z the raw output, m and s the mean and standard deviation of the training log prices, the
predicted log price is s·z + m. For d = log p - log a the SMAPE term |p - a| / ((p + a) / 2) is
exactly 2·tanh(|d| / 2): no division, no overflow, and a gradient of at most 1.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from pricekit.config import Section

MAX_LOG_PRICE = 40.0
"""Log prices are clamped to ±40, so that every price is finite and positive in float32."""


class LogPrice(nn.Module):
    """The link: raw output = standardised log price."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))

    def fit(self, price: Tensor) -> None:
        """Learn mean and standard deviation of the log of prices (N,); 1 where all are equal."""
        log_price = price.double().log()
        self.mean.fill_(log_price.mean())
        self.std.fill_(log_price.std(correction=0).clamp(min=1e-3))

    def log_price(self, raw: Tensor) -> Tensor:
        """Return the predicted log price."""
        return (raw * self.std + self.mean).clamp(-MAX_LOG_PRICE, MAX_LOG_PRICE)

    def smape_terms(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return 2·tanh(|log p - log a| / 2) of each row, 0 to 2."""
        distance = raw * self.std + self.mean - price.log()
        return 2 * torch.tanh(distance.abs() / 2)


class Smape(nn.Module):
    """The mean of 2·tanh(|d| / 2): SMAPE as a fraction, 0 to 2."""

    def __init__(self) -> None:
        super().__init__()
        self.link = LogPrice()

    def fit(self, price: Tensor) -> None:
        """Fit the link to the training prices (N,)."""
        self.link.fit(price)

    def forward(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return the mean loss of raw outputs and prices of one shape."""
        return self.link.smape_terms(raw, price).mean()

    def to_price(self, raw: Tensor) -> Tensor:
        """Return exp of the predicted log price."""
        return self.link.log_price(raw).exp()


class FocalSmape(nn.Module):
    """The mean of t^(1 + gamma), t = 2·tanh(|d| / 2): hard rows weigh more, as in focal loss.

    Source: the focal factor of Lin et al. 2017, arXiv:1708.02002, with t in the place of 1 - p_t.
    """

    class Options(Section):
        """Options of `focal-smape`."""

        gamma: float = Field(2.0, ge=0, description="0 is plain smape; more weighs hard rows more")

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.link = LogPrice()
        self.gamma = options.gamma

    def fit(self, price: Tensor) -> None:
        """Fit the link to the training prices (N,)."""
        self.link.fit(price)

    def forward(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return the mean loss of raw outputs and prices of one shape."""
        return self.link.smape_terms(raw, price).pow(1 + self.gamma).mean()

    def to_price(self, raw: Tensor) -> Tensor:
        """Return exp of the predicted log price."""
        return self.link.log_price(raw).exp()
