"""Graphs that fail: one error about the bundle."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from pricekit.errors import BundleError
from pricekit.predict.predictor import Predictor
from tests.predict.hostile import graph, priced_at_one, put

node = helper.make_node
ONE = {"one": np.array([1])}
CEILING = node("ReduceMax", ["attention_mask", "one"], ["p"], keepdims=0)
ODD = {
    "ids beyond the table": graph(
        [node("Gather", ["t", "input_ids"], ["g"]), node("ReduceMax", ["g", "one"], ["price"], keepdims=0)],
        {"t": np.ones(2, np.float32), **ONE},
    ),
    "shape": graph([node("Reshape", ["features", "s"], ["price"])], {"s": np.array([7, 13])}),
    "features": graph([node("ReduceMax", ["features", "one"], ["price"], keepdims=0)], ONE, features=3),
    "range": priced_at_one(
        [node("Range", ["zero", "b", "c"], ["r"]), node("ReduceMax", ["r"], ["extra"], keepdims=0)],
        {"b": np.float32(1e30), "c": np.float32(1e-30)},
    ),
    "memory": priced_at_one(
        [node("Expand", ["zero", "s"], ["r"]), node("ReduceMax", ["r"], ["extra"], keepdims=0)],
        {"s": np.array([1 << 40, 1 << 40])},
    ),
    "division": graph(
        [CEILING, node("Div", ["p", "z"], ["d"]), node("Cast", ["d"], ["price"], to=TensorProto.FLOAT)],
        {"z": np.array(0), **ONE},
    ),
    "no output": graph([]),
    "prices of type": graph(
        [CEILING, node("Identity", ["p"], ["price"])], ONE, price=(TensorProto.INT64, ["n"])
    ),
    "texts": graph(
        [CEILING, node("Cast", ["p"], ["price"], to=TensorProto.STRING)],
        ONE,
        price=(TensorProto.STRING, ["n"]),
    ),
    "not a number": priced_at_one([node("Identity", ["n"], ["extra"])], {"n": np.float32(np.nan)}),
    "one price": graph([node("Identity", ["x"], ["price"])], {"x": np.float32([1])}),
}


@pytest.mark.parametrize("name", ODD)
def test_a_graph_that_fails_is_one_error_about_the_bundle(tmp_path, name):
    copy = shutil.copytree(Path("tests/golden/bundle"), tmp_path / "copy")
    put(copy, "model.onnx", ODD[name])
    with pytest.raises(BundleError) as found:
        Predictor.load(copy, "ort-cpu").predict(["tea", "coffee", "milk"])
    assert "\n" not in str(found.value)
