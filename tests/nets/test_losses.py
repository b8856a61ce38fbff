import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pricekit.metrics import smape
from pricekit.nets.losses import (
    LogHuber,
    LogPrice,
    Pinball,
    SmapeLoss,
    aimed_price,
    log_l1,
    log_l2,
    mape,
    undeclared_aim,
)
from pricekit.nets.losses import smape as smape_loss

LOSSES = [
    smape_loss,
    lambda: SmapeLoss(SmapeLoss.Options(gamma=2.0)),
    lambda: SmapeLoss(SmapeLoss.Options(gamma=0.5)),
    log_l1,
    log_l2,
    mape,
    lambda: LogHuber(LogHuber.Options()),
    lambda: Pinball(Pinball.Options(quantile=0.9)),
]


def test_smape_by_hand():
    # prices e and 1, raw 0 is price 1: d = -1 and 0, terms 2·tanh(1/2) and 0
    assert smape_loss()(torch.zeros(2), torch.tensor([math.e, 1.0])).item() == pytest.approx(math.tanh(0.5))


def test_focal_by_hand():
    loss = SmapeLoss(SmapeLoss.Options(gamma=2.0))
    assert loss(torch.zeros(1), torch.tensor([math.e])).item() == pytest.approx((2 * math.tanh(0.5)) ** 3)


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(-6, 6)), min_size=1, max_size=9))
def test_smape_is_the_metric_of_its_own_prices(rows):
    price, raw = (torch.tensor(values, dtype=torch.float64) for values in zip(*rows, strict=True))
    loss = smape_loss().double()
    loss.fit(price)
    assert 100 * loss(raw, price).item() == pytest.approx(smape(loss.to_price(raw), price), abs=1e-6)


@pytest.mark.parametrize("make", LOSSES)
def test_gradients(make):
    raw = torch.tensor([-2.0, -0.3, 0.4, 3.0], dtype=torch.float64, requires_grad=True)
    price = torch.tensor([0.5, 3.0, 7.0, 900.0], dtype=torch.float64)
    loss = make().double()
    loss.fit(price)
    assert torch.autograd.gradcheck(lambda r: loss(r, price), raw)


@pytest.mark.parametrize("make", LOSSES)
def test_finite_from_a_cent_to_a_million_and_least_at_the_truth(make):
    price = torch.logspace(-2, 6, 40)
    loss = make()
    loss.fit(price)
    truth = (price.log() - loss.link.mean) / loss.link.std
    best = loss(truth, price).item()
    assert best == pytest.approx(0, abs=1e-5)
    for off in (-1e4, -3.0, -0.1, 0.1, 3.0, 1e4):
        raw = (truth + off).requires_grad_()
        value = loss(raw, price)
        value.backward()
        assert value.item() > best
        assert math.isfinite(value.item())
        assert raw.grad is not None
        assert raw.grad.isfinite().all()


@pytest.mark.parametrize("make", LOSSES)
def test_prices_are_finite_positive_and_monotone(make):
    loss = make()
    loss.fit(torch.tensor([1.0, 10.0, 100.0]))
    price = loss.to_price(torch.tensor([-1e30, -5.0, 0.0, 5.0, 1e30]))
    assert price.isfinite().all()
    assert (price > 0).all()
    assert (price.diff() > 0).all()
    assert price[2].item() == pytest.approx(10.0, rel=1e-5)


def test_equal_prices_leave_a_usable_link():
    link = LogPrice()
    link.fit(torch.full((5,), 7.0))
    assert link.std.item() > 0
    assert link.log_price(torch.zeros(1)).exp().item() == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("make", "low", "high"),  # the loss of d = -1 and of d = 1
    [
        (log_l1, 1, 1),
        (log_l2, 1, 1),
        (mape, 1 - 1 / math.e, math.e - 1),
        (lambda: LogHuber(LogHuber.Options(delta=0.5)), 0.5 * 0.75, 0.5 * 0.75),
        (lambda: LogHuber(LogHuber.Options(delta=2.0)), 0.5, 0.5),
        (lambda: Pinball(Pinball.Options(quantile=0.9)), 0.9, 0.1),
    ],
)
def test_losses_by_hand(make, low, high):
    raw, price = torch.zeros(1), torch.tensor([1.0])  # without fit, raw 0 is price 1
    assert make()(raw - 1, price).item() == pytest.approx(low)
    assert make()(raw + 1, price).item() == pytest.approx(high)


def test_mape_is_linear_for_prices_that_are_far_too_high():
    raw = torch.tensor([2.0, 10.0], requires_grad=True)
    terms = mape().terms(raw, torch.ones(2))
    terms.sum().backward()
    assert terms.tolist() == pytest.approx([math.e**2 - 1, math.e**2 - 1 + 8 * math.e**2])
    assert raw.grad.tolist() == pytest.approx([math.e**2] * 2, rel=1e-5)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_pinball_is_lowest_at_its_quantile(quantile):
    price = torch.exp(torch.randn(4001, generator=torch.Generator().manual_seed(0)))
    loss = Pinball(Pinball.Options(quantile=quantile))
    constants = torch.linspace(-3, 3, 601)
    best = constants[torch.stack([loss(c.expand(4001), price) for c in constants]).argmin()]
    assert best.item() == pytest.approx(price.log().quantile(quantile).item(), abs=0.011)


def test_gamma_must_not_be_negative(raises):
    with raises(ValueError):
        SmapeLoss.Options(gamma=-1)


def test_smape_is_focal_smape_with_gamma_0_to_the_bit():
    price, raw = torch.logspace(-1, 3, 50), torch.linspace(-3, 3, 50).requires_grad_()
    values, gradients = [], []
    for loss in (smape_loss(), SmapeLoss(SmapeLoss.Options(gamma=0.0))):
        loss.fit(price)
        raw.grad = None
        value = loss(raw, price)
        value.backward()
        values.append(value.detach())
        gradients.append(raw.grad.clone())
    assert torch.equal(values[0], (2 * torch.tanh(loss.link.distance(raw, price).abs() / 2)).mean())
    assert torch.equal(*values)
    assert torch.equal(*gradients)


class Euros(LogPrice):
    """The square of an error in the currency, whose raw output is a price."""

    def terms(self, raw, price):
        return (raw - price).square()

    def to_price(self, raw):
        return raw.clamp(1e-3, 1e9)


@pytest.mark.parametrize(
    ("make", "quantile"),
    [(log_l1, 0.5), (log_l2, 0.5), (Euros, 0.6), (mape, 0.31)]
    + [(partial(Pinball, Pinball.Options(quantile=q)), q) for q in (0.1, 0.3, 0.9)],
)
def test_the_price_at_which_a_loss_aims(make, quantile):
    price = torch.from_numpy(np.random.default_rng(0).lognormal(2, 0.5, 4001))
    loss = make()
    loss.fit(price)
    below = float((price <= aimed_price(loss, price)).double().mean())
    assert below == pytest.approx(quantile, abs=0.02)
    loss.central = True
    undeclared = undeclared_aim(loss)
    assert undeclared is None if 0.25 <= quantile <= 0.75 else undeclared == pytest.approx(quantile, abs=0.01)
    loss.central = False
    assert undeclared_aim(loss) is None
