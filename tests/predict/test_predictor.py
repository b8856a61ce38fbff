"""Prices of rows in memory, intervals around them, and predictors in other processes."""

import copy
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from conftest import tiny_config
from pricekit.errors import BundleError, ConfigError, DataError, TrainingError
from pricekit.model import opened_model
from pricekit.predict.bundle import open_bundle
from pricekit.predict.members import read_bundle, table_of
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import load_model
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from tests.predict.hostile import write_manifest


@pytest.fixture(scope="module")
def predictor(bundle):
    return Predictor.load(bundle)


@pytest.fixture(scope="module")
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()


def test_run_and_bundle_agree(run, predictor, texts):
    assert predictor.predict(texts) == pytest.approx(open_run(run).predictor().predict(texts), rel=1e-5)


def test_a_price_does_not_depend_on_the_other_rows(predictor, texts):
    together = predictor.predict(texts)
    alone = np.concatenate([predictor.predict([text]) for text in texts[:40]])
    assert alone == pytest.approx(together[:40], rel=1e-6)
    order = np.random.default_rng(0).permutation(len(texts))
    assert predictor.predict([texts[i] for i in order]) == pytest.approx(together[order], rel=1e-6)


def test_prices_are_finite_and_positive_for_any_text(predictor):
    prices = predictor.predict(
        ["", " ", "\0", "☃" * 10_000, "9" * 5_000, "Value: 1e308\nUnit: Ounce", "a" * 300_000]
    )
    assert np.isfinite(prices).all()
    assert (prices > 0).all()
    assert prices.dtype == np.float32
    assert len(predictor.predict([])) == 0


class Failing:
    """An engine that fails after some rows, and counts those that it priced."""

    def __init__(self, predictor, after=10**9):
        self.price_batch, self.after, self.rows = predictor.members[0].engine.price_batch, after, 0

    def __call__(self, batch):
        self.rows += len(batch["features"])
        if self.rows > self.after:
            raise KeyboardInterrupt
        return self.price_batch(batch)


def _with(predictor, price_batch):
    member = predictor.members[0]
    engine = replace(member.engine, price_batch=price_batch, streams=1)
    return replace(predictor, members=(replace(member, engine=engine),))


def test_frames_are_priced_like_files(predictor, catalog, tmp_path, raises):
    frame = pd.read_csv(catalog).head(50).astype({"catalog_content": "category"})
    frame.index = frame.index[::-1]
    frame.drop(columns="price").to_parquet(tmp_path / "t.parquet", index=False)
    opened_model(predictor).predict_file(tmp_path / "t.parquet", tmp_path / "prices.parquet")
    expected = pd.read_parquet(tmp_path / "prices.parquet")["price"].to_numpy()
    frames = (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame.astype({"catalog_content": str})))
    for rows in (*frames, frame["catalog_content"].astype(str).tolist()):
        assert predictor.predict(rows) == pytest.approx(expected, rel=1e-6)
    assert predictor.predict(frame.head(0)).tolist() == []
    with raises(
        DataError, "text", column="catalog_content", candidates=["sample_id", "price"], suggestion=None
    ):
        predictor.predict(frame.drop(columns="catalog_content"))
    with raises(DataError, "table", column="sample_id"):
        predictor.predict(frame.assign(sample_id=[object()] * 50))
    odd = frame.assign(odd=[object()] * 50)  # a column that is not read
    assert predictor.predict(odd) == pytest.approx(expected, rel=1e-6)


def test_texts_for_a_model_of_several_columns_name_them(predictor, raises):
    preprocessor = predictor.members[0].preprocessor
    columns = replace(preprocessor.columns, text=("title", "brand"))
    several = replace(
        predictor,
        members=(replace(predictor.members[0], preprocessor=replace(preprocessor, columns=columns)),),
    )
    frame = pd.DataFrame({"title": ["tea", "jam"], "brand": ["x", ""]})
    texts = ["title: tea\nbrand: x", "title: jam"]
    assert several.predict(texts).tolist() == several.predict(frame).tolist()
    assert len(several.predict(["", ""])) == 2
    with raises(DataError, "table", columns=["title", "brand"]):
        several.predict(["tea", "jam"])


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_predictor_pickles_as_path_digest_and_engine(predictor, bundle, texts, dumps):
    sent = dumps(predictor)
    assert len(sent) < 1000
    received = pickle.loads(sent)
    assert received.engine == predictor.engine
    assert np.array_equal(received.predict(texts), predictor.predict(texts))
    assert pickle.loads(sent) is received  # a pool sends it with each task, and opens it once


def test_copies_are_the_predictor_itself(predictor):
    assert copy.copy(predictor) is predictor
    assert copy.deepcopy({"model": predictor})["model"] is predictor


@pytest.mark.parametrize("model", ["run", "bundle"])
def test_other_processes_predict_the_same(model, texts, request):
    opened = load_model(request.getfixturevalue(model))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(opened.predict, [texts[:20], texts[20:40]])
    assert np.concatenate(found) == pytest.approx(opened.predict(texts[:40]), rel=1e-6)


def test_joblib_sends_a_predictor(predictor, texts):
    found = joblib.Parallel(2)(joblib.delayed(predictor.predict)(part) for part in (texts[:9], texts[9:18]))
    assert np.concatenate(found) == pytest.approx(predictor.predict(texts[:18]), rel=1e-6)


def test_a_model_that_changed_after_pickling_is_refused(bundle, tmp_path, raises):
    copied = shutil.copytree(bundle, tmp_path / "copied")
    sent = pickle.dumps(Predictor.load(copied, "ort-cpu"))
    manifest = json.loads((copied / "manifest.json").read_text())
    write_manifest(copied, manifest | {"table": "other.csv"})
    with raises(BundleError):
        pickle.loads(sent)
    shutil.rmtree(copied)
    with raises(BundleError):
        pickle.loads(sent)


def test_a_run_with_changed_weights_is_rejected(run, tmp_path, raises):
    copied = shutil.copytree(run, tmp_path / "run")
    sent = pickle.dumps(load_model(copied))
    weights = copied / "best.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with raises(TrainingError):
        pickle.loads(sent)


def test_a_predictor_of_a_run_that_was_trained_again_is_rejected(run, catalog, tmp_path, raises):
    copied = shutil.copytree(run, tmp_path / "run")
    sent = pickle.dumps(load_model(copied))
    config = tiny_config({"training": {"epochs": 1}})
    train(Source(catalog), config, copied, mode="overwrite")
    with raises(BundleError):
        pickle.loads(sent)


def test_a_predictor_from_no_folder_cannot_be_pickled(predictor, raises):
    with raises(TypeError):
        pickle.dumps(replace(predictor, origin=None))


def test_reprs_are_one_short_line(predictor, bundle, run):
    assert repr(predictor) == "Predictor('bundle', engine='ort-cpu')"
    for value in (predictor.members[0], predictor.intervals, read_bundle(bundle), open_bundle(bundle)):
        assert len(repr(value)) < 250


def test_predictions_with_an_interval_are_a_frame(predictor, texts, raises):
    rows = pd.DataFrame({"catalog_content": texts[:5]}, index=list("vwxyz"))
    found = predictor.predict(rows, interval=0.5)
    assert found.columns.tolist() == ["price", "price_low", "price_high"]
    assert (found.dtypes == np.float32).all()
    assert found.index.tolist() == list("vwxyz")
    assert found["price"].to_numpy() == pytest.approx(predictor.predict(texts[:5]), rel=1e-6)
    spread = predictor.spread(predictor.prepare(table_of(texts[:5], predictor.columns)))
    low, high = predictor.intervals.bounds(found["price"].to_numpy(), spread, 0.5)
    assert np.array_equal(found["price_low"], low)
    assert np.array_equal(found["price_high"], high)
    assert predictor.predict([], interval=0.5).shape == (0, 3)
    assert predictor.predict([], 0.5, [0.5]).shape == (0, 4)
    with raises(ConfigError, "interval", highest=predictor.intervals.highest):
        predictor.predict(texts, interval=0.9999)


def test_texts_may_be_a_series_or_an_array(predictor, texts):
    expected = predictor.predict(texts[:5])
    for rows in (
        pd.Series(texts[:5], index=[9, 8, 7, 6, 5]),
        pd.Series(texts[:5], dtype="string[pyarrow]"),
        pd.Series(texts[:5], dtype="category"),
        np.array(texts[:5]),
        np.array(texts[:5], dtype=object),
        np.array(texts[:5], dtype=np.dtypes.StringDType()),
        tuple(texts[:5]),
        pa.chunked_array([texts[:5]]),
        pl.Series(texts[:5]),
    ):
        assert np.array_equal(predictor.predict(rows), expected)
    for rows in ([], np.array([], dtype=str), pd.Series([], dtype="str")):
        assert predictor.predict(rows).shape == (0,)
    for rows in (["tea", 3], np.array([["tea"]]), pd.Series(["tea", None]), "tea", 7):
        with pytest.raises(DataError):
            predictor.predict(rows)


def test_equal_rows_are_priced_once(predictor, texts):
    engine = Failing(predictor)
    found = _with(predictor, engine).predict([*texts[:50], *texts[10:30], texts[3]])
    assert engine.rows == len(set(texts[:50]))
    assert np.array_equal(found, np.concatenate([found[:50], found[10:30], found[3:4]]))
    assert found[:50] == pytest.approx(predictor.predict(texts[:50]), rel=1e-6)


def test_a_named_engine_writes_nothing_to_the_home_folder(bundle, tmp_path):
    """ONNX Runtime's telemetry stores a device id there before it sends anything."""
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    home.pop("ORT_DISABLE_TELEMETRY", None)
    home.pop("CI", None)  # where there is none either
    code = "import sys, pricekit; pricekit.load(sys.argv[1], 'ort-cpu').predict(['tea'])"
    subprocess.run([sys.executable, "-c", code, bundle], check=True, env=home)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
