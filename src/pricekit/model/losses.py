"""SMAPE of the log price as a training loss, and the link that turns a raw output into a price.

Let z be the raw output, m and s the mean and standard deviation of the training log prices. Then the predicted
log price is s·z + m. With d = log p - log a, the SMAPE term |p - a| / ((p + a) / 2) is exactly 2·tanh(|d| / 2):
no division, no overflow, and a gradient of at most 1.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from pricekit.config import Section

MAX_LOG_PRICE = 40.0
"""Log prices are clamped to ±40, so every price is finite and positive in float32."""


class LogPrice(nn.Module):
    """The link: the raw output is the standardised log price."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))

    def fit(self, price: Tensor) -> None:
        """Learn the mean and the standard deviation (at least 0.001) of the log of prices, both from (N,)."""
        log_price = price.double().log()
        self.mean.fill_(log_price.mean())
        self.std.fill_(log_price.std(correction=0).clamp(min=1e-3))

    def log_price(self, raw: Tensor) -> Tensor:
        """Return the predicted log price."""
        return (raw * self.std + self.mean).clamp(-MAX_LOG_PRICE, MAX_LOG_PRICE)

    def smape_terms(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return 2·tanh(|log p - log a| / 2) of each element, 0 to 2."""
        distance = raw * self.std + self.mean - price.log()
        return 2 * torch.tanh(distance.abs() / 2)


class SmapeLoss(nn.Module):
    """The mean of t^(1 + gamma), t = 2·tanh(|d| / 2); with gamma 0 it is SMAPE as a fraction, 0 to 2.

    A larger gamma gives hard rows more weight: the focal factor of Lin et al. 2017, arXiv:1708.02002, with t instead
    of 1 - p_t.
    """

    class Options(Section):
        """Options of `focal-smape`."""

        gamma: float = Field(
            2.0, ge=0, description="0: plain SMAPE; larger values give hard rows more weight"
        )

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.link = LogPrice()
        self.gamma = options.gamma

    def fit(self, price: Tensor) -> None:
        """Fit the link to the training prices (N,)."""
        self.link.fit(price)

    def forward(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return the mean loss, a scalar, of raw outputs and prices of the same shape."""
        terms = self.link.smape_terms(raw, price)
        if self.gamma:
            terms = terms.pow(1 + self.gamma)
        return terms.mean()

    def to_price(self, raw: Tensor) -> Tensor:
        """Return exp of the predicted log price."""
        return self.link.log_price(raw).exp()


def smape() -> SmapeLoss:
    """Return plain SMAPE, the loss with gamma 0."""
    return SmapeLoss(SmapeLoss.Options(gamma=0.0))
