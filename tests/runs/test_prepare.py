"""New run folders, and those that are resumed or overwritten."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import tiny_config
from pricekit.config.resolve import configure
from pricekit.core.registry import Registry
from pricekit.errors import ConfigError, DataError, PluginError, TrainingError
from pricekit.io.record import advance_to
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train

ONE_EPOCH = {"training": {"epochs": 1}}


def _weights(run):
    return open_run(run).model.state_dict()


@pytest.mark.parametrize("name", ["source.json", "config.toml", "split.parquet", "backbone.json"])
def test_a_run_killed_between_its_first_files_starts_again(run, catalog, tmp_path, monkeypatch, name, raises):
    """A disk that is full, or a kill that leaves a half-written file."""
    full = OSError(28, "No space left on device")

    def replace_file(source, target, call=os.replace):
        if Path(target).name == name:
            Path(source).rename(Path(source).with_name(f".{name}.0123abcd.1f.0123.tmp"))
            raise full
        return call(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_file)
        with raises(OSError):
            train(Source(catalog), tiny_config(), tmp_path / "run")
    assert (tmp_path / "run" / f".{name}.0123abcd.1f.0123.tmp").exists()
    train(Source(catalog), tiny_config(), tmp_path / "run")
    assert all(torch.equal(t, _weights(tmp_path / "run")[n]) for n, t in _weights(run).items())
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_a_partly_deleted_run_is_still_a_run(run, catalog, tmp_path, monkeypatch):
    out = shutil.copytree(run, tmp_path / "run")
    advance_to(out, "unfinished")  # a finished run is not deleted before the new one is complete

    def unlink(self, missing_ok=False, call=Path.unlink):
        if self.name == "backbone.json":
            raise KeyboardInterrupt
        return call(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), tiny_config(), out, mode="overwrite")
    train(Source(catalog), tiny_config(), out, mode="overwrite")
    assert open_run(out).facts["rows"]["train"] == 340


@pytest.mark.parametrize("change", ["fewer rows", "other prices", "other texts"])
def test_resume_rejects_another_table(catalog, tmp_path, change, raises):
    out, other = tmp_path / "run", tmp_path / "other.csv"
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), out)
    frame = pd.read_csv(catalog)
    if change == "fewer rows":
        frame = frame.iloc[:-5]
    elif change == "other prices":
        frame["price"] *= 100
    else:
        frame["catalog_content"] += "!"
    frame.to_csv(other, index=False)
    before = (out / "run.json").read_bytes()
    with raises(TrainingError, "table", "valid", "encoding", "decimal", "out"):
        train(Source(other), tiny_config({"training": {"epochs": 2}}), out, mode="resume")
    assert (out / "run.json").read_bytes() == before


def _without_checkpoints(run, out, *names):
    out = shutil.copytree(run, out)
    for name in ("last.safetensors", "best.safetensors", "run.json", *names):
        (out / name).unlink()
    advance_to(out, "starting" if names else "unfinished")
    return out


def test_a_run_killed_before_its_first_checkpoint_rejects_other_rows(run, catalog, tmp_path, raises):
    out = _without_checkpoints(run, tmp_path / "run")
    pd.read_csv(catalog).iloc[:-5].to_csv(tmp_path / "other.csv", index=False)
    with raises(TrainingError, "table", "valid", "encoding", "decimal", "out"):
        train(Source(tmp_path / "other.csv"), tiny_config(), out, mode="resume")
    train(Source(catalog), tiny_config(), out, mode="resume")
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


def test_a_run_killed_before_its_start_starts_again(run, catalog, tmp_path):
    out = _without_checkpoints(run, tmp_path / "run", "preprocess.json", "backbone.json")
    train(Source(catalog), tiny_config(), out, mode="resume")
    assert all(torch.equal(t, _weights(out)[n]) for n, t in _weights(run).items())


def test_fp16_needs_a_gpu(catalog, tmp_path, raises):
    with raises(ConfigError, "settings", setting="speed.precision"):
        train(Source(catalog), tiny_config({"speed": {"precision": "fp16"}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_features_are_fitted_on_the_training_rows_only(run):
    split = pd.read_parquet(run / "split.parquet")
    opened = open_run(run)
    assert opened.preprocessor.features.parts[0].state != {}
    assert np.isfinite(opened.model.numeric.mean.numpy()).all()
    assert (split["part"] == "train").sum() == opened.facts["rows"]["train"]


@pytest.mark.parametrize(
    ("layer", "error", "parameters"),
    [
        ({"backbone": {"name": "bagg"}}, PluginError, ("backbone",)),
        ({"backbone": {"name": "bag", "wdth": 3}}, ConfigError, ("settings",)),
        ({"features": ["optimized22", "fast15"]}, ConfigError, ("features",)),
        ({"feature_options": {"mine": {}}}, ConfigError, ("settings",)),
    ],
)
def test_invalid_settings_are_reported(catalog, tmp_path, layer, error, parameters, raises):
    with raises(error, *parameters):
        train(Source(catalog), tiny_config(layer), tmp_path / "run")


def test_an_existing_folder_is_not_changed(catalog, run, tmp_path, raises):
    with raises(TrainingError, "resume", "overwrite", "out"):
        train(Source(catalog), tiny_config(), run)
    (tmp_path / "config.toml").write_text("title = 'a web site'")
    with raises(TrainingError, "out"):
        train(Source(catalog), tiny_config(), tmp_path, mode="overwrite")
    assert (tmp_path / "config.toml").exists()


@pytest.mark.parametrize("lost", ["last.safetensors", "run.json"])
def test_a_trained_run_is_not_overwritten_without_a_request(catalog, run, tmp_path, lost, raises):
    out = shutil.copytree(run, tmp_path / "run")
    (out / lost).unlink()
    kept = (out / "best.safetensors").read_bytes()
    with raises(TrainingError, "resume", "overwrite", "out"):
        train(Source(catalog), tiny_config(), out)
    assert (out / "best.safetensors").read_bytes() == kept


def test_overwrite_keeps_the_old_run_when_a_plugin_of_the_new_one_fails(catalog, run, tmp_path, raises):
    out = shutil.copytree(run, tmp_path / "run")
    missing = {"backbone": {"name": "distilroberta", "weights": str(tmp_path / "nowhere")}}
    with raises(ConfigError, "weights"):
        train(Source(catalog), configure([missing]), out, mode="overwrite")
    assert open_run(out)


def test_overwrite_keeps_the_old_run_until_the_new_one_can_start(catalog, run, tmp_path):
    out = shutil.copytree(run, tmp_path / "run")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DataError):
        train(Source(tmp_path / "mistyped.csv"), tiny_config(), out, mode="overwrite")
    assert open_run(out)
    (out / "notes.txt").unlink()
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), out, mode="overwrite")
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1


def test_each_plugin_is_created_once(catalog, tmp_path, monkeypatch):
    created = []

    def create(self, kind, name, options=None, call=Registry.create):
        created.append(kind)
        return call(self, kind, name, options)

    monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    config = tiny_config(ONE_EPOCH)
    monkeypatch.setattr(Registry, "create", create)
    train(Source(catalog), config, tmp_path / "run")
    assert sorted(kind for kind in created if kind != "feature") == ["backbone", "loss", "policy"]
