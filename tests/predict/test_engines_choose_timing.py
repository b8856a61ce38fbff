"""Batch sizes are chosen by speed."""

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pricekit.core.contracts import Graph
from pricekit.predict import engines, loaded_engine
from pricekit.predict.engines import open_engine
from pricekit.predict.loaded_engine import LoadedEngine
from pricekit.predict.ort import load_cpu

VOCABULARY = 500


def lasting(seconds):
    """An engine whose calls take `seconds(tokens)`."""

    def load(graph):
        priced = load_cpu(graph.model)

        def run(batch):
            time.sleep(seconds(batch["input_ids"].size))
            return priced(batch)

        return run

    return load


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (lambda tokens: 0.1, engines.BATCH_CHOICES[-1]),
        (lambda tokens: (tokens / 2048) ** 2, 512),
        (lambda tokens: 0.02 * tokens / 512 if tokens <= 1024 else 0.06, engines.BATCH_CHOICES[-1]),
    ],
)
def test_the_batch_size_is_the_fastest_one_of_the_engine(graph, monkeypatch, seconds, best):
    monkeypatch.setattr(engines, "LENGTH", 64)
    for module in (engines, loaded_engine):
        monkeypatch.setattr(module, "BATCH_SIZE", 512)
    monkeypatch.setattr(engines, "REPEATS", 1)
    inputs, done = engines.sample_inputs(graph, VOCABULARY), []
    engine = LoadedEngine("lasting", lasting(seconds)(graph), streams=2)
    assert engines.with_best_batch_size(engine, inputs, done.append).batch_tokens == best
    assert sum(done) == len(engines.BATCH_CHOICES) - 1


def test_a_quick_engine_is_timed_over_many_batches(monkeypatch):
    calls = []

    def price_batch(batch):
        calls.append(1)  # each takes a millisecond, less than it takes to start the threads
        return np.ones(len(batch["input_ids"]), np.float32)

    monkeypatch.setattr(engines, "time", SimpleNamespace(perf_counter=lambda: len(calls) / 1000))
    graph = Graph(b"", 64, 1, Path("unused"))
    assert engines.speeds(
        [LoadedEngine("quick", price_batch, streams=2)], engines.sample_inputs(graph, 10)
    ).shape == (
        1,
        engines.REPEATS,
    )
    assert len(calls) > 10 * engines.REPEATS


VOCABULARY = 500


def test_another_version_of_a_library_is_measured_again(graph, monkeypatch):
    measured, speeds = [], engines.speeds
    monkeypatch.setattr(engines, "speeds", lambda *given: measured.append(1) or speeds(*given))
    for _ in range(2):
        open_engine("auto", graph, VOCABULARY)
    before, version = len(measured), engines.metadata.version
    engines._library_versions.cache_clear()
    monkeypatch.setattr(
        engines.metadata, "version", lambda name: "99.0" if name == "onnxruntime" else version(name)
    )
    open_engine("auto", graph, VOCABULARY)
    engines._library_versions.cache_clear()
    assert 0 < before < len(measured)


def test_an_unwritable_cache_causes_a_warning(graph, logged):
    graph.cache.parent.mkdir(exist_ok=True)
    graph.cache.write_text("a file")
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert "cannot be cached" in logged()
