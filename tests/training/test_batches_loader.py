import signal
import threading

import numpy as np
import pytest
import torch

from pricekit.config import RunConfig
from pricekit.errors import PluginError
from pricekit.features.preprocess import Inputs
from pricekit.io.interrupts import defer_interrupts
from pricekit.text.tokens import Tokens
from pricekit.training import batches as loader_module
from pricekit.training.batches import Loader, PricedInputs, Rows

CPU = torch.device("cpu")
LENGTHS = [3, 1, 5, 2, 4, 7]
ORDER = [np.array([0, 1]), np.array([5]), np.array([2, 3, 4])]


@pytest.fixture
def examples():
    offsets = np.cumsum([0, *LENGTHS])
    tokens = Tokens(np.arange(offsets[-1], dtype=np.int32), offsets)
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    return PricedInputs(Inputs(tokens, features, 99), np.arange(1.0, 7.0))


def speed(**settings):
    return RunConfig(speed=settings, max_length=200)


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_batches_hold_their_rows_padded_to_the_longest(examples):
    batches = list(Loader(examples, speed(), CPU)(ORDER))
    assert [b["input_ids"].shape for b in batches] == [(2, 3), (1, 7), (3, 5)]
    assert batches[0]["input_ids"].tolist() == [[0, 1, 2], [3, 99, 99]]
    assert batches[2]["price"].tolist() == [3.0, 4.0, 5.0]


def test_lengths_can_be_round_up(examples):
    loader = Loader(examples, speed(pad_to_multiple_of=4), CPU)
    assert [b["input_ids"].shape[1] for b in loader(ORDER)] == [4, 8, 8]
    assert next(Loader(examples, speed(compile=True), CPU)(ORDER))["input_ids"].shape[1] == 64
    capped = RunConfig(speed={"pad_to_multiple_of": 4}, max_length=7)
    assert [b["input_ids"].shape[1] for b in Loader(examples, capped, CPU)(ORDER)] == [4, 7, 7]


@pytest.mark.parametrize("persistent", [True, False])
def test_workers_make_the_same_batches_epoch_after_epoch(examples, persistent):
    plain = Loader(examples, speed(), CPU)
    with_workers = Loader(examples, speed(workers=1, persistent_workers=persistent), CPU)
    for order in (ORDER, ORDER[::-1], ORDER[:1]):
        assert all(equal(a, b) for a, b in zip(plain(order), with_workers(order), strict=True))


def test_training_continues_without_failed_workers(examples, monkeypatch, logged):
    def failing(self, rows, call=Rows.__getitem__):
        if len(rows) == 1 and torch.utils.data.get_worker_info():
            import os

            os._exit(1)
        return call(self, rows)

    expected = list(Loader(examples, speed(), CPU)(ORDER))
    monkeypatch.setattr(Rows, "__getitem__", failing)
    found = list(Loader(examples, speed(workers=1), CPU)(ORDER))
    assert all(equal(a, b) for a, b in zip(expected, found, strict=True))
    assert "continues without them" in logged()


def test_training_continues_without_workers_that_cannot_start(examples, monkeypatch, logged):
    def refused(self):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", refused)
    found = list(Loader(examples, speed(workers=1), CPU)(ORDER))
    assert len(found) == len(ORDER)
    assert "continues without them" in logged()


def test_workers_leave_interrupts_to_the_training_process(examples, monkeypatch):
    def handlers(self, rows, call=Rows.__getitem__):
        found = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        assert found == [signal.SIG_IGN, signal.SIG_DFL]
        return call(self, rows)

    monkeypatch.setattr(Rows, "__getitem__", handlers)
    with defer_interrupts():
        loader = Loader(examples, speed(workers=1), CPU)
        assert loader.workers is not None
        assert len(list(loader.workers)) == 0  # starts them
        loader.order[:] = ORDER
        assert len(list(loader.workers)) == len(ORDER)


class Prepares:
    """An encoder's `prepare_batch`, which records the threads that call it."""

    def __init__(self):
        self.threads = set()

    def __call__(self, input_ids, attention_mask, generator):
        self.threads.add(threading.current_thread())
        return {"drawn": torch.rand(input_ids.shape, generator=generator)}


@pytest.mark.parametrize("workers", [0, 1])
def test_prepared_batches_do_not_depend_on_the_threads(examples, monkeypatch, workers):
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(loader_module, "cpu_threads", lambda threads=threads: threads)
        prepares = Prepares()
        loader = Loader(examples, speed(workers=workers), CPU, prepares)
        assert loader.torch_threads == 1
        found.append(list(loader(ORDER, [3, 1, 2])))
        assert (prepares.threads == {threading.main_thread()}) == (threads == 1)
    assert all(equal(a, b) for a, b in zip(*found, strict=True))
    expected = torch.rand((2, 3), generator=torch.Generator().manual_seed(3))
    assert torch.equal(found[0][0]["drawn"], expected)


def test_without_anything_to_prepare_torch_has_all_threads(examples, monkeypatch):
    monkeypatch.setattr(loader_module, "cpu_threads", lambda: 5)
    assert Loader(examples, speed(), CPU).torch_threads == 5


def test_batches_are_prepared_ahead_but_not_all_at_once(examples, monkeypatch):
    monkeypatch.setattr(loader_module, "cpu_threads", lambda: 2)
    prepared = threading.Semaphore(0)

    def prepare_batch(input_ids, attention_mask, generator):
        prepared.release()
        return {}

    batches = Loader(examples, speed(), CPU, prepare_batch)(ORDER * 5)
    next(batches)
    assert sum(prepared.acquire(timeout=5) for _ in range(5)) == 5
    batches.close()
    assert not prepared.acquire(blocking=False)


def test_an_error_while_a_batch_is_prepared_reaches_the_training_thread(examples, monkeypatch, raises):
    monkeypatch.setattr(loader_module, "cpu_threads", lambda: 2)

    def failing(input_ids, attention_mask, generator):
        raise ValueError("no such row")

    with raises(PluginError, kind="backbone"):
        next(Loader(examples, speed(), CPU, failing)(ORDER))
