"""Ensembles whose members one training trains."""

import json
import os
import shutil
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import tiny_config
from pricekit.config import read_saved_config
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, TrainingError
from pricekit.evaluation.held_out import read_held_out
from pricekit.io.record import staging_of, state_of
from pricekit.runs import ensemble
from pricekit.runs.cross_validation import config_of_folds, cross_validate
from pricekit.runs.ensemble import train_model
from pricekit.runs.load import load_model
from pricekit.runs.opened import open_ensemble, open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training.loop import Session

MEMBERS = {
    "plain": {"features": ["optimized22"]},
    "small": {"features": ["columns"], "backbone": {"vocab_size": 500}},
}
SETTINGS = {"members": MEMBERS, "training": {"epochs": 2, "refit": True}}


class Killed(BaseException):
    """Ends a training as a kill does: nothing catches it."""


@contextmanager
def killed_after(count, owner, name):
    """Raise after a function was called some times."""
    calls, call = [], getattr(owner, name)

    def counted(*args, **given):
        found = call(*args, **given)
        calls.append(1)
        if len(calls) == count:
            raise Killed
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield


@pytest.fixture(scope="module")
def trained(catalog, tmp_path_factory):
    """A finished ensemble; read only."""
    out = tmp_path_factory.mktemp("ensembles") / "trained"
    train_model(Source(catalog), tiny_config(SETTINGS), out)
    return out


@pytest.fixture
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()[:20]


def assert_same(one, other):
    first, second = read_held_out(one), read_held_out(other)
    assert np.array_equal(first.rows, second.rows)
    assert np.array_equal(first.predicted, second.predicted)
    weights = [[weight for _, weight in open_ensemble(path).members] for path in (one, other)]
    assert weights[0] == weights[1]
    assert sorted(path.name for path in one.rglob("*")) == sorted(path.name for path in other.rglob("*"))


def test_members_have_their_own_settings_and_are_one_model(trained, texts, tmp_path):
    record = json.loads((trained / "ensemble.json").read_text())
    assert sorted(member["folder"] for member in record["members"]) == ["plain", "small"]
    features = {name: open_run(trained / "members" / name).config.features for name in MEMBERS}
    assert features == {"plain": ["optimized22"], "small": ["columns"]}
    opened = open_ensemble(trained)
    assert sum(weight for _, weight in opened.members) == pytest.approx(1)
    logs = [weight * np.log(run.predictor().predict(texts)) for run, weight in opened.members]
    moved = shutil.copytree(trained, tmp_path / "moved")
    assert load_model(moved).predict(texts) == pytest.approx(np.exp(sum(logs)), rel=1e-5)


def test_each_member_holds_out_the_same_rows_and_is_refitted(trained):
    rows = [read_held_out(trained / "members" / name).rows for name in MEMBERS]
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(np.sort(rows[0]), np.sort(read_held_out(trained).rows))
    for name in MEMBERS:
        assert json.loads((trained / "members" / name / "run.json").read_text())["refit"]["rows"] == 400


def test_the_record_says_what_each_member_is_worth(trained):
    one, other = json.loads((trained / "ensemble.json").read_text())["candidates"]
    assert one["without"] == pytest.approx(other["smape"])
    assert other["without"] == pytest.approx(one["smape"])


def test_a_member_without_weight_is_deleted(catalog, tmp_path):
    settings = {"members": MEMBERS | {"bad": {"training": {"epochs": 1, "learning_rate": 1e-9}}}}
    train_model(Source(catalog), tiny_config(settings, {"training": {"epochs": 8}}), tmp_path / "out")
    record = json.loads((tmp_path / "out/ensemble.json").read_text())
    assert [member["weight"] for member in record["candidates"] if member["path"].endswith("bad")] == [0.0]
    assert not (tmp_path / "out/members/bad").exists()
    assert load_model(tmp_path / "out").predict(["Green Tea"]) > 0


# Each member saves 4 times in each of its two passes of 2 epochs.
@pytest.mark.parametrize("saves", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5, 9, 15)), 12])
def test_a_killed_training_continues_to_the_same_ensemble(catalog, trained, tmp_path, saves, raises):
    out = tmp_path / "out"
    with killed_after(saves, Session, "save"), pytest.raises(Killed):
        train_model(Source(catalog), tiny_config(SETTINGS), out)
    assert not (out / "run.json").exists()
    with raises(TrainingError, "resume", "overwrite", "out"):
        train_model(Source(catalog), tiny_config(SETTINGS), out)
    run = pk.train(catalog, out=out, resume=True)
    assert_same(run.path, trained)


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("held_out.parquet", "ensemble.json", "files.json")
        ),
        "run.json",
    ],
)
def test_a_training_killed_while_it_writes_the_ensemble_continues(catalog, trained, tmp_path, name):
    out = tmp_path / "out"

    def replace(source, target, call=os.replace):
        if str(target) == str(out / name) and (out / "members/small/run.json").exists():
            raise Killed
        return call(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(Killed):
            train_model(Source(catalog), tiny_config(SETTINGS), out)
    run = pk.train(catalog, out=out, resume=True)
    assert_same(run.path, trained)


def test_a_finished_ensemble_is_resumed_without_training(catalog, trained, tmp_path, monkeypatch):
    out = shutil.copytree(trained, tmp_path / "out")
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    monkeypatch.setattr("pricekit.runs.train.train", None)
    pk.train(catalog, out=out, resume=True)
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def test_resuming_with_other_settings_or_rows_is_refused(catalog, trained, tmp_path, raises):
    out = shutil.copytree(trained, tmp_path / "out")
    with raises(ConfigError, "max_length"):
        pk.train(catalog, out=out, resume=True, max_length=32)
    with raises(TrainingError, "table", "valid", "encoding", "decimal", "out"):
        pk.train(make_catalog(400, seed=4), out=out, resume=True)


def test_an_ensemble_is_overwritten_only_when_the_new_one_is_complete(catalog, trained, tmp_path, raises):
    out = shutil.copytree(trained, tmp_path / "out")
    (out / "notes.txt").write_text("mine")
    with raises(TrainingError, "resume", "overwrite", "out"):
        train_model(Source(catalog), tiny_config(SETTINGS), out)
    other = tiny_config(SETTINGS, {"seed": 5})
    with killed_after(6, Session, "save"), pytest.raises(Killed):
        train_model(Source(catalog), other, out, mode="overwrite")
    assert np.array_equal(read_held_out(out).predicted, read_held_out(trained).predicted)
    assert staging_of(out).is_dir()
    pk.train(catalog, out=out, resume=True)
    assert read_saved_config(out / "members.toml").seed == 5
    assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_cross_validation_of_ensembles_that_was_killed_is_overwritten(catalog, tmp_path):
    config = tiny_config(SETTINGS, {"training": {"epochs": 1}})
    with killed_after(3, Session, "save"), pytest.raises(Killed):
        cross_validate(Source(catalog), config, tmp_path / "cv", 2)
    cross_validate(Source(catalog), config, tmp_path / "cv", 2, mode="overwrite")
    assert len(read_held_out(tmp_path / "cv")) == 400


def test_an_ensemble_and_a_run_overwrite_each_other_only_on_request(catalog, run, trained, tmp_path, raises):
    copies = shutil.copytree(run, tmp_path / "run"), shutil.copytree(trained, tmp_path / "trained")
    for mode, parameters in (("new", ("overwrite", "out")), ("resume", ("out", "overwrite"))):
        with raises(TrainingError, *parameters):
            train_model(Source(catalog), tiny_config(SETTINGS), copies[0], mode)
        with raises(TrainingError, *parameters):
            train(Source(catalog), tiny_config(), copies[1], mode)
    (copies[1] / "members" / "plain" / "notes.txt").write_text("mine")
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), copies[1], "overwrite")
    assert state_of(copies[1]).kind == "run"
    assert [file.name for file in (copies[1] / "members").rglob("*") if file.is_file()] == ["notes.txt"]
    assert not (copies[1] / "ensemble.json").exists()


@pytest.mark.parametrize(
    "own", [{"columns": {"text": ["title"]}}, {"limit": 100}, {"validation_fraction": 0.3}]
)
def test_a_member_with_rows_of_its_own_is_refused_before_anything_is_written(catalog, tmp_path, own, raises):
    config = tiny_config({"members": {"odd": own, "even": {}}})
    with raises(ConfigError, "settings"):
        train_model(Source(catalog), config, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_few_rows_weigh_equally(tmp_path):
    table = make_catalog(40, seed=1)
    train_model(Source(table), tiny_config(SETTINGS), tmp_path / "out")
    assert [weight for _, weight in open_ensemble(tmp_path / "out").members] == [0.5, 0.5]


def test_a_member_may_take_the_time_that_is_left_and_late_ones_are_left_out(catalog, tmp_path, monkeypatch):
    left = iter([100.0, 60.0, 59.0])
    seen = []

    def trained_in(source, config, folder):
        seen.append((folder.name, config.training.time_budget))
        return train(source, config.model_copy(deep=True), folder) | {"seconds": 60.0}

    monkeypatch.setattr(ensemble, "_seconds_left", lambda budget, started: next(left))
    monkeypatch.setattr(ensemble, "train_unless_finished", trained_in)
    settings = {**SETTINGS, "members": {**MEMBERS, "third": {"max_length": 8}}}
    settings["training"] = {**SETTINGS["training"], "time_budget": 100.0}
    train_model(Source(catalog), tiny_config(settings), tmp_path / "out")
    assert seen == [("plain", 100.0), ("small", 60.0)]
    record = json.loads((tmp_path / "out" / "ensemble.json").read_text())
    assert record["left_out"] == {
        "third": "59 s of the time budget are left, and the longest training of a member took 1 min"
    }
    assert len(record["candidates"]) == 2


def test_a_limit_on_the_latency_leaves_members_out(catalog, tmp_path):
    config = tiny_config(SETTINGS, {"max_latency": "0.001us"})
    train_model(Source(catalog), config, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "ensemble.json").read_text())
    seconds = [model["seconds_per_row"] for model in record["candidates"]]
    assert [model["weight"] for model in record["candidates"]] == [
        float(one == min(seconds)) for one in seconds
    ]
    assert len(list((tmp_path / "out" / "members").iterdir())) == 1
    assert len(load_model(tmp_path / "out").predict(["tea", "jam"])) == 2


def test_a_damaged_folder_name_leads_nowhere(trained, tmp_path, raises):
    out = shutil.copytree(trained, tmp_path / "out")
    record = json.loads((out / "ensemble.json").read_text())
    record["members"][0]["folder"] = "../../other"
    (out / "ensemble.json").write_text(json.dumps(record))
    (out / "files.json").unlink()
    with raises(TrainingError):
        open_ensemble(out)


def test_a_cross_validation_trains_an_ensemble_for_each_fold(catalog, tmp_path, monkeypatch):
    out = tmp_path / "cv"
    options = {"config": SETTINGS | {"backbone": {"vocab_size": 500, "width": 8, "members": 1}}}
    options |= {"max_length": 32}
    with killed_after(10, Session, "save"), pytest.raises(Killed):
        cross_validate(Source(catalog), config_of_folds(options), out, 2)
    cv = pk.cross_validate(catalog, out=out, resume=True)
    assert len(cv.held_out) == 400
    for fold in range(2):
        held = set(cv.held_out["row"][cv.held_out["fold"] == fold])
        assert not held & set(read_held_out(out / f"fold-{fold}").rows)  # they fit no weight
        rows = make_catalog(400, seed=3).iloc[sorted(held)[:5]]
        scored = cv.held_out.set_index("row").loc[sorted(held)[:5], "predicted"]
        found = load_model(out / f"fold-{fold}").predict(rows["catalog_content"].tolist())
        assert found == pytest.approx(scored.to_numpy(), rel=1e-5)


def test_the_command_shows_the_members_and_continues_the_newest(pricekit, catalog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "members.toml").write_text(
        tiny_config(SETTINGS).to_toml().split("[members")[0]
        + '[members.plain]\nfeatures = ["optimized22"]\n[members.small]\nfeatures = ["columns"]\n'
    )
    code, out, err = pricekit("train", catalog, "--config", "members.toml", "--dry-run")
    assert (code, "340 rows to train 2 models on" in err) == (0, True)
    assert "[members.small" in out
    with killed_after(6, Session, "save"), pytest.raises(Killed):
        pricekit("train", catalog, "--config", "members.toml")
    code, _, err = pricekit("train", catalog, "--resume")
    assert code == 0
    assert "using runs/quick-1, the latest" in err
    assert "ensemble without it" in err
    assert (tmp_path / "runs/quick-1/run.json").exists()


def test_a_member_with_the_settings_of_another_is_left_out(catalog, tmp_path, logged):
    config = tiny_config(SETTINGS, {"features": ["optimized22"], "backbone": {"vocab_size": 700}})
    train_model(Source(catalog), config, tmp_path / "out")
    assert "the member small has the same settings as plain, so it is left out" in logged()
    assert [run.config.features for run, _ in open_ensemble(tmp_path / "out").members] == [["optimized22"]]
