"""The graph against the model, on real rows; over tolerance is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.preprocess import Inputs
from pricekit.training.engine import torch_engine
from pricekit.training.model import PriceModel

TOLERANCE = 1e-4
"""The largest relative difference of a price that float32 is allowed."""

BATCH_SIZES = (1, 2, 7, 64)
LENGTHS = (1, 2, 17, 128)


@dataclass(frozen=True)
class Check:
    """The largest relative difference at one shape."""

    rows: int
    length: int
    difference: float


def verify_graph(model: PriceModel, graph: bytes, inputs: Inputs, max_length: int) -> list[Check]:
    """Compare the graph in ONNX Runtime with the model in torch over many shapes.

    Args:
        model: the reference, float32.
        graph: the contents of the exported file.
        inputs: real rows, at least one; repeated where there are fewer than a batch holds.
        max_length: the longest length that is checked.

    Returns:
        One check a shape, all within tolerance.

    Raises:
        ExportError: a price differs by more than 1e-4, or is not finite, or not positive.
    """
    reference, engine = torch_engine(model), load_cpu(graph)
    checks = [_check(reference, engine, batch) for batch in _shapes(inputs, max_length)]
    worst = max(checks, key=lambda check: check.difference)
    if not worst.difference <= TOLERANCE:
        failed = [c for c in checks if not c.difference <= TOLERANCE]
        raise ExportError(
            f"the exported graph differs from the model at {len(failed)} of {len(checks)} shapes, most at "
            f"({worst.rows}, {worst.length}): relative difference {worst.difference:.2g}, at most {TOLERANCE:g} is "
            "allowed. Nothing was published; the backbone's encoder does not export exactly, report it to its author"
        )
    return checks


def _shapes(inputs: Inputs, max_length: int) -> Iterator[Batch]:
    """Yield batches of real rows at every size and length, as they are and padded beyond their own length."""
    for size in BATCH_SIZES:
        batch = inputs.batch(np.arange(size) % len(inputs))
        for length in sorted({min(n, max_length) for n in (*LENGTHS, max_length)}):
            yield fit_length(batch, length, inputs.pad_id)
        yield batch


def fit_length(batch: Batch, length: int, pad_id: int) -> Batch:
    """Cut or pad a batch to a length."""
    missing = max(0, length - batch["input_ids"].shape[1])
    ids, mask = (
        np.pad(batch[name][:, :length], ((0, 0), (0, missing)), constant_values=fill)
        for name, fill in (("input_ids", pad_id), ("attention_mask", 0))
    )
    return {"input_ids": ids, "attention_mask": mask, "features": batch["features"]}


def _check(reference: PriceBatch, engine: PriceBatch, batch: Batch) -> Check:
    expected, found = reference(batch).astype(np.float64), engine(batch).astype(np.float64)
    usable = found.shape == expected.shape and np.isfinite(found).all() and (found > 0).all()
    difference = float(np.max(np.abs(found - expected) / expected)) if usable else float("inf")
    rows, length = batch["input_ids"].shape
    return Check(rows, length, difference)
