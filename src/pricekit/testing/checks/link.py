"""The checks of the link from raw output to price in a loss. Imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pricekit.engines.ort import load_cpu
from pricekit.testing.data import batch, difference, ordinary_prices
from pricekit.testing.models import export_bytes, small_model
from pricekit.testing.runner import Make, fail, shown

WIDE = torch.logspace(-2, 6, 33, dtype=torch.float64)
EXPORT_TOLERANCE = 1e-4
NEIGHBOURS = (-3.0, -1.0, -0.3, -0.05, 0.05, 0.3, 1.0, 3.0)
FARTHEST = 2.0**30


def fitted(make: Make, *, dtype: torch.dtype = torch.float32, price: Tensor | None = None) -> Any:
    """Return a new loss, fitted to the given prices or to ordinary ones."""
    loss = make().to(dtype)
    loss.fit(torch.from_numpy(ordinary_prices()) if price is None else price)
    return loss


def prices(make: Make) -> None:
    """The price is finite and positive for any raw output and any training prices."""
    raw = torch.tensor([-1e4, -30.0, -3.0, 0.0, 3.0, 30.0, 1e4])
    for fitted_on in (None, WIDE, torch.full((9,), 7.0, dtype=torch.float64)):
        loss = fitted(make, price=fitted_on)
        for given in (raw, raw[:1]):
            found = loss.to_price(given)
            if not isinstance(found, Tensor) or found.shape != given.shape or found.dtype != torch.float32:
                fail(
                    f"to_price returned {shown(found)} for {shown(given)}",
                    "one float32 price per raw output",
                    "keep shape and dtype of the input",
                )
            if not (found.isfinite().all() and (found > 0).all()):
                fail(
                    f"to_price returned {found.tolist()} for {given.tolist()}",
                    "finite, positive prices, also if all training prices are equal",
                    "clamp the log price before the exponential, and the scale away from 0",
                )


def rising(make: Make) -> None:
    """A higher raw output gives a higher price, so every price has a single raw output."""
    found = fitted(make).to_price(torch.linspace(-3, 3, 61))
    if not (found.diff() > 0).all():
        place = int((found.diff() <= 0).nonzero()[0])
        fail(
            f"to_price returned {found[place : place + 2].tolist()} for the raw outputs {-3 + place / 10:.1f} and "
            f"{-2.9 + place / 10:.1f}",
            "a higher price for a higher raw output",
            "make the link strictly increasing",
        )


def least(make: Make) -> None:
    """The loss is smallest at the raw output that to_price maps to the true price."""
    loss = fitted(make, dtype=torch.float64)
    given = torch.from_numpy(np.quantile(ordinary_prices(), [0.05, 0.3, 0.5, 0.7, 0.95]))
    for price, truth in zip(given, _raw_of(loss, given), strict=True):
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


def _raw_of(loss: Any, given: Tensor) -> Tensor:
    """Return the raw outputs that to_price maps to the prices, by bisection."""
    low, high = -torch.ones_like(given), torch.ones_like(given)
    while (loss.to_price(low) > given).any() or (loss.to_price(high) < given).any():
        low, high = 2 * low, 2 * high
        if high[0] > FARTHEST:
            fail(
                f"no raw output gives the price {float(given[0]):.4g} or {float(given[-1]):.4g}",
                "that to_price can return every price it was fitted on",
                "derive the range of to_price from the training prices",
            )
    for _ in range(100):
        middle = (low + high) / 2
        below = loss.to_price(middle) < given
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def exports(make: Make) -> None:
    """to_price gives the same prices in the exported graph as in torch."""
    model = small_model(fitted(make)).eval()
    raw = np.linspace(-8, 8, 17, dtype=np.float32)
    rows = {**batch(len(raw), 5)}
    rows["features"][:, 0] = np.sign(raw) * np.expm1(np.abs(raw))  # the signed log restores raw
    with torch.no_grad():
        last: Any = model.heads[0]
        last[0].weight.zero_()[0, model.encoder.hidden_size] = 1.0
        last[0].bias.zero_()
        expected = model(**{name: torch.from_numpy(array) for name, array in rows.items()}).numpy()
    found = load_cpu(export_bytes(model, rows), threads=1)(rows)
    if not difference(found, expected) <= EXPORT_TOLERANCE:
        fail(
            f"in ONNX Runtime, to_price returns {found.tolist()} for the raw outputs {raw.tolist()}",
            f"the prices of torch, {expected.tolist()}",
            "use only tensor operations in to_price, and no Python number that depends on their values",
        )
