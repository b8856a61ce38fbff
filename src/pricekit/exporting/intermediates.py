"""Intermediate tensors of a graph: their magnitudes, and the first one in which two graphs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort

from pricekit.core.contracts import Batch
from pricekit.support.progress import tracked

MASKING = 1e30
"""Larger magnitudes are masks, whose values may differ between precisions."""

PIECE = 1024
"""Number of tokens whose intermediate tensors are in memory: for 64 texts of 256 tokens a small DeBERTa needs 24 GB."""

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def peaks(model: bytes, batches: Sequence[Batch]) -> dict[str, float]:
    """Return the largest magnitude of each float tensor over some batches; infinite for values that are not finite."""
    run = _open(model, kinds := float_tensors(model))
    found = dict.fromkeys([*kinds, "features"], 0.0)
    pieces = [piece for batch in batches for piece in _pieces(batch)]
    with tracked("measuring the ranges of tensors", pieces, token_count) as pieces_left:
        for piece in pieces_left:
            for name, value in {**run(piece), "features": piece["features"]}.items():
                largest = float(np.abs(value).max(initial=0.0))
                found[name] = max(found[name], largest if np.isfinite(largest) else np.inf)
    return found


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


def first_difference(reference: bytes, model: bytes, batch: Batch, tolerance: float) -> onnx.NodeProto | None:
    """Return the first node whose output differs by more than `tolerance` times its largest value; None if none does.

    The function compares tensors with the same name in both graphs, and returns the node of the reference. The batch
    must be small, such as a `worst_piece`, because all intermediate tensors of both graphs are in memory.
    """
    kinds = float_tensors(reference)
    others = {name: kind for name, kind in float_tensors(model).items() if name in kinds}
    expected = _open(reference, {name: kinds[name] for name in others})(batch)
    found = _open(model, others)(batch)
    nodes: dict[str, onnx.NodeProto] = {
        name: node for node in onnx.load_from_string(reference).graph.node for name in node.output
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


def float_tensors(model: bytes) -> dict[str, int]:
    """Return the float tensors that nodes compute, with their types, in graph order."""
    loaded = onnx.load_from_string(model)
    del loaded.graph.value_info[:]  # a converter may leave outdated ones
    graph = onnx.shape_inference.infer_shapes(loaded).graph
    known = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output)}
    computed = [name for node in graph.node for name in node.output]
    return {name: known[name] for name in computed if known.get(name) in _FLOATS}


def _open(model: bytes, kinds: Mapping[str, int]) -> Callable[[Batch], dict[str, np.ndarray]]:
    """Open a graph that returns these tensors, without fusing nodes."""
    graph = onnx.load_from_string(model)
    del graph.graph.value_info[:]
    del graph.graph.output[:]
    for name, kind in kinds.items():
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = list(kinds)
    return lambda batch: dict(zip(names, session.run(names, dict(batch)), strict=True))
