"""Converting the float32 graph to another precision; the conversion to float16."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from pricekit.core.contracts import Batch
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting.int8 import to_int8
from pricekit.exporting.intermediates import MASKING, first_difference, peaks, token_count, worst_piece
from pricekit.support.causes import raise_outside_cause
from pricekit.support.log import logger
from pricekit.support.progress import tracked
from pricekit.support.text import shorten

SMALLER = 0.9
"""A graph in int8 is expected to have at most this part of the size in float32."""

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
LARGEST = 65504.0


def to_float16(model: onnx.ModelProto, kept: Collection[str]) -> onnx.ModelProto:
    """Return the graph with its nodes in float16; inputs and outputs keep their types.

    A tensor between two float32 nodes stays in float32, so values that overflow float16 never pass through it.
    Larger magnitudes, such as attention masks, become the largest float16.

    Args:
        model: a float32 graph without subgraphs; not changed.
        kept: names of the nodes that stay in float32, in addition to nodes without a float16 form.
    """
    return _Conversion(model, kept).converted()


def simulate_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a float32 graph that rounds each tensor as a float16 graph does.

    On CPUs, ONNX Runtime runs most float16 nodes in float32 and does not round between them; on GPUs it rounds. So
    this graph shows on a CPU what a GPU computes, with products summed in float32.

    Args:
        model: a graph of `to_float16`; not changed.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for weight in found.graph.initializer:
        if weight.data_type == FLOAT16:
            weight.CopyFrom(_tensor_as(weight, FLOAT, weight.name))
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    halves = {value.name for value in inferred if value.type.tensor_type.elem_type == FLOAT16}
    nodes: list[NodeProto] = []
    for node in found.graph.node:
        _convert_attributes(node, FLOAT16, FLOAT)
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name in halves:
                node.output[index] = exact = f"{name}_exact"
                half = f"{name}_rounded"
                nodes += (_cast(exact, half, FLOAT16), _cast(half, name, FLOAT))
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found


class _Conversion:
    """One pass over the nodes in graph order."""

    def __init__(self, model: onnx.ModelProto, kept: Collection[str]) -> None:
        from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.kept, self.blocked = set(kept), set(DEFAULT_OP_BLOCK_LIST)
        self.types = dict.fromkeys(_float_names(model), FLOAT)
        self.weights = {weight.name: weight for weight in model.graph.initializer}
        self.outputs = {output.name for output in model.graph.output}
        self.nodes: list[NodeProto] = []
        self.casts: set[str] = set()

    def converted(self) -> onnx.ModelProto:
        """Convert every node and rebuild the graph."""
        nodes = list(self.graph.node)
        del self.graph.node[:], self.graph.value_info[:]
        for node in nodes:
            self._convert(node)
        self.graph.node.extend(self.nodes)
        read = {name for node in self.nodes for name in node.input} | self.outputs
        weights = [weight for weight in self.weights.values() if weight.name in read]
        del self.graph.initializer[:]
        self.graph.initializer.extend(weights)
        return self.model

    def _convert(self, node: NodeProto) -> None:
        kind = FLOAT16 if self._is_half(node) else FLOAT
        for index, name in enumerate(node.input):
            node.input[index] = self._as(name, kind)
        if kind == FLOAT16:
            _convert_attributes(node, FLOAT, FLOAT16)
        self.nodes.append(node)
        for index, name in enumerate(node.output):
            if name not in self.types or kind == FLOAT:
                continue
            self.types[name] = FLOAT16
            if name in self.outputs:
                node.output[index] = half = f"{name}_float16"
                self.types[half], self.types[name] = FLOAT16, FLOAT
                self.nodes.append(_cast(half, name, FLOAT))

    def _is_half(self, node: NodeProto) -> bool:
        floats = any(name in self.types for name in (*node.input, *node.output))
        return floats and node.name not in self.kept and node.op_type not in self.blocked

    def _as(self, name: str, kind: int) -> str:
        """Return the name of a tensor in a type; adds a cast if there is none."""
        if self.types.get(name, kind) == kind:
            return name
        found = f"{name}_{'float16' if kind == FLOAT16 else 'float32'}"
        if name in self.weights:
            self.weights[found] = _tensor_as(self.weights[name], kind, found)
        elif found not in self.casts:
            self.casts.add(found)
            self.nodes.append(_cast(name, found, kind))
        return found


def _cast(name: str, to_name: str, kind: int) -> NodeProto:
    return onnx.helper.make_node("Cast", [name], [to_name], f"cast_{name}_to_{to_name}", to=kind)


def _float_names(model: onnx.ModelProto) -> set[str]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    return {v.name for v in values if v.type.tensor_type.elem_type == FLOAT} | {
        weight.name for weight in graph.initializer if weight.data_type == FLOAT
    }


def _convert_attributes(node: NodeProto, kind: int, to_kind: int) -> None:
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == kind:
            attribute.i = to_kind
        if attribute.type == attribute.TENSOR and attribute.t.data_type == kind:
            attribute.t.CopyFrom(_tensor_as(attribute.t, to_kind, attribute.t.name))


def _tensor_as(tensor: TensorProto, kind: int, name: str) -> TensorProto:
    values = numpy_helper.to_array(tensor)
    if kind == FLOAT16:
        values = np.where(np.isfinite(values), values.clip(-LARGEST, LARGEST), values)
    return numpy_helper.from_array(values.astype(onnx.helper.tensor_dtype_to_np_dtype(kind)), name)


SAFE = LARGEST / 2
"""A tensor within a factor of two of the largest float16 stays in float32: other rows may exceed it."""

TOLERANCE = 1e-2
"""Relative difference of prices and intermediate tensors that causes a repair."""

MAX_REPAIRS = 20

LINK = frozenset({"Exp", "Clip", "Add", "Sub", "Mul", "Div"})
"""Operations between the heads and the price."""


@dataclass(frozen=True)
class Converted:
    """A graph in another precision.

    Attributes:
        model: the graph.
        simulated: a graph that computes on a CPU what `model` computes on its target hardware.
        float32_nodes: names of the nodes that stay in float32 because float16 would overflow or underflow.
    """

    model: bytes
    simulated: bytes
    float32_nodes: list[str]


def convert(model: bytes, precision: str, batches: Sequence[Batch]) -> Converted:
    """Return a float32 graph in another precision; inputs and output keep their types.

    Args:
        model: the float32 graph.
        precision: fp32, fp16 or int8.
        batches: real rows, to find values that overflow, or the ranges of values.

    Raises:
        ExportError: the converter fails.
    """
    if precision == "fp32":
        return Converted(model, model, [])
    try:
        if precision == "fp16":
            return _to_fp16(model, batches)
        converted = to_int8(model, batches)
        if len(converted) > SMALLER * len(model):
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


def _to_fp16(model: bytes, batches: Sequence[Batch]) -> Converted:
    """Convert the nodes that neither overflow nor underflow on the batches."""
    graph = onnx.load_from_string(model)
    large = {name for name, value in peaks(model, batches).items() if SAFE < value < MASKING}
    large |= {tensor.name for tensor in graph.graph.initializer if SAFE < _largest(tensor) < MASKING}
    kept = {node.name for node in graph.graph.node if large & {*node.input, *node.output}} | _range_critical(
        graph
    )
    for _ in range(MAX_REPAIRS):
        half = to_float16(graph, kept)
        simulated = simulate_float16(half).SerializeToString()
        wrong = _first_wrong(model, simulated, batches)
        if wrong is None:
            break
        kept |= _nodes_to_keep(graph, wrong, kept)
    else:
        raise ValueError(f"after {MAX_REPAIRS} repairs the float16 graph still differs")
    names = [node.name for node in graph.graph.node if node.name in kept]
    return Converted(half.SerializeToString(), simulated, names)


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


def _first_wrong(model: bytes, converted: bytes, batches: Sequence[Batch]) -> onnx.NodeProto | None:
    """Return the first node that differs, on the first batch whose prices differ because of a node."""
    expected, found = load_cpu(model), load_cpu(converted)
    with tracked("comparing float16 with float32", batches, token_count) as compared:
        for batch in compared:
            a, b = expected(batch), found(batch)
            if (np.abs(b - a) <= TOLERANCE * np.abs(a)).all():
                continue
            node = first_difference(model, converted, worst_piece(batch, a, b), TOLERANCE)
            if node is not None:
                return node
    return None


def _largest(tensor: onnx.TensorProto) -> float:
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return 0.0
    values = onnx.numpy_helper.to_array(tensor)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
