"""The checks of an engine: built-in engines pass, and each check detects a faulty one."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from pricekit import plugin
from pricekit.errors import BundleError, PluginError
from pricekit.predict.ort import OrtCpu, OrtCuda, load_cpu
from pricekit.testing import CheckFailed, check_engine
from pricekit.testing import engine as testing_engine


class Right(plugin.Engine):
    """Needs lengths that are multiples of 16, or the longest one, and runs four streams."""

    length_multiple = 16
    streams = 4

    def load(self, graph):
        price = load_cpu(graph.model)

        def run(batch):
            length = batch["input_ids"].shape[1]
            assert length == graph.max_length or (length < graph.max_length and length % 16 == 0)
            return self.found(price(self.inputs(batch)), batch)

        return run

    def inputs(self, batch):
        return batch

    def found(self, prices, batch):
        return prices


def changed(**parts):
    return type("Wrong", (Right,), parts)


def with_prices(change):
    """Change the prices of each batch in place, or return others."""

    def found(self, prices, batch):
        other = change(prices)
        return prices if other is None else other

    return changed(found=found)


def with_inputs(change):
    return changed(inputs=lambda self, batch: {**batch, **change(batch)})


def times_from_row(first):
    def change(prices):
        prices[first:] *= 1.5

    return with_prices(change)


class Random(Right):
    scale = 0.01

    def __init__(self):
        self.random = np.random.default_rng(0)

    def found(self, prices, batch):
        return (prices * self.random.normal(1, self.scale, len(prices))).astype(np.float32)


class SlightlyRandom(Random):
    scale = 0.001


def swap(prices):
    prices[:2] = prices[:2][::-1].copy()


class Reuses(Right):
    """Returns a view of one buffer."""

    buffer = np.zeros(2000, np.float32)

    def found(self, prices, batch):
        self.buffer[: len(prices)] = prices
        return self.buffer[: len(prices)]


class CachesByShape(Right):
    """Returns the prices of the first batch for each batch of its shape."""

    def __init__(self):
        self.kept = {}

    def found(self, prices, batch):
        return self.kept.setdefault(batch["input_ids"].shape, prices)


class OneBatchForAllThreads(Right):
    """Its threads have one attribute for the batch."""

    def inputs(self, batch):
        self.batch = batch
        return self.current()

    def current(self):
        time.sleep(0.001)
        return self.batch


class OneInputBufferForAllThreads(Right):
    """Its threads copy the features of their batches into one array."""

    def load(self, graph):
        self.features = np.zeros((2000, graph.features), np.float32)
        return super().load(graph)

    def inputs(self, batch):
        rows = len(batch["features"])
        self.features[:rows] = batch["features"]
        return {**batch, "features": self.features[:rows]}


class Normalizes(Right):
    def inputs(self, batch):
        batch["features"] *= 1
        batch["features"] += 1
        return {**batch, "features": batch["features"] - 1}


class FailsFor(Right):
    def inputs(self, batch):
        if self.refuses(*batch["input_ids"].shape):
            raise RuntimeError("this shape is not supported")
        return batch


class OneRowFails(FailsFor):
    def refuses(self, rows, length):
        return rows == 1


class LongestFails(FailsFor):
    def refuses(self, rows, length):
        return length == 300


class ManyRowsFail(FailsFor):
    def refuses(self, rows, length):
        return rows > 256


class RaisesItsOwnError(Right):
    def load(self, graph):
        if graph.model.startswith(b"this"):
            raise ValueError("magic number")
        return super().load(graph)


class AcceptsHalfAGraph(Right):
    def load(self, graph):
        try:
            return super().load(graph)
        except BundleError:
            if graph.model.startswith(b"this"):
                raise
            return lambda batch: None


class Missing(Right):
    def load(self, graph):
        raise PluginError("libfast is missing: pip install fast")


class ImportsInside(Right):
    def found(self, prices, batch):
        import torch

        return np.asarray(torch.from_numpy(prices))


class HasOptions(Right):
    class Options(BaseModel):
        threads: int = 1

    def __init__(self, options=None):
        self.options = options


class WritesHere(Right):
    def load(self, graph):
        Path("compiled.bin").write_bytes(b"")
        return super().load(graph)


class WritesBesideTheCache(Right):
    def found(self, prices, batch):
        self.path.write_bytes(b"")
        return prices

    def load(self, graph):
        self.path = graph.cache.with_name("compiled.bin")
        return super().load(graph)


class Prints(Right):
    def found(self, prices, batch):
        print("priced", len(prices))
        return prices


class LeavesAThread(Right):
    """A thread waits for work; the test ends it."""

    ended = threading.Event()

    def load(self, graph):
        threading.Thread(target=self.ended.wait, name="poller").start()
        return super().load(graph)


class HasAPool(Right):
    """The threads of a pool end with the interpreter."""

    streams = 1

    def load(self, graph):
        price = super().load(graph)
        pool.append(ThreadPoolExecutor(1))
        return lambda batch: pool[-1].submit(price, batch).result()


pool = []


class Locks(Right):
    """Creates a file that tells other processes to stay away."""

    def load(self, graph):
        graph.cache.mkdir(exist_ok=True)
        lock = graph.cache / "lock"
        if lock.exists():
            raise PluginError("another process uses the cache")
        lock.touch()
        return super().load(graph)


class WaitsForALock(Right):
    def load(self, graph):
        graph.cache.mkdir(exist_ok=True)
        lock = graph.cache / "lock"
        while lock.exists():
            time.sleep(0.01)
        lock.touch()
        return super().load(graph)


class ReadsAnotherCache(Right):
    """Takes what is in the cache for something else."""

    def load(self, graph):
        factor = 2 if graph.cache.exists() else 1
        graph.cache.mkdir(exist_ok=True)
        self.found = lambda prices, batch: prices * np.float32(factor)
        return super().load(graph)


class Caches(Right):
    """Writes into graph.cache, as it should."""

    def load(self, graph):
        graph.cache.mkdir(exist_ok=True)
        (graph.cache / "compiled.bin").write_bytes(graph.model)
        return super().load(graph)


class Half(Right):
    """Computes with weights of 16 bits."""

    def load(self, graph):
        from pricekit.export.precision import to_float16

        super().load(graph)  # which must be valid
        return super().load(replace(graph, model=to_float16(graph.model, []).SerializeToString()))


def from_a_file():
    """Load a plugin file as `--plugin` does."""
    path = Path(__file__).with_name("imports_torch.py")
    spec = spec_from_file_location("pricekit_file_imports_torch", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Cpu()


WRONG = {
    "has load and no Options": [changed(load=None), HasOptions],
    "length_multiple, streams and batch_tokens": [
        changed(length_multiple=0),
        changed(streams="2"),
        changed(batch_tokens=None),
    ],
    "finite, positive float32 prices": [
        with_prices(lambda p: p.astype(np.float64)),
        with_prices(lambda p: p[:, None]),
        with_prices(lambda p: p.tolist()),
        with_prices(lambda p: -p),
        with_prices(lambda p: np.where(p > 1e5, np.float32("nan"), p)),
        OneRowFails,
        LongestFails,
        ManyRowsFail,
        Missing,
    ],
    "prices match the reference": [
        with_prices(lambda p: p * np.float32(1.03)),
        with_prices(lambda p: p[:1].repeat(len(p))),
        with_prices(lambda p: np.minimum(p, np.float32(100_000))),
        with_prices(lambda p: np.maximum(p, np.float32(0.01))),
        with_prices(lambda p: p.round(2) + np.float32(1e-9)),
        with_prices(np.ceil),
        times_from_row(64),
        times_from_row(256),
        Random,
        with_inputs(lambda b: {"attention_mask": np.ones_like(b["attention_mask"])}),
        with_inputs(lambda b: {"features": np.zeros_like(b["features"])}),
        with_inputs(lambda b: {name: b[name][:, :32] for name in ("input_ids", "attention_mask")}),
        with_prices(swap),
        with_prices(np.sort),
        CachesByShape,
    ],
    "the same prices each time": [Random, SlightlyRandom],
    "independent of the other rows of the batch": [
        changed(found=lambda s, p, b: p * np.float32(1 + 0.01 * len(p))),
        changed(found=lambda s, p, b: p * (1 + 0.1 * np.arange(len(p), dtype=np.float32))),
        with_prices(swap),
        with_prices(np.sort),
    ],
    "returned arrays are not overwritten": [Reuses],
    "batches are not changed": [Normalizes],
    "concurrent streams give the same prices": [OneBatchForAllThreads, OneInputBufferForAllThreads],
    "a second engine loads the same graph": [Locks, WaitsForALock, ReadsAnotherCache],
    "rejects an invalid graph": [
        RaisesItsOwnError,
        changed(load=lambda s, graph: lambda batch: None),
        AcceptsHalfAGraph,
    ],
    "writes only into graph.cache": [WritesHere, WritesBesideTheCache],
    "prints nothing": [Prints],
    "leaves no threads": [LeavesAThread],
    "module imports no torch": [from_a_file],
    "runs without torch": [ImportsInside],
}


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(testing_engine, "SECOND_LOAD_S", 1.0)
    monkeypatch.setattr(testing_engine, "END_S", 1.0)
    LeavesAThread.ended.clear()
    yield
    LeavesAThread.ended.set()


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}: {check}")
        for name, make in {
            "ort-cpu": OrtCpu,
            "right": Right,
            "with a pool": HasAPool,
            "with a cache": Caches,
            "in 16 bits": Half,
        }.items()
        for check in check_engine(make)
    ],
)
def test_a_correct_engine_passes(check):
    check()


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in WRONG.items() for make in makes])
def test_a_faulty_engine_fails_its_check(name, make, raises):
    check = next(check for check in check_engine(make) if check.name == name)
    by_chance = name == "concurrent streams give the same prices"
    with pytest.raises(CheckFailed, match="in 4 threads differ") if by_chance else raises(CheckFailed):
        check()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_engine(Right)}


def test_the_error_names_a_missing_device(monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    messages = {}
    for check in check_engine(OrtCuda):
        try:
            check()
        except CheckFailed as error:
            messages[check.name] = str(error)
    assert len(messages) == 13
    assert all("has no CUDAExecutionProvider" in message for message in messages.values())
