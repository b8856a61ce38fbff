import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from pricekit.errors import BundleError, MachineError, PluginError
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


def test_a_missing_plugin_is_not_the_bundles_fault(copy, raises):
    def rename(record):
        record["features"][0].update(name="unheard", package="unheard-of")

    change(copy, "preprocess.json", rename)
    with raises(PluginError) as found:
        inspect_bundle(open_bundle(copy))
    assert "pip install unheard-of" in str(found.value)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("sys.platform", "darwin", MachineError),
        ("pricekit.predict.sandbox.find_spec", lambda _: None, PluginError),
    ],
)
def test_a_bundle_that_cannot_be_opened_is_an_error(name, value, kind, monkeypatch, raises):
    monkeypatch.setattr(name, value)
    with raises(kind):
        inspect_bundle(open_bundle(GOLDEN))


def test_without_a_sandbox_the_self_test_opens_a_bundle_if_it_is_asked_for(pricekit, monkeypatch):
    monkeypatch.setattr("pricekit.predict.sandbox.sys.platform", "darwin")
    code, out, err = pricekit("bundle", "inspect", GOLDEN)
    assert (code, out) == (4, "")
    assert "only Linux limits the memory" in err
    code, out, err = pricekit("bundle", "inspect", GOLDEN, "--self-test", "--engine", "ort-cpu")
    assert code == 0
    assert "self-test passed" in out
    assert "only the self-test has opened it" in err


STATES = {
    "null": None,
    "a text": "x",
    "no state": {},
    "an offset": {"label": "", "sizes": [], "brand": 1e300},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_damaged_state_is_the_bundles_fault_for_every_command(copy, pricekit, tmp_path, state):
    change(copy, "preprocess.json", lambda record: record["features"][0].update(state=state))
    (tmp_path / "new.csv").write_text("sample_id,catalog_content\n1,green tea\n")
    code, out, err = pricekit("bundle", "inspect", copy)
    assert (code, out) == (1, "")
    assert "is damaged, do not trust it" in err
    code, out, err = pricekit("predict", copy, tmp_path / "new.csv", "--out", tmp_path / "prices.csv")
    assert (code, out) == (1, "")
    assert "do not trust it" in err or "is damaged" in err


def test_a_bundle_that_is_replaced_meanwhile_does_not_pass(copy, raises):
    opened = open_bundle(copy)
    put(copy, "later.bin", b"new")
    with raises(BundleError):
        inspect_bundle(opened)


def test_prices_that_differ_from_the_self_test_are_the_bundles_fault(copy, raises):
    change(copy, "self_test.json", lambda record: record["prices"].__setitem__(0, 1e6))
    with raises(BundleError):
        inspect_bundle(open_bundle(copy))


def _children():
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def test_a_slow_start_is_not_the_bundles_fault_and_the_child_is_killed(copy, tmp_path, monkeypatch, raises):
    before = _children()
    (tmp_path / "slow.py").write_text("import time; time.sleep(3600)")
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "slow.py"))
    monkeypatch.setattr("pricekit.io.sandbox._START_SECONDS", 0)
    with raises(MachineError) as found:
        inspect_bundle(open_bundle(copy), seconds=1)
    assert "did not start within 0 seconds, which is no fault of the file" in str(found.value)
    assert _children() <= before


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (
            "raise RuntimeError('boom')",
            PluginError,
            "cannot start: the plugin .*plugin.py cannot be loaded: RuntimeError: boom",
        ),
        (
            "import os; os.abort()",
            MachineError,
            r"ended at its start \(SIGABRT\), which is no fault of the file",
        ),
    ],
)
def test_a_plugin_that_fails_at_the_start_is_not_the_bundles_fault(
    copy, tmp_path, monkeypatch, code, kind, message
):
    (tmp_path / "plugin.py").write_text(code)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "plugin.py"))
    with pytest.raises(kind, match=message):
        inspect_bundle(open_bundle(copy))


def test_the_child_loads_plugin_files_with_relative_paths(copy, tmp_path, monkeypatch):
    (tmp_path / "plugin.py").write_text("import os; os.write(1, b'printed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", f"plugin.py{os.pathsep}")
    assert inspect_bundle(open_bundle(copy)).note == ""


def test_the_child_gets_no_more_memory_than_is_available(copy, tmp_path, monkeypatch, raises):
    monkeypatch.setattr("pricekit.io.cpus._MEMORY", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {700 << 10} kB")
    assert inspect_bundle(open_bundle(copy)).note == ""
    put(copy, "model.onnx", expanded(1000, 300_000))
    with raises(MachineError):
        inspect_bundle(open_bundle(copy))


def test_a_graph_that_needs_more_memory_than_a_limited_process_may_take_does_not_pass(copy):
    put(copy, "model.onnx", expanded(2000, 1_000_000))
    words = [sys.executable, "-m", "pricekit", "bundle", "inspect", str(copy)]
    limited = f"ulimit -v 3000000; {shlex.join(words)}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "needs more memory than this process may take" in done.stderr


def test_inspect_opens_the_bundle_in_the_sandbox(pricekit, copy):
    code, out, _ = pricekit("bundle", "inspect", copy)
    assert code == 0
    assert "MB of memory, and priced rows" in " ".join(out.split())
    put(copy, "model.onnx", crash())
    code, out, err = pricekit("bundle", "inspect", copy)
    assert (code, out) == (1, "")
    assert "SIGFPE" in err
