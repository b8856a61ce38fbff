import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from pricekit_openvino.engine import OpenVino, _core

from pricekit.core.loader import load
from pricekit.plugin import BundleError, Graph, PluginError
from pricekit.testing import check_engine

pytest.importorskip("openvino")


@pytest.mark.parametrize("check", check_engine(OpenVino), ids=str)
def test_the_plugin_passes_the_conformance_checks(check):
    check()


@pytest.fixture
def engine():
    registry = load([EntryPoint("openvino", "pricekit_openvino", "pricekit")])
    assert not registry.failed
    return registry.create("engine", "openvino")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """An encoder with attention; another test covers the hashes of `bag`."""
    import torch

    from pricekit.config import HeadConfig
    from pricekit.export.graph import export_graph
    from pricekit.nets.losses import smape
    from pricekit.nets.network import PriceModel
    from pricekit.nets.transformer import SmallTransformer
    from pricekit.text.tokens import encode

    torch.manual_seed(0)
    backbone = SmallTransformer(SmallTransformer.Options(vocab_size=256, width=16, layers=2, heads=2))
    tokenizer = backbone.tokenizer(["green tea", "black tea"])
    tokens = encode(tokenizer, ["green tea"], 64, 0)
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens)
    model = PriceModel(encoder, HeadConfig(), smape(), 22)
    folder = tmp_path_factory.mktemp("graph")
    export_graph(model, batch(2, 5, tokenizer.get_vocab_size()), folder / "m.onnx")
    return Graph((folder / "m.onnx").read_bytes(), 64, 22, folder / "cache")


def batch(rows, length, vocab_size=12):
    rng = np.random.default_rng(rows)
    return {
        "input_ids": rng.integers(0, vocab_size, (rows, length)),
        "attention_mask": np.ones((rows, length), np.int64),
        "features": rng.normal(size=(rows, 22)).astype(np.float32),
    }


def test_it_returns_the_prices_of_onnx_runtime_at_any_shape(engine, graph):
    from pricekit.predict.ort import load_cpu

    price, expected = engine.load(graph), load_cpu(graph.model)
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


def test_only_a_graph_of_float16_weights_may_be_computed_in_less_than_float32(engine, graph, monkeypatch):

    from pricekit.export.precision import to_float16

    half = replace(graph, model=to_float16(graph.model, []).SerializeToString())
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


def test_listing_plugins_does_not_import_it():
    code = (
        "import sys; from pricekit.core.loader import registry; registry(); print('openvino' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


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
from pricekit.core.contracts import Graph
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
