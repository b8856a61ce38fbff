import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from pricekit_openvino.engine import OpenVino, _core

import pricekit as pk
from pricekit.plugin import BundleError, Graph, PluginError
from pricekit.testing import check_engine

pytest.importorskip("openvino")


@pytest.mark.parametrize("check", check_engine(OpenVino), ids=str)
def test_the_plugin_passes_the_conformance_checks(check):
    check()


@pytest.fixture
def engine(registered):
    return registered("openvino").create("engine", "openvino")


@pytest.fixture(scope="module")
def model(catalog):
    """A model with attention; another test covers the hashes of `bag`."""
    sizes = {"vocab_size": 256, "width": 16, "layers": 2, "heads": 2}
    settings = {f"backbone.{name}": size for name, size in sizes.items()} | {"training.refit": False}
    options = {"backbone": "transformer", "features": "optimized22", "max_length": 64, "epochs": 1}
    return pk.train(catalog, **options, settings=settings)


@pytest.fixture(scope="module")
def graph(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    model.export(folder / "bundle")
    return Graph((folder / "bundle" / "model.onnx").read_bytes(), 64, 22, folder / "cache")


def batch(rows, length, vocab_size=12):
    rng = np.random.default_rng(rows)
    return {
        "input_ids": rng.integers(0, vocab_size, (rows, length)),
        "attention_mask": np.ones((rows, length), np.int64),
        "features": rng.normal(size=(rows, 22)).astype(np.float32),
    }


def test_a_bundle_with_embeddings_has_the_same_prices(model, graph, engine, tmp_path):
    model.export(tmp_path / "embeds", with_embeddings=True)
    embeds = replace(graph, model=(tmp_path / "embeds" / "model.onnx").read_bytes())
    rows = batch(5, 17)
    assert engine.load(embeds)(rows) == pytest.approx(engine.load(graph)(rows), rel=1e-6)


def test_it_returns_the_prices_of_onnx_runtime_at_any_shape(engine, graph, registered):
    reference = registered("openvino").create("engine", "ort-cpu")
    price, expected = engine.load(graph), reference.load(graph)
    for rows, length in ((1, 1), (5, 17), (64, 64), (5, 17)):
        found = price(batch(rows, length))
        assert found.dtype == np.float32
        assert found == pytest.approx(expected(batch(rows, length)), rel=0.02)


class Recorder:
    """OpenVINO's core, which records the settings that a graph is compiled with."""

    def __init__(self):
        self.settings = {}

    def __getattr__(self, name):
        return getattr(_core(), name)

    def compile_model(self, model, device, settings):
        self.settings = settings
        return _core().compile_model(model, device, settings)


def test_only_a_graph_of_float16_weights_may_be_computed_in_less_than_float32(
    engine, model, graph, monkeypatch, tmp_path
):
    model.export(tmp_path / "half", precision="fp16")
    half = replace(graph, model=(tmp_path / "half" / "model.onnx").read_bytes())
    recorder, prices = Recorder(), []
    monkeypatch.setattr("pricekit_openvino.engine._core", lambda: recorder)
    for given, hint, multiple in ((graph, "f32", 1), (half, None, 16)):
        prices.append(engine.load(given)(batch(5, 17)))
        assert recorder.settings.get("INFERENCE_PRECISION_HINT") == hint
        assert engine.length_multiple == multiple
    assert prices[1] == pytest.approx(prices[0], rel=0.05)


def test_returned_arrays_do_not_change(engine, graph):
    price = engine.load(graph)
    first = price(batch(3, 4))
    kept = first.copy()
    price(batch(3, 5))
    assert np.array_equal(first, kept)


def test_an_invalid_graph_is_rejected(engine, tmp_path, raises):
    with raises(BundleError):
        engine.load(Graph(b"no graph", 64, 22, tmp_path))


def test_a_missing_library_is_named(engine, graph, monkeypatch, raises):
    monkeypatch.setattr("pricekit_openvino.engine._core", _core.__wrapped__)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with raises(PluginError):
        engine.load(graph)


def test_listing_plugins_does_not_import_it(program):
    said, imported = program("plugins", "list")
    assert "openvino" in said
    assert "pricekit_openvino" in imported
    assert "openvino" not in imported


def test_bag_is_priced_as_by_onnx_runtime(bundle, catalog, tmp_path, pricekit):
    """OpenVINO computes integers as float32: the hashes of `bag` must fit into 24 bits."""
    prices = []
    for engine in ("openvino", "ort-cpu"):
        out = tmp_path / f"{engine}.csv"
        assert pricekit("predict", bundle, catalog, "--out", out, "--engine", engine)[0] == 0
        prices.append(np.loadtxt(out, delimiter=",", skiprows=1, usecols=1))
    assert prices[0] == pytest.approx(prices[1], rel=0.02)


DROPPED_ELSEWHERE = """
import gc, signal, sys, threading
from pathlib import Path
from pricekit.plugin import Graph
from pricekit_openvino.engine import OpenVino

held = [OpenVino().load(Graph(Path(sys.argv[1]).read_bytes(), 64, 22, Path("cache")))]
thread = threading.Thread(target=lambda: (held.clear(), gc.collect()))
thread.start()
thread.join()
signal.signal(signal.SIGINT, lambda *_: None)
signal.raise_signal(signal.SIGINT)
"""


def test_the_process_survives_a_signal_after_another_thread_released_the_engine(graph, tmp_path):
    (tmp_path / "m.onnx").write_bytes(graph.model)
    done = subprocess.run([sys.executable, "-c", DROPPED_ELSEWHERE, str(tmp_path / "m.onnx")], check=False)
    assert done.returncode == 0


def test_openvino_is_imported_without_its_telemetry(tmp_path):
    """The telemetry stores a user id in the home folder before it sends anything."""
    home = {**os.environ, "HOME": str(tmp_path)}
    home.pop("CI", None)  # where there is none either
    code = (
        "import sys; from pricekit_openvino.engine import _core; _core();"
        "assert not [name for name in sys.modules if name.startswith('openvino_telemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=home)
    assert list(tmp_path.iterdir()) == []
