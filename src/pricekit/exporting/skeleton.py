"""Graphs without a copy of their weights: with the weights in a second file, and the types of a graph's tensors."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

SMALL = 1024
"""Larger weights are not shapes, axes or indices, on whose values the types of other tensors depend."""

Stored: TypeAlias = bytes | Path
"""A graph: the content of a file, or a file, whose large weights may be in a second one beside it."""

_BESIDE = ("data_location", "external_data")
"""The fields of a tensor whose values are in a second file."""


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
    found = onnx.TensorProto()
    found.CopyFrom(weight)
    load_external_data_for_tensor(found, str(stored.parent))
    for field in _BESIDE:
        found.ClearField(field)
    return found


def in_file(content: Stored, file: Path) -> Path:
    """Write a graph's content to a file, from which it is loaded with less memory; return the file."""
    if isinstance(content, Path):
        return content
    file.write_bytes(content)
    return file


def read_graph(stored: Stored) -> bytes:
    """Return the content of a graph's file with all weights."""
    if isinstance(stored, bytes):
        return stored
    model = onnx.load(stored)
    for weight in model.graph.initializer:
        for field in _BESIDE:
            weight.ClearField(field)
    found: bytes = model.SerializeToString()
    return found


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a graph that lacks its weights."""
    found: onnx.ModelProto = _without(model, {"graph"})
    found.graph.CopyFrom(_without(model.graph, {"initializer"}))
    return found


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
    found = type(message)()
    for field, value in message.ListFields():
        if field.name in fields:
            continue
        target = getattr(found, field.name)
        if hasattr(target, "extend"):
            target.extend(value)
        elif hasattr(target, "CopyFrom"):
            target.CopyFrom(value)
        else:
            setattr(found, field.name, value)
    return found
