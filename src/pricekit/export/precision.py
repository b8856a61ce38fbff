"""Converting the float32 graph to another precision, with the nodes in float32 that float16 would break."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper
from onnx.helper import make_node

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.errors import ExportError
from pricekit.export.priced_once import PricedOnce
from pricekit.export.tensors import (
    MASKING,
    Stored,
    first_difference,
    in_file,
    largest_magnitude,
    move_weights,
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
from pricekit.io.causes import raise_outside_cause
from pricekit.io.cpus import usable_cpus
from pricekit.io.files import temporary_folder
from pricekit.io.log import logger
from pricekit.io.mapped import release_heap
from pricekit.io.progress import tracked
from pricekit.predict.ort import load_cpu
from pricekit.wording import shorten

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
        model: the graph, or its file.
        simulated: a graph that computes on a CPU what `model` computes on its target hardware, or its file.
        float32_nodes: names of the nodes that stay in float32 because float16 would overflow or underflow.
        engine: prices batches with `simulated`, and knows the prices of the conversion; None: it is not loaded.
    """

    model: Stored
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
        return Converted(model, model, [])
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
    release_heap()
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
        converted, simulated = _stored(to_float16(model, kept), model)
        release_heap()
        engine = PricedOnce(partial(load_cpu, simulated, usable_cpus()))
        difference = _first_wrong(model, simulated, engine, expected, waiting) if left else None
        if difference is None:
            break
        wrong, at = difference
        kept |= _nodes_to_keep(graph, wrong, kept)
        waiting = waiting[at:] + waiting[:at]  # the repaired batch first
    names = [node.name for node in graph.graph.node if node.name in kept]
    return Converted(converted, simulated, names, engine)


def _stored(half: onnx.ModelProto, model: Stored) -> tuple[Stored, Stored]:
    """Return a graph of `to_float16` and its simulation: as bytes, or beside a file in files that share weights."""
    if isinstance(model, bytes):
        return half.SerializeToString(), simulate_float16(half).SerializeToString()
    move_weights(half, model.with_name("float16.weights"))
    converted = in_file(half.SerializeToString(), model.with_name("float16.onnx"))
    return converted, in_file(simulate_float16(half).SerializeToString(), model.with_name("simulated.onnx"))


def _range_critical(graph: onnx.ModelProto) -> set[str]:
    """Return the nodes that may overflow for other rows: those that read only features, and those that compute prices.

    A feature is unbounded until it is squashed and clamped, and the price is an exponential.
    """
    constants, of_features = {tensor.name for tensor in graph.graph.initializer} | {""}, {"features"}
    kept: set[str] = set()
    makers: dict[str, NodeProto] = {}
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


def _nodes_to_keep(graph: onnx.ModelProto, wrong: NodeProto, kept: set[str]) -> set[str]:
    """Return the node, or, if it is already in float32, the nodes whose float16 outputs it reads."""
    makers = {name: node for node in graph.graph.node for name in node.output}
    names, seen = set(), [wrong]
    for node in seen:
        if node.name not in kept:
            names.add(node.name)
        else:
            seen += [makers[name] for name in node.input if name in makers and makers[name] not in seen]
    return names


def _first_wrong(
    model: Stored, converted: Stored, engine: PricedOnce, expected: PriceBatch, batches: Sequence[Batch]
) -> tuple[NodeProto, int] | None:
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


def _largest(tensor: TensorProto) -> float:
    """Return the largest finite magnitude of a float32 tensor, 0 of another."""
    if tensor.data_type != FLOAT:
        return 0.0
    values = numpy_helper.to_array(tensor)
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
    weights = _constants(opened.graph)
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

    converted = without_weights(opened)
    graph = converted.graph
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
                casts.add(rounded)  # for other nodes that read the output
                nodes.append(_cast(rounded, name, FLOAT))
    set_nodes(graph, nodes)
    del graph.value_info[:]
    read = {name for node in nodes for name in node.input} | outputs
    graph.initializer.extend(with_values(weights[name], model) for name in weights if name in read)
    return converted


def simulate_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a float32 graph that rounds each tensor as a float16 graph does.

    On CPUs, ONNX Runtime runs most float16 nodes in float32 and does not round between them; on GPUs it rounds. So
    this graph shows on a CPU what a GPU computes, with products summed in float32. Its weights are cast when the graph
    is loaded, so that it is no larger than the other one.

    Args:
        model: a graph of `to_float16`; not changed.
    """
    simulated = without_weights(model)
    nodes: list[NodeProto] = []
    for weight in model.graph.initializer:
        stored = simulated.graph.initializer.add()
        stored.CopyFrom(weight)
        if weight.data_type == FLOAT16:
            stored.name = f"{weight.name}_half"
            nodes.append(_cast(stored.name, weight.name, FLOAT))
    halves = {name for name, kind in tensor_types(model).items() if kind == FLOAT16}
    for node in simulated.graph.node:
        _convert_attributes(node, FLOAT16, FLOAT)
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name in halves:
                node.output[index] = exact = f"{name}_exact"
                half = f"{name}_rounded"
                nodes += (_cast(exact, half, FLOAT16), _cast(half, name, FLOAT))
    set_nodes(simulated.graph, nodes)
    return simulated


def _cast(name: str, to_name: str, kind: int) -> NodeProto:
    return make_node("Cast", [name], [to_name], f"cast_{name}_to_{to_name}", to=kind)


def _convert_attributes(node: NodeProto, kind: int, to_kind: int) -> None:
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == kind:
            attribute.i = to_kind
        if attribute.type == attribute.TENSOR and attribute.t.data_type == kind:
            attribute.t.CopyFrom(_tensor_as(attribute.t, to_kind, attribute.t.name))


def _tensor_as(tensor: TensorProto, kind: int, name: str) -> TensorProto:
    values = numpy_helper.to_array(tensor)
    with np.errstate(over="ignore"):
        converted = np.asarray(values.astype(onnx.helper.tensor_dtype_to_np_dtype(kind)))
    if kind == FLOAT16:
        overflowed = np.isinf(converted) & np.isfinite(values)
        converted[overflowed] = np.copysign(LARGEST, values[overflowed])
    return numpy_helper.from_array(converted, name)


LARGEST_INTEGER = 127
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
                SimpleNamespace(get_next=partial(next, rows, None)),  # all that calibration calls
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=["Gemm"],
                nodes_to_quantize=names,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
                extra_options={
                    "OpTypesToExcludeOutputQuantization": ["Gemm"],
                    "DefaultTensorType": FLOAT,
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
    at = {product.matmul.name: product for product in products}
    added = {product.add.name for product in products if product.add}
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
        (output,) = node.output
        node.input[0], *scale = (part.name for part in parts)
        node.output[0] = f"{output}_8bit"
        nodes += (node, make_node("DequantizeLinear", [node.output[0], *scale], [output], f"{output}_scaled"))
    set_nodes(graph, nodes)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept + [part for parts in rounded.values() for part in parts or ()])


def _rounded(table: TensorProto) -> list[TensorProto] | None:
    """Return the integers, scale and zero point of a table of several columns; None if it stays in float32.

    The zero point is always written: without one, ONNX Runtime 1.31 returned other prices for an LSTM.
    """
    if table.data_type != FLOAT or len(table.dims) != 2 or table.dims[1] < 2:
        return None
    values = numpy_helper.to_array(table)
    scale = np.abs(values).max(initial=0.0) / np.float32(LARGEST_INTEGER) or np.float32(1)
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


def _is_not_advice(record: logging.LogRecord) -> bool:
    return "pre-processing" not in record.getMessage()
