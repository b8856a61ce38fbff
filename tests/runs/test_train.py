"""Training from a table to a finished run."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import tiny_config
from pricekit.config import build_config, read_toml
from pricekit.datasets import make_catalog
from pricekit.errors import DataError
from pricekit.evaluation.held_out import read_held_out
from pricekit.evaluation.scores import Goal
from pricekit.metrics import SMAPE, smape
from pricekit.runs.opened import open_run, read_sample
from pricekit.runs.split import Source
from pricekit.runs.train import train, warn_if_useless
from pricekit.table import ReadOptions

ONE_EPOCH = {"training": {"epochs": 1}}


def _weights(run):
    return open_run(run).model.state_dict()


def test_a_run_contains_its_documented_files(run, catalog):
    opened = open_run(run)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [m["epoch"] for m in metrics] == [1, 2, 3]
    assert opened.facts["metrics"]["smape"] == pytest.approx(min(m["valid_smape"] for m in metrics), abs=1e-4)
    assert opened.facts["metrics"]["smape"] < opened.facts["constant_score"]
    split = pd.read_parquet(run / "split.parquet")
    assert set(split["id"]) == set(pd.read_csv(catalog)["sample_id"].astype(str))
    assert split["part"].value_counts().to_dict() == {"train": 340, "valid": 60}
    assert len(pd.read_parquet(run / "rejected.parquet")) == 0
    assert {p["kind"] for p in opened.facts["plugins"]} == {"feature", "backbone", "loss", "policy"}


def test_the_model_learns(catalog, tmp_path):
    facts = train(Source(catalog), tiny_config({"training": {"epochs": 25}}), tmp_path / "run")
    assert facts["metrics"]["smape"] < 0.7 * facts["constant_score"]


def test_the_training_rows_determine_auto_epochs(catalog, tmp_path):
    few = tiny_config(
        {"training": {"epochs": "auto", "batch_size": 12, "patience": None}}
    )  # 29 steps of the 340 rows
    train(Source(catalog), few, tmp_path / "run")
    assert read_toml(tmp_path / "run" / "config.toml")["training"]["epochs"] == 35
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 35


def test_equal_seeds_give_equal_weights(run, catalog, tmp_path):
    train(Source(catalog), tiny_config(), tmp_path / "again")
    train(Source(catalog), tiny_config({"seed": 1}), tmp_path / "other")
    again, other = _weights(tmp_path / "again"), _weights(tmp_path / "other")
    name = "encoder.embedding.weight"
    assert all(torch.equal(t, again[n]) for n, t in _weights(run).items())
    assert not torch.equal(again[name][:100], other[name][:100])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_does_not_change_the_weights(run, catalog, tmp_path, monkeypatch, threads):
    monkeypatch.setattr("pricekit.training.batches.cpu_threads", lambda: threads)
    train(Source(catalog), tiny_config(), tmp_path / "again")
    again = _weights(tmp_path / "again")
    assert all(torch.equal(t, again[n]) for n, t in _weights(run).items())


def test_the_sample_has_the_prices_that_were_trained_on(catalog, tmp_path):
    """Read with --decimal , the text contains a different price than without it."""
    frame = pd.read_csv(catalog)
    frame["price"] = [f"{price:.3f}".replace(".", ",") for price in frame["price"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = Source(tmp_path / "t.csv", read_options=ReadOptions(decimal=","))
    train(source, tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    opened, held_out = open_run(tmp_path / "run"), read_held_out(tmp_path / "run")
    sample = read_sample(opened)
    assert len(sample) == 60
    assert np.sort(sample.known_price) == pytest.approx(np.sort(held_out.price))


def test_the_rows_held_out_are_kept_with_their_predictions(run):
    held_out, split = read_held_out(run), pd.read_parquet(run / "split.parquet")
    assert set(held_out.ids) == set(split["id"][split["part"] == "valid"])
    assert smape(held_out.predicted, held_out.price) == pytest.approx(
        open_run(run).facts["metrics"]["smape"], abs=1e-4
    )


def test_bf16_and_workers_train(catalog, tmp_path):
    speed = {"precision": "bf16", "workers": 1, "sort_window": 1}
    facts = train(Source(catalog), tiny_config({"speed": speed}), tmp_path / "run")
    assert facts["metrics"]["smape"] < facts["constant_score"]


def test_rejected_rows_are_kept_with_their_reason(catalog, tmp_path, logged):
    frame = pd.read_csv(catalog, dtype=str)
    frame.loc[0, "price"] = "cheap"
    frame.loc[1, "price"] = "-3"
    frame.loc[2, "catalog_content"] = " "
    frame.loc[3, "sample_id"] = frame.loc[4, "sample_id"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    train(Source(tmp_path / "t.csv"), tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    rejected = pd.read_parquet(tmp_path / "run" / "rejected.parquet")
    assert rejected["reason"].tolist() == [
        "price not a number",
        "price not positive",
        "no text",
        "duplicate id",
    ]
    assert "4 of 400 rows cannot be used" in logged()


def test_a_separate_validation_table(catalog, tmp_path):
    valid = tmp_path / "valid.csv"
    make_catalog(30, seed=9).to_csv(valid, index=False)
    facts = train(Source(catalog, valid), tiny_config({"training": {"epochs": 1}}), tmp_path / "run")
    assert facts["rows"] == {"train": 400, "valid": 30, "rejected": 0}


@pytest.mark.parametrize("rows", [1, 9])
def test_too_few_rows(catalog, tmp_path, rows, raises):
    with raises(DataError, "table"):
        train(Source(catalog), tiny_config({"limit": rows}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ten_rows_train(catalog, tmp_path):
    train(Source(catalog), tiny_config({"limit": 10}), tmp_path / "run")


def test_the_saved_configuration_repeats_the_run(run):
    saved = build_config([read_toml(run / "config.toml")])
    assert saved == tiny_config()
    assert saved.backbone.options["token_dropout"] == 0.4  # a default, written out


@pytest.mark.parametrize(
    ("smape_", "constant", "useless"), [(50, 60, False), (60, 60, True), (70, 60, True), (1, 0, False)]
)
def test_a_model_that_is_no_better_than_a_constant_price_is_reported(logged, smape_, constant, useless):
    warn_if_useless(Goal(SMAPE, smape_, constant))
    assert ("not below that of a constant price" in logged()) is useless
