"""The float32 graph in half precision, or with weights of 8 bits."""

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
from pricekit.exporting.half import rounded, to_half
from pricekit.exporting.tensors import MASKING, first_difference, peaks, tokens_of, worst_piece
from pricekit.progress import tracked

LARGEST = 65504.0 / 2
"""A tensor that comes this near to the largest float16 stays in float32: other rows may go further."""

TOLERANCE = 1e-2
"""Of prices and of inner tensors, relative: what a repair is for."""

MAX_REPAIRS = 20

LINK = frozenset({"Exp", "Clip", "Add", "Sub", "Mul", "Div"})
"""Operations between the heads and the price."""


@dataclass(frozen=True)
class Converted:
    """A graph in another precision.

    Attributes:
        model: the graph.
        computed: a graph that gives on a CPU what `model` gives on the hardware it is for.
        kept: names of the nodes that stayed in float32, where float16 would overflow or vanish.
    """

    model: bytes
    computed: bytes
    kept: list[str]


def convert(model: bytes, precision: str, batches: Sequence[Batch]) -> Converted:
    """Return a float32 graph in another precision; inputs and output keep their types.

    Args:
        model: the float32 graph.
        precision: fp32, fp16 or int8.
        batches: real rows, on which it is seen what overflows.

    Raises:
        ExportError: the converter fails.
    """
    if precision == "fp32":
        return Converted(model, model, [])
    try:
        return _to_fp16(model, batches) if precision == "fp16" else _to_int8(model)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ExportError(
            f"the graph cannot be converted to {precision} ({said}). Nothing was published; export it as fp32"
        ) from error


def _to_fp16(model: bytes, batches: Sequence[Batch]) -> Converted:
    """Convert what neither overflows nor vanishes on the batches."""
    graph = onnx.load_from_string(model)
    large = {name for name, value in peaks(model, batches).items() if LARGEST < value < MASKING}
    large |= {tensor.name for tensor in graph.graph.initializer if LARGEST < _largest(tensor) < MASKING}
    kept = {node.name for node in graph.graph.node if large & {*node.input, *node.output}} | _beyond_rows(
        graph
    )
    for _ in range(MAX_REPAIRS):
        half = to_half(graph, kept)
        computed = rounded(half).SerializeToString()
        wrong = _first_wrong(model, computed, batches)
        if wrong is None:
            break
        kept |= _to_blame(graph, wrong, kept)
    else:
        raise ValueError(f"after {MAX_REPAIRS} repairs it still differs")
    names = [node.name for node in graph.graph.node if node.name in kept]
    return Converted(half.SerializeToString(), computed, names)


def _beyond_rows(graph: onnx.ModelProto) -> set[str]:
    """Return the nodes that other rows overflow, whatever these do: those of the features alone, and the price's.

    A feature has any size until it is squashed and clamped, and a price is the exponential of what is small.
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


def _to_blame(graph: onnx.ModelProto, wrong: onnx.NodeProto, kept: set[str]) -> set[str]:
    """Return the node, or where it is in float32 already those that gave it what float16 had lost."""
    makers = {name: node for node in graph.graph.node for name in node.output}
    found, seen = set(), [wrong]
    for node in seen:
        if node.name not in kept:
            found.add(node.name)
        else:
            seen += [makers[name] for name in node.input if name in makers and makers[name] not in seen]
    return found


def _first_wrong(model: bytes, converted: bytes, batches: Sequence[Batch]) -> onnx.NodeProto | None:
    """Return where a converted graph first differs, on the first batch that it prices differently."""
    expected, found = load_cpu(model), load_cpu(converted)
    with tracked("comparing float16 with float32", batches, tokens_of) as batches_left:
        for batch in batches_left:
            a, b = expected(batch), found(batch)
            if not np.abs(b - a).max() <= TOLERANCE * np.abs(a).min():
                return first_difference(model, converted, worst_piece(batch, a, b), TOLERANCE)
    return None


def _to_int8(model: bytes) -> Converted:
    """Quantise the encoder's products with weights, column by column, and what they are multiplied with as it comes.

    The heads are small and decide the price: they stay as they are, unless there is nothing else.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load_from_string(model)
    del graph.graph.value_info[:]  # the exporter's shapes contradict the quantised graph's
    weights = {weight.name for weight in graph.graph.initializer}
    products = [n for n in graph.graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in weights]
    heads = [node.name for node in products if node.input[1].startswith("heads.")]
    logging.getLogger().addFilter(_is_no_advice)
    try:
        with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
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
            return Converted(out.read_bytes(), out.read_bytes(), [])
    finally:
        logging.getLogger().removeFilter(_is_no_advice)


def _largest(tensor: onnx.TensorProto) -> float:
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return 0.0
    values = onnx.numpy_helper.to_array(tensor)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "pre-processing" not in record.getMessage()
