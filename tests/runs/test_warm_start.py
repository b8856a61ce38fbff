"""Runs that continue another one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import pricekit as pk
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.evaluation.scores import facts_of
from pricekit.runs.opened import open_run
from pricekit.runs.seen import read_seen
from pricekit.runs.warm_start import EPOCHS, RATE
from pricekit.table import table_of_texts

SMALL = {
    "features": ["optimized22", "trees", "neighbours"],
    "settings": {
        "backbone.members": 1,
        "backbone.buckets": 256,
        "backbone.width": 8,
        "feature_options.trees.rounds": 12,
        "training.epochs": 6,
    },
    "refit": True,
}


@pytest.fixture(scope="module")
def catalog():
    return pk.make_catalog(360, seed=5).drop(columns="sample_id")


@pytest.fixture(scope="module")
def yesterday(catalog, tmp_path_factory):
    return pk.train(catalog.iloc[:240], out=tmp_path_factory.mktemp("runs") / "yesterday", **SMALL)


@pytest.fixture(scope="module")
def today(catalog, yesterday, tmp_path_factory):
    return pk.train(catalog, out=tmp_path_factory.mktemp("runs") / "today", init=yesterday)


def state_of(run, feature):
    features = json.loads((run.path / "preprocess.json").read_text())["features"]
    return next(part["state"] for part in features if part["name"] == feature)


def test_settings_tokenizer_and_states_stay_and_price_features_are_fitted_again(yesterday, today):
    before, after = open_run(yesterday.path), open_run(today.path)
    assert after.config.backbone == before.config.backbone
    assert after.config.training.epochs == round(EPOCHS * 6)
    assert after.config.training.learning_rate == pytest.approx(RATE * before.config.training.learning_rate)
    assert not after.config.training.refit
    assert after.preprocessor.tokenizer.to_str() == before.preprocessor.tokenizer.to_str()
    assert state_of(today, "optimized22") == state_of(yesterday, "optimized22")
    assert state_of(today, "trees") != state_of(yesterday, "trees")
    assert facts_of(today.path)["init"]["features"] == {
        "optimized22": "kept",
        "trees": "fitted again",
        "neighbours": "fitted again",
    }


def test_weights_continue(catalog, yesterday, tmp_path):
    """With a tiny learning rate, they are nearly those of the run that is continued; only new terms get an idf."""
    slow = {"training.learning_rate": 1e-9, "training.embedding_learning_rate": 1e-9}
    run = pk.train(catalog, out=tmp_path / "slow", init=yesterday, settings=slow)
    before, after = (open_run(one.path).model.state_dict() for one in (yesterday, run))
    known = before["encoder.idf"] > 0
    for name, old in before.items():
        new = after[name]
        assert torch.allclose(*((old[known], new[known]) if name == "encoder.idf" else (old, new)), atol=1e-6)
    assert (after["encoder.idf"] > 0).sum() > known.sum()


def test_only_rows_that_no_run_has_seen_are_validated_on(catalog, yesterday, today):
    texts = set(yesterday.held_out["text"]) | set(catalog["catalog_content"].iloc[:240])
    assert len(today.held_out) > 5
    assert not texts & set(today.held_out["text"])
    assert set(today.held_out["text"]) < set(catalog["catalog_content"].iloc[240:])


def test_out_of_fold_columns_of_earlier_rows_are_those_of_that_time(yesterday, today, catalog):
    columns = pd.read_parquet(today.path / "out_of_fold.parquet")
    ids = pd.read_parquet(today.path / "split.parquet")
    rows = ids["id"][ids["part"] == "train"].astype(int).to_numpy()
    texts, was = catalog["catalog_content"].iloc[rows], read_seen(yesterday.path)
    row = was.rows_of(texts.astype("str"))
    old = row >= 0
    assert 200 < old.sum() < len(rows)
    for name in ("trees_log_price", "nearest_similarity"):
        assert np.array_equal(columns[name][old], was.columns[name][row[old]])
        fresh = open_run(yesterday.path).preprocessor.features
        block = fresh.transform(table_of_texts(texts[~old].tolist()))
        assert columns[name][~old].tolist() == block[:, fresh.names.index(name)].tolist()


def test_new_rows_alone_add_trees_and_leave_other_states(catalog, yesterday, tmp_path):
    run = pk.train(catalog.iloc[240:], out=tmp_path / "run", init=yesterday)
    assert facts_of(run.path)["init"]["features"] == {
        "optimized22": "kept",
        "trees": "continued",
        "neighbours": "kept",
    }
    before, after = (state_of(one, "trees")["forest"]["feature"] for one in (yesterday, run))
    assert len(after) >= len(before)
    assert len(read_seen(run.path).text) > len(read_seen(yesterday.path).text)


def test_a_second_warm_start_knows_the_rows_of_both(catalog, yesterday, today, tmp_path, raises):
    more = pd.concat([catalog, pk.make_catalog(100, seed=77).drop(columns="sample_id")])
    run = pk.train(more, out=tmp_path / "run", init=today)
    assert not set(run.held_out["text"]) & set(catalog["catalog_content"])
    rates = [open_run(one.path).config.training.learning_rate for one in (today, run)]
    assert rates[0] == rates[1]
    with raises(DataError, "table", "init", rows=0):
        pk.train(catalog, out=tmp_path / "none", init=today)
    assert not (tmp_path / "none").exists()


def test_it_resumes_without_the_run_that_it_continues(catalog, yesterday, tmp_path, raises):
    init = tmp_path / "init"
    shutil.copytree(yesterday.path, init)
    settings = {"training.epochs": 2}
    whole = pk.train(catalog, out=tmp_path / "whole", init=init, settings=settings)
    run = pk.train(catalog, out=tmp_path / "run", init=init, settings=settings, time_budget=600)
    (run.path / "run.json").unlink()
    shutil.rmtree(init)
    again = pk.train(catalog, out=tmp_path / "run", init=init, resume=True)
    assert again.metrics == whole.metrics
    assert facts_of(again.path)["init"]["features"] == facts_of(whole.path)["init"]["features"]
    with raises(ConfigError, "init"):
        pk.train(catalog, out=tmp_path / "run", init=yesterday, resume=True)


def test_an_ensemble_continues_member_by_member(catalog, tmp_path):
    members = {"one": {"loss": "log-l1"}, "two": {"loss": "log-l2"}}
    settings = {"backbone.members": 1, "training.epochs": 4, "members": members}
    first = pk.train(catalog.iloc[:240], out=tmp_path / "a", features="optimized22", settings=settings)
    run = pk.train(catalog, out=tmp_path / "b", init=first)
    names = [{folder.name for folder in (one.path / "members").iterdir()} for one in (first, run)]
    assert names[1] <= names[0]
    for name in names[1]:
        facts = json.loads((run.path / "members" / name / "run.json").read_text())
        assert facts["init"]["run"] == str(first.path / "members" / name)
    assert not set(run.held_out["text"]) & set(catalog["catalog_content"].iloc[:240])


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"max_length": 32}, ("max_length", "init")),
        ({"features": "optimized22"}, ("features", "init")),
        ({"backbone": "lstm"}, ("backbone", "init")),
        ({"policy": "best"}, ("policy", "init")),
        ({"text": "title"}, ("text", "init")),
        ({"settings": {"head.widths": [4], "head.dropout": [0.0]}}, ("settings", "init")),
        ({"loss": "log-l2"}, ("loss", "init")),
    ],
)
def test_settings_that_the_weights_depend_on_cannot_change(
    catalog, yesterday, tmp_path, options, parameters, raises
):
    with raises(ConfigError, *parameters):
        pk.train(catalog, out=tmp_path / "run", init=yesterday, **options)
    assert not (tmp_path / "run").exists()


def test_a_table_without_the_columns_is_an_error(catalog, yesterday, tmp_path, raises):
    with raises(DataError, "text", column="catalog_content", candidates=["title", "price"], suggestion=None):
        pk.train(catalog.rename(columns={"catalog_content": "title"}), out=tmp_path / "run", init=yesterday)


GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"


def test_what_is_no_run_is_an_error(catalog, tmp_path, raises):
    for folder in (GOLDEN, tmp_path / "missing"):
        with raises(TrainingError, "init"):
            pk.train(catalog, out=tmp_path / "run", init=folder)


def test_a_cross_validation_cannot_continue_a_run(catalog, yesterday, tmp_path, raises):
    with raises(ConfigError, "settings", setting="init"):
        pk.cross_validate(catalog, out=tmp_path / "cv", folds=2, settings={"init": str(yesterday.path)})


def test_a_validation_table_must_be_new(catalog, yesterday, tmp_path, raises):
    with raises(DataError, "valid", "init", rows=30):
        pk.train(
            catalog.iloc[:200],
            valid=catalog.iloc[210:270],
            out=tmp_path / "run",
            init=yesterday,
            allow_leak=True,
        )


def test_features_do_not_learn_from_a_validation_table(catalog, yesterday, tmp_path):
    valid = catalog.iloc[300:]
    runs = [
        pk.train(catalog.iloc[:300], valid=table, out=tmp_path / name, init=yesterday)
        for name, table in (("one", valid), ("other", valid.assign(price=valid["price"] * 7)))
    ]
    assert state_of(runs[0], "trees") == state_of(runs[1], "trees")
    assert len(runs[0].held_out) == 60
