"""Runs on tables that are larger than memory: their inputs are in files, and nothing else differs."""

import errno
import json
import os
import signal
from importlib import import_module

import numpy as np
import pytest
import torch

from conftest import tiny_config
from pricekit.config.layers import read_saved_config
from pricekit.features.fit import sample_of
from pricekit.features.trees import Trees
from pricekit.runs.folder import STARTED, read_out_of_fold, read_preprocessor
from pricekit.runs.inputs import INPUTS, TRAIN, VALID, open_inputs
from pricekit.runs.opened import open_run
from pricekit.runs.refit import all_rows
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.loop import Session
from tests.faults.commands import Command

TREES = {
    "features": ["optimized22", "columns", "trees"],
    "feature_options": {"trees": {"rounds": 4, "words": 30}},
}
REFIT = {"training": {"refit": True, "epochs": 2}}
LARGE = {
    "pricekit.table.source.LARGE_BYTES": 0,
    "pricekit.table.table.PART_ROWS": 50,
    "pricekit.table.usable.PART_ROWS": 50,
}
"""What to set so that every table is larger than memory."""


@pytest.fixture
def large(monkeypatch):
    """Every table is larger than memory."""
    for target, value in LARGE.items():
        monkeypatch.setattr(target, value)


def _assert_equal(run, other):
    one, two = (open_run(path).model.state_dict() for path in (run, other))
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    for name in ("preprocess.json", "held_out.parquet", "split.parquet", "sketch.json", "intervals.json"):
        assert (run / name).read_bytes() == (other / name).read_bytes(), name
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()}


@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param({**TREES, **REFIT}, marks=pytest.mark.slow)],
    ids=["tiny", "trees and refit"],
)
def test_the_model_is_the_same_as_in_memory(catalog, tmp_path, large, settings, monkeypatch):
    config = tiny_config(settings)
    train(Source(catalog), config, tmp_path / "files")
    monkeypatch.undo()
    train(Source(catalog), config, tmp_path / "memory")
    _assert_equal(tmp_path / "files", tmp_path / "memory")
    assert {path.name for path in tmp_path.iterdir()} == {"files", "memory"}


def train_until_killed(given):
    """Train, and be killed in the middle of the second epoch."""
    catalog, out, settings = given
    for target, value in LARGE.items():
        module, _, name = target.rpartition(".")
        setattr(import_module(module), name, value)
    count = Session.count_step

    def count_step(self, rows, *, skipped):
        count(self, rows, skipped=skipped)
        if self.state.epoch == 1 and self.state.steps_in_epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    Session.count_step = count_step
    train(Source(catalog), tiny_config(settings), out)


def test_a_stopped_run_continues_from_its_files(catalog, run, tmp_path, large, monkeypatch):
    def count_step(self, rows, *, skipped, call=Session.count_step):
        call(self, rows, skipped=skipped)
        if self.state.epoch == 1 and self.state.steps_in_epoch == 2:
            raise KeyboardInterrupt

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Session, "count_step", count_step)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), tiny_config({"training": {"save_steps": 1}}), out)
    assert all((out / name).is_file() for name in INPUTS)
    monkeypatch.setattr(
        "pricekit.features.preprocess.Preprocessor.__call__", None
    )  # they are not computed again
    monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    train(Source(catalog), read_saved_config(out / "config.toml"), out, mode="resume")
    weights, expected = (open_run(path).model.state_dict() for path in (out, run))
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
    assert not any((out / name).exists() for name in INPUTS)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["none", "missing", "flipped", "empty"])
def test_a_killed_run_resumes_to_the_same_weights(catalog, run, tmp_path, large, damage, monkeypatch):
    out = tmp_path / "runs" / "run"
    given = (catalog, out, {"training": {"save_steps": 1}})
    command = Command(folder=tmp_path, before="tests.runs.test_inputs:train_until_killed", value=given)
    assert command.wait().code == -signal.SIGKILL, command.output
    assert {path.name for path in out.parent.iterdir()} - {".run.lock"} == {"run"}
    assert all((out / name).is_file() for name in INPUTS)
    assert not set(INPUTS) & set(STARTED)
    if damage == "none":  # they are not computed again
        monkeypatch.setattr("pricekit.features.preprocess.Preprocessor.__call__", None)
        monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    elif damage == "missing":
        (out / TRAIN).unlink()
    else:
        content = bytearray((out / VALID).read_bytes())
        content[-3] ^= 1
        (out / VALID).write_bytes(content if damage == "flipped" else b"")
    train(Source(catalog), read_saved_config(out / "config.toml"), out, mode="resume")
    weights, expected = (open_run(path).model.state_dict() for path in (out, run))
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
    assert not any((out / name).exists() for name in INPUTS)


def test_inputs_of_another_preprocessor_or_table_are_not_opened(catalog, run, tmp_path, large, monkeypatch):
    monkeypatch.setattr(loop, "train_epoch", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(Source(catalog), tiny_config(), tmp_path / "run")
    own, split = read_preprocessor(tmp_path / "run"), load_split(Source(catalog), tiny_config())
    path, rows = tmp_path / "run" / TRAIN, len(split.train)
    found, expected = open_inputs(path, own, rows), own(split.train)
    assert np.array_equal(found.features, expected.features)
    assert np.array_equal(found.tokens.ids, expected.tokens.ids)
    assert np.array_equal(found.tokens.offsets, expected.tokens.offsets)
    assert open_inputs(path, own, rows + 1) is None
    assert open_inputs(path, open_run(run).preprocessor, rows) is not None  # the same
    object.__setattr__(own, "max_length", own.max_length + 1)
    assert open_inputs(path, own, rows) is None


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("stage", ["table", "inputs"])
def test_a_full_disk_leaves_nothing(pricekit, catalog, tmp_path, large, monkeypatch, stage):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = {"table": "pricekit.table.table._append", "inputs": "pricekit.runs.inputs._write_at"}[stage]
    monkeypatch.setattr(target, full)
    out = tmp_path / "run"
    code, _, err = pricekit("train", catalog, "--out", out, "--epochs", 1, "--features", "optimized22")
    assert code == 4
    last = err.strip().splitlines()[-1]
    assert "No space left on device" in err
    assert str(tmp_path) in err.replace("\n", ""), last
    assert list(tmp_path.iterdir()) == []


def test_rows_outside_of_the_sample_are_predicted_from_it(catalog, tmp_path, large, monkeypatch, logged):
    monkeypatch.setattr("pricekit.features.fit.MOST_ROWS", 150)
    seen = []
    fit = Trees.fit
    monkeypatch.setattr(
        Trees, "fit", lambda self, table, price: seen.append(len(table)) or fit(self, table, price)
    )
    out = tmp_path / "run"
    train(Source(catalog), tiny_config({**TREES, **REFIT}), out)
    assert max(seen) <= 150
    assert "are fitted to a sample of" in logged()
    split, own = load_split(Source(catalog), tiny_config()), read_preprocessor(out)
    rows = all_rows(split)  # of the second pass
    price = own.features.names.index("trees_log_price")
    column = read_out_of_fold(out)["trees_log_price"]
    assert len(column) == len(rows) == 400
    assert np.isfinite(column).all()
    assert abs(np.corrcoef(column, np.log(rows.known_price))[0, 1]) > 0.3
    known = own.features.transform(rows)[:, price]
    assert (known != column).mean() > 0.5


def test_the_first_pass_keeps_the_predictions_of_rows_outside_of_the_sample(
    catalog, tmp_path, large, monkeypatch
):
    monkeypatch.setattr("pricekit.features.fit.MOST_ROWS", 150)
    out = tmp_path / "run"
    train(Source(catalog), tiny_config(TREES), out)
    rows, own = load_split(Source(catalog), tiny_config()).train, read_preprocessor(out)
    sample = sample_of(rows)
    outside = np.setdiff1d(np.arange(len(rows)), sample)
    found = own.features.transform(rows)[:, own.features.names.index("trees_log_price")]
    column = read_out_of_fold(out)["trees_log_price"]
    assert 100 < len(sample) <= 150
    assert np.array_equal(column[outside], found[outside])
    assert (column[sample] != found[sample]).mean() > 0.9


def test_few_rows_of_a_large_table_predict_the_same(catalog, tmp_path, large):
    train(Source(catalog), tiny_config(), tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["rows"]["train"] + facts["rows"]["valid"] == 400
    prices = open_run(tmp_path / "run").predictor().predict(["Item Name: Green Tea, 20 Count (Pack of 6)"])
    assert prices[0] > 0
