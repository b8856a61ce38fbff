"""Converting the float32 graph to another precision, with the nodes in float32 that float16 would break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting.float16 import LARGEST, simulate_float16, to_float16
from pricekit.exporting.int8 import to_int8
from pricekit.exporting.intermediates import (
    MASKING,
    first_difference,
    largest_magnitude,
    peaks,
    token_count,
    worst_piece,
)
from pricekit.exporting.rows import PricedOnce
from pricekit.exporting.skeleton import Stored, in_file, open_graph, read_graph, with_values, without_weights
from pricekit.support.causes import raise_outside_cause
from pricekit.support.log import logger
from pricekit.support.progress import tracked
from pricekit.support.text import shorten

SMALLER = 0.9
"""A graph in int8 is expected to have at most this part of the size in float32."""

SAFE = LARGEST / 2
"""A tensor within a factor of two of the largest float16 stays in float32: other rows may exceed it."""

TOLERANCE = 1e-2
"""Relative difference of prices and intermediate tensors that causes a repair."""

MAX_REPAIRS = 20
"""Then the graph is taken as it is; its verification decides."""

LINK = frozenset({"Exp", "Clip", "Add", "Sub", "Mul", "Div"})
"""Operations between the heads and the price."""


@dataclass(frozen=True)
class Converted:
    """A graph in another precision.

    Attributes:
        model: the graph.
        simulated: a graph that computes on a CPU what `model` computes on its target hardware, or its file.
        float32_nodes: names of the nodes that stay in float32 because float16 would overflow or underflow.
        engine: prices batches with `simulated`, and knows the prices of the conversion; None: it is not loaded.
    """

    model: bytes
    simulated: Stored
    float32_nodes: list[str]
    engine: PricedOnce | None = None


def convert(model: Stored, precision: str, batches: Sequence[Batch]) -> Converted:
    """Return a float32 graph in another precision; inputs and output keep their types.

    Args:
        model: the float32 graph.
        precision: fp32, fp16 or int8.
        batches: real rows, to find values that overflow, or the ranges of values.

    Raises:
        ExportError: the converter fails.
    """
    if precision == "fp32":
        whole = read_graph(model)
        return Converted(whole, whole, [])
    try:
        if precision == "fp16":
            return _to_fp16(model, batches)
        whole = read_graph(model)
        converted = to_int8(whole, batches)
        if len(converted) > SMALLER * len(whole):
            logger.warning(
                "in int8 the graph is no smaller: it has no products of tokens, and 8 bits are too coarse for its "
                "tables, so they stay in float32; fp16 makes it smaller"
            )
        return Converted(converted, converted, [])
    except Exception as error:
        raise_outside_cause(error)
        reason = shorten(f"{type(error).__name__}: {error}", 300)
        raise ExportError(
            f"the graph cannot be converted to {precision} ({reason}). Nothing was published; export it as fp32",
            parameters=("precision",),
            precision=precision,
        ) from error


def _to_fp16(model: Stored, batches: Sequence[Batch]) -> Converted:
    """Convert the nodes that neither overflow nor underflow on the batches."""
    magnitudes, expected = peaks(model, batches)
    graph = open_graph(model)
    large = {name for name, value in magnitudes.items() if SAFE < value < MASKING}
    large |= {
        tensor.name
        for tensor in graph.graph.initializer
        if SAFE < _largest(with_values(tensor, model)) < MASKING
    }
    kept = {node.name for node in graph.graph.node if large & {*node.input, *node.output}} | _range_critical(
        graph
    )
    graph = without_weights(graph)
    waiting = list(batches)
    for left in reversed(range(MAX_REPAIRS + 1)):
        half, simulated = _halved(model, kept)
        engine = PricedOnce(partial(load_cpu, simulated, threads=1))
        found = _first_wrong(model, simulated, engine, expected, waiting) if left else None
        if found is None:
            break
        wrong, at = found
        kept |= _nodes_to_keep(graph, wrong, kept)
        waiting = waiting[at:] + waiting[:at]  # the repaired batch first
    names = [node.name for node in graph.graph.node if node.name in kept]
    return Converted(half, simulated, names, engine)


def _halved(model: Stored, kept: set[str]) -> tuple[bytes, Stored]:
    """Return the graph in float16, and its simulation, in a file if the graph is in one."""
    half = to_float16(model, kept)
    simulated: Stored = simulate_float16(half).SerializeToString()
    if isinstance(model, Path):
        simulated = in_file(simulated, model.with_name("simulated.onnx"))
    return half.SerializeToString(), simulated


def _range_critical(graph: onnx.ModelProto) -> set[str]:
    """Return the nodes that may overflow for other rows: those that read only features, and those that compute prices.

    A feature is unbounded until it is squashed and clamped, and the price is an exponential.
    """
    constants, of_features = {tensor.name for tensor in graph.graph.initializer} | {""}, {"features"}
    kept: set[str] = set()
    makers: dict[str, onnx.NodeProto] = {}
    reads: dict[str, list[str]] = {}
    for node in graph.graph.node:
        reads[node.name] = varying = [name for name in node.input if name not in constants]
        makers |= dict.fromkeys(node.output, node)
        if not varying:
            constants |= set(node.output)
        elif of_features.issuperset(varying):
            of_features |= set(node.output)
            kept.add(node.name)
    name = "price"
    while name in makers and makers[name].op_type in LINK and len(reads[makers[name].name]) == 1:
        kept.add(makers[name].name)
        name = reads[makers[name].name][0]
    return kept


def _nodes_to_keep(graph: onnx.ModelProto, wrong: onnx.NodeProto, kept: set[str]) -> set[str]:
    """Return the node, or, if it is already in float32, the nodes whose float16 outputs it reads."""
    makers = {name: node for node in graph.graph.node for name in node.output}
    found, seen = set(), [wrong]
    for node in seen:
        if node.name not in kept:
            found.add(node.name)
        else:
            seen += [makers[name] for name in node.input if name in makers and makers[name] not in seen]
    return found


def _first_wrong(
    model: Stored, converted: Stored, engine: PricedOnce, expected: PriceBatch, batches: Sequence[Batch]
) -> tuple[onnx.NodeProto, int] | None:
    """Return the first node that differs, on the first batch whose prices differ because of one, and its number."""
    with tracked("comparing float16 with float32", batches, token_count) as compared:
        for (number, batch), b in zip(enumerate(compared), engine.each(batches), strict=True):
            a = expected(batch)
            if (np.abs(b - a) <= TOLERANCE * np.abs(a)).all():
                continue
            node = first_difference(model, converted, worst_piece(batch, a, b), TOLERANCE)
            if node is not None:
                return node, number
    return None


def _largest(tensor: onnx.TensorProto) -> float:
    """Return the largest finite magnitude of a float32 tensor, 0 of another."""
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return 0.0
    values = onnx.numpy_helper.to_array(tensor)
    largest = largest_magnitude(values)
    return largest if np.isfinite(largest) else largest_magnitude(values[np.isfinite(values)])
