"""Opening a named engine, and the choice of "auto"."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pricekit.core.contracts import Graph
from pricekit.errors import BundleError, PluginError
from pricekit.io.cpus import usable_cpus
from pricekit.predict import engines as choose
from pricekit.predict.engines import open_engine
from pricekit.predict.loaded_engine import LoadedEngine
from pricekit.predict.ort import load_cpu

VOCABULARY = 500


def slowed(graph):
    priced = load_cpu(graph.model)

    def run(batch):
        time.sleep(0.1)
        return priced(batch)

    return run


def constant(price):
    return lambda graph: lambda batch: np.full(len(batch["features"]), price, np.float32)


def missing(graph):
    raise PluginError("libfast.so is not there")


def test_auto_takes_the_only_engine_that_loads_without_measuring(graph, monkeypatch, logged):
    monkeypatch.setattr(choose, "speeds", None)
    for _ in range(2):
        opened = open_engine("auto", graph, VOCABULARY)
        assert (opened.name, opened.streams, opened.batch_tokens) == ("ort-cpu", usable_cpus(), 2048)
    assert logged() == ""


def test_auto_chooses_and_caches_the_fastest_engine(graph, engines):
    loads = []

    def counted(graph):
        loads.append(1)
        return slowed(graph)

    engines(slow=counted, gone=missing)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert json.loads((graph.cache / "engine.json").read_text())["fastest"] == "ort-cpu"
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert loads == [1]  # nothing was tried the second time


def test_each_load_warns_about_an_unused_gpu_until_it_works(graph, engines, monkeypatch, logged):
    monkeypatch.setattr(choose.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(choose, "GPU", "gone")
    loads = [missing]
    engines(gone=lambda graph: loads[-1](graph))
    for _ in range(3):
        assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
        assert "the engine is ort-cpu; the GPU cannot be used:" in logged()
    loads.append(slowed)
    open_engine("auto", graph, VOCABULARY)
    assert "measuring which engine is fastest" in logged()
    open_engine("auto", graph, VOCABULARY)
    assert logged() == ""  # the result is cached


def unreadable(graph):
    raise BundleError("one of its operations is not supported")


def failing(graph):
    def run(batch):
        raise RuntimeError("this shape is not supported")

    return run


def test_auto_skips_an_engine_that_cannot_run_the_graph(graph, engines, raises):
    engines(unreadable=unreadable, failing=failing)
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    with raises(BundleError):
        open_engine("unreadable", graph, VOCABULARY)
    opened = open_engine("failing", graph, VOCABULARY)
    with raises(PluginError, kind="engine", name="failing", package="toy"):
        opened.price(choose.sample_inputs(graph, VOCABULARY), np.arange(9))


def test_if_no_engine_loads_a_graph_the_error_is_that_of_the_reference(graph, engines, raises):
    engines(unreadable=unreadable)
    with raises(BundleError):
        open_engine("auto", replace(graph, model=b"no graph"), VOCABULARY)


def changed(change, inputs=lambda batch: batch):
    """An engine that changes the prices of the reference, or its inputs."""

    def load(graph):
        price = load_cpu(graph.model)
        return lambda batch: change(price(inputs(batch)))

    return load


def from_row_65(prices):
    prices[64:] *= 1.1
    return prices


def random_by_1_percent(prices):
    return (prices * np.random.default_rng().uniform(0.99, 1.01, len(prices))).astype(np.float32)


def unmasked(batch):
    return {**batch, "attention_mask": np.ones_like(batch["attention_mask"])}


WRONG = {
    "other prices": constant(1e9),
    "not a number": constant(float("nan")),
    "from row 65 on": changed(from_row_65),
    "random by 1%": changed(random_by_1_percent),
    "no mask": changed(lambda prices: prices, unmasked),
    "float64": changed(lambda prices: prices.astype(np.float64)),
    "a column": changed(lambda prices: prices[:, None]),
    "fails": failing,
}


@pytest.mark.parametrize("load", WRONG.values(), ids=WRONG)
def test_auto_chooses_no_engine_with_other_prices(graph, engines, monkeypatch, load):
    engines(wrong=load)
    measured = []
    monkeypatch.setattr(choose, "speeds", lambda opened, inputs: measured.append(len(opened)))
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert measured == []


def test_auto_measures_an_engine_with_nearly_the_same_prices(graph, engines, monkeypatch):
    engines(right=changed(lambda prices: prices * np.float32(1.015)))
    monkeypatch.setattr(choose, "speeds", lambda opened, inputs: np.array([[1.0], [2.0]])[: len(opened)])
    assert open_engine("auto", graph, VOCABULARY).name == "right"


def test_a_similar_graph_is_opened_in_the_same_engine(graph, engines, monkeypatch):
    engines(right=changed(lambda prices: prices))
    monkeypatch.setattr(choose, "speeds", None)
    assert open_engine("auto", graph, VOCABULARY, "right").name == "right"


def test_a_missing_cached_engine_is_not_used(graph, engines):
    engines(slow=slowed)
    open_engine("auto", graph, VOCABULARY)
    record = json.loads((graph.cache / "engine.json").read_text())
    engines(gone=missing)
    for text in (
        json.dumps(record | {"fastest": "gone"}),
        "{",
        json.dumps([]),
        json.dumps({"fastest": "slow"}),
        json.dumps(record | {"without_gpu": float("inf")}),
        "[" * 100_000,
    ):
        (graph.cache / "engine.json").write_text(text)
        assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"


def test_a_named_engine_that_cannot_load_is_an_error(graph, engines, raises):
    engines(gone=missing)
    with raises(PluginError):
        open_engine("gone", graph, VOCABULARY)
    with raises(
        PluginError,
        "engine",
        kind="engine",
        name="nonsense",
        candidates=["gone", "ort-cpu", "ort-cuda", "ort-tensorrt", "ort-tensorrt-rtx"],
    ):
        open_engine("nonsense", graph, VOCABULARY)


@pytest.mark.parametrize("number", ["streams", "length_multiple", "batch_tokens"])
@pytest.mark.parametrize("value", [0, "two", None])
def test_numbers_of_an_engine_are_at_least_1(graph, engines, monkeypatch, number, value, raises):
    engines(wrong=lambda graph: load_cpu(graph.model))
    monkeypatch.setattr(sys.modules["toy_engines"].wrong, number, value, raising=False)
    with raises(PluginError, "engine", kind="engine", name="wrong", package="toy"):
        open_engine("wrong", graph, VOCABULARY)


def test_a_library_that_an_engine_lacks_is_named(graph, engines, raises):
    def load(graph):
        import no_such_library  # noqa: F401

    engines(lacking=load)
    with raises(PluginError, "engine", kind="engine", name="lacking", package="toy"):
        open_engine("lacking", graph, VOCABULARY)


def test_a_reference_that_cannot_price_sample_rows_is_still_used(graph, engines, monkeypatch):
    engines(wrong=constant(2.0))
    monkeypatch.setattr("pricekit.predict.ort.load_cpu", lambda model: constant(float("nan"))(None))
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"


def test_a_named_engine_is_not_measured(graph, engines, monkeypatch, logged):
    monkeypatch.setattr(choose, "speeds", None)
    engines(right=lambda graph: load_cpu(graph.model))
    for name in ("ort-cpu", "right"):
        assert open_engine(name, graph, VOCABULARY).name == name
    assert not (graph.cache / "engine.json").exists()
    assert logged() == ""


def test_a_quick_engine_is_timed_over_many_batches(monkeypatch):
    calls = []

    def price_batch(batch):
        calls.append(1)  # each takes a millisecond, less than it takes to start the threads
        return np.ones(len(batch["input_ids"]), np.float32)

    monkeypatch.setattr(choose, "time", SimpleNamespace(perf_counter=lambda: len(calls) / 1000))
    graph = Graph(b"", 64, 1, Path("unused"))
    assert choose.speeds(
        [LoadedEngine("quick", price_batch, streams=2)], choose.sample_inputs(graph, 10)
    ).shape == (
        1,
        choose.REPEATS,
    )
    assert len(calls) > 10 * choose.REPEATS


def test_another_version_of_a_library_is_measured_again(graph, engines, monkeypatch):
    engines(slow=slowed)
    measured, speeds = [], choose.speeds
    monkeypatch.setattr(choose, "speeds", lambda *given: measured.append(1) or speeds(*given))
    for _ in range(2):
        open_engine("auto", graph, VOCABULARY)
    before, version = len(measured), choose.metadata.version
    choose._library_versions.cache_clear()
    monkeypatch.setattr(
        choose.metadata, "version", lambda name: "99.0" if name == "onnxruntime" else version(name)
    )
    open_engine("auto", graph, VOCABULARY)
    choose._library_versions.cache_clear()
    assert 0 < before < len(measured)


def test_an_unwritable_cache_causes_a_warning(graph, logged):
    graph.cache.parent.mkdir(exist_ok=True)
    graph.cache.write_text("a file")
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert "cannot be cached" in logged()
