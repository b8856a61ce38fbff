import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from pricekit.bundle import open_bundle
from pricekit.errors import BundleError
from pricekit.prediction import sandbox
from pricekit.prediction.sandbox import inspect_bundle
from tests.bundle.hostile import change, graph, priced_at_one, put

GOLDEN = Path("tests/golden/bundle")
node = helper.make_node
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def crash():
    """The smallest int64 divided by -1 is a trap of the processor."""
    ceiling = node("ReduceMax", ["attention_mask", "one"], ["p"], keepdims=0)
    steps = [
        ceiling,
        node("Mul", ["p", "least"], ["m"]),
        node("Div", ["m", "minus"], ["d"]),
        node("Cast", ["d"], ["price"], to=TensorProto.FLOAT),
    ]
    return graph(steps, {"one": np.array([1]), "least": np.array(-(2**63)), "minus": np.array(-1)})


def expanded(*shape, products=0):
    """A tensor of ones of a shape that only the graph knows, multiplied with itself."""
    steps = [
        node("ReduceMax", ["attention_mask"], ["m"], keepdims=0),
        node("Mul", ["m", "s"], ["shape"]),
        node("Expand", ["tiny", "shape"], ["x0"]),
        *(node("MatMul", [f"x{n}", "x0"], [f"x{n + 1}"]) for n in range(products)),
        node("ReduceMax", [f"x{products}"], ["extra"], keepdims=0),
    ]
    return priced_at_one(steps, {"s": np.array(shape), "tiny": np.float32(1e-5)})


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(GOLDEN, tmp_path / "copy")


@pytest.mark.parametrize("name", ["bundle", "v0.1/bundle-ensemble"])
def test_a_bundle_opens_and_prices_rows(name):
    found = inspect_bundle(open_bundle(GOLDEN.parent / name))
    assert found.note == ""
    assert 0 < found.seconds < sandbox.SECONDS
    assert 10 < found.megabytes < 2000
    assert found.manifest["files"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (crash(), "ends the process that opens it"),
        (expanded(1500, 1_000_000), "memory|allocate|cannot price"),
        (expanded(2000, 2000, products=500), "more than 1 seconds"),
    ],
    ids=["crash", "6 GB", "endless"],
)
def test_a_graph_that_crashes_or_takes_too_much_is_one_error(copy, content, message):
    put(copy, "model.onnx", content)
    with pytest.raises(BundleError, match=f"opened in a sandbox, and cannot be used: .*({message})") as found:
        inspect_bundle(open_bundle(copy), seconds=1)
    assert "\n" not in str(found.value)


def test_a_missing_plugin_is_not_the_bundles_fault(copy):
    def rename(record):
        record["features"][0].update(name="unheard", package="unheard-of")

    change(copy, "preprocess.json", rename)
    found = inspect_bundle(open_bundle(copy))
    assert "pip install unheard-of" in found.note
    assert found.seconds is None


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("sys.platform", "darwin", "only Linux"),
        ("pricekit.prediction.sandbox.find_spec", lambda _: None, "pip install"),
    ],
)
def test_without_a_sandbox_a_note_says_why(name, value, note, monkeypatch):
    monkeypatch.setattr(name, value)
    assert note in inspect_bundle(open_bundle(GOLDEN)).note


def test_the_child_gets_no_secrets(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    assert "TOKEN" not in sandbox._environment("/home")


def test_inspect_opens_the_bundle_in_the_sandbox(pricekit, copy):
    code, out, _ = pricekit("inspect", copy)
    assert code == 0
    assert "MB of memory, and priced 8 rows" in " ".join(out.split())
    put(copy, "model.onnx", crash())
    code, out, err = pricekit("inspect", copy)
    assert (code, out) == (1, "")
    assert "SIGFPE" in err
