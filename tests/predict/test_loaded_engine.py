"""The guard of an engine of another package: wrong prices of the rows that are priced are an error."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from pricekit.datasets import make_catalog
from pricekit.errors import BundleError, PluginError
from pricekit.predict import loaded_engine
from pricekit.predict.ort import OrtCpu, load_cpu
from pricekit.predict.predictor import Predictor

TEXTS = make_catalog(3000, seed=3)["catalog_content"].tolist()
"""Rows of one large call."""

FEW = TEXTS[:300]
"""Rows of small calls."""


def engine(change=lambda prices, batch: prices, inputs=lambda batch: batch):
    """Return how an engine loads a graph: the reference with other inputs, and with other prices."""

    def load(graph):
        price = load_cpu(graph.model)
        return lambda batch: change(price(inputs(dict(batch))), batch)

    return load


def by_shape(graph):
    """Return the prices of the first batch for each batch of its shape."""
    price, kept = load_cpu(graph.model), {}

    def run(batch):
        shape = batch["input_ids"].shape
        if shape not in kept:
            kept[shape] = price(batch)
        return kept[shape]

    return run


def from_row(first):
    def change(prices, batch):
        prices[first:] *= 1.5
        return prices

    return change


def noise(scale):
    rng = np.random.default_rng(0)
    return lambda prices, batch: (prices * rng.normal(1, scale, len(prices))).astype(np.float32)


def swapped(prices, batch):
    prices[:2] = prices[:2][::-1]
    return prices


def some_not_a_number(prices, batch):
    prices[len(prices) // 2] = np.nan
    return prices


def truncated(batch):
    return batch | {name: batch[name][:, :16] for name in ("input_ids", "attention_mask")}


WRONG = {
    "cap": engine(lambda prices, batch: np.minimum(prices, np.float32(12))),
    "floor": engine(lambda prices, batch: np.maximum(prices, np.float32(5))),
    "whole_numbers": engine(lambda prices, batch: np.ceil(prices)),
    "from_row_65": engine(from_row(64)),
    "random_by_1_percent": engine(noise(0.01)),
    "random_by_a_tenth_of_a_percent": engine(noise(0.001)),
    "scaled": engine(lambda prices, batch: prices * np.float32(1.03)),
    "not_a_number": engine(some_not_a_number),
    "zero": engine(lambda prices, batch: prices * np.float32(0)),
    "ignores_the_mask": engine(inputs=lambda b: b | {"attention_mask": np.ones_like(b["attention_mask"])}),
    "ignores_features": engine(inputs=lambda b: b | {"features": np.zeros_like(b["features"])}),
    "truncates": engine(inputs=truncated),
    "swaps": engine(swapped),
    "sorts": engine(lambda prices, batch: np.sort(prices)),
    "by_shape": by_shape,
    "float64": engine(lambda prices, batch: prices.astype(np.float64)),
    "column": engine(lambda prices, batch: prices[:, None]),
    "listed": engine(lambda prices, batch: prices.tolist()),
    "one_missing": engine(lambda prices, batch: prices[1:]),
    "nothing": engine(lambda prices, batch: None),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_prices_of_a_large_call_are_an_error_of_the_engine(bundle, engines, name):
    engines(**{name: WRONG[name]})
    predictor = Predictor.load(bundle, name)
    for _ in range(2):  # and so is each further call
        with pytest.raises(PluginError, match=f"^the engine '{name}' of toy 1.0 returned ") as caught:
            predictor.predict(TEXTS)
        assert caught.value.parameters == ("engine",)
        assert caught.value.facts == {"kind": "engine", "name": name, "package": "toy"}


def predict_each(predictor, texts):
    for text in texts:
        predictor.predict([text])


def twice(graph):
    """Return prices that are lower by 1% from the second time on."""
    price, seen = load_cpu(graph.model), set()

    def run(batch):
        key, before = batch["input_ids"].tobytes(), len(seen)
        seen.add(key)
        return price(batch) * np.float32(1 if len(seen) > before else 0.99)

    return run


@pytest.mark.parametrize(
    "load", [WRONG["cap"], WRONG["not_a_number"], WRONG["float64"], WRONG["nothing"], twice]
)
def test_the_error_shows_both_prices(bundle, engines, load, raises):
    engines(wrong=load)
    with raises(PluginError, "engine", kind="engine", name="wrong", package="toy"):
        Predictor.load(bundle, "wrong").predict(FEW)


@pytest.mark.parametrize("name", ["cap", "floor", "whole_numbers", "scaled", "ignores_features", "by_shape"])
def test_wrong_prices_of_calls_with_one_row_are_an_error(bundle, engines, name):
    engines(**{name: WRONG[name]})
    predictor = Predictor.load(bundle, name)
    with pytest.raises(PluginError, match=f"the engine '{name}'"):
        predict_each(predictor, FEW)


@pytest.mark.parametrize(("sign", "limit"), [(1, np.minimum), (-1, np.maximum)])
def test_a_limit_is_noticed_even_if_the_first_price_beyond_it_is_nearly_right(bundle, engines, sign, limit):
    prices = Predictor.load(bundle, "ort-cpu").predict(FEW)
    order = np.argsort(sign * prices)
    *within, nearly = order[: len(FEW) // 2]
    beyond = order[-1]
    most = np.float32(prices[nearly] * (1 - sign * 0.01))
    engines(limited=engine(lambda prices, batch: limit(prices, most)))
    predictor = Predictor.load(bundle, "limited")
    predict_each(predictor, [FEW[row] for row in (*within, nearly)])
    with pytest.raises(PluginError, match="the engine 'limited'"):
        predict_each(
            predictor, [FEW[beyond]] * (2 + loaded_engine.ROWS_BETWEEN // loaded_engine.EXTREME_COUNTS_AS)
        )


def inexact(prices, batch):
    """Prices that are wrong by up to 1.5%, for each row the same, and by 1e-6 in each call."""
    size = batch["features"].astype(np.float64).sum(1)
    noise = np.random.default_rng().normal(1, 1e-6, len(prices))
    return (prices * (1 + 0.015 * np.sin(1000 * size)) * noise).astype(np.float32)


def test_an_inexact_engine_passes(bundle, engines):
    engines(inexact=engine(inexact))
    exact, predictor = Predictor.load(bundle, "ort-cpu"), Predictor.load(bundle, "inexact")
    parts = [FEW[:1], FEW[1:60], TEXTS, FEW, *([text] for text in FEW)]
    with ThreadPoolExecutor(4) as pool:
        for rows, prices in zip(parts, pool.map(predictor.predict, parts), strict=True):
            assert prices == pytest.approx(exact.predict(rows), rel=0.02)


@pytest.fixture
def reference_rows(monkeypatch):
    """The numbers of rows of the batches that the reference prices."""
    rows, load = [], OrtCpu.load

    def counted(self, graph):
        price = load(self, graph)
        return lambda batch: rows.append(len(batch["features"])) or price(batch)

    monkeypatch.setattr(OrtCpu, "load", counted)
    return rows


def test_few_rows_are_priced_by_the_reference(bundle, engines, reference_rows):
    engines(right=engine())
    predictor = Predictor.load(bundle, "right")
    assert not reference_rows
    predict_each(predictor, FEW)
    assert 0 < sum(reference_rows) < len(FEW) / 5
    before = len(reference_rows)
    predictor.predict(TEXTS)
    assert sum(reference_rows[before:]) < len(TEXTS) / 5
    before = len(reference_rows)
    predictor.predict(TEXTS)
    assert reference_rows[before:] in ([2], [3])  # the lowest price, the highest one, and a random one


def test_an_engine_of_pricekit_is_not_compared(bundle, reference_rows):
    Predictor.load(bundle, "ort-cpu").predict(FEW)
    assert sum(reference_rows) == len(FEW)


def test_without_the_reference_an_engine_is_only_compared_with_itself(bundle, engines, monkeypatch, logged):
    def missing(self, graph):
        raise PluginError("onnxruntime is not installed")

    expected = Predictor.load(bundle, "ort-cpu").predict(FEW)
    engines(right=engine(), random=WRONG["random_by_1_percent"])
    monkeypatch.setattr(OrtCpu, "load", missing)
    predictor = Predictor.load(bundle, "right")
    for _ in range(2):
        assert predictor.predict(FEW) == pytest.approx(expected, rel=1e-5)
    assert logged().count("nothing can be compared with the prices of the engine 'right' of toy 1.0") == 1
    with pytest.raises(PluginError, match=r"the engine 'random' .* returned two prices"):
        Predictor.load(bundle, "random").predict(FEW)


def test_prices_that_the_reference_cannot_compute_either_are_an_error_of_the_bundle(
    bundle, engines, monkeypatch, raises
):
    def broken(self, graph):
        return lambda batch: np.full(len(batch["features"]), np.inf, np.float32)

    engines(right=lambda graph: broken(None, graph))
    monkeypatch.setattr(OrtCpu, "load", broken)
    with raises(BundleError, "precision", "engine", rows=1):
        Predictor.load(bundle, "right").predict(FEW[:1])


def test_each_member_of_a_bundle_is_compared(bundle, engines):
    """Of two graphs the engine prices only the second one wrongly."""
    graphs = []

    def load(graph):
        graphs.append(graph)
        return (WRONG["scaled"] if len(graphs) == 2 else engine())(graph)

    engines(second=load)
    members = [Predictor.load(bundle, "second").members[0] for _ in range(2)]
    predictor = replace(
        Predictor.load(bundle, "ort-cpu"), members=tuple(replace(member, weight=0.5) for member in members)
    )
    with pytest.raises(PluginError, match="the engine 'second'"):
        predictor.predict(FEW)


def test_calls_wait_for_the_first_comparison(bundle, engines, monkeypatch):
    """While one thread compares, no other returns prices that may be wrong."""
    load = OrtCpu.load

    def slow(self, graph):
        time.sleep(0.3)
        return load(self, graph)

    engines(wrong=WRONG["scaled"])
    monkeypatch.setattr(OrtCpu, "load", slow)
    predictor, start = Predictor.load(bundle, "wrong"), threading.Barrier(4, timeout=20)

    def failure(text):
        start.wait()
        with pytest.raises(PluginError) as caught:
            predictor.predict([text])
        return str(caught.value)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(failure, FEW[:4]))) == 1
