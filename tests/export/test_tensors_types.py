"""Types of tensors without the weights."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from pricekit.export import tensors
from pricekit.export.tensors import (
    SMALL,
    open_graph,
    read_graph,
    tensor_types,
    with_values,
    without_weights,
)
from tests.export.graphs import chain


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
        tensors.onnx.shape_inference,
        "infer_shapes",
        lambda light: seen.append(light.ByteSize()) or real(light),
    )
    found = tensor_types(graph())
    assert {name: found[name] for name in ("features", "large", "shape", "t0", "t1", "price")} == {
        **dict.fromkeys(("features", "large", "t0", "t1", "price"), TensorProto.FLOAT),
        "shape": TensorProto.INT64,
    }
    assert seen[0] < 1000


def test_a_graph_with_its_weights_in_a_second_file_is_put_together_again(tmp_path):
    big = np.arange(2.0 * SMALL).reshape(SMALL, 2)
    whole = chain(("MatMul", "turn"), ("Gemm", "big"), turn=np.eye(2), big=big.T)
    file = tmp_path / "model.onnx"
    onnx.save(
        onnx.load_from_string(whole), file, save_as_external_data=True, location="weights", size_threshold=0
    )
    opened = {weight.name: weight for weight in open_graph(file).graph.initializer}
    assert opened["turn"].raw_data  # shape inference reads small weights
    assert not opened["big"].raw_data
    assert (numpy_helper.to_array(with_values(opened["big"], file)) == big.T).all()
    content = read_graph(file)
    assert (tmp_path / "weights").exists()
    assert onnx.load_from_string(content) == onnx.load_from_string(whole)
    assert read_graph(content) is content
