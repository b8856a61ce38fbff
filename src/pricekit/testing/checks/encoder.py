"""The checks of an encoder that encodes; this module imports torch."""

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
"""How large the terms of a raw output are together: its rounding stays far below the tolerance."""

SHAPES = ((1, 1), (2, 7), (3, 17), (ROWS, LONGEST))


def output(make: Make) -> None:
    """Shape, dtype and finite numbers."""
    built = build(make)
    found, shape = built.encoding(), (len(built.batches[0][0]), built.encoder.hidden_size)
    if not isinstance(found, Tensor) or found.shape != shape or found.dtype != torch.float32:
        fail(
            f"it returned {shown(found)}", f"float32 of shape {shape}", "pool over tokens, and end in float32"
        )
    if not found.isfinite().all():
        row = int((~found.isfinite()).nonzero()[0, 0])
        fail(
            f"the encoding of {built.tokenizer.decode(built.batches[0][0][row].tolist())[:60]!r} is not finite",
            "finite numbers",
            "divide by what is at least 1",
        )


def padding(make: Make) -> None:
    """More of it, and other ids where the mask is 0."""
    built = build(make)
    ids, mask = built.batches[0]
    other = functional.pad(torch.where(mask > 0, ids, ids.flip(1)), (0, built.room), value=int(ids[0, 0]))
    with torch.no_grad():
        found = built.encoder(other, functional.pad(mask, (0, built.room)))
        alone = torch.cat([built.encoder(ids[i : i + 1, :n], mask[i : i + 1, :n]) for i, n in _lengths(mask)])
    for what, again in (
        ("other ids and more of them where attention_mask is 0", found),
        ("no padding", alone),
    ):
        _require_close(
            again, built.encoding(), f"with {what} a row", "use attention_mask wherever tokens are mixed"
        )


def _lengths(mask: Tensor) -> Iterator[tuple[int, int]]:
    return enumerate(mask.sum(1).tolist())


def company(make: Make) -> None:
    """Each row alone, as long as it was in the batch."""
    built = build(make)
    ids, mask = built.batches[0]
    with torch.no_grad():
        alone = torch.cat([built.encoder(ids[i : i + 1], mask[i : i + 1]) for i in range(len(ids))])
    cure = "compute no mean, norm or maximum over the rows of a batch"
    _require_close(alone, built.encoding(), "alone a row", cure)


def _require_close(found: Tensor, expected: Tensor, what: str, cure: str) -> None:
    apart = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
    if not apart <= TOLERANCE:
        fail(f"{what} has another encoding, by {apart:.2g}", f"{TOLERANCE:g} of the largest at most", cure)


def twice(make: Make) -> None:
    """In evaluation mode nothing is drawn."""
    built = build(make)
    if not torch.equal(built.encoding(), built.encoding()):
        fail(
            "in evaluation mode the second call gives another encoding",
            "the same to the bit",
            "drop and draw only where self.training",
        )


def exports(make: Make) -> None:
    """The graph against the model, over shapes, padded and not."""
    built = build(make)
    model = PriceModel(built.encoder, HeadConfig(), smape(), FEATURES).eval()
    longest = built.batches[0][0].shape[1] + built.room
    _spread(model, _resized(built, ROWS, longest, padded=True))
    example = _resized(built, 3, max(2, min(17, longest)), padded=True)  # a length of 1 would be a constant
    reference, graph = torch_engine(model), load_cpu(export_bytes(model, example), threads=1)
    for rows, length in SHAPES:
        for padded in (True, False):
            batch = _resized(built, rows, min(length, longest), padded=padded)
            apart = difference(graph(batch), reference(batch))
            if not apart <= TOLERANCE:
                fail(
                    f"in ONNX Runtime a batch of shape {batch['input_ids'].shape} costs something else than in torch",
                    f"no difference above {TOLERANCE:g} of a price, not {apart:.2g}",
                    "let no Python number depend on batch, length or values: they are fixed when it is traced",
                )


def _resized(built: Built, rows: int, length: int, *, padded: bool) -> Batch:
    """Return rows of the first batch, repeated or cut to a shape; unpadded all their tokens count."""
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
    """Scale the heads so that prices depend on the encoding: new weights may give all texts about one price."""
    tensors = to_tensors(batch)
    encoding = model.encoder(tensors["input_ids"], tensors["attention_mask"])
    for head, group in zip(model.heads, encoding.chunk(model.members, 1), strict=True):
        last: Any = head[-1]  # type: ignore[index]
        weight = last.weight[0, : group.shape[1]]
        last.weight.mul_(SPREAD / (group.abs() @ weight.abs()).mean().clamp(min=1e-12))
        last.bias.copy_(-(group @ weight).mean())
