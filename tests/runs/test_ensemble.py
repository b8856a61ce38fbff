import json
import shutil

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import tiny_config
from pricekit.errors import BundleError, ExportError, TrainingError
from pricekit.evaluation.held_out import read_held_out
from pricekit.export.export import export_run
from pricekit.predict import limits
from pricekit.predict.bundle import MANIFEST, open_bundle
from pricekit.predict.members import read_bundle
from pricekit.predict.predictor import Predictor
from pricekit.runs.ensemble import make_ensemble
from pricekit.runs.load import load_model
from pricekit.runs.opened import open_ensemble, open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from tests.predict.hostile import write_manifest


@pytest.fixture(scope="module")
def other(catalog, tmp_path_factory):
    """A run on the same split with a different tokenizer, features and length."""
    out = tmp_path_factory.mktemp("runs") / "other"
    layer = {"features": ["fast15"], "max_length": 32, "backbone": {"vocab_size": 500, "members": 1}}
    layer["training"] = {"epochs": 1}  # both are of use to the other
    train(Source(catalog), tiny_config(layer), out)
    return out


@pytest.fixture(scope="module")
def both(run, other, tmp_path_factory):
    out = tmp_path_factory.mktemp("ensembles") / "both"
    make_ensemble([run, other], out)
    return out


@pytest.fixture(scope="module")
def bundle_of_both(both, tmp_path_factory):
    out = tmp_path_factory.mktemp("bundles") / "both"
    export_run(both, out)
    return out


@pytest.fixture
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()[:50]


def test_an_ensemble_predicts_the_weighted_geometric_mean_without_its_source_runs(
    run, other, both, texts, tmp_path
):
    weights = [weight for _, weight in open_ensemble(both).members]
    assert sum(weights) == pytest.approx(1)
    assert len(weights) == 2
    prices = [open_run(path).predictor().predict(texts).astype(np.float64) for path in (run, other)]
    expected = np.exp(weights[0] * np.log(prices[0]) + weights[1] * np.log(prices[1]))
    moved = shutil.copytree(both, tmp_path / "moved")
    assert load_model(moved).predict(texts) == pytest.approx(expected, rel=1e-5)


def test_its_bundle_is_one_model_that_agrees(both, bundle_of_both, texts, catalog, tmp_path):
    bundle = Predictor.load(bundle_of_both, "ort-cpu")
    expected = load_model(both).predict(texts)
    assert bundle.predict(texts) == pytest.approx(expected, rel=1e-5)
    assert bundle.predict(texts[:1]) == pytest.approx(expected[:1], rel=1e-5)
    assert (
        pk.load(bundle_of_both, "ort-cpu").predict_file(catalog, tmp_path / "prices.csv", interval=0.5) == 400
    )
    written = pd.read_csv(tmp_path / "prices.csv")
    assert written["price"].to_numpy()[:50] == pytest.approx(expected, rel=1e-4)
    assert (written["price_low"] < written["price_high"]).all()
    manifest = open_bundle(bundle_of_both).manifest
    assert [member["weight"] for member in manifest["members"]] == [w for _, w in open_ensemble(both).members]


def test_the_score_uses_rows_that_nothing_was_fitted_on(run, other, both):
    facts = json.loads((both / "run.json").read_text())
    held_out = read_held_out(both)
    assert facts["rows"]["valid"] == len(held_out) == len(read_held_out(run))
    parts = [read_held_out(path).predicted for path in (run, other)]
    assert (held_out.predicted >= np.minimum(*parts) * 0.999).all()
    assert (held_out.predicted <= np.maximum(*parts) * 1.001).all()


def test_runs_with_other_held_out_rows_are_refused_and_nothing_is_written(pricekit, run, catalog, tmp_path):
    other_seed = tmp_path / "seed"
    layer = {"seed": 9, "training": {"epochs": 1}, "validation_fraction": 0.02}
    train(Source(catalog), tiny_config(layer), other_seed)
    code, _, err = pricekit("ensemble", run, other_seed, "--out", tmp_path / "out")
    assert code == 1
    assert "held-out rows in common" in err
    assert "with the same seed" in err
    assert not (tmp_path / "out").exists()


def test_wrong_folders_are_reported(pricekit, run, both, bundle, tmp_path):
    for wrong, said in (
        (tmp_path, "held_out.parquet"),
        (both, "is an ensemble; use the runs"),
        (bundle, "is a bundle"),
    ):
        code, _, err = pricekit("ensemble", run, wrong, "--out", tmp_path / "out")
        assert code == 1
        assert said in err
    assert pricekit("ensemble", run, run, "--out", tmp_path / "out")[0] == 2
    assert pricekit("ensemble", run, both.parent, "--out", run)[0] == 1
    assert (run / "best.safetensors").exists()


def test_an_ensemble_is_replaced_only_when_asked(pricekit, run, other, tmp_path):
    out = tmp_path / "out"
    code, _, err = pricekit("ensemble", run, other, "--out", out)
    assert code == 0
    assert "pricekit export" in err
    assert pricekit("ensemble", run, other, "--out", out)[0] == 1
    (out / "notes.txt").write_text("mine")
    assert pricekit("ensemble", run, other, "--out", out, "--overwrite")[0] == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_damaged_member_is_found_before_it_is_parsed(bundle_of_both, tmp_path, raises):
    copy = shutil.copytree(bundle_of_both, tmp_path / "copy")
    graph = bytearray((copy / "1-model.onnx").read_bytes())
    graph[1000] ^= 1
    (copy / "1-model.onnx").write_bytes(graph)
    with raises(BundleError):
        open_bundle(copy)


def test_a_member_that_is_not_listed_among_the_files_is_refused(bundle_of_both, tmp_path, raises):
    copy = shutil.copytree(bundle_of_both, tmp_path / "copy")
    manifest = json.loads((copy / MANIFEST).read_text())
    del manifest["files"]["1-tokenizer.json"]
    write_manifest(copy, manifest)
    with raises(BundleError):
        open_bundle(copy)


def test_a_bundle_of_several_members_has_a_card_and_can_be_inspected(pricekit, bundle_of_both):
    card = (bundle_of_both / "README.md").read_text()
    assert "geometric mean of the prices of 2 models" in card
    code, out, _ = pricekit("bundle", "inspect", bundle_of_both)
    assert code == 0
    assert "1-model.onnx" in out


def test_triton_serves_an_ensemble(both, tmp_path):
    pk.load(both).export(tmp_path / "b", triton=tmp_path / "t")
    assert len(read_bundle(tmp_path / "t" / "b" / "1" / "bundle").preprocessors) == 2


def test_a_run_that_is_better_alone_is_an_ensemble_of_one(pricekit, run, catalog, texts, tmp_path):
    poor = tmp_path / "poor"
    layer = {
        "training": {"epochs": 1, "learning_rate": 1e-6, "embedding_learning_rate": 1e-6, "keep": "last"}
    }
    train(Source(catalog), tiny_config(layer), poor)
    code, _, err = pricekit("ensemble", run, poor, "--out", tmp_path / "out")
    assert (code, "left out" in err) == (0, True)
    assert pricekit("export", tmp_path / "out", "--out", tmp_path / "bundle")[0] == 0
    found = Predictor.load(tmp_path / "bundle", "ort-cpu").predict(texts)
    assert found == pytest.approx(open_run(run).predictor().predict(texts), rel=1e-4)
    assert "the price of its only member" in (tmp_path / "bundle" / "README.md").read_text()


def test_an_ensemble_does_not_replace_one_of_its_runs(run, other, tmp_path, raises):
    copy = shutil.copytree(run, tmp_path / "run")
    with raises(TrainingError, "out"):
        make_ensemble([copy, other], copy, mode="overwrite")
    assert (copy / "last.safetensors").exists()


def test_a_full_disk_is_named(run, other, tmp_path, monkeypatch, raises):
    """Syncing a folder gives an error without a file name."""

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pricekit.io.files.sync", full)
    with raises(OSError) as raised:
        make_ensemble([run, other], tmp_path / "ensemble")
    assert raised.value.filename == str(tmp_path / "ensemble")
    assert list(tmp_path.iterdir()) == []


def test_an_ensemble_beyond_the_limits_of_all_members_is_not_exported(
    both, bundle_of_both, tmp_path, monkeypatch, raises
):
    graphs = [(bundle_of_both / f"{number}-model.onnx").read_bytes() for number in (0, 1)]
    monkeypatch.setattr(
        limits, "GRAPHS_FIELDS", max(limits.check_graph(graph, "here") for graph in graphs) + 1
    )
    with raises(ExportError):
        export_run(both, tmp_path / "out")
    assert not (tmp_path / "out").exists()
