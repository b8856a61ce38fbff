"""Types of tensors without the weights."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from pricekit.exporting import skeleton
from pricekit.exporting.skeleton import tensor_types, without_weights
from tests.exporting.graphs import chain


def graph():
    """A product with a large weight, and a shape that a small one holds."""
    model = onnx.load_from_string(chain(("MatMul", "large"), ("Reshape", "shape"), large=np.zeros((2, 1000))))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, 10, 100]), "shape"))
    return model


def test_a_graph_without_weights_has_everything_else():
    model = graph()
    found = without_weights(model)
    assert not found.graph.initializer
    found.graph.initializer.extend(model.graph.initializer)
    assert found == model


def test_types_are_those_of_the_whole_graph(monkeypatch):
    seen, real = [], onnx.shape_inference.infer_shapes
    monkeypatch.setattr(
        skeleton.onnx.shape_inference,
        "infer_shapes",
        lambda light: seen.append(light.ByteSize()) or real(light),
    )
    found = tensor_types(graph())
    assert {name: found[name] for name in ("features", "large", "shape", "t0", "t1", "price")} == {
        **dict.fromkeys(("features", "large", "t0", "t1", "price"), TensorProto.FLOAT),
        "shape": TensorProto.INT64,
    }
    assert seen[0] < 1000
