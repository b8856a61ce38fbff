"""Graphs that fail: one error about the bundle."""

import json
import shutil
import subprocess
import sys
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


ESCAPES = "\x1b]0;title\x07\x1b[2J"


def test_the_runtime_writes_nothing_and_its_errors_are_escaped(tmp_path):
    """A node's name reaches the log of ONNX Runtime; of a session that another package opens, too."""
    copy = shutil.copytree(Path("tests/golden/bundle"), tmp_path / "copy")
    steps = [
        node("Gather", ["t", "input_ids"], ["g"], name=ESCAPES),
        node("ReduceMax", ["g", "one"], ["price"], keepdims=0),
    ]
    put(copy, "model.onnx", graph(steps, {"t": np.ones(2, np.float32), **ONE}))
    (tmp_path / "table.csv").write_text("sample_id,catalog_content\n1,green tea\n")
    (tmp_path / "plugin.py").write_text(ENGINE)
    for engine in ("ort-cpu", "plain"):
        words = [
            "predict",
            copy,
            tmp_path / "table.csv",
            "--out",
            tmp_path / "prices.csv",
            "--log-format",
            "json",
        ]
        words += ["--plugin", tmp_path / "plugin.py", "--engine", engine]
        done = subprocess.run(
            [sys.executable, "-m", "pricekit", *map(str, words)], capture_output=True, check=False
        )
        assert done.returncode in (1, 3), done.stderr
        assert done.stdout == b""
        lines = [json.loads(line) for line in done.stderr.splitlines()]  # nothing else is among them
        assert "Gather" in lines[-1]["message"]
        assert b"\x1b" not in done.stderr


ENGINE = """
import onnxruntime
from pricekit import plugin

@plugin.engine("plain")
class Plain(plugin.Engine):
    def load(self, graph):
        session = onnxruntime.InferenceSession(graph.model, providers=["CPUExecutionProvider"])
        return lambda batch: session.run(["price"], dict(batch))[0]
"""


@pytest.mark.parametrize("name", ODD)
def test_a_graph_that_fails_is_one_error_about_the_bundle(tmp_path, name):
    copy = shutil.copytree(Path("tests/golden/bundle"), tmp_path / "copy")
    put(copy, "model.onnx", ODD[name])
    with pytest.raises(BundleError) as found:
        Predictor.load(copy, "ort-cpu").predict(["tea", "coffee", "milk"])
    assert "\n" not in str(found.value)
