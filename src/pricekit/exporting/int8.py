"""Converting the float32 graph to 8 bits with fixed scales, so that a row's price depends on its own inputs alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper
from onnx.helper import make_node

from pricekit.core.contracts import Batch
from pricekit.exporting.tensors import set_nodes, token_count
from pricekit.support.files import temporary_folder
from pricekit.support.progress import tracked

LARGEST = 127
"""Tables have the integers from -127 to 127."""

MAX_ROUNDING = 0.1
"""A table stays in float32 if, in half of its columns, rounding errors exceed this share of the standard deviation."""


def to_int8(model: bytes, batches: Sequence[Batch]) -> bytes:
    """Return the graph with 8-bit products of tokens and 8-bit tables; inputs and output keep their types.

    A product of tokens is a MatMul of a tensor with at least three axes and a constant matrix. Its input is rounded to
    uint8 with one scale and zero point, which cover its values in the batches; the matrix is rounded to 7 bits, with a
    scale for each column. With 8 bits, CPUs without VNNI instructions, which sum pairs of products in int16, may
    overflow: 2 · 255 · 64 fits and 2 · 255 · 127 does not. Everything that is computed once for each row stays in
    float32: heads decide the price, and sums over tokens depend on the padding in their last bits, which could change
    how an input is rounded.

    A table is a constant matrix from which a Gather reads rows. It has one scale. If a few large
    columns make it too coarse for the others, the table stays in float32.

    The range of an input is that of all its values. Ranges without the rarest values make prices far worse, because
    the largest activations of a transformer matter.

    Args:
        model: the float32 graph.
        batches: real rows, to find the range of each input.
    """
    graph = onnx.load_from_string(model)
    graph = _round_products(graph, _token_products(graph), batches)
    _round_tables(graph.graph)
    return bytes(graph.SerializeToString())


@dataclass(frozen=True)
class _Product:
    """A product of tokens.

    Attributes:
        matmul: the MatMul.
        add: the Add of a constant bias, the only reader of the product; None if there is none.
    """

    matmul: NodeProto
    add: NodeProto | None

    @property
    def output(self) -> str:
        """The name of the result."""
        return str((self.add or self.matmul).output[0])

    @property
    def bias(self) -> list[str]:
        """The name of the bias, if there is one."""
        return [name for name in self.add.input if name != self.matmul.output[0]] if self.add else []


def _token_products(model: onnx.ModelProto) -> list[_Product]:
    constants = _constants(model.graph)
    axes = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    readers: dict[str, list[NodeProto]] = {output.name: [] for output in model.graph.output}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def bias_of(product: NodeProto) -> NodeProto | None:
        reading = readers[product.output[0]]
        if len(reading) != 1 or reading[0].op_type != "Add":
            return None
        width = constants[product.input[1]].dims[1]
        biases = [constants[name] for name in reading[0].input if name in constants]
        return reading[0] if [list(bias.dims) for bias in biases] == [[width]] else None

    return [
        _Product(node, bias_of(node))
        for node in model.graph.node
        if node.op_type == "MatMul"
        and len(constants.get(node.input[1], TensorProto()).dims) == 2
        and axes.get(node.input[0], 0) > 2
    ]


def _round_products(
    model: onnx.ModelProto, products: list[_Product], batches: Sequence[Batch]
) -> onnx.ModelProto:
    """Quantise the products, as QuantizeLinear and DequantizeLinear around a Gemm, which every runtime knows."""
    if not products:
        return model
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    names = _write_as_gemm(model.graph, products)
    del model.graph.value_info[:]  # the exporter's shapes contradict those of the quantised graph
    logging.getLogger().addFilter(_is_not_advice)
    try:
        with temporary_folder() as folder, tracked("calibrating 8 bits", batches, token_count) as rows:
            quantize_static(
                model,
                folder / "model.onnx",
                _Reader(rows),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=["Gemm"],
                nodes_to_quantize=names,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
                extra_options={
                    "OpTypesToExcludeOutputQuantization": ["Gemm"],
                    "DefaultTensorType": TensorProto.FLOAT,
                },
            )
            return onnx.load(folder / "model.onnx")
    finally:
        logging.getLogger().removeFilter(_is_not_advice)


def _write_as_gemm(graph: onnx.GraphProto, products: list[_Product]) -> list[str]:
    """Replace products by Gemm nodes of the same names, with a row for each token; return the names.

    ONNX Runtime adds the bias within an integer Gemm, but not within an integer MatMul, which is 8% slower. The input
    of the Gemm has no other reader, so residual connections keep their float32 values.
    """
    constants = _constants(graph)
    at, added = (
        {product.matmul.name: product for product in products},
        {p.add.name for p in products if p.add},
    )
    nodes: list[NodeProto] = []
    flat: set[str] = set()
    for node in graph.node:
        if node.name in added:
            continue
        if node.name not in at:
            nodes.append(node)
            continue
        product, source = at[node.name], node.input[0]
        rows, sizes, shape = f"{source}_tokens", f"{source}_sizes", f"{product.output}_shape"
        depth, width = constants[node.input[1]].dims
        if source not in flat:
            flat.add(source)
            graph.initializer.append(numpy_helper.from_array(np.array([-1, depth]), f"{rows}_shape"))
            nodes.append(make_node("Reshape", [source, f"{rows}_shape"], [rows], rows))
            nodes.append(make_node("Shape", [source], [sizes], sizes, start=0, end=-1))
        graph.initializer.append(numpy_helper.from_array(np.array([width]), f"{shape}_width"))
        result = f"{product.output}_tokens_out"
        nodes.append(make_node("Gemm", [rows, node.input[1], *product.bias], [result], node.name))
        nodes.append(make_node("Concat", [sizes, f"{shape}_width"], [shape], shape, axis=0))
        nodes.append(make_node("Reshape", [result, shape], [product.output], f"{shape}_restored"))
    set_nodes(graph, nodes)
    return list(at)


def _round_tables(graph: onnx.GraphProto) -> None:
    """Look up rows of int8 tables, and multiply them by the scale of the table."""
    constants = _constants(graph)
    rounded: dict[str, list[TensorProto] | None] = {}
    nodes: list[NodeProto] = []
    for node in graph.node:
        table = node.input[0] if node.op_type == "Gather" else ""
        if table in constants and table not in rounded:
            rounded[table] = _rounded(constants[table])
        parts = rounded.get(table)
        if parts is None:
            nodes.append(node)
            continue
        (found,) = node.output
        node.input[0], *scale = (part.name for part in parts)
        node.output[0] = f"{found}_8bit"
        nodes += (node, make_node("DequantizeLinear", [node.output[0], *scale], [found], f"{found}_scaled"))
    set_nodes(graph, nodes)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept + [part for parts in rounded.values() for part in parts or ()])


def _rounded(table: TensorProto) -> list[TensorProto] | None:
    """Return the integers, scale and zero point of a table of several columns; None if it stays in float32.

    The zero point is always written: without one, ONNX Runtime 1.31 returned other prices for an LSTM.
    """
    if table.data_type != TensorProto.FLOAT or len(table.dims) != 2 or table.dims[1] < 2:
        return None
    values = numpy_helper.to_array(table)
    scale = np.abs(values).max(initial=0.0) / np.float32(LARGEST) or np.float32(1)
    integers = np.rint(values / scale).astype(np.int8)
    errors = np.square(integers * scale - values).mean(0)
    if np.mean(errors <= MAX_ROUNDING**2 * values.var(0)) <= 0.5:
        return None
    parts = (integers, np.float32(scale), np.int8(0))
    return [
        numpy_helper.from_array(np.asarray(part), f"{table.name}_{name}")
        for part, name in zip(parts, ("8bit", "scale", "zero"), strict=True)
    ]


def _constants(graph: onnx.GraphProto) -> dict[str, TensorProto]:
    return {tensor.name: tensor for tensor in graph.initializer}


class _Reader:
    """The batches as ONNX Runtime's calibration reads them; its base class has no other methods that are called."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def get_next(self) -> Any:
        """Return the next batch by name, None at the end."""
        return next(self._batches, None)


def _is_not_advice(record: logging.LogRecord) -> bool:
    return "pre-processing" not in record.getMessage()
