"""Runs one batch through every plugin before the first epoch, so that a faulty one costs seconds, not a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.errors import PluginError
from pricekit.model.inference import to_tensors
from pricekit.model.network import PriceModel
from pricekit.training.session import Job

ROWS = 8
PADDED = 5
PADDING_TOLERANCE = 1e-4


def check_plugins(job: Job) -> None:
    """Run encoder, loss and optimizer on a few training rows; the model's weights and buffers stay the same.

    Raises:
        PluginError: a plugin breaks its contract; names the plugin.
    """
    model, config, train = job.model, job.config, job.train
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = to_tensors(train.inputs.batch(np.arange(min(ROWS, len(train.price)))))
    price = torch.from_numpy(train.price[:ROWS].astype(np.float32))
    with plugin_call("backbone", config.backbone.name, "encoding a batch"):
        _check_encoder(model.eval(), config, batch)
    with plugin_call("loss", config.loss.name, "turning raw outputs into prices"):
        _check_prices(model, config.loss.name, batch)
    with plugin_call("loss", config.loss.name, "computing the loss of a batch"):
        loss = model.train().training_loss(**batch, price=price)
        _require(
            loss.ndim == 0 and loss.requires_grad, "loss", config.loss.name, "a scalar with a gradient", loss
        )
        loss.backward()  # type: ignore[no-untyped-call]
    with plugin_call("policy", config.policy.name, "taking an optimizer step on this backbone"):
        job.policy.optimizer(model, config.training, fused=True).step()
    model.zero_grad(set_to_none=True)
    model.load_state_dict(saved)


def _check_encoder(model: PriceModel, config: RunConfig, batch: dict[str, Tensor]) -> None:
    name, room = config.backbone.name, max(0, min(PADDED, config.max_length - 1))
    ids, mask = (batch[key][:, : config.max_length - room] for key in ("input_ids", "attention_mask"))
    encoder: Any = model.encoder
    with torch.no_grad():
        encoding = encoder(ids, mask)
        shape = (len(ids), encoder.hidden_size)
        fits = isinstance(encoding, Tensor) and encoding.shape == shape and encoding.dtype == torch.float32
        _require(
            fits and bool(encoding.isfinite().all()),
            "backbone",
            name,
            f"finite float32 of shape {shape}",
            encoding,
        )
        # More padding, and other ids where the mask is 0, must not change the encoding.
        padded = torch.nn.functional.pad(
            torch.where(mask > 0, ids, ids.flip(1)), (0, room), value=int(ids[0, 0])
        )
        again = encoder(padded, torch.nn.functional.pad(mask, (0, room)))
    difference = float((again - encoding).abs().max() / encoding.abs().max().clamp(min=1e-6))
    if not difference <= PADDING_TOLERANCE:
        raise PluginError(
            f"the encoding of the backbone '{name}' depends on padding (relative difference {difference:.2g} for "
            "other ids where attention_mask is 0), so a price would depend on the other rows of its batch; report it "
            "to the plugin's author"
        )


def _check_prices(model: PriceModel, name: str, batch: dict[str, Tensor]) -> None:
    with torch.no_grad():
        prices = model(**batch)
    fits = isinstance(prices, Tensor) and prices.shape == (len(batch["features"]),)
    usable = fits and bool(prices.isfinite().all() and (prices > 0).all())
    _require(usable, "loss", name, "one finite, positive price per row from to_price", prices)


def _require(good: bool, kind: str, name: str, expected: str, found: object) -> None:
    if not good:
        shape = (
            f"{found.dtype} of shape {tuple(found.shape)}"
            if isinstance(found, Tensor)
            else type(found).__name__
        )
        raise PluginError(
            f"the {kind} '{name}' returned {shape}, expected {expected}; report it to the plugin's author"
        )
