"""The checks of a loss and of its link from raw output to price. Imports torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from pricekit.core.contracts import Loss
from pricekit.nets.inference import torch_engine
from pricekit.nets.losses import raw_outputs, undeclared_aim
from pricekit.predict.ort import load_cpu
from pricekit.table import Table
from pricekit.testing.data import batch, difference, ordinary_prices
from pricekit.testing.models import export_bytes, small_model, stored_into
from pricekit.testing.runner import ByHand, Checks, Make, fail, is_float32, require_methods, shown
from pricekit.wording import shorten

WIDE = torch.logspace(-2, 6, 33, dtype=torch.float64)
CALLS = 1_000
"""Calls that must not change the values of a loss: a resumed training would count from 0 again."""

EXPORT_TOLERANCE = 1e-4
NEIGHBOURS = (-3.0, -1.0, -0.3, -0.05, 0.05, 0.3, 1.0, 3.0)
MANY = 512
"""The most prices of a table that are checked one by one."""


def checks(by_hand: ByHand | None = None, table: Table | None = None) -> Checks:
    """Return the checks; see `pricekit.testing.check_loss`."""
    prices = torch.from_numpy(ordinary_prices())
    if table is not None and table.price is not None:
        prices = torch.from_numpy(table.known_price)
    on_prices = {
        "the same value twice": _twice,
        "buffers hold everything that fit learned": _holds_all,
        "a scalar with a gradient": _scalar,
        "terms are (B, M), and forward is their mean": _terms,
        "a term depends on its row alone": _alone,
        "gradcheck in float64": _gradcheck,
        "finite for prices from 0.01 to 1e6": _finite,
        "minimum at the true price": _least,
        "prices are finite and positive": _prices,
        "prices increase with the raw output": _rising,
        "to_price exports": _exports,
    }
    checks: Checks = {
        "is a module with terms and to_price": _is_made,
        **{name: partial(check, prices=prices) for name, check in on_prices.items()},
        "aims at a central price, or says that it does not": _central,
    }
    if by_hand is not None:
        checks["the value derived by hand"] = partial(_by_hand, case=by_hand)
    return checks


def _fitted(make: Make, prices: Tensor, dtype: torch.dtype = torch.float32) -> Any:
    """Return a new loss, fitted to prices, float64 (N,)."""
    loss = make().to(dtype)
    loss.fit(prices.clone())
    return loss


def _example(rows: int, members: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return raw outputs and prices as training passes them: all members of a row share a price."""
    raw = torch.linspace(-2.1, 1.9, rows * members, dtype=dtype).reshape(rows, members)
    price = torch.logspace(-0.3, 2.9, rows, dtype=dtype)
    return raw, price[:, None].expand_as(raw)


def _is_made(make: Make) -> None:
    loss = make()
    own: Any = type(loss)
    if not isinstance(loss, nn.Module):
        fail(f"{own.__name__} is not a torch.nn.Module", "one", "derive the class from torch.nn.Module")
    if own.terms is Loss.terms and own.forward is not Loss.forward:
        fail(
            f"{own.__name__} defines forward, but not terms",
            "terms(raw, price), the loss of each raw output, (B, M), which row weights multiply",
            "rename forward to terms, and leave out its mean: forward is the mean of terms",
        )
    require_methods(loss, "terms", "to_price")


def _twice(make: Make, prices: Tensor) -> None:
    """The same arguments give the same values, whatever was computed before and whatever the mode is."""
    loss, (raw, price) = _fitted(make, prices), _example(6, 3)
    before, results = raw.clone(), []
    with torch.no_grad():
        for calls, training in ((0, True), (0, True), (0, False), (CALLS, True)):
            loss.train(training)
            for _ in range(calls):
                loss(raw, price)
            results.append((loss.terms(raw, price), loss(raw, price), loss.to_price(raw[:, 0])))
    if not torch.equal(raw, before):
        fail("the loss changes the raw outputs that it gets", "no change", "use no operation in place on raw")
    places = ("the second call", "evaluation mode", f"call {CALLS:,}")
    for again, when in zip(results[1:], places, strict=True):
        for name, value, first in zip(("terms", "forward", "to_price"), again, results[0], strict=True):
            if not torch.equal(value, first):
                fail(
                    f"{name} gives another value in {when} than in the first call, in training mode",
                    "equal values",
                    "do not use random numbers, self.training or anything that an earlier call stored",
                )


def _holds_all(make: Make, prices: Tensor) -> None:
    _twice(make, prices)  # a value that differs each time is not the fault of buffers
    loss, fresh, (raw, price) = _fitted(make, prices), make(), _example(4, 1)
    expected = loss(raw, price), loss.to_price(raw[:, 0])
    _fitted(make, 3 * prices)  # another model of the same process
    stored_into(fresh, loss)
    if not all(map(torch.equal, (fresh(raw, price), fresh.to_price(raw[:, 0])), expected)):
        fail(
            "a new loss with the weights and buffers of the fitted loss gives different values",
            "equal values, because opening a model restores only weights and buffers",
            "store what fit learns in buffers, not in the module, the class or an attribute: "
            "self.register_buffer('mean', torch.zeros(())) in __init__, then self.mean.fill_(...) in fit",
        )


def _scalar(make: Make, prices: Tensor) -> None:
    loss, (raw, price) = _fitted(make, prices), _example(4, 3)
    raw.requires_grad_()
    value = loss(raw, price)
    if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
        fail(
            f"the loss is {shown(value)}",
            "a scalar with a gradient",
            "compute it from raw with differentiable operations, without item() and detach()",
        )
    value.backward()  # type: ignore[no-untyped-call]
    if raw.grad is None or not raw.grad.isfinite().all() or not raw.grad.any():
        fail(
            f"the gradient is {None if raw.grad is None else raw.grad.tolist()}",
            "finite values, not all 0",
            "compute the loss from raw with differentiable operations",
        )


def _terms(make: Make, prices: Tensor) -> None:
    loss, (raw, price) = _fitted(make, prices), _example(6, 3)
    terms = loss.terms(raw, price)
    if not is_float32(terms, Tensor, tuple(raw.shape)):
        fail(
            f"terms returned {shown(terms)} for {shown(raw)}",
            "float32 of the shape of raw, (B, M)",
            "return the loss of each raw output without a mean or a sum; keep the dtype of raw",
        )
    value, expected = loss(raw, price), terms.mean()
    if not torch.allclose(value, expected, rtol=1e-4, atol=1e-6):
        fail(
            f"forward returned {value.item():.6g} for 6 rows and 3 members",
            f"{expected.item():.6g}, the mean of terms",
            "leave out forward, or return the mean: a step may consist of several batches",
        )


def _alone(make: Make, prices: Tensor) -> None:
    loss, (raw, price) = _fitted(make, prices), _example(6, 3)
    terms = loss.terms(raw, price)
    each = zip(raw.reshape(-1, 1, 1), price.reshape(-1, 1, 1), strict=True)
    alone = torch.stack([loss.terms(*one).flatten()[0] for one in each]).reshape(6, 3)
    if not torch.allclose(terms, alone, rtol=1e-4, atol=1e-6):
        row = int((terms - alone).abs().amax(1).argmax())
        fail(
            f"the terms of a row are {terms[row].tolist()} in a batch and {alone[row].tolist()} alone",
            "the same values",
            "compute no mean, deviation or rank over the rows or members: learn them in fit",
        )


def _gradcheck(make: Make, prices: Tensor) -> None:
    loss, (raw, price) = _fitted(make, prices, torch.float64), _example(4, 2, torch.float64)
    try:
        torch.autograd.gradcheck(lambda outputs: loss(outputs, price), raw.requires_grad_())
    except GradcheckError as error:
        fail(
            f"in float64, the gradient differs from the numerical one: {shorten(str(error), 200)}",
            "equal gradients",
            "fix a custom backward, detach nothing, and do not cast to float32",
        )


def _finite(make: Make, prices: Tensor) -> None:
    """Terms and gradients are finite for all prices and raw outputs, and where the price is exactly right."""
    few = torch.from_numpy(np.unique(prices))
    few = few[torch.linspace(0, len(few) - 1, min(MANY, len(few))).long()]
    for fitted_on, checked in ((prices, WIDE), (WIDE, WIDE), (prices, few)):
        loss = _fitted(make, fitted_on)
        right = raw_outputs(loss, checked).float().nan_to_num(0.0)[:, None]
        raw = torch.cat([torch.linspace(-30, 30, 61).expand(len(checked), -1), right], 1).requires_grad_()
        terms = loss.terms(raw, checked.float()[:, None].expand_as(raw))
        (gradient,) = torch.autograd.grad(terms.sum(), raw)
        for name, values in (("term", terms), ("gradient", gradient)):
            wrong = (~values.isfinite()).nonzero().tolist()
            if wrong:
                row, column = wrong[0]
                fail(
                    f"{len(wrong)} of the {name}s are not finite, first {values[row, column].item()} at the price "
                    f"{checked[row]:.4g} and the raw output {raw[row, column].item():.4g}",
                    "finite values for prices from 0.01 to 1e6 and raw outputs from -30 to 30, also where the price is "
                    "exactly right",
                    "compute with log prices, clamp what a logarithm or an exponential gets, and take no root of 0",
                )


def _least(make: Make, prices: Tensor) -> None:
    """A term is smallest at the raw output that to_price maps to the true price."""
    loss = _fitted(make, prices, torch.float64)
    actual = torch.from_numpy(np.quantile(prices, [0, 0.05, 0.3, 0.5, 0.7, 0.95, 1]))
    raw = raw_outputs(loss, actual)
    if raw.isnan().any():
        fail(
            f"no raw output gives the price {float(actual[raw.isnan()][0]):.4g}",
            "that to_price can return every price it was fitted on",
            "derive the range of to_price from the training prices, or clamp to a wider one",
        )
    for price, truth in zip(actual, raw, strict=True):
        best = loss.terms(truth[None, None], price[None, None]).item()
        for offset in NEIGHBOURS:
            value = loss.terms((truth + offset)[None, None], price[None, None]).item()
            if not value >= best - 1e-6 * max(1.0, abs(best)):
                fail(
                    f"for the price {float(price):.4g} the loss is {best:.6g} at its raw output, "
                    f"but {value:.6g} at that output {offset:+}",
                    "the minimum at the true price",
                    "let terms and to_price share one link from raw output to price, and check the sign",
                )


def _prices(make: Make, prices: Tensor) -> None:
    """The price is finite and positive for any raw output and any training prices."""
    raw = torch.tensor([-1e4, -30.0, -3.0, 0.0, 3.0, 30.0, 1e4])
    for fitted_on in (prices, WIDE, torch.full((9,), 7.0, dtype=torch.float64)):
        loss = _fitted(make, fitted_on)
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


def _rising(make: Make, prices: Tensor) -> None:
    """A higher raw output gives a higher price, so every price has a single raw output."""
    raw = torch.linspace(-3, 3, 6001)
    price = _fitted(make, prices).to_price(raw)
    if not (price.diff() > 0).all():
        place = int((price.diff() <= 0).nonzero()[0])
        fail(
            f"to_price returned {price[place : place + 2].tolist()} for the raw outputs {raw[place]:.3f} and "
            f"{raw[place + 1]:.3f}",
            "a higher price for a higher raw output",
            "make the link strictly increasing, without rounding and without a clamp at prices that occur",
        )


def _central(make: Make) -> None:
    loss = make()
    if (quantile := undeclared_aim(loss)) is not None:
        fail(
            f"{type(loss).__name__} aims at the quantile {quantile:.2f} of the price, but its `central` is True",
            "a central price: a mean, a median or near them",
            "write central = False in the class, so that no feature's own estimate of the price is mixed in",
        )


def _exports(make: Make, prices: Tensor) -> None:
    """to_price gives the same prices in the exported graph as in torch."""
    model = small_model(_fitted(make, prices))
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
    loss = _fitted(make, double(prices), torch.float64)
    value = loss(double(raw)[:, None], double(price)[:, None]).item()
    if not abs(value - expected) <= 1e-6 * max(1.0, abs(expected)):
        fail(
            f"the loss is {value:.9g}",
            f"{expected:.9g}, the value derived by hand",
            "fix the formula or the derivation",
        )
