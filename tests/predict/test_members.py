"""The reader of a bundle, without an engine, and the engines of its members."""

import shutil

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import BundleError, DataError
from pricekit.export.export import export_run
from pricekit.predict.ort import load_cpu
from pricekit.predict.predictor import Predictor
from pricekit.runs.ensemble import make_ensemble
from pricekit.runs.opened import open_run
from tests.predict.hostile import change


@pytest.fixture
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()[:50]


def test_the_prepared_inputs_give_the_graph_the_prices_of_predict(bundle, texts, monkeypatch):
    model = pk.load(bundle, engine="ort-cpu")
    expected = model.predict(texts)
    monkeypatch.setattr("pricekit.predict.members.open_engine", None)
    (inputs,) = pk.bundles.read(bundle).prepare(texts)
    batch = inputs.batch(np.arange(len(texts)), multiple_of=32)
    assert batch["input_ids"].shape[1] % 32 == 0
    (prices,) = onnxruntime.InferenceSession(bundle / "model.onnx").run(["price"], dict(batch))
    np.testing.assert_allclose(prices, expected, rtol=1e-5)


def test_a_reader_takes_frames_and_names_a_missing_column(bundle, texts, raises):
    reader = pk.bundles.read(str(bundle))
    (inputs,) = reader.prepare(pd.DataFrame({"catalog_content": texts, "price": 1.0}))
    assert len(inputs) == len(texts)
    with raises(DataError, "text", column="catalog_content", candidates=["title"], suggestion=None):
        reader.prepare(pd.DataFrame({"title": texts}))


@pytest.mark.parametrize("options", [{"size": 3}, None])
def test_a_bundle_with_options_that_its_feature_does_not_take_is_damaged(bundle, tmp_path, options, raises):
    copy = shutil.copytree(bundle, tmp_path / "copy")
    change(copy, "preprocess.json", lambda record: record["features"][0].update(options=options))
    with raises(BundleError):
        pk.bundles.read(copy)


def test_only_one_of_several_similar_members_is_measured(run, engines, tmp_path, monkeypatch, logged, texts):
    engines(other=lambda graph: load_cpu(graph.model))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nothing is known of this machine
    twin = shutil.copytree(run, tmp_path / "twin")
    make_ensemble([run, twin], tmp_path / "both")
    export_run(tmp_path / "both", tmp_path / "bundle")
    logged()
    predictor = Predictor.load(tmp_path / "bundle")
    assert len(predictor.members) == 2
    assert logged().count("fastest") == 1
    assert predictor.predict(texts) == pytest.approx(open_run(run).predictor().predict(texts), rel=1e-4)
