"""The types of a graph's tensors, found without a copy of its weights."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import onnx

SMALL = 1024
"""Larger weights are not shapes, axes or indices, on whose values the types of other tensors depend."""


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
