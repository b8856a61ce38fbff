"""Converting the float32 graph to float16 or to 8-bit weights."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from pricekit.core.contracts import Batch
from pricekit.engines.ort import load_cpu
from pricekit.errors import ExportError
from pricekit.exporting.float16 import simulate_float16, to_float16
from pricekit.exporting.intermediates import MASKING, first_difference, peaks, token_count, worst_piece
from pricekit.progress import progress, tracked
from pricekit.text import shorten

LARGEST = 65504.0 / 2
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
        batches: real rows, to find what overflows.

    Raises:
        ExportError: the converter fails.
    """
    if precision == "fp32":
        return Converted(model, model, [])
    try:
        return _to_fp16(model, batches) if precision == "fp16" else _to_int8(model)
    except Exception as error:
        reason = shorten(f"{type(error).__name__}: {error}", 300)
        raise ExportError(
            f"the graph cannot be converted to {precision} ({reason}). Nothing was published; export it as fp32",
            parameters=("precision",),
            precision=precision,
        ) from error


def _to_fp16(model: bytes, batches: Sequence[Batch]) -> Converted:
    """Convert the nodes that neither overflow nor underflow on the batches."""
    graph = onnx.load_from_string(model)
    large = {name for name, value in peaks(model, batches).items() if LARGEST < value < MASKING}
    large |= {tensor.name for tensor in graph.graph.initializer if LARGEST < _largest(tensor) < MASKING}
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
    """Return the nodes that other rows may overflow: those that read only features, and those that make the price.

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
    """Return the node, or, if it is in float32 already, the nodes whose float16 outputs it reads."""
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


def _to_int8(model: bytes) -> Converted:
    """Quantise the weights of the encoder's products per channel, and their inputs dynamically.

    The heads are small and decide the price, so they stay in float32, unless there are no other products.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load_from_string(model)
    del graph.graph.value_info[:]  # the exporter's shapes contradict those of the quantised graph
    weights = {weight.name for weight in graph.graph.initializer}
    products = [n for n in graph.graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in weights]
    heads = [node.name for node in products if node.input[1].startswith("heads.")]
    logging.getLogger().addFilter(_is_not_advice)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="pricekit-") as folder,
            progress("converting to 8 bits", 1) as advance,
        ):
            out = Path(folder) / "model.onnx"
            quantize_dynamic(
                graph,
                out,
                op_types_to_quantize=["MatMul", "Gemm"],
                weight_type=QuantType.QInt8,
                per_channel=True,
                nodes_to_exclude=heads if len(heads) < len(products) else [],
                extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
            )
            advance(1)
            return Converted(out.read_bytes(), out.read_bytes(), [])
    finally:
        logging.getLogger().removeFilter(_is_not_advice)


def _largest(tensor: onnx.TensorProto) -> float:
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return 0.0
    values = onnx.numpy_helper.to_array(tensor)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _is_not_advice(record: logging.LogRecord) -> bool:
    return "pre-processing" not in record.getMessage()
