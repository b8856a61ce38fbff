"""The engine has the prices of ONNX Runtime, for graphs of `bag` only."""

import contextlib
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pricekit_fast import engine
from pricekit_fast.engine import Fast, split

import pricekit as pk
from pricekit.plugin import BundleError, Graph, PluginError
from pricekit.predict.ort import load_cpu
from pricekit.testing import check_engine


@pytest.mark.parametrize("check", check_engine(Fast), ids=str)
def test_the_engine_passes_the_conformance_checks(check):
    check()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bag")
    settings = {
        "backbone.vocab_size": 500,
        "backbone.buckets": 512,
        "backbone.width": 8,
        "training.refit": False,
    }
    model = pk.train(pk.make_catalog(300), features="optimized22", epochs=1, settings=settings)
    model.export(folder / "bundle")
    return model, folder / "bundle"


@pytest.fixture
def graph(bundle, tmp_path):
    return Graph((bundle[1] / "model.onnx").read_bytes(), 64, 22, tmp_path)


def batch(random, rows, length, most=500):
    lengths = random.integers(1, length + 1, rows)
    return {
        "input_ids": random.integers(0, most, (rows, length)),
        "attention_mask": (np.arange(length) < lengths[:, None]).astype(np.int64),
        "features": (10 * random.normal(size=(rows, 22))).astype(np.float32),
    }


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1 << 30), rows=st.integers(1, 40), length=st.integers(1, 70))
def test_prices_are_those_of_onnx_runtime(graphs, seed, rows, length):
    fast, expected = graphs
    inputs = batch(np.random.default_rng(seed), rows, length)
    assert fast(inputs) == pytest.approx(expected(inputs), rel=2e-6)


@pytest.fixture(scope="module")
def graphs(bundle):
    graph = Graph((bundle[1] / "model.onnx").read_bytes(), 64, 22, bundle[1])
    return Fast().load(graph), load_cpu(graph.model)


def test_a_row_has_the_same_encoding_alone_and_in_a_batch(graph):
    bag, _ = split(graph.model)
    inputs = batch(np.random.default_rng(0), 9, 30)
    together = bag.encode(inputs["input_ids"], inputs["attention_mask"])
    for row in range(9):
        alone = inputs["attention_mask"][row].sum()
        ids, mask = (inputs[name][row : row + 1, :alone] for name in ("input_ids", "attention_mask"))
        assert np.array_equal(bag.encode(ids, mask)[0], together[row])


def test_a_bundle_with_embeddings_has_the_same_prices(bundle, tmp_path):
    bundle[0].export(tmp_path / "embeds", with_embeddings=True)
    texts = ["Item Name: Green Tea, 20 Count", "", "é½ " * 300]
    fast = pk.load(tmp_path / "embeds", engine="fast")
    assert np.array_equal(fast.predict(texts), pk.load(bundle[1], engine="fast").predict(texts))
    assert fast.embed(texts) == pytest.approx(bundle[0].embed(texts), abs=1e-5)


def test_a_bundle_is_priced_with_it(bundle):
    path = bundle[1]
    texts = ["Item Name: Green Tea, 20 Count", "", "é½ " * 300]
    fast = pk.load(path, engine="fast")
    assert fast.predict(texts) == pytest.approx(pk.load(path, engine="ort-cpu").predict(texts), rel=2e-6)


def test_ids_beyond_the_table_are_an_error(graph, raises):
    price = Fast().load(graph)
    for ids in (-1, 1 << 20, 1 << 62):
        inputs = batch(np.random.default_rng(0), 3, 5)
        inputs["input_ids"][1, 2] = ids
        with raises(BundleError):
            price(inputs)


def test_graphs_of_other_backbones_and_precisions_are_refused(bundle, tmp_path, raises):
    model, _ = bundle
    model.export(tmp_path / "half", precision="fp16")
    half = (tmp_path / "half" / "model.onnx").read_bytes()
    with raises(PluginError, "engine"):
        Fast().load(Graph(half, 64, 22, tmp_path, "fp16"))


@settings(max_examples=300, deadline=None)
@given(place=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_graph_is_an_error_of_pricekit(graphs, bundle, place, byte, cut):
    content = bytearray((bundle[1] / "model.onnx").read_bytes())
    at = int(place**5 * (len(content) - 1))  # nodes come first
    content[at] = byte
    with contextlib.suppress(BundleError, PluginError):
        Fast().load(Graph(bytes(content[:at] if cut else content), 64, 22, bundle[1]))


def test_a_graph_that_uses_its_results_many_times_is_refused_at_once(graph, raises):
    """Without a limit, the expression of 60 doubled sums would have 2^60 characters."""
    node = engine._written

    def add(inputs, output):
        ends = b"".join(node(1, name.encode()) for name in inputs) + node(2, output.encode())
        return node(1, ends + node(4, b"Add"))

    sums = b"".join(add([f"x{number}"] * 2, f"x{number + 1}") for number in range(60))
    gather = node(1, node(1, b"x60") + node(1, b"x0") + node(2, b"price") + node(4, b"Gather"))
    with raises(PluginError, "engine"):
        Fast().load(dataclasses.replace(graph, model=node(7, sums + gather)))
