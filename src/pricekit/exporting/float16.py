"""Converting a float32 graph to float16, and simulating float16 on a CPU."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

from pricekit.exporting.skeleton import Stored, open_graph, tensor_types, with_values, without_weights

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
LARGEST = 65504.0


def to_float16(model: Stored, kept: Collection[str]) -> onnx.ModelProto:
    """Return the graph with its nodes in float16; inputs and outputs keep their types.

    A tensor between two float32 nodes stays in float32, so values that overflow float16 never pass through it.
    Larger magnitudes, such as attention masks, become the largest float16.

    Args:
        model: a float32 graph without subgraphs.
        kept: names of the nodes that stay in float32, in addition to nodes without a float16 form.
    """
    return _Conversion(model, kept).converted()


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
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found


class _Conversion:
    """One pass over the nodes in graph order."""

    def __init__(self, stored: Stored, kept: Collection[str]) -> None:
        from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

        self.stored, model = stored, open_graph(stored)
        self.model = without_weights(model)
        self.graph = self.model.graph
        self.kept, self.blocked = set(kept), set(DEFAULT_OP_BLOCK_LIST)
        self.types = {name: FLOAT for name, kind in tensor_types(model).items() if kind == FLOAT}
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
        for name, weight in self.weights.items():
            if name in read:
                self.graph.initializer.append(with_values(weight, self.stored))
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
            if found not in self.weights:
                weight = with_values(self.weights[name], self.stored)
                self.weights[found] = _tensor_as(weight, kind, found)
        elif found not in self.casts:
            self.casts.add(found)
            self.nodes.append(_cast(name, found, kind))
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
