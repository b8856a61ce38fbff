"""The checks of a loss: built-in losses pass, and each check detects a faulty one."""

import math

import pytest
import torch
from torch import nn

from pricekit.nets.losses import LogHuber, LogPrice, Pinball, SmapeLoss, log_l1, log_l2, mape, smape
from pricekit.testing import CheckFailed, check_loss

# The mean of log 1 and log e² is 1, the deviation 1. Raw 0 is the price e, raw -1 the price 1.
FITTED_ON, RAW, PRICE = (1.0, math.e**2), (0.0, -1.0), (math.e, math.e)
TERM = 2 * math.tanh(0.5)
BY_HAND = FITTED_ON, RAW, PRICE, TERM / 2


class Squares(nn.Module):
    """Mean squared error of the standardised log price; a correct loss."""

    def __init__(self):
        super().__init__()
        self.link = LogPrice()

    def fit(self, price):
        self.link.fit(price)

    def distance(self, raw, price):
        return raw - (price.log() - self.link.mean) / self.link.std

    def forward(self, raw, price):
        return self.distance(raw, price).square().mean()

    def to_price(self, raw):
        return self.link.log_price(raw).exp()


def changed(**parts):
    return type("Wrong", (Squares,), parts)


class KeepsOutside(Squares):
    center = 0.0

    def fit(self, price):
        self.center = float(price.double().log().mean())

    def distance(self, raw, price):
        return raw + self.center - price.log()

    def to_price(self, raw):
        return (raw + self.center).clamp(-40, 40).exp()


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
    def forward(self, raw, price):
        return ((raw * self.link.std + self.link.mean).exp() - price).square().mean()


class Unclamped(Squares):
    def to_price(self, raw):
        return (raw * self.link.std + self.link.mean).exp()


class Traced(Squares):
    """The link changes during tracing."""

    def to_price(self, raw):
        return super().to_price(raw + 0.01 if torch.compiler.is_exporting() else raw)


WRONG = {
    "is a module with terms and to_price": [
        lambda: object(),
        type("Plain", (), {"fit": print, "forward": print, "to_price": print}),
    ],
    "buffers hold everything that fit learned": [
        KeepsOutside,
        changed(fit=lambda s, price: s.register_buffer("seen", price)),
    ],
    "a scalar with a gradient": [
        changed(forward=lambda s, r, p: s.distance(r, p).square()),
        changed(forward=lambda s, r, p: Squares.forward(s, r.detach(), p)),
        changed(forward=lambda s, r, p: s.distance(r.view(-1), p.view(-1)).mean()),
        changed(forward=lambda s, r, p: 0 * Squares.forward(s, r, p)),
    ],
    "a mean over rows and members": [
        changed(forward=lambda s, r, p: s.distance(r, p).square().sum()),
        changed(forward=lambda s, r, p: s.distance(r[:, :1], p).square().mean()),
    ],
    "gradcheck in float64": [
        changed(forward=lambda s, r, p: HalfGradient.apply(s.distance(r, p)).mean()),
        changed(forward=lambda s, r, p: Squares.forward(s, r.float(), p.float())),
    ],
    "finite for prices from 0.01 to 1e6": [Overflows],
    "minimum at the true price": [
        changed(distance=lambda s, r, p: r - (p.log() - s.link.mean)),
        changed(to_price=lambda s, r: s.link.log_price(r.clamp(-1, 1)).exp()),
    ],
    "prices are finite and positive": [
        Unclamped,
        changed(to_price=lambda s, r: Squares.to_price(s, r)[:, None]),
        changed(to_price=lambda s, r: Squares.to_price(s, r).double()),
    ],
    "prices increase with the raw output": [
        changed(to_price=lambda s, r: Squares.to_price(s, -r)),
        changed(to_price=lambda s, r: Squares.to_price(s, r.clamp(-2, 2))),
    ],
    "to_price exports": [Traced],
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
