"""The checks of a loss: built-in losses pass, and each check detects a faulty one."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from pricekit.core.contracts import Loss
from pricekit.nets.losses import LogHuber, LogPrice, Pinball, SmapeLoss, log_l1, log_l2, mape, smape
from pricekit.table import Columns, read_frame
from pricekit.testing import CheckFailed, check_loss
from pricekit.testing.data import ordinary_prices

# The mean of log 1 and log e² is 1, the deviation 1. Raw 0 is the price e, raw -1 the price 1.
FITTED_ON, RAW, PRICE = (1.0, math.e**2), (0.0, -1.0), (math.e, math.e)
TERM = 2 * math.tanh(0.5)
BY_HAND = FITTED_ON, RAW, PRICE, TERM / 2


class Squares(Loss, nn.Module):
    """Squared error of the standardised log price; a correct loss."""

    def __init__(self):
        super().__init__()
        self.link = LogPrice()

    def fit(self, price):
        self.link.fit(price)

    def distance(self, raw, price):
        return raw - (price.log() - self.link.mean) / self.link.std

    def terms(self, raw, price):
        return self.distance(raw, price).square()

    def to_price(self, raw):
        return self.link.log_price(raw).exp()


def changed(**parts):
    return type("Wrong", (Squares,), parts)


def terms_of(change):
    """Squares, with its terms changed by a function of (loss, raw, price, terms)."""
    return changed(terms=lambda s, r, p: change(s, r, p, Squares.terms(s, r, p)))


def pricing(change):
    """Squares, with its prices changed by a function of (loss, raw, prices)."""
    return changed(to_price=lambda s, r: change(s, r, Squares.to_price(s, r)))


class KeepsOutside(Squares):
    """Stores its center where `keep` says: in the instance by default."""

    center = 0.0

    def keep(self, center):
        self.center = center

    def fit(self, price):
        self.keep(float(price.double().log().mean()))

    def distance(self, raw, price):
        return raw + self.center - price.log()

    def to_price(self, raw):
        return (raw + self.center).clamp(-40, 40).exp()


class KeepsInTheClass(KeepsOutside):
    def keep(self, center):
        type(self).center = center


class RunningMean(Squares):
    """Divides the terms by a mean of the prices of the batches before."""

    seen = 1.0

    def terms(self, raw, price):
        self.seen = 0.9 * self.seen + 0.1 * float(price.mean())
        return super().terms(raw, price) / self.seen


class HalfGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, distance):
        ctx.save_for_backward(distance)
        return distance.square()

    @staticmethod
    def backward(ctx, gradient):
        (distance,) = ctx.saved_tensors
        return gradient * distance


class Overflows(Squares):
    def terms(self, raw, price):
        return ((raw * self.link.std + self.link.mean).exp() - price).square()


class Unclamped(Squares):
    def to_price(self, raw):
        return (raw * self.link.std + self.link.mean).exp()


class ForwardOnly(nn.Module):
    """What a loss was before terms: a correct mean, but of nothing that a weight could multiply."""

    def __init__(self):
        super().__init__()
        self.link = LogPrice()

    def fit(self, price):
        self.link.fit(price)

    def forward(self, raw, price):
        return self.link.distance(raw, price).square().mean()

    def to_price(self, raw):
        return self.link.to_price(raw)


class Quantile(LogPrice):
    def terms(self, raw, price):
        distance = self.distance(raw, price)
        return torch.maximum(-0.9 * distance, 0.1 * distance)


def add_in_place(loss, raw, price, terms):
    raw.add_(1)
    return terms


WRONG = {
    "is a module with terms and to_price": [
        lambda: object(),
        type("Plain", (), {"fit": print, "forward": print, "terms": print, "to_price": print}),
        type("Linkless", (Loss, nn.Module), {"terms": lambda s, r, p: r}),
        ForwardOnly,
    ],
    "the same value twice": [
        terms_of(lambda s, r, p, x: x + 0.01 * torch.rand_like(x)),
        terms_of(lambda s, r, p, x: x * float(np.random.default_rng().uniform(1, 2))),
        terms_of(lambda s, r, p, x: nn.functional.dropout(x, 0.5, s.training)),
        terms_of(add_in_place),
        pricing(lambda s, r, x: x if s.training else 2 * x),
        RunningMean,
    ],
    "buffers hold everything that fit learned": [
        KeepsOutside,
        KeepsInTheClass,
        changed(fit=lambda s, price: s.register_buffer("seen", price)),
        changed(fit=lambda s, p: setattr(s.link, "mean", nn.Buffer(p.log().mean(), persistent=False))),
    ],
    "a scalar with a gradient": [
        changed(forward=lambda s, r, p: s.distance(r, p).square()),
        changed(forward=lambda s, r, p: torch.tensor(s.terms(r, p).mean().item())),
        terms_of(lambda s, r, p, x: x.detach()),
        terms_of(lambda s, r, p, x: 0 * x),
        terms_of(lambda s, r, p, x: s.distance(r.round(), p).square()),
    ],
    "terms are (B, M), and forward is their mean": [
        terms_of(lambda s, r, p, x: x.mean()),
        terms_of(lambda s, r, p, x: x.mean(1)),
        terms_of(lambda s, r, p, x: x.double()),
        changed(terms=lambda s, r, p: s.distance(r, p.double()).square()),
        changed(forward=lambda s, r, p: s.terms(r, p).sum()),
        changed(forward=lambda s, r, p: s.terms(r, p)[:, :1].mean()),
    ],
    "a term depends on its row alone": [
        terms_of(lambda s, r, p, x: x / p.mean()),
        terms_of(lambda s, r, p, x: x + (r - r.mean()).square()),
        terms_of(lambda s, r, p, x: x + r.var(1, keepdim=True, correction=0)),
        terms_of(lambda s, r, p, x: x * (x >= x.median())),
    ],
    "gradcheck in float64": [
        changed(terms=lambda s, r, p: HalfGradient.apply(s.distance(r, p))),
        changed(terms=lambda s, r, p: Squares.terms(s, r.float(), p.float())),
        terms_of(lambda s, r, p, x: x * x.detach()),
    ],
    "finite for prices from 0.01 to 1e6": [
        Overflows,
        terms_of(lambda s, r, p, x: x + (p - 0.01).log()),
        terms_of(lambda s, r, p, x: x / p.log()),
        terms_of(lambda s, r, p, x: x.sqrt()),
        terms_of(lambda s, r, p, x: x + (x < 0.1).float().log()),
        terms_of(lambda s, r, p, x: torch.where(p == float(np.float32(ordinary_prices()[9])), math.nan, x)),
    ],
    "minimum at the true price": [
        changed(distance=lambda s, r, p: r - (p.log() - s.link.mean)),
        changed(to_price=lambda s, r: s.link.log_price(r.clamp(-1, 1)).exp()),
        terms_of(lambda s, r, p, x: -x),
        terms_of(lambda s, r, p, x: x + 0.1 * r),
        pricing(lambda s, r, x: 2 * x),
        pricing(lambda s, r, x: x.clamp(min=5)),
    ],
    "prices are finite and positive": [
        Unclamped,
        changed(to_price=lambda s, r: Squares.to_price(s, r)[:, None]),
        changed(to_price=lambda s, r: Squares.to_price(s, r).double()),
    ],
    "prices increase with the raw output": [
        changed(to_price=lambda s, r: Squares.to_price(s, -r)),
        changed(to_price=lambda s, r: Squares.to_price(s, r.clamp(-2, 2))),
        pricing(lambda s, r, x: (x * 100).round() / 100),
        pricing(lambda s, r, x: x.clamp(max=30)),
    ],
    "to_price exports": [
        pricing(lambda s, r, x: x * (1.01 if torch.compiler.is_exporting() else 1)),
        pricing(lambda s, r, x: x if bool((r > 0).all()) else 1.01 * x),
    ],
    "aims at a central price, or says that it does not": [
        Quantile,
        terms_of(lambda s, r, p, x: x * p.square()),
    ],
    "the value derived by hand": [Squares],
}


def focal():
    return SmapeLoss(SmapeLoss.Options(gamma=2.0))


RIGHT = {
    "smape": check_loss(smape, BY_HAND),
    "focal-smape": check_loss(focal, (FITTED_ON, RAW, PRICE, TERM**3 / 2)),
    "log-l1": check_loss(log_l1, (FITTED_ON, RAW, PRICE, 0.5)),
    "log-l2": check_loss(log_l2, (FITTED_ON, RAW, PRICE, 0.5)),
    "log-huber": check_loss(lambda: LogHuber(LogHuber.Options(delta=0.5))),
    "pinball": check_loss(lambda: Pinball(Pinball.Options(quantile=0.8)), (FITTED_ON, RAW, PRICE, 0.4)),
    "mape": check_loss(mape),
    "squares": [c for c in check_loss(Squares, (FITTED_ON, RAW, PRICE, 0.5)) if "exports" not in c.name],
}


def takes_seconds(name, check):
    """Whether it is the export of a loss whose link another loss has, too."""
    return "exports" in check.name and name not in ("smape", "pinball")


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check, id=f"{name}: {check}", marks=pytest.mark.slow if takes_seconds(name, check) else ()
        )
        for name, found in RIGHT.items()
        for check in found
    ],
)
def test_a_correct_loss_passes(check):
    check()


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in WRONG.items() for make in makes])
def test_a_faulty_loss_fails_its_check(name, make, raises):
    check = next(check for check in check_loss(make, BY_HAND) if check.name == name)
    with raises(CheckFailed):
        check()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_loss(Squares, BY_HAND)}


def test_a_value_derived_by_hand_adds_a_check():
    assert "the value derived by hand" not in map(str, check_loss(Squares))


def test_the_random_state_is_unchanged():
    before = torch.get_rng_state()
    for check in RIGHT["squares"]:
        check()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_prices_of_a_table_are_tried(raises):
    price = 123.45
    make = terms_of(lambda s, r, p, x: torch.where(p == float(np.float32(price)), math.nan, x))
    table = read_frame(
        pd.DataFrame({"title": ["a", "b", "c"], "price": [9.5, price, 8.0]}), Columns(("title",))
    )
    name = "finite for prices from 0.01 to 1e6"
    without, tried = (
        next(check for check in check_loss(make, table=rows) if check.name == name) for rows in (None, table)
    )
    without()
    with raises(CheckFailed):
        tried()
