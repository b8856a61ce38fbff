"""Converting the float32 graph to another precision, with the nodes in float32 that float16 would break."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting.int8 import to_int8
from pricekit.exporting.priced_once import PricedOnce
from pricekit.exporting.tensors import (
    MASKING,
    Stored,
    first_difference,
    in_file,
    largest_magnitude,
    open_graph,
    peaks,
    read_graph,
    set_nodes,
    tensor_types,
    token_count,
    with_values,
    without_weights,
    worst_piece,
)
from pricekit.support.causes import raise_outside_cause
from pricekit.support.log import logger
from pricekit.support.progress import tracked
from pricekit.support.text import shorten

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
LARGEST = 65504.0

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
    kept = _range_critical(graph)
    kept |= {node.name for node in graph.graph.node if large & {*node.input, *node.output}}
    graph = without_weights(graph)
    waiting = list(batches)
    for left in reversed(range(MAX_REPAIRS + 1)):
        half = to_float16(model, kept)
        simulated: Stored = simulate_float16(half).SerializeToString()
        if isinstance(model, Path):
            simulated = in_file(simulated, model.with_name("simulated.onnx"))
        engine = PricedOnce(partial(load_cpu, simulated, threads=1))
        found = _first_wrong(model, simulated, engine, expected, waiting) if left else None
        if found is None:
            break
        wrong, at = found
        kept |= _nodes_to_keep(graph, wrong, kept)
        waiting = waiting[at:] + waiting[:at]  # the repaired batch first
    names = [node.name for node in graph.graph.node if node.name in kept]
    return Converted(half.SerializeToString(), simulated, names, engine)


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


def to_float16(model: Stored, kept: Collection[str]) -> onnx.ModelProto:
    """Return the graph with its nodes in float16; inputs and outputs keep their types.

    A tensor between two float32 nodes stays in float32, so values that overflow float16 never pass through it.
    Larger magnitudes, such as attention masks, become the largest float16.

    Args:
        model: a float32 graph without subgraphs.
        kept: names of the nodes that stay in float32, in addition to nodes without a float16 form.
    """
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    opened = open_graph(model)
    types = {name: FLOAT for name, kind in tensor_types(opened).items() if kind == FLOAT}
    weights = {weight.name: weight for weight in opened.graph.initializer}
    outputs = {output.name for output in opened.graph.output}
    nodes: list[NodeProto] = []
    casts: set[str] = set()

    def in_type(name: str, kind: int) -> str:
        """Return the name of a tensor in a type; add a cast if there is none."""
        if types.get(name, kind) == kind:
            return name
        cast = f"{name}_{'float16' if kind == FLOAT16 else 'float32'}"
        if name in weights:
            if cast not in weights:
                weights[cast] = _tensor_as(with_values(weights[name], model), kind, cast)
        elif cast not in casts:
            casts.add(cast)
            nodes.append(_cast(name, cast, kind))
        return cast

    found = without_weights(opened)
    graph = found.graph
    for node in graph.node:
        floats = any(name in types for name in (*node.input, *node.output))
        half = floats and node.name not in kept and node.op_type not in DEFAULT_OP_BLOCK_LIST
        for index, name in enumerate(node.input):
            node.input[index] = in_type(name, FLOAT16 if half else FLOAT)
        nodes.append(node)
        if not half:
            continue
        _convert_attributes(node, FLOAT, FLOAT16)
        for index, name in enumerate(node.output):
            if name not in types:
                continue
            types[name] = FLOAT16
            if name in outputs:
                node.output[index] = rounded = f"{name}_float16"
                types[rounded], types[name] = FLOAT16, FLOAT
                nodes.append(_cast(rounded, name, FLOAT))
    set_nodes(graph, nodes)
    del graph.value_info[:]
    read = {name for node in nodes for name in node.input} | outputs
    graph.initializer.extend(with_values(weights[name], model) for name in weights if name in read)
    return found


def simulate_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a float32 graph that rounds each tensor as a float16 graph does.

    On CPUs, ONNX Runtime runs most float16 nodes in float32 and does not round between them; on GPUs it rounds. So
    this graph shows on a CPU what a GPU computes, with products summed in float32. Its weights are cast when the graph
    is loaded, so that it is no larger than the other one.

    Args:
        model: a graph of `to_float16`; not changed.
    """
    found = without_weights(model)
    nodes: list[NodeProto] = []
    for weight in model.graph.initializer:
        stored = found.graph.initializer.add()
        stored.CopyFrom(weight)
        if weight.data_type == FLOAT16:
            stored.name = f"{weight.name}_half"
            nodes.append(_cast(stored.name, weight.name, FLOAT))
    halves = {name for name, kind in tensor_types(model).items() if kind == FLOAT16}
    for node in found.graph.node:
        _convert_attributes(node, FLOAT16, FLOAT)
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name in halves:
                node.output[index] = exact = f"{name}_exact"
                half = f"{name}_rounded"
                nodes += (_cast(exact, half, FLOAT16), _cast(half, name, FLOAT))
    set_nodes(found.graph, nodes)
    return found


def _cast(name: str, to_name: str, kind: int) -> NodeProto:
    return onnx.helper.make_node("Cast", [name], [to_name], f"cast_{name}_to_{to_name}", to=kind)


def _convert_attributes(node: NodeProto, kind: int, to_kind: int) -> None:
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == kind:
            attribute.i = to_kind
        if attribute.type == attribute.TENSOR and attribute.t.data_type == kind:
            attribute.t.CopyFrom(_tensor_as(attribute.t, to_kind, attribute.t.name))


def _tensor_as(tensor: TensorProto, kind: int, name: str) -> TensorProto:
    values = numpy_helper.to_array(tensor)
    with np.errstate(over="ignore"):
        found = np.asarray(values.astype(onnx.helper.tensor_dtype_to_np_dtype(kind)))
    if kind == FLOAT16:
        overflowed = np.isinf(found) & np.isfinite(values)
        found[overflowed] = np.copysign(LARGEST, values[overflowed])
    return numpy_helper.from_array(found, name)
