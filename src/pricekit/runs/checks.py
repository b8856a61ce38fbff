"""Checks before the first epoch: features that read leaks, values that are finite, one batch through every plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Backbone
from pricekit.errors import ConfigError, DataError, PluginError
from pricekit.features.fitted import FittedFeatures
from pricekit.model.inference import to_tensors
from pricekit.model.network import PriceModel
from pricekit.optim.policies import Quick
from pricekit.runs.split import ALLOW_LEAK
from pricekit.support.log import logger
from pricekit.support.mapped import rows_read
from pricekit.table import Table
from pricekit.training.batches import PricedInputs
from pricekit.training.session import Job

_SAMPLE_ROWS = 64
"""Number of rows whose features are recomputed with shuffled values of a leaking column."""

_CHECKED_ROWS = 1 << 16
"""Rows whose features are checked at once."""

_FROM_SCRATCH = frozenset({"lstm", "transformer"})
"""Backbones without pretrained weights for which the policy `scratch` has learning rates."""


def check_rates(config: RunConfig, backbone: Backbone) -> None:
    """Warn about an encoder that the policy `quick` would train with the learning rates of `bag`."""
    usual = Quick.defaults["training"]["learning_rate"]
    if config.policy.name != "quick" or config.training.learning_rate != usual:
        return
    pretrained = getattr(backbone, "weights_source", None) is not None  # plugins of others may lack it
    if pretrained or config.backbone.name in _FROM_SCRATCH:
        logger.warning(
            f"the policy quick has the learning rates of the backbone bag ({usual:g}), which are "
            f"{'far ' if pretrained else ''}too high for {config.backbone.name}; choose the policy "
            + ("blazing" if pretrained else "scratch")
        )


def check_feature_leaks(features: FittedFeatures, table: Table, leaks: tuple[str, ...]) -> None:
    """Raise DataError if a feature changes with a column that leaks the price.

    Args:
        features: fitted.
        table: training rows as features see them.
        leaks: columns that leak the price.
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    for name in leaks:
        if name not in sample.frame:
            continue
        other = sample.frame.assign(**{name: np.roll(sample.frame[name].to_numpy(object), 1)})
        other = other.astype({name: sample.frame[name].dtype})
        before, after = (features.transform(replace(sample, frame=frame)) for frame in (sample.frame, other))
        changed = (before != after).any(axis=0)
        if changed.any():
            names = ", ".join(np.array(features.names)[changed])
            raise DataError(
                f"the column '{name}' leaks the price, and the features {names} are computed from it. "
                f"Leave them out or drop the column, {ALLOW_LEAK}",
                parameters=("features", "allow_leak"),
                column=name,
            )


def check_inputs(rows: PricedInputs, names: Sequence[str]) -> None:
    """Raise DataError for a price or a feature that is not finite, whatever its plugin or its file says.

    Args:
        rows: N rows.
        names: of the K feature columns.
    """
    if not (np.isfinite(rows.price).all() and (rows.price > 0).all()):
        row = int(np.flatnonzero(~(np.isfinite(rows.price) & (rows.price > 0)))[0])
        raise DataError(f"row {row} has the price {rows.price[row]}; expected a finite one above 0", row=row)
    for start in range(0, len(rows.price), _CHECKED_ROWS):
        wrong = ~np.isfinite(rows.inputs.features[start : start + _CHECKED_ROWS])
        rows_read(len(wrong))
        if not wrong.any():
            continue
        row, column = map(int, np.argwhere(wrong)[0])
        row += start
        raise DataError(
            f"the feature column '{names[column]}' is not finite in row {row}; leave that feature out, or report it to "
            "its author",
            parameters=("features",),
            column=names[column],
            row=row,
        )


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
    name = config.loss.name
    with plugin_call("loss", name, "turning raw outputs into prices"):
        with torch.no_grad():
            prices = model(**batch)
        fits = isinstance(prices, Tensor) and prices.shape == (len(batch["features"]),)
        usable = fits and bool(prices.isfinite().all() and (prices > 0).all())
        _require(usable, "loss", name, "one finite, positive price per row from to_price", prices)
    with plugin_call("loss", name, "computing the loss of a batch"):
        if train.weight is not None and not callable(getattr(model.loss, "terms", None)):
            raise ConfigError(
                f"the loss '{name}' cannot weigh rows: it has no method terms(raw, price), which returns the loss of "
                "each row. Choose another loss, or leave the weights out",
                parameters=("weight", "loss"),
            )
        weight = None if train.weight is None else torch.from_numpy(train.weight[:ROWS].astype(np.float32))
        loss = model.train().training_loss(**batch, price=price, weight=weight)
        _require(loss.ndim == 0 and loss.requires_grad, "loss", name, "a scalar with a gradient", loss)
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
        usable = fits and bool(encoding.isfinite().all())
        _require(usable, "backbone", name, f"finite float32 of shape {shape}", encoding)
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
