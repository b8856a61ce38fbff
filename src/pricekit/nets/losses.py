"""Losses on the log price, and the link that turns a raw output into a price.

Let z be the raw output, m and s the mean and standard deviation of the training log prices. Then the predicted
log price is s·z + m. Each loss is the mean of a function of d = log p - log a, the distance of predicted and true log
price. The SMAPE term |p - a| / ((p + a) / 2) is exactly 2·tanh(|d| / 2): no division, no overflow, and a gradient of at
most 1. The price that a loss aims at, if the text leaves it uncertain:

| loss | term | price |
|---|---|---|
| smape | 2·tanh(abs(d) / 2) | near the median, and nearer to where most prices are |
| log-l1 | abs(d) | the median |
| log-l2 | d² | the geometric mean |
| log-huber | Huber 1964: d² / 2 up to delta, then linear | between these two |
| pinball | Koenker and Bassett 1978 | a quantile of the price |
| mape | abs(p - a) / a | below the median: an error of a low price counts more |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from pricekit.config import Search, Section
from pricekit.core.contracts import Loss

MAX_LOG_PRICE = 40.0
"""Log prices are clamped to ±40, so every price is finite and positive in float32."""


class LogPrice(Loss, nn.Module):
    """A loss whose raw output is the standardised log price; subclasses define `terms`."""

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

    def to_price(self, raw: Tensor) -> Tensor:
        """Return exp of the predicted log price."""
        return self.log_price(raw).exp()

    def distance(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return log p - log a of each element, of which the first is not clamped."""
        return raw * self.std + self.mean - price.log()


class DistanceLoss(Loss, nn.Module):
    """The mean of a function of d = log p - log a.

    Args:
        of: the function; it is lowest at 0.

    Example:
        >>> loss = DistanceLoss(torch.square)
        >>> loss.fit(torch.tensor([1.0, 10.0, 100.0]))
        >>> loss(torch.zeros(1), torch.tensor([10.0])).item() < 1e-9
        True
    """

    def __init__(self, of: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.link = LogPrice()
        self.of = of

    def fit(self, price: Tensor) -> None:
        """Fit the link to the training prices (N,)."""
        self.link.fit(price)

    def terms(self, raw: Tensor, price: Tensor) -> Tensor:
        """Return the loss of each raw output, of the shape of both arguments."""
        return self.of(self.link.distance(raw, price))

    def to_price(self, raw: Tensor) -> Tensor:
        """Return the price of the link."""
        return self.link.to_price(raw)


class SmapeLoss(DistanceLoss):
    """The mean of t^(1 + gamma), t = 2·tanh(|d| / 2); with gamma 0 it is SMAPE as a fraction, 0 to 2.

    A larger gamma gives hard rows more weight: the focal factor of Lin et al. 2017, arXiv:1708.02002, with t instead
    of 1 - p_t.
    """

    class Options(Section):
        """Options of `focal-smape`."""

        gamma: Annotated[float, Search(0.0, 3.0)] = Field(
            2.0, ge=0, description="0: plain SMAPE; larger values give hard rows more weight"
        )

    def __init__(self, options: Options) -> None:
        power = 1 + options.gamma
        super().__init__(lambda d: (2 * torch.tanh(d.abs() / 2)).pow(power))


class LogHuber(DistanceLoss):
    """The Huber loss of d: d² / 2 up to delta, and delta·(|d| - delta / 2) above (Huber 1964)."""

    class Options(Section):
        """Options of `log-huber`."""

        delta: Annotated[float, Search(times=3)] = Field(
            0.5,
            gt=0,
            description="distance of log prices from which the loss is linear; 0.5: a factor of 1.65",
        )

    def __init__(self, options: Options) -> None:
        delta = options.delta
        super().__init__(
            lambda d: nn.functional.huber_loss(d, torch.zeros_like(d), reduction="none", delta=delta)
        )


class Pinball(DistanceLoss):
    """The pinball loss, which is lowest at a quantile of the price (Koenker and Bassett 1978).

    q·|d| for prices that are too low and (1 - q)·|d| for prices that are too high. A quantile of the log price is the
    log of that quantile of the price.
    """

    class Options(Section):
        """Options of `pinball`."""

        quantile: float = Field(
            0.5, gt=0, lt=1, description="share of true prices below the predicted one; 0.5: the median"
        )

    def __init__(self, options: Options) -> None:
        quantile = options.quantile
        super().__init__(lambda d: torch.maximum(-quantile * d, (1 - quantile) * d))
        self.central = quantile == 0.5


MAX_MAPE_DISTANCE = 2.0
"""Distance of log prices from which `mape` is linear: a price that is e² = 7.4 times too high."""


def smape() -> SmapeLoss:
    """Return plain SMAPE, the loss with gamma 0."""
    return SmapeLoss(SmapeLoss.Options(gamma=0.0))


def log_l1() -> DistanceLoss:
    """Return the mean of |d|."""
    return DistanceLoss(torch.abs)


def log_l2() -> DistanceLoss:
    """Return the mean of d²: for prices far above 1, the square of RMSLE."""
    return DistanceLoss(torch.square)


def mape() -> DistanceLoss:
    """Return the mean of |p - a| / a = |exp(d) - 1|, continued linearly above `MAX_MAPE_DISTANCE`.

    So its gradient, exp(d), stays below 7.4 for prices that are far too high, as they are before training.
    """
    return DistanceLoss(_mape)


def _mape(d: Tensor) -> Tensor:
    near = d.clamp(max=MAX_MAPE_DISTANCE)
    return near.expm1().abs() + (d - near) * near.detach().exp()


CENTRAL = 0.2, 0.8
"""Quantiles of the price between which a loss aims, unless it says `central = False`."""

_SAMPLE = 999
_SIGMA = 0.5
_FARTHEST = 2.0**30
_BISECTIONS = 60


def undeclared_aim(loss: Any) -> float | None:
    """Return the quantile of the price at which a loss aims, if that is not a central one and `central` is True.

    The loss is fitted to a lognormal sample of prices. In it, a mean is at 0.6, and the best price by `mape` at 0.31.

    Args:
        loss: see `pricekit.core.contracts.Loss`; fitting changes it.

    Example:
        >>> high = Pinball(Pinball.Options(quantile=0.9))
        >>> undeclared_aim(high) is None
        True
        >>> high.central = True
        >>> round(undeclared_aim(high), 2)
        0.9
    """
    if not loss.central:
        return None
    ranks = (torch.arange(_SAMPLE, dtype=torch.float64) + 0.5) / _SAMPLE
    price = (math.log(12) + _SIGMA * torch.special.ndtri(ranks)).exp()
    loss.fit(price)
    quantile = float((price < aimed_price(loss, price)).double().mean())
    return None if CENTRAL[0] <= quantile <= CENTRAL[1] else quantile


@torch.no_grad()
def aimed_price(loss: Any, price: Tensor) -> float:
    """Return the constant price, one of 99 quantiles, with the lowest mean loss for prices, float64 (N,).

    The loss is fitted to them. If `to_price` reaches none of the 99, it is the median.
    """
    ordered = price.sort().values
    sample = ordered[torch.linspace(0, len(price) - 1, min(_SAMPLE, len(price))).long()].float()[:, None]
    candidates = ordered[torch.linspace(0.01, 0.99, 99).mul(len(price) - 1).round().long()]
    raw = raw_outputs(loss, candidates).float()
    values = torch.stack([loss(each.expand_as(sample), sample) for each in raw]).nan_to_num(math.inf)
    return float(candidates[int(values.argmin())] if values.isfinite().any() else candidates[49])


@torch.no_grad()
def raw_outputs(loss: Any, price: Tensor) -> Tensor:
    """Return the raw outputs that `to_price` maps to prices, (N,), by bisection; NaN if none does."""
    low, high = -torch.ones_like(price), torch.ones_like(price)
    while high[0] < _FARTHEST and bool(
        (loss.to_price(low) > price).any() | (loss.to_price(high) < price).any()
    ):
        low, high = 2 * low, 2 * high
    reached = (loss.to_price(low) <= price) & (loss.to_price(high) >= price)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = loss.to_price(middle) < price
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(reached, (low + high) / 2, math.nan)
