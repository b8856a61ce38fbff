"""The checks of a loss and of its link from raw output to price. Imports torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from pricekit.nets.inference import torch_engine
from pricekit.predict.ort import load_cpu
from pricekit.table import Table
from pricekit.testing.data import batch, difference, ordinary_prices
from pricekit.testing.models import export_bytes, small_model, stored_into
from pricekit.testing.runner import ByHand, Checks, Make, fail, is_float32, require_methods, shown
from pricekit.wording import shorten

WIDE = torch.logspace(-2, 6, 33, dtype=torch.float64)
EXPORT_TOLERANCE = 1e-4
NEIGHBOURS = (-3.0, -1.0, -0.3, -0.05, 0.05, 0.3, 1.0, 3.0)
FARTHEST = 2.0**30


def checks(by_hand: ByHand | None = None, table: Table | None = None) -> Checks:
    """Return the checks; see `pricekit.testing.check_loss`."""
    checks: Checks = {
        "is a module with terms and to_price": _is_made,
        "buffers hold everything that fit learned": _holds_all,
        "a scalar with a gradient": _scalar,
        "a mean over rows and members": _mean,
        "gradcheck in float64": _gradcheck,
        "finite for prices from 0.01 to 1e6": _finite,
        "minimum at the true price": _least,
        "prices are finite and positive": _prices,
        "prices increase with the raw output": _rising,
        "to_price exports": _exports,
    }
    if by_hand is not None:
        checks["the value derived by hand"] = partial(_by_hand, case=by_hand)
    return checks


def _fitted(make: Make, *, dtype: torch.dtype = torch.float32, price: Tensor | None = None) -> Any:
    """Return a new loss, fitted to prices, by default to ordinary ones."""
    loss = make().to(dtype)
    loss.fit(torch.from_numpy(ordinary_prices()) if price is None else price)
    return loss


def _example(rows: int, members: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return raw outputs and prices as training passes them: all members of a row share a price."""
    raw = torch.linspace(-2.1, 1.9, rows * members, dtype=dtype).reshape(rows, members)
    price = torch.logspace(-0.3, 2.9, rows, dtype=dtype)
    return raw, price[:, None].expand_as(raw)


def _is_made(make: Make) -> None:
    loss = make()
    require_methods(loss, "terms", "to_price")
    if not isinstance(loss, nn.Module):
        fail(
            f"{type(loss).__name__} is not a torch.nn.Module", "one", "derive the class from torch.nn.Module"
        )


def _holds_all(make: Make) -> None:
    loss, fresh = _fitted(make), make()
    stored_into(fresh, loss)
    raw, price = _example(4, 1)
    same = torch.equal(fresh(raw, price), loss(raw, price))
    if not (same and torch.equal(fresh.to_price(raw[:, 0]), loss.to_price(raw[:, 0]))):
        fail(
            "a new loss with the weights and buffers of the fitted loss gives different values",
            "equal values, because opening a model restores only weights and buffers",
            "store what fit learns in buffers: self.register_buffer('mean', ...), then self.mean.fill_(...)",
        )


def _scalar(make: Make) -> None:
    loss, (raw, price) = _fitted(make), _example(4, 3)
    raw.requires_grad_()
    value = loss(raw, price)
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        fail(
            f"the loss is {shown(value)}",
            "a scalar with a gradient",
            "return a mean, for example with .mean()",
        )
    value.backward()  # type: ignore[no-untyped-call]
    if raw.grad is None or not raw.grad.isfinite().all() or not raw.grad.any():
        fail(
            f"the gradient is {None if raw.grad is None else raw.grad.tolist()}",
            "finite values, not all 0",
            "compute the loss from raw with differentiable operations",
        )


def _mean(make: Make) -> None:
    loss, (raw, price) = _fitted(make), _example(6, 3)
    each = zip(raw.reshape(-1, 1, 1), price.reshape(-1, 1, 1), strict=True)
    expected = torch.stack([loss(*one) for one in each]).mean()
    value = loss(raw, price)
    if not torch.allclose(value, expected, rtol=1e-4, atol=1e-6):
        fail(
            f"the loss of 6 rows and 3 members is {value.item():.6g}",
            f"{expected.item():.6g}, the mean of the losses of the single raw outputs",
            "reduce by the mean: each member is a separate model, and a step may consist of several batches",
        )


def _gradcheck(make: Make) -> None:
    loss, (raw, price) = _fitted(make, dtype=torch.float64), _example(4, 2, torch.float64)
    try:
        torch.autograd.gradcheck(lambda outputs: loss(outputs, price), raw.requires_grad_())
    except GradcheckError as error:
        fail(
            f"in float64, the gradient differs from the numerical one: {shorten(str(error), 200)}",
            "equal gradients",
            "fix a custom backward, and do not cast to float32",
        )


def _finite(make: Make) -> None:
    for fitted_on in (None, WIDE):
        loss = _fitted(make, price=fitted_on)
        raw = torch.linspace(-30, 30, 61).expand(len(WIDE), -1).clone().requires_grad_()
        value = loss(raw, WIDE.float()[:, None].expand_as(raw))
        value.backward()
        gradient = raw.grad if raw.grad is not None else torch.full_like(raw, torch.nan)
        if value.isfinite() and gradient.isfinite().all():
            continue
        bad = (~gradient.isfinite()).nonzero().tolist()
        where = f", first at price {WIDE[bad[0][0]]:.4g}, raw {raw[tuple(bad[0])]:.4g}" if bad else ""
        fail(
            f"the loss is {value.item()}, and {len(bad)} of the gradients are not finite{where}",
            "finite values for prices from 0.01 to 1e6 and raw outputs from -30 to 30",
            "compute with log prices, and clamp the arguments of exponentials",
        )


def _least(make: Make) -> None:
    """The loss is smallest at the raw output that to_price maps to the true price."""
    loss = _fitted(make, dtype=torch.float64)
    prices = torch.from_numpy(np.quantile(ordinary_prices(), [0.05, 0.3, 0.5, 0.7, 0.95]))
    for price, truth in zip(prices, _raw_of(loss, prices), strict=True):
        best = loss(truth[None, None], price[None, None]).item()
        for offset in NEIGHBOURS:
            value = loss((truth + offset)[None, None], price[None, None]).item()
            if not value >= best - 1e-6 * max(1.0, abs(best)):
                fail(
                    f"for the price {float(price):.4g} the loss is {best:.6g} at its raw output, "
                    f"but {value:.6g} at that output {offset:+}",
                    "the minimum at the true price",
                    "let forward and to_price share one link from raw output to price",
                )


def _raw_of(loss: Any, prices: Tensor) -> Tensor:
    """Return the raw outputs that to_price maps to the prices, by bisection."""
    low, high = -torch.ones_like(prices), torch.ones_like(prices)
    while (loss.to_price(low) > prices).any() or (loss.to_price(high) < prices).any():
        low, high = 2 * low, 2 * high
        if high[0] > FARTHEST:
            fail(
                f"no raw output gives the price {float(prices[0]):.4g} or {float(prices[-1]):.4g}",
                "that to_price can return every price it was fitted on",
                "derive the range of to_price from the training prices",
            )
    for _ in range(100):
        middle = (low + high) / 2
        below = loss.to_price(middle) < prices
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def _prices(make: Make) -> None:
    """The price is finite and positive for any raw output and any training prices."""
    raw = torch.tensor([-1e4, -30.0, -3.0, 0.0, 3.0, 30.0, 1e4])
    for fitted_on in (None, WIDE, torch.full((9,), 7.0, dtype=torch.float64)):
        loss = _fitted(make, price=fitted_on)
        for outputs in (raw, raw[:1]):
            price = loss.to_price(outputs)
            if not is_float32(price, Tensor, tuple(outputs.shape)):
                fail(
                    f"to_price returned {shown(price)} for {shown(outputs)}",
                    "one float32 price per raw output",
                    "keep shape and dtype of the input",
                )
            if not (price.isfinite().all() and (price > 0).all()):
                fail(
                    f"to_price returned {price.tolist()} for {outputs.tolist()}",
                    "finite, positive prices, also if all training prices are equal",
                    "clamp the log price before the exponential, and the scale away from 0",
                )


def _rising(make: Make) -> None:
    """A higher raw output gives a higher price, so every price has a single raw output."""
    price = _fitted(make).to_price(torch.linspace(-3, 3, 61))
    if not (price.diff() > 0).all():
        place = int((price.diff() <= 0).nonzero()[0])
        fail(
            f"to_price returned {price[place : place + 2].tolist()} for the raw outputs {-3 + place / 10:.1f} and "
            f"{-2.9 + place / 10:.1f}",
            "a higher price for a higher raw output",
            "make the link strictly increasing",
        )


def _exports(make: Make) -> None:
    """to_price gives the same prices in the exported graph as in torch."""
    model = small_model(_fitted(make))
    raw = np.linspace(-8, 8, 17, dtype=np.float32)
    rows = batch(len(raw), 5)
    rows["features"][:, 0] = np.sign(raw) * np.expm1(np.abs(raw))  # the signed log restores raw
    with torch.no_grad():
        last: Any = model.heads[0]
        last[0].weight.zero_()[0, model.encoder.hidden_size] = 1.0
        last[0].bias.zero_()
    expected = torch_engine(model)(rows)
    price = load_cpu(export_bytes(model, rows))(rows)
    if not difference(price, expected) <= EXPORT_TOLERANCE:
        fail(
            f"in ONNX Runtime, to_price returns {price.tolist()} for the raw outputs {raw.tolist()}",
            f"the prices of torch, {expected.tolist()}",
            "use only tensor operations in to_price, and no Python number that depends on their values",
        )


def _by_hand(make: Make, case: ByHand) -> None:
    prices, raw, price, expected = case
    double = partial(torch.tensor, dtype=torch.float64)
    loss = _fitted(make, dtype=torch.float64, price=double(prices))
    value = loss(double(raw)[:, None], double(price)[:, None]).item()
    if not abs(value - expected) <= 1e-6 * max(1.0, abs(expected)):
        fail(
            f"the loss is {value:.9g}",
            f"{expected:.9g}, the value derived by hand",
            "fix the formula or the derivation",
        )
