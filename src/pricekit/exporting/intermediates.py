"""Intermediate tensors of a graph: their magnitudes, and the first one in which two graphs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort

from pricekit.core.contracts import Batch
from pricekit.exporting.rows import RowPrices, longest_forms
from pricekit.exporting.skeleton import Stored, open_graph, tensor_types
from pricekit.support.cpus import usable_cpus
from pricekit.support.progress import tracked

MASKING = 1e30
"""Larger magnitudes are masks, whose values may differ between precisions."""

PIECE = 256
"""Number of tokens whose intermediate tensors are in memory: a small DeBERTa needs 1.5 MB for each."""

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def peaks(model: Stored, batches: Sequence[Batch]) -> tuple[dict[str, float], RowPrices]:
    """Return the largest magnitude of each float tensor over the rows of some batches, and the prices of the rows.

    A magnitude is infinite if a value is not finite.
    """
    run = _open(model, kinds := float_tensors(model))
    found = dict.fromkeys([*kinds, "features"], 0.0)
    prices = RowPrices()
    pieces = [piece for batch in longest_forms(batches) for piece in _pieces(batch)]
    with tracked("measuring the ranges of tensors", pieces, token_count) as pieces_left:
        for piece in pieces_left:
            values = run(piece)
            prices.add(piece, values["price"])
            for name, value in {**values, "features": piece["features"]}.items():
                found[name] = max(found[name], largest_magnitude(value))
    return found, prices


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


def worst_piece(batch: Batch, expected: np.ndarray, found: np.ndarray) -> Batch:
    """Return the piece of a batch with the largest price difference, (N,), or with a NaN price."""
    if found.shape != expected.shape:
        return next(_pieces(batch))
    difference = np.abs(found - expected) / expected
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
    found = _open(model, others)(batch)
    nodes: dict[str, onnx.NodeProto] = {
        name: node for node in open_graph(reference).graph.node for name in node.output
    }
    for name in expected:
        a, b = expected[name].astype(np.float64), found[name].astype(np.float64)
        if a.shape != b.shape or _differ(a, b, tolerance):
            return nodes[name]
    return None


def _differ(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    plain = np.abs(a) < MASKING
    scale = max(float(np.abs(a[plain]).max(initial=0.0)), 1e-6)
    return not np.abs(a - b)[plain].max(initial=0.0) <= tolerance * scale


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
    options.log_severity_level = 3
    options.intra_op_num_threads = usable_cpus()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(_with_outputs(model, kinds), options, providers=["CPUExecutionProvider"])
    names = list(kinds)
    return lambda batch: dict(zip(names, session.run(names, dict(batch)), strict=True))


def _with_outputs(model: Stored, kinds: Mapping[str, int]) -> bytes | str:
    """Return the content of a graph with other outputs, or the name of its file, beside the weights."""
    graph = (
        onnx.load_from_string(model)
        if isinstance(model, bytes)
        else onnx.load(model, load_external_data=False)
    )
    del graph.graph.value_info[:]
    del graph.graph.output[:]
    for name, kind in kinds.items():
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    found: bytes = graph.SerializeToString()
    if isinstance(model, bytes):
        return found
    file = model.with_suffix(".outputs.onnx")
    file.write_bytes(found)
    return str(file)
