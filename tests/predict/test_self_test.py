"""Invented rows and their prices in a bundle, which the engine that serves must reproduce."""

import json
import shutil
from dataclasses import replace

import numpy as np
import onnx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

import pricekit as pk
from conftest import tiny_config
from pricekit.core.loader import registry
from pricekit.errors import BundleError, ConfigError, ExportError
from pricekit.export import export as export_module
from pricekit.export.export import export_run
from pricekit.predict.bundle import open_bundle
from pricekit.predict.members import weighted_mean
from pricekit.predict.self_test import MOST_ROWS, SELF_TEST, TOLERANCES, make_self_test, read_self_test
from pricekit.runs.load import load_model
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.table import Columns
from tests.predict.hostile import change, put, write_manifest

ENGINE = "ort-cpu"


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "copy")


@pytest.fixture(scope="module")
def record(bundle):
    return json.loads((bundle / SELF_TEST).read_text("utf-8"))


def test_a_bundle_reproduces_its_prices(bundle, record):
    found = pk.load(bundle, ENGINE).self_test()
    assert (found.engine, found.rows, found.tolerance) == (ENGINE, len(record["rows"]), 1e-4)
    assert found.difference < 1e-6
    frame = pd.DataFrame(record["rows"], columns=record["columns"])
    assert pk.load(bundle, ENGINE).predict(frame) == pytest.approx(record["prices"], rel=1e-6)


def test_the_rows_are_invented(record, catalog):
    texts = [row[0] for row in record["rows"]]
    assert record["columns"] == ["catalog_content"]
    assert not {*texts} & {*pd.read_csv(catalog)["catalog_content"]}
    assert "" in texts
    assert max(map(len, texts)) > 5000
    assert any("茶" in text for text in texts)
    assert len({*record["prices"]}) == len(texts)


def _other_weight(copy):
    """Change one weight of a head by a hundredth of the weights' size."""
    graph = onnx.load(copy / "model.onnx")
    head = next(t for t in graph.graph.initializer if "head" in t.name and len(t.dims) == 2)
    values = numpy_helper.to_array(head).copy()
    values += 0.01 * np.abs(values).mean()
    head.CopyFrom(numpy_helper.from_array(values, head.name))
    put(copy, "model.onnx", graph.SerializeToString())


def _other_tokens(copy):
    """Exchange the ids of the tokens."""

    def edit(tokenizer):
        vocabulary = tokenizer["model"]["vocab"]
        special = {token["content"] for token in tokenizer["added_tokens"]}
        words = [word for word in vocabulary if word not in special]
        ids = [vocabulary[word] for word in words]
        vocabulary.update(zip(words, ids[1:] + ids[:1], strict=True))

    change(copy, "tokenizer.json", edit)


def _other_state(copy):
    """Multiply what a feature has learned about brands."""

    def edit(record):
        state = record["features"][0]["state"]
        state["brand"] = {name: 100 * rows for name, rows in state["brand"].items()}

    change(copy, "preprocess.json", edit)


@pytest.mark.parametrize("harm", [_other_weight, _other_tokens, _other_state])
def test_a_bundle_that_prices_differently_is_refused(copy, harm, raises):
    pk.load(copy, ENGINE).self_test()
    harm(copy)
    pk.load(copy, ENGINE)  # its hashes are valid
    with raises(BundleError, engine="ort-cpu"):
        pk.load(copy, ENGINE).self_test()


def test_the_error_says_which_row_differs_by_how_much_and_what_to_do(copy, record):
    change(copy, SELF_TEST, lambda saved: saved["prices"].__setitem__(5, 2 * record["prices"][5]))
    with pytest.raises(BundleError) as caught:
        pk.load(copy, ENGINE).self_test()
    price = record["prices"][5]
    assert f"row 6 ('TEA') alone is {price:.6g}; expected {2 * price:.6g}" in str(caught.value)
    assert "1 of 11 rows differ, by 50% at most; the limit is 0.01%" in str(caught.value)
    assert "Install the versions" in str(caught.value)
    assert caught.value.facts["row"] == 5
    assert caught.value.facts["difference"] == pytest.approx(0.5)


def _with_engine(model, name, price_batch):
    member = model.members[0]
    return replace(
        model, members=(replace(member, engine=replace(member.engine, name=name, price_batch=price_batch)),)
    )


def test_rows_are_priced_alone_and_together(bundle, raises):
    model = load_model(bundle, ENGINE)
    price = model.members[0].engine.price_batch

    def careless(batch):
        return price(batch) * np.float32(1 if len(batch["features"]) == 1 else 1.001)

    with raises(BundleError, "engine", engine="fast"):
        _with_engine(model, "fast", careless).self_test()
    with raises(BundleError, "engine", engine="fast"):
        _with_engine(model, "fast", lambda batch: price(batch) * np.float32(1.001)).self_test()


def test_small_differences_of_other_engines_are_allowed(bundle):
    model = load_model(bundle, ENGINE)
    price = model.members[0].engine.price_batch
    found = _with_engine(model, "fast", lambda batch: price(batch) * np.float32(1.00005)).self_test()
    assert found.engine == "fast"
    assert found.difference == pytest.approx(5e-5, rel=0.1)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_other_precisions_have_wider_limits(run, tmp_path, precision):
    export_run(run, tmp_path / "bundle", precision=precision)
    found = pk.load(tmp_path / "bundle", ENGINE).self_test()
    assert found.tolerance == TOLERANCES[precision] == 2e-2
    assert found.difference < 1e-5


def test_the_bundle_of_an_ensemble_has_its_final_prices(run, tmp_path, raises):
    pk.ensemble([run, shutil.copytree(run, tmp_path / "copy")], out=tmp_path / "two")
    bundle = tmp_path / "bundle"
    export_run(tmp_path / "two", bundle)
    assert pk.load(bundle, ENGINE).self_test().difference < 1e-6
    shutil.copy(bundle / "1-model.onnx", bundle / "model.onnx")
    _other_weight(bundle)
    put(bundle, "1-model.onnx", (bundle / "model.onnx").read_bytes())
    with raises(BundleError, engine="ort-cpu", row=4):
        pk.load(bundle, ENGINE).self_test()
    put(bundle, SELF_TEST, make_self_test(open_bundle(bundle), "fp32", {}).to_text().encode())
    assert pk.load(bundle, ENGINE).self_test().difference < 1e-6  # now of two different members


def test_the_prices_of_members_are_averaged_by_weight():
    found = weighted_mean([np.float32([1, 8]), np.float32([16, 8])], [0.75, 0.25])
    assert found == pytest.approx([2, 8])
    assert found.dtype == np.float32


STOCK = """
import numpy as np
import pricekit

class Stock:
    '''Numbers of a column, and whether another one has text.'''
    names = ("stock", "shelf")
    columns = ("stock", "shelf")
    def fit(self, table):
        return {}
    def transform(self, table, state):
        shelf = table.frame["shelf"].str.len()
        return np.stack([table.frame["stock"] / FACTOR, shelf], 1).astype(np.float32)

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("stock", f"{__name__}:Stock", "of a column")
"""


@pytest.fixture
def stock(tmp_path, monkeypatch):
    """Write a feature that needs two columns besides the text, and divides one of them by a number."""

    def write(factor):
        (tmp_path / "stock.py").write_text(STOCK.replace("FACTOR", str(factor)))
        registry.cache_clear()

    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "stock.py"))
    write(1)
    yield write
    registry.cache_clear()


@pytest.fixture
def several(tmp_path, stock):
    """A run that reads two text columns, and a feature that needs two others."""
    frame = pk.make_catalog(120)
    frame["title"], frame["brand"] = frame["catalog_content"], "Kettlewhim"
    frame["stock"], frame["shelf"] = np.arange(120), "left"
    config = tiny_config(
        {"columns": {"text": ["title", "brand"], "price": "price"}, "training": {"epochs": 1}},
        {"features": ["optimized22", "stock"]},
    )
    train(Source(frame.drop(columns="catalog_content")), config, tmp_path / "run")
    return tmp_path / "run"


def test_rows_have_each_column_that_the_model_reads(several, tmp_path, stock, raises):
    export_run(several, tmp_path / "bundle")
    saved = json.loads((tmp_path / "bundle" / SELF_TEST).read_text("utf-8"))
    columns = dict(zip(saved["columns"], zip(*saved["rows"], strict=True), strict=True))
    assert [*columns][:2] == ["title", "brand"]
    assert {"stock", "shelf"} <= {*columns}
    assert len({*columns["brand"]}) > 5
    assert {type(cell) for cell in columns["stock"]} == {float}
    assert {type(cell) for cell in columns["shelf"]} == {str}
    assert columns["title"].index("") == columns["brand"].index("")
    pk.load(tmp_path / "bundle", ENGINE).self_test()
    stock(2)  # another version of the plugin
    with raises(BundleError, engine="ort-cpu", row=8):
        pk.load(tmp_path / "bundle", ENGINE).self_test()


def test_a_feature_that_fails_for_invented_rows_costs_the_self_test_only(
    several, tmp_path, stock, logged, raises
):
    stock("(table.frame['stock'] < 1000)")  # 0 for a number that is invented
    export_run(several, tmp_path / "bundle")
    assert (
        "the bundle has no self-test, because invented rows cannot be priced: the feature 'stock'" in logged()
    )
    assert SELF_TEST not in json.loads((tmp_path / "bundle" / "manifest.json").read_text())["files"]
    with raises(BundleError):
        pk.load(tmp_path / "bundle", ENGINE).self_test()


def test_nothing_is_published_when_invented_rows_have_no_price(run, tmp_path, monkeypatch, raises):
    def fail(bundle, precision, others):
        raise BundleError("the engine ort-cpu returns 1 of 11 prices that are not finite", rows=1)

    monkeypatch.setattr(export_module, "make_self_test", fail)
    with raises(ExportError, rows=1):
        export_run(run, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def _without_self_test(copy):
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    del manifest["files"][SELF_TEST]
    write_manifest(copy, manifest)
    return copy


def test_a_model_without_a_self_test_says_so(run, copy, raises):
    for path in (run, _without_self_test(copy)):
        assert len(pk.load(path).predict(["tea"])) == 1
        with raises(BundleError):
            pk.load(path).self_test()


COLUMNS = Columns(("title", "brand"))
GOOD = {
    "columns": ["title", "brand"],
    "rows": [["tea", "x"], ["", ""]],
    "prices": [1.5, 2],
    "tolerance": 1e-4,
}


def test_what_a_later_version_adds_is_ignored():
    assert read_self_test(json.dumps(GOOD | {"later": 1}).encode(), COLUMNS, "here").prices == [1.5, 2.0]


DAMAGED = {
    "no rows": {"rows": [], "prices": []},
    "many rows": {"rows": [["a", "b"]] * (MOST_ROWS + 1), "prices": [1.0] * (MOST_ROWS + 1)},
    "many columns": {"columns": [*map(str, range(3000))]},
    "long cell": {"rows": [["a" * 20_000, "b"], ["", ""]]},
    "ragged": {"rows": [["a", "b"], ["a"]]},
    "mixed": {"rows": [["a", "b"], ["a", 1.0]]},
    "truth": {"rows": [["a", True], ["a", False]]},
    "null": {"rows": [["a", None], ["a", "b"]]},
    "twice": {"columns": ["title", "title"]},
    "twice, with fewer cells": {"columns": ["title", "title", "brand"]},
    "another column": {"columns": ["title", "shop"]},
    "fewer prices": {"prices": [1.0]},
    "negative": {"prices": [1.0, -1.0]},
    "zero": {"prices": [1.0, 0.0]},
    "NaN": {"prices": [1.0, float("nan")]},
    "infinite": {"prices": [1.0, float("inf")]},
    "huge": {"prices": [1.0, 1e300]},
    "text": {"prices": [1.0, "2.0"]},
    "loose": {"tolerance": 1e9},
    "NaN tolerance": {"tolerance": float("nan")},
    "NaN cell": {"rows": [["a", float("nan")], ["b", 1.0]]},
    "no tolerance": {"tolerance": None},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_self_tests_are_refused(name, raises):
    with raises(BundleError):
        read_self_test(json.dumps(GOOD | DAMAGED[name]).encode(), COLUMNS, "here")


@given(st.binary(max_size=60) | st.sampled_from([b"", b"[]", b"{}", b"[" * 9999, b"\xff"]))
def test_any_bytes_are_refused(content):
    with pytest.raises(BundleError, match="damaged"):
        read_self_test(content, COLUMNS, "here")


def test_a_damaged_self_test_is_refused_when_the_bundle_is_opened(copy, raises):
    change(copy, SELF_TEST, lambda saved: saved.update(prices="low"))
    with raises(BundleError):
        pk.load(copy, ENGINE).predict(["tea"])


def test_inspect_runs_the_self_test_when_asked(pricekit, copy, record):
    code, out, _ = pricekit("bundle", "inspect", copy)
    assert code == 0
    assert "self-test" not in out
    code, out, _ = pricekit("bundle", "inspect", copy, "--self-test", "--engine", ENGINE)
    assert code == 0
    assert "self-test passed │ 11 rows in ort-cpu" in " ".join(out.split())
    assert pk.bundles.inspect(copy).self_test is None
    assert pk.bundles.inspect(copy, self_test=True, engine=ENGINE).self_test.rows == 11
    change(copy, SELF_TEST, lambda saved: saved["prices"].__setitem__(0, 2 * record["prices"][0]))
    code, out, err = pricekit("bundle", "inspect", copy, "--self-test", "--engine", ENGINE)
    assert (code, out) == (1, "")
    assert "failed in the engine ort-cpu" in " ".join(err.split())


def test_inspect_of_a_bundle_without_a_self_test_says_so(pricekit, copy):
    code, out, err = pricekit("bundle", "inspect", _without_self_test(copy), "--self-test")
    assert (code, out) == (1, "")
    assert "has no self-test" in " ".join(err.split())


def test_an_engine_is_for_the_self_test(bundle, pricekit, raises):
    with raises(ConfigError, "self_test", "engine"):
        pk.bundles.inspect(bundle, engine=ENGINE)
    assert pricekit("bundle", "inspect", bundle, "--engine", ENGINE)[0] == 2
