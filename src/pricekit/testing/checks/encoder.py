"""The checks of an encoder's output. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pricekit.config import HeadConfig
from pricekit.core.contracts import Batch
from pricekit.engines.ort import load_cpu
from pricekit.model.inference import to_tensors, torch_engine
from pricekit.model.losses import smape
from pricekit.model.network import PriceModel
from pricekit.testing.data import FEATURES, difference
from pricekit.testing.models import LONGEST, ROWS, TOLERANCE, Built, build, export_bytes
from pricekit.testing.runner import Make, fail, shown

SPREAD = 4.0
"""The total size of the terms of a raw output; its rounding stays far below the tolerance."""

SHAPES = ((1, 1), (2, 7), (3, 17), (ROWS, LONGEST))


def output(make: Make) -> None:
    """The output has the right shape and dtype and is finite."""
    built = build(make)
    found, shape = built.encoding(), (len(built.batches[0][0]), built.encoder.hidden_size)
    if not isinstance(found, Tensor) or found.shape != shape or found.dtype != torch.float32:
        fail(
            f"the encoder returned {shown(found)}",
            f"float32 of shape {shape}",
            "pool over the tokens and return float32",
        )
    if not found.isfinite().all():
        row = int((~found.isfinite()).nonzero()[0, 0])
        fail(
            f"the encoding of {built.tokenizer.decode(built.batches[0][0][row].tolist())[:60]!r} is not finite",
            "finite numbers",
            "clamp divisors to at least 1",
        )


def padding(make: Make) -> None:
    """Padding, whatever its amount and ids, does not change the encoding."""
    built = build(make)
    ids, mask = built.batches[0]
    other = functional.pad(torch.where(mask > 0, ids, ids.flip(1)), (0, built.room), value=int(ids[0, 0]))
    with torch.no_grad():
        found = built.encoder(other, functional.pad(mask, (0, built.room)))
        alone = torch.cat([built.encoder(ids[i : i + 1, :n], mask[i : i + 1, :n]) for i, n in _lengths(mask)])
    fix = "apply attention_mask wherever tokens are mixed"
    changed = "with different ids and more padding where attention_mask is 0"
    _require_close(found, built.encoding(), changed, fix)
    _require_close(alone, built.encoding(), "without padding", fix)


def _lengths(mask: Tensor) -> Iterator[tuple[int, int]]:
    return enumerate(mask.sum(1).tolist())


def batch_sensitivity(make: Make) -> None:
    """A row alone has the encoding that it has in the batch; the length stays the same."""
    built = build(make)
    ids, mask = built.batches[0]
    with torch.no_grad():
        alone = torch.cat([built.encoder(ids[i : i + 1], mask[i : i + 1]) for i in range(len(ids))])
    fix = "compute no mean, norm or maximum over the rows of a batch"
    _require_close(alone, built.encoding(), "alone in a batch", fix)


def _require_close(found: Tensor, expected: Tensor, condition: str, fix: str) -> None:
    apart = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
    if not apart <= TOLERANCE:
        fail(
            f"{condition}, the encoding of a row differs by {apart:.2g} of the largest value",
            f"a difference of at most {TOLERANCE:g}",
            fix,
        )


def twice(make: Make) -> None:
    """Evaluation mode uses no random numbers."""
    built = build(make)
    if not torch.equal(built.encoding(), built.encoding()):
        fail(
            "in evaluation mode, the second call gives a different encoding",
            "bitwise equal encodings",
            "apply dropout and other randomness only if self.training",
        )


def exports(make: Make) -> None:
    """The exported graph gives the prices of the model, for many shapes, with and without padding."""
    built = build(make)
    model = PriceModel(built.encoder, HeadConfig(), smape(), FEATURES).eval()
    longest = built.batches[0][0].shape[1] + built.room
    _spread(model, _resized(built, ROWS, longest, padded=True))
    example = _resized(
        built, 3, max(2, min(17, longest)), padded=True
    )  # torch.export treats a length of 1 as a constant
    reference, graph = torch_engine(model), load_cpu(export_bytes(model, example), threads=1)
    for rows, length in SHAPES:
        for padded in (True, False):
            batch = _resized(built, rows, min(length, longest), padded=padded)
            apart = difference(graph(batch), reference(batch))
            if not apart <= TOLERANCE:
                fail(
                    f"for shape {batch['input_ids'].shape}, prices of ONNX Runtime and torch differ by {apart:.2g}",
                    f"a relative difference of at most {TOLERANCE:g}",
                    "let no Python number depend on batch size, length or values: tracing fixes it",
                )


def _resized(built: Built, rows: int, length: int, *, padded: bool) -> Batch:
    """Return the first batch, repeated or cut to a shape; without padding, every token counts."""
    ids, mask = (tensor.numpy() for tensor in built.batches[0])
    row, position = np.arange(rows) % len(ids), np.arange(length)
    live = position < mask[row].sum(1)[:, None] if padded else np.ones((rows, length), bool)
    return {
        "input_ids": ids[row][:, position % ids.shape[1]],
        "attention_mask": live.astype(np.int64),
        "features": np.zeros((rows, FEATURES), np.float32),
    }


@torch.no_grad()
def _spread(model: PriceModel, batch: Batch) -> None:
    """Scale the heads so that prices depend on the encoding: with new weights all prices may be nearly equal."""
    tensors = to_tensors(batch)
    encoding = model.encoder(tensors["input_ids"], tensors["attention_mask"])
    for head, group in zip(model.heads, encoding.chunk(model.members, 1), strict=True):
        last: Any = head[-1]  # type: ignore[index]
        weight = last.weight[0, : group.shape[1]]
        last.weight.mul_(SPREAD / (group.abs() @ weight.abs()).mean().clamp(min=1e-12))
        last.bias.copy_(-(group @ weight).mean())
