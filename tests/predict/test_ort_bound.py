"""A session with buffers for each shape, which records faster graphs; tested on a CPU, which records nothing."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import pytest

from pricekit.errors import BundleError, PluginError
from pricekit.predict import ort as engine
from pricekit.predict.ort import NO_GRAPH, ROUNDS, BoundSession, _session

GRAPH_ID = "gpu_graph_id"


class Recording:
    """A session that imitates CUDA graphs: each graph id prices its first input, whatever its later input.

    An id of -1 records nothing, no id is 0. Each thread records for itself.
    """

    def __init__(self, model, replays=lambda session, binding: session.run_with_iobinding(binding)):
        self.session = _session(model, "CPUExecutionProvider", {})
        self.recorded, self.replays = {}, replays

    def io_binding(self):
        return self.session.io_binding()

    def run(self, names, feeds, options):
        assert options.get_run_config_entry(GRAPH_ID) == NO_GRAPH
        return self.session.run(names, feeds, options)

    def run_with_iobinding(self, binding, options):
        try:
            number = options.get_run_config_entry(GRAPH_ID)
        except RuntimeError:
            number = "0"
        key = number, threading.get_ident()
        if number == NO_GRAPH:
            self.session.run_with_iobinding(binding)
        elif key in self.recorded:
            self.replays(self.session, self.recorded[key])
        else:
            self.recorded[key] = binding
            self.session.run_with_iobinding(binding)


class Watched:
    """A session that reports the graph it uses, and may return different prices for recorded graphs."""

    def __init__(self, model, ids, recorded=lambda: None):
        self.session = _session(model, "CPUExecutionProvider", {})
        self.ids, self.recorded = ids, recorded

    def io_binding(self):
        return self.session.io_binding()

    def run(self, names, feeds, options):
        self.ids.append(options.get_run_config_entry(GRAPH_ID))
        return self.session.run(names, feeds, options)

    def run_with_iobinding(self, binding, options):
        self.ids.append(options.get_run_config_entry(GRAPH_ID))
        self.session.run_with_iobinding(binding, options)
        if self.ids[-1] != NO_GRAPH:
            self.recorded()


@pytest.fixture
def model(bundle):
    return (bundle / "model.onnx").read_bytes()


def batch(rows, length, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "input_ids": rng.integers(0, 400, (rows, length)),
        "attention_mask": np.ones((rows, length), np.int64),
        "features": rng.normal(size=(rows, 38)).astype(np.float32),
    }


def test_each_batch_has_its_own_prices(model):
    plain = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    session = Recording(model)
    price = BoundSession(lambda recording: session, "cpu")
    shapes = [(3, 8), (1, 1), (2, 20), (3, 8)] * (4 * ROUNDS)
    kept = []
    for seed, (rows, length) in enumerate(shapes):
        given = batch(rows, length, seed)
        before = {name: array.copy() for name, array in given.items()}
        kept.append((price(given), plain.run(["price"], given)[0]))
        assert all(np.array_equal(given[name], before[name]) for name in given)
    for found, expected in kept:  # after the last: no prices are written over
        assert found == pytest.approx(expected, rel=1e-6)
    assert price.records
    assert {number for number, _ in session.recorded} == {"1", "2", "3"}


def test_the_graph_id_setting_is_that_of_onnxruntime():
    from onnxruntime.capi import onnxruntime_inference_collection as python

    assert engine.GRAPH_ID == GRAPH_ID == python._GPU_GRAPH_ID_RUN_CONFIG_KEY


def test_threads_share_what_is_recorded(model):
    session = Recording(model)
    price = BoundSession(lambda recording: session, "cpu")
    expected = _session(model, "CPUExecutionProvider", {}).run(["price"], batch(2, 8))[0]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(price, [batch(2, 8)] * (8 * ROUNDS)):
            assert found == pytest.approx(expected, rel=1e-6)
    assert len(session.recorded) == 1


def replays_nothing(session, binding):
    """Keep the old content of the buffers."""


def replays_the_first(prices):
    def replay(session, binding):
        session.run_with_iobinding(binding)
        if prices:
            binding.get_outputs()[0].update_inplace(prices[0])
        prices.append(binding.copy_outputs_to_cpu()[0].copy())

    return replay


@pytest.mark.parametrize("fault", [replays_nothing, replays_the_first([])])
def test_a_replay_with_different_prices_is_detected(model, fault):
    price = BoundSession(lambda recording: Recording(model, fault), "cpu")
    plain = _session(model, "CPUExecutionProvider", {})
    for seed in range(4 * ROUNDS):
        assert price(batch(2, 8, seed)) == pytest.approx(plain.run(["price"], batch(2, 8, seed))[0], rel=1e-6)
    assert not price.records


@pytest.mark.parametrize(("slower", "stays"), [(False, "1"), (True, NO_GRAPH)])
def test_a_shape_keeps_its_faster_mode(model, slower, stays):
    ids = []

    def recorded():
        time.sleep(0.1 if slower else 0)

    session = Watched(model, ids, recorded)
    run = session.run_with_iobinding

    def slow_where_nothing_is_recorded(binding, options):
        run(binding, options)
        if not slower and ids[-1] == NO_GRAPH:
            time.sleep(0.1)

    session.run_with_iobinding = slow_where_nothing_is_recorded
    price = BoundSession(lambda recording: session, "cpu")
    for seed in range(2 * ROUNDS + 4):
        price(batch(2, 8, seed))
    assert ids[:ROUNDS] == [NO_GRAPH] * ROUNDS
    assert ids[-3:] == [stays] * 3
    assert ids.count("1") >= ROUNDS


def test_each_shape_has_its_own_graph(model):
    ids = []
    price = BoundSession(lambda recording: Watched(model, ids), "cpu")
    for _ in range(2 * ROUNDS):
        for length in (8, 16):
            price(batch(2, length))
    assert {"1", "2"} < set(ids)


def fails():
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize("fault", ["fails", "other prices"])
def test_graphs_that_cannot_be_recorded_correctly_are_not_recorded(model, monkeypatch, fault):
    opened, ids = [], []

    def open_session(recording):
        opened.append(recording)
        return Watched(model, ids, fails if fault == "fails" else lambda: None)

    price = BoundSession(open_session, "cpu")
    if fault == "other prices":
        true = engine._Buffers.price

        def wrong(places, given, *, recorded):
            return true(places, given, recorded=recorded) * (1.01 if recorded else 1)

        monkeypatch.setattr(engine._Buffers, "price", wrong)
    expected = _session(model, "CPUExecutionProvider", {}).run(["price"], batch(2, 8))[0]
    for _ in range(3 * ROUNDS):
        assert price(batch(2, 8)) == pytest.approx(expected, rel=1e-6)
    assert opened == [True, False]
    assert not price.records
    assert ids[-ROUNDS:] == [NO_GRAPH] * ROUNDS


def test_a_session_that_cannot_record_is_opened_without(model):
    def open_session(recording):
        if recording:
            raise PluginError("all compute graph nodes have not been partitioned to the CUDA EP")
        return Watched(model, ids)

    ids = []
    price = BoundSession(open_session, "cpu")
    for _ in range(3 * ROUNDS):
        price(batch(2, 8))
    assert set(ids) == {NO_GRAPH}


def test_an_unloadable_graph_is_an_error(raises):
    with raises(BundleError):
        BoundSession(lambda recording: _session(b"no graph", "CPUExecutionProvider", {}), "cpu")


def test_the_number_of_buffers_is_bounded(model, monkeypatch):
    monkeypatch.setattr(engine, "SHAPES", 2)
    ids = []
    price = BoundSession(lambda recording: Watched(model, ids), "cpu")
    for length in (4, 5, 6, 7):
        expected = _session(model, "CPUExecutionProvider", {}).run(["price"], batch(2, length))[0]
        assert price(batch(2, length)) == pytest.approx(expected, rel=1e-6)
    assert len(price._buffers) == 2
    assert ids == [NO_GRAPH] * 4
