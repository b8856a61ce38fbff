"""The graph against the model, on real rows; over tolerance is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.engines.loaded import batches_of
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting.tensors import first_difference, tokens_of, worst_piece
from pricekit.metrics import smape
from pricekit.model.inference import torch_engine
from pricekit.model.network import PriceModel
from pricekit.preprocess import Inputs
from pricekit.progress import tracked
from pricekit.text import counted

BATCH_SIZES = (1, 2, 7, 64)
LENGTHS = (1, 2, 17, 128)
ALONE = 64
"""Rows that are also priced alone."""


@dataclass(frozen=True)
class Limits:
    """What a precision is allowed.

    Attributes:
        difference: of a price from the model's in torch float32, relative.
        smape: change of SMAPE on the sample rows, in points.
        company: of a row's price alone from its price among others, relative; None where it is only measured.
    """

    difference: float
    smape: float
    company: float | None


LIMITS = {
    "fp32": Limits(1e-4, 1e-4, 1e-5),
    "fp16": Limits(2e-2, 0.05, 2e-2),
    "int8": Limits(0.5, 0.3, None),
}


@dataclass(frozen=True)
class Check:
    """The largest relative difference at one shape."""

    rows: int
    length: int
    difference: float


@dataclass(frozen=True)
class Report:
    """What a graph was found to be.

    Attributes:
        checks: one for each shape.
        rows: the largest relative difference of a sample row's price.
        smape_change: in points, on the sample rows; 0 where these have no prices.
        company: the largest relative difference between a row's price alone and among others.
        company_sd: the same of log prices, as a share of their standard deviation over the rows.
    """

    checks: list[Check]
    rows: float
    smape_change: float
    company: float
    company_sd: float


def verify_graph(
    model: PriceModel,
    graph: bytes,
    inputs: Inputs,
    max_length: int,
    price: np.ndarray | None = None,
    *,
    precision: str = "fp32",
    float32: bytes = b"",
) -> Report:
    """Compare the graph in ONNX Runtime with the model in torch over many shapes and rows.

    Args:
        model: the reference, float32.
        graph: the contents of the exported file.
        inputs: real rows, at least one; repeated where there are fewer than a batch holds.
        max_length: the longest length that is checked.
        price: true prices of the rows, (N,).
        precision: of the graph; a key of LIMITS.
        float32: the graph before it was converted, to find the node at fault.

    Raises:
        ExportError: over a limit, a price is not finite or not positive, or the graph fails at a shape.
    """
    limits, reference, engine = LIMITS[precision], torch_engine(model), load_cpu(graph)
    with tracked(f"checking the {precision} graph", list(shapes(inputs, max_length)), tokens_of) as batches:
        found = [(_check(reference, engine, batch, precision), batch) for batch in batches]
    worst, batch = max(found, key=lambda pair: pair[0].difference)
    if not worst.difference <= limits.difference:
        failed = [check for check, _ in found if not check.difference <= limits.difference]
        few = worst_piece(batch, reference(batch), engine(batch))
        node = first_difference(float32, graph, few, limits.difference) if float32 else None
        where = f"; it begins at the node {node.name} ({node.op_type})" if node else ""
        raise ExportError(
            f"the exported {precision} graph differs from the model at {len(failed)} of {len(found)} shapes, most at "
            f"({worst.rows}, {worst.length}): relative difference {worst.difference:.2g}, at most "
            f"{limits.difference:g} is allowed{where}. Nothing was published; {_advice(precision)}"
        )
    expected, priced = (_prices(prices, inputs) for prices in (reference, engine))
    apart = np.abs(priced - expected) / expected
    if not apart.max() <= limits.difference:
        raise ExportError(
            f"the {precision} graph prices {int((~(apart <= limits.difference)).sum())} of {len(inputs)} sample rows "
            f"otherwise than the model: relative difference up to {apart.max():.2g}, at most {limits.difference:g} is "
            f"allowed. Nothing was published; {_advice(precision)}"
        )
    change = 0.0 if price is None else abs(smape(expected, price) - smape(priced, price))
    company, company_sd = _company(engine, inputs, max_length)
    if not change <= limits.smape:
        raise ExportError(
            f"the {precision} graph changes SMAPE on the run's sample rows by {change:.3g} points, at most "
            f"{limits.smape:g} is allowed. Nothing was published; {_advice(precision)}"
        )
    if limits.company is not None and not company <= limits.company:
        raise ExportError(
            f"in the {precision} graph a row's price depends on the rows beside it: relative difference {company:.2g}, "
            f"at most {limits.company:g} is allowed. Nothing was published; {_advice(precision)}"
        )
    return Report([check for check, _ in found], float(apart.max()), change, company, company_sd)


def fit_length(batch: Batch, length: int, pad_id: int) -> Batch:
    """Cut or pad a batch to a length."""
    missing = max(0, length - batch["input_ids"].shape[1])
    ids, mask = (
        np.pad(batch[name][:, :length], ((0, 0), (0, missing)), constant_values=fill)
        for name, fill in (("input_ids", pad_id), ("attention_mask", 0))
    )
    return {"input_ids": ids, "attention_mask": mask, "features": batch["features"]}


def shapes(inputs: Inputs, max_length: int) -> Iterator[Batch]:
    """Yield batches of real rows at every size and length, as they are and padded beyond their own length."""
    for size in BATCH_SIZES:
        batch = inputs.batch(np.arange(size) % len(inputs))
        for length in sorted({min(n, max_length) for n in (*LENGTHS, max_length)}):
            yield fit_length(batch, length, inputs.pad_id)
        yield batch


def _check(reference: PriceBatch, engine: PriceBatch, batch: Batch, precision: str) -> Check:
    rows, length = batch["input_ids"].shape
    expected = reference(batch).astype(np.float64)
    try:
        found = engine(batch).astype(np.float64)
    except Exception as error:  # onnxruntime's own, which name the node
        said = " ".join(str(error).split())[:300]
        raise ExportError(
            f"the {precision} graph cannot price {counted(rows, 'row')} of {counted(length, 'token')}: {said}. "
            f"Nothing was published; {_advice(precision)}"
        ) from error
    usable = found.shape == expected.shape and all(
        np.isfinite(p).all() and (p > 0).all() for p in (found, expected)
    )
    difference = float(np.max(np.abs(found - expected) / expected)) if usable else float("inf")
    return Check(rows, length, difference)


def _prices(engine: PriceBatch, inputs: Inputs) -> np.ndarray:
    """Return the price of every row, float64 (N,)."""
    found = np.empty(len(inputs))
    for rows, batch in batches_of(inputs):
        found[rows] = engine(batch)
    return found


def _company(engine: PriceBatch, inputs: Inputs, max_length: int) -> tuple[float, float]:
    """Return how much a price depends on the rows beside it: relative, and as a share of the log prices' sd."""
    rows = np.arange(min(ALONE, len(inputs)))
    alone = np.concatenate([engine(inputs.batch(rows[i : i + 1])) for i in range(len(rows))])
    shuffled = np.random.default_rng(0).permutation(rows)
    among = np.empty_like(alone)
    among[shuffled] = engine(inputs.batch(shuffled))
    padded = engine(fit_length(inputs.batch(rows), max_length, inputs.pad_id))
    difference = np.maximum(np.abs(np.log(among / alone)), np.abs(np.log(padded / alone)))
    spread = float(np.log(alone).std())
    return float(np.expm1(difference.max())), float(difference.max() / spread) if spread > 0 else 0.0


def _advice(precision: str) -> str:
    if precision == "fp32":
        return "the backbone's encoder does not export exactly, report it to its author"
    return "export it as fp32"
