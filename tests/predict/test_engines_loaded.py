"""Batches of similar lengths, several at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from pricekit.errors import BundleError, DataError
from pricekit.features.preprocess import Inputs
from pricekit.predict.engines import open_engine
from pricekit.predict.loaded_engine import LoadedEngine, for_each
from pricekit.predict.ort import load_cpu
from pricekit.predict.predictor import Predictor
from pricekit.text.tokens import Tokens

VOCABULARY = 500


def test_an_engine_prices_one_batch_per_stream_concurrently():
    together = threading.Barrier(3, timeout=20)  # breaks where fewer than three call
    for_each(lambda item: together.wait(), range(6), streams=3)


def test_the_first_batch_that_fails_ends_the_others(raises):
    begun = []

    def fail(item):
        begun.append(item)
        time.sleep(0.01)
        raise DataError(f"of {item}")

    for streams in (1, 3):
        begun.clear()
        with raises(DataError):
            for_each(fail, range(1000), streams)
        assert len(begun) < 100


def watching(seen):
    """An engine that records the result of `seen` for each batch."""

    def load(graph):
        priced = load_cpu(graph.model)

        def run(batch):
            seen(batch)
            return priced(batch)

        return run

    return load


@pytest.mark.parametrize(("multiple", "most"), [(1, 7), (16, 6)])
def test_the_tokens_of_a_batch_are_counted_with_their_padding(multiple, most):
    lengths = np.full(40, 14)
    inputs = Inputs(
        Tokens(np.ones(lengths.sum(), np.int32), np.arange(41) * 14), np.zeros((40, 1), np.float32), 0
    )
    engine = LoadedEngine("toy", lambda batch: batch["features"], multiple, batch_tokens=100, max_length=64)
    batches = engine.batches(inputs)
    assert max(map(len, batches)) == most
    assert all(engine.batch(inputs, rows)["input_ids"].size <= 100 for rows in batches)


def test_lengths_are_rounded_up_for_an_engine_that_wants_it(bundle, engines):
    lengths = []
    engines(watching=watching(lambda batch: lengths.append(batch["input_ids"].shape[1])))
    texts = ["a", "Item Name: tea " * 9]
    found = Predictor.load(bundle, "watching").predict(texts)
    assert found == pytest.approx(Predictor.load(bundle, "ort-cpu").predict(texts), rel=1e-5)
    assert {length % 16 for length in lengths} == {0}


def test_no_length_is_rounded_up_beyond_the_longest(graph, engines):
    shapes = []
    engines(watching=watching(lambda batch: shapes.append(batch["input_ids"].shape)))
    opened = open_engine("watching", replace(graph, max_length=20), VOCABULARY)
    shapes.clear()
    tokens = Tokens(np.zeros(23, np.int32), np.array([0, 20, 23]))
    opened.price(Inputs(tokens, np.zeros((2, 38), np.float32), 0), np.arange(2))
    assert {*shapes} == {(2, 20)}


@pytest.mark.parametrize("price", [float("nan"), float("inf"), 0.0])
def test_an_invalid_price_is_an_error(bundle, engines, price, raises):
    predictor = Predictor.load(bundle, "ort-cpu")
    member = predictor.members[0]
    engine = replace(
        member.engine, price_batch=lambda batch: np.full(len(batch["features"]), price, np.float32)
    )
    broken = replace(predictor, members=(replace(member, engine=engine),))
    with raises(BundleError, "precision", "engine", rows=2):
        broken.predict(["tea", "a cup"])


@pytest.mark.parametrize("shape", [(1,), (), (3, 1), (4,)])
def test_a_graph_that_does_not_return_one_price_per_row_is_an_error(bundle, shape, raises):
    predictor = Predictor.load(bundle, "ort-cpu")
    member = predictor.members[0]
    engine = replace(member.engine, price_batch=lambda _: np.full(shape, 5, np.float32))
    broken = replace(predictor, members=(replace(member, engine=engine),))
    with raises(BundleError, rows=3):
        broken.predict(["tea", "a cup", "milk"])


def test_several_threads_take_turns(bundle, engines):
    inside, most = [], []

    def seen(batch):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    engines(watching=watching(seen))  # two batches at a time
    predictor = Predictor.load(bundle, "watching")
    most.clear()
    rows = [[f"tea \x1d of {name}", "green " * number] for number, name in enumerate("abcdefgh")]
    expected = [predictor.predict(texts) for texts in rows]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(predictor.predict, rows * 4))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected * 4, strict=True))
    assert max(most) <= 2
