import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from pricekit.errors import BundleError
from pricekit.predict import sandbox
from pricekit.predict.bundle import open_bundle
from pricekit.predict.sandbox import inspect_bundle
from tests.predict.hostile import change, graph, priced_at_one, put

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


@pytest.mark.slow
def test_the_memory_of_the_process_that_inspects_does_not_count():
    script = (
        "import numpy, pricekit as pk; held = numpy.ones(150_000_000)\n"
        "print(pk.bundles.inspect('tests/golden/bundle').megabytes)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 10 < float(done.stdout) < 1000


def test_a_bundle_opens_and_prices_rows():
    found = inspect_bundle(open_bundle(GOLDEN))
    assert found.note == ""
    assert 0 < found.seconds < sandbox.SECONDS
    assert 10 < found.megabytes < 2000
    assert found.manifest["files"]


@pytest.mark.parametrize(
    "content",
    [
        crash(),
        expanded(1500, 1_000_000),
        expanded(2000, 2000, products=500),
    ],
    ids=["crash", "6 GB", "endless"],
)
def test_a_graph_that_crashes_or_takes_too_much_is_one_error(copy, content, raises):
    put(copy, "model.onnx", content)
    with raises(BundleError) as found:
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
        ("pricekit.predict.sandbox.find_spec", lambda _: None, "pip install"),
    ],
)
def test_without_a_sandbox_a_note_says_why(name, value, note, monkeypatch):
    monkeypatch.setattr(name, value)
    assert note in inspect_bundle(open_bundle(GOLDEN)).note


def _children():
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def test_a_slow_start_is_not_the_bundles_fault_and_the_child_is_killed(copy, tmp_path, monkeypatch):
    before = _children()
    (tmp_path / "slow.py").write_text("import time; time.sleep(3600)")
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "slow.py"))
    monkeypatch.setattr("pricekit.io.sandbox._START_SECONDS", 0)
    found = inspect_bundle(open_bundle(copy), seconds=1)
    assert "did not start within 0 seconds, which is no fault of the file" in found.note
    assert found.seconds is None
    assert _children() <= before


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (
            "raise RuntimeError('boom')",
            "cannot start: the plugin .*plugin.py cannot be loaded: RuntimeError: boom",
        ),
        ("import os; os.abort()", r"ended at its start \(SIGABRT\), which is no fault of the file"),
    ],
)
def test_a_plugin_that_fails_at_the_start_is_not_the_bundles_fault(copy, tmp_path, monkeypatch, code, note):
    (tmp_path / "plugin.py").write_text(code)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "plugin.py"))
    assert re.search(note, inspect_bundle(open_bundle(copy)).note)


def test_the_child_loads_plugin_files_with_relative_paths(copy, tmp_path, monkeypatch):
    (tmp_path / "plugin.py").write_text("import os; os.write(1, b'printed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", f"plugin.py{os.pathsep}")
    assert inspect_bundle(open_bundle(copy)).note == ""


def test_the_child_gets_no_more_memory_than_is_available(copy, tmp_path, monkeypatch):
    monkeypatch.setattr("pricekit.io.cpus._MEMORY", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {700 << 10} kB")
    assert inspect_bundle(open_bundle(copy)).note == ""
    put(copy, "model.onnx", expanded(1000, 300_000))
    note = inspect_bundle(open_bundle(copy)).note
    assert note == "it needs more memory than this process may take; try a larger machine"


def test_inspect_opens_the_bundle_in_the_sandbox(pricekit, copy):
    code, out, _ = pricekit("bundle", "inspect", copy)
    assert code == 0
    assert "MB of memory, and priced 8 rows" in " ".join(out.split())
    put(copy, "model.onnx", crash())
    code, out, err = pricekit("bundle", "inspect", copy)
    assert (code, out) == (1, "")
    assert "SIGFPE" in err
