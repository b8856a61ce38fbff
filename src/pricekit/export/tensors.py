"""Tensors of exported graphs: their values and types, their magnitudes, and where two graphs differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime as ort
from onnx.external_data_helper import (
    convert_model_to_external_data,
    load_external_data_for_tensor,
    uses_external_data,
    write_external_data_tensors,
)

from pricekit.core.contracts import Batch
from pricekit.export.priced_once import RowPrices, longest_forms
from pricekit.io.cpus import usable_cpus
from pricekit.io.log import RUNTIME_SEVERITY
from pricekit.io.progress import tracked

SMALL = 1024
"""Larger weights are not shapes, axes or indices, on whose values the types of other tensors depend."""

Stored: TypeAlias = bytes | Path
"""A graph: the content of a file, or a file, whose large weights may be in a second one beside it."""

_BESIDE = ("data_location", "external_data")
"""The fields of a tensor whose values are in a second file."""


MASKING = 1e30
"""Larger magnitudes are masks, whose values may differ between precisions."""

PIECE = 256
"""Number of tokens whose intermediate tensors are in memory: a small DeBERTa needs 1.5 MB for each."""

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def open_graph(stored: Stored) -> onnx.ModelProto:
    """Return a graph; of one in a file, the large weights stay there until `with_values` reads them."""
    if isinstance(stored, bytes):
        return onnx.load_from_string(stored)
    model = onnx.load(stored, load_external_data=False)
    for weight in model.graph.initializer:
        if uses_external_data(weight) and prod(weight.dims) <= SMALL:
            weight.CopyFrom(with_values(weight, stored))
    return model


def with_values(weight: onnx.TensorProto, stored: Stored) -> onnx.TensorProto:
    """Return a weight of a graph with its values, read from the second file if they are there."""
    if isinstance(stored, bytes) or not uses_external_data(weight):
        return weight
    complete = onnx.TensorProto()
    complete.CopyFrom(weight)
    load_external_data_for_tensor(complete, str(stored.parent))
    for field in _BESIDE:
        complete.ClearField(field)
    return complete


def in_file(content: Stored, file: Path) -> Path:
    """Write a graph's content to a file, from which it is loaded with less memory; return the file."""
    if isinstance(content, Path):
        return content
    file.write_bytes(content)
    return file


def move_weights(model: onnx.ModelProto, file: Path) -> None:
    """Move the large weights of a graph into a file, where copies of the graph find them, too."""
    file.unlink(missing_ok=True)
    convert_model_to_external_data(model, location=file.name, size_threshold=SMALL * np.float32().nbytes)
    write_external_data_tensors(model, str(file.parent))


def read_graph(stored: Stored) -> bytes:
    """Return the content of a graph's file with all weights."""
    if isinstance(stored, bytes):
        return stored
    model = onnx.load(stored)
    for weight in model.graph.initializer:
        for field in _BESIDE:
            weight.ClearField(field)
    return bytes(model.SerializeToString())


def set_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Replace the nodes of a graph."""
    del graph.node[:]
    graph.node.extend(nodes)


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a graph that lacks its weights."""
    light: onnx.ModelProto = _without(model, {"graph"})
    light.graph.CopyFrom(_without(model.graph, {"initializer"}))
    return light


def tensor_types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the type of each tensor by name, with those of weights, inputs and outputs.

    Shape inference copies the graph several times, so it sees large weights as inputs.
    """
    light = without_weights(model)
    for weight in model.graph.initializer:
        if prod(weight.dims) > SMALL:
            light.graph.input.append(
                onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
            )
        else:
            light.graph.initializer.append(weight)
    graph = onnx.shape_inference.infer_shapes(light).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {weight.name: weight.data_type for weight in model.graph.initializer}


def _without(message: Any, fields: Collection[str]) -> Any:
    copy = type(message)()
    for field, value in message.ListFields():
        if field.name in fields:
            continue
        target = getattr(copy, field.name)
        if hasattr(target, "extend"):
            target.extend(value)
        elif hasattr(target, "CopyFrom"):
            target.CopyFrom(value)
        else:
            setattr(copy, field.name, value)
    return copy


def peaks(model: Stored, batches: Sequence[Batch]) -> tuple[dict[str, float], RowPrices]:
    """Return the largest magnitude of each float tensor over the rows of some batches, and the prices of the rows.

    A magnitude is infinite if a value is not finite.
    """
    run = _open(model, kinds := float_tensors(model))
    magnitudes = dict.fromkeys([*kinds, "features"], 0.0)
    prices = RowPrices()
    pieces = [piece for batch in longest_forms(batches) for piece in _pieces(batch)]
    with tracked("measuring the ranges of tensors", pieces, token_count) as pieces_left:
        for piece in pieces_left:
            values = run(piece)
            prices.add(piece, values["price"])
            for name, value in {**values, "features": piece["features"]}.items():
                magnitudes[name] = max(magnitudes[name], largest_magnitude(value))
    return magnitudes, prices


def largest_magnitude(values: np.ndarray) -> float:
    """Return the largest magnitude, 0 of no values; infinite if one is not finite."""
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    return largest if np.isfinite(largest) else np.inf


def token_count(batch: Batch) -> int:
    """Return the number of tokens of a batch, including padding."""
    return batch["input_ids"].size


def _pieces(batch: Batch) -> Iterator[Batch]:
    """Yield a batch in pieces of a few rows."""
    rows, length = batch["input_ids"].shape
    size = max(1, PIECE // length)
    for start in range(0, rows, size):
        yield {name: array[start : start + size] for name, array in batch.items()}


def worst_piece(batch: Batch, expected: np.ndarray, actual: np.ndarray) -> Batch:
    """Return the piece of a batch with the largest price difference, (N,), or with a NaN price."""
    if actual.shape != expected.shape:
        return next(_pieces(batch))
    difference = np.abs(actual - expected) / expected
    row = int(np.where(np.isnan(difference), np.inf, difference).argmax())
    pieces = list(_pieces(batch))
    return pieces[row // len(pieces[0]["features"])]


def first_difference(
    reference: Stored, model: Stored, batch: Batch, tolerance: float
) -> onnx.NodeProto | None:
    """Return the first node whose output differs by more than `tolerance` times its largest value; None if none does.

    The function compares tensors with the same name in both graphs, and returns the node of the reference. The batch
    must be small, such as a `worst_piece`, because all intermediate tensors of both graphs are in memory.
    """
    kinds = float_tensors(reference)
    others = {name: kind for name, kind in float_tensors(model).items() if name in kinds}
    expected = _open(reference, {name: kinds[name] for name in others})(batch)
    actual = _open(model, others)(batch)
    nodes: dict[str, onnx.NodeProto] = {
        name: node for node in open_graph(reference).graph.node for name in node.output
    }
    for name in expected:
        a, b = expected[name].astype(np.float64), actual[name].astype(np.float64)
        if a.shape != b.shape:
            return nodes[name]
        plain = np.abs(a) < MASKING
        scale = max(float(np.abs(a[plain]).max(initial=0.0)), 1e-6)
        if not np.abs(a - b)[plain].max(initial=0.0) <= tolerance * scale:
            return nodes[name]
    return None


def float_tensors(model: Stored) -> dict[str, int]:
    """Return the float tensors that nodes compute, with their types, in graph order."""
    loaded = open_graph(model)
    del loaded.graph.value_info[:]  # a converter may leave outdated ones
    known = tensor_types(loaded)
    computed = [name for node in loaded.graph.node for name in node.output]
    return {name: known[name] for name in computed if known.get(name) in _FLOATS}


def _open(model: Stored, kinds: Mapping[str, int]) -> Callable[[Batch], dict[str, np.ndarray]]:
    """Open a graph that returns these tensors, without fusing nodes."""
    options = ort.SessionOptions()
    options.log_severity_level = RUNTIME_SEVERITY
    options.intra_op_num_threads = usable_cpus()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")  # which frees them
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    graph = open_graph(model)
    del graph.graph.value_info[:]
    del graph.graph.output[:]
    for name, kind in kinds.items():
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    content = graph.SerializeToString()
    # A graph in a file stays beside its weights.
    source = (
        content if isinstance(model, bytes) else str(in_file(content, model.with_suffix(".outputs.onnx")))
    )
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = list(kinds)
    return lambda batch: dict(zip(names, session.run(names, dict(batch)), strict=True))
