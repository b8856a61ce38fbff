"""The checks of a loss. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from pricekit.testing.checks import link
from pricekit.testing.checks.link import WIDE, fitted
from pricekit.testing.models import seeded, stored_into
from pricekit.testing.runner import ByHand, Check, Make, fail, named, require_methods, shown
from pricekit.text import shorten


def checks(make: Make, by_hand: ByHand | None = None) -> list[Check]:
    """Return the checks; see `pricekit.testing.check_loss`."""
    found: dict[str, Callable[[Make], None]] = {
        "is a module with fit and to_price": _is_made,
        "buffers hold everything that fit learned": _holds_all,
        "a scalar with a gradient": _scalar,
        "a mean over rows and members": _mean,
        "gradcheck in float64": _gradcheck,
        "finite for prices from 0.01 to 1e6": _finite,
        "minimum at the true price": link.least,
        "prices are finite and positive": link.prices,
        "prices increase with the raw output": link.rising,
        "to_price exports": link.exports,
    }
    if by_hand is not None:
        found["the value derived by hand"] = partial(_by_hand, case=by_hand)
    return named(seeded(found), make)


def _example(rows: int, members: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return raw outputs and prices as training passes them: all members of a row share a price."""
    raw = torch.linspace(-2.1, 1.9, rows * members, dtype=dtype).reshape(rows, members)
    price = torch.logspace(-0.3, 2.9, rows, dtype=dtype)
    return raw, price[:, None].expand_as(raw)


def _is_made(make: Make) -> None:
    loss = make()
    require_methods(loss, "fit", "forward", "to_price")
    if not isinstance(loss, nn.Module):
        fail(
            f"{type(loss).__name__} is not a torch.nn.Module", "one", "derive the class from torch.nn.Module"
        )


def _holds_all(make: Make) -> None:
    loss, fresh = fitted(make), make()
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
    loss, (raw, price) = fitted(make), _example(4, 3)
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
    loss, (raw, price) = fitted(make), _example(6, 3)
    each = zip(raw.reshape(-1, 1, 1), price.reshape(-1, 1, 1), strict=True)
    expected = torch.stack([loss(*one) for one in each]).mean()
    found = loss(raw, price)
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-6):
        fail(
            f"the loss of 6 rows and 3 members is {found.item():.6g}",
            f"{expected.item():.6g}, the mean of the losses of the single raw outputs",
            "reduce by the mean: each member is a separate model, and a step may consist of several batches",
        )


def _gradcheck(make: Make) -> None:
    loss, (raw, price) = fitted(make, dtype=torch.float64), _example(4, 2, torch.float64)
    try:
        torch.autograd.gradcheck(lambda given: loss(given, price), raw.requires_grad_())
    except GradcheckError as error:
        fail(
            f"in float64, the gradient differs from the numerical one: {shorten(str(error), 200)}",
            "equal gradients",
            "fix a custom backward, and do not cast to float32",
        )


def _finite(make: Make) -> None:
    for fitted_on in (None, WIDE):
        loss = fitted(make, price=fitted_on)
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


def _by_hand(make: Make, case: ByHand) -> None:
    prices, raw, price, expected = case
    double = partial(torch.tensor, dtype=torch.float64)
    loss = fitted(make, dtype=torch.float64, price=double(prices))
    found = loss(double(raw)[:, None], double(price)[:, None]).item()
    if not abs(found - expected) <= 1e-6 * max(1.0, abs(expected)):
        fail(
            f"the loss is {found:.9g}",
            f"{expected:.9g}, the value derived by hand",
            "fix the formula or the derivation",
        )
