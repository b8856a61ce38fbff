import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import pricekit
from conftest import TINY
from pricekit.config.resolve import configure
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.evaluation.held_out import read_held_out
from pricekit.evaluation.scores import facts_of
from pricekit.io.record import advance_to
from pricekit.metrics import smape
from pricekit.runs import cross_validation as cv
from pricekit.runs import train as runs
from pricekit.runs.cross_validation import cross_validate
from pricekit.runs.ensemble import make_ensemble
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.training.loop import Session

HOLD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from pricekit.io.locks import owned
with owned(Path(sys.argv[1]), "run", ValueError):
    os.kill(os.getpid(), signal.SIGKILL)
"""
SMALL = {"backbone": {"name": "bag", "vocab_size": 300, "buckets": 64, "width": 4, "members": 1}}


def config(*layers, keep="last"):
    return configure([TINY, SMALL, {"training": {"epochs": 2, "keep": keep}}, *layers])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """60 products, 15 of which appear a second time in another size."""
    path = tmp_path_factory.mktemp("tables") / "products.csv"
    frame = make_catalog(60, seed=5)
    twins = frame.tail(15).copy()
    twins["catalog_content"] = twins["catalog_content"].str.replace(r"\d+", "7", regex=True)
    twins["sample_id"] += 1000
    pd.concat([frame, twins]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def done(table, tmp_path_factory):
    """A finished cross-validation with 3 folds; read only."""
    out = tmp_path_factory.mktemp("cv") / "cv"
    scores = cross_validate(Source(table), config(), out, 3)
    return out, scores


def test_every_row_is_priced_once_by_weights_that_did_not_see_it(done, table):
    out, scores = done
    held_out = read_held_out(out)
    frame = pd.read_csv(table)
    assert held_out.rows.tolist() == list(range(75))
    assert np.array_equal(held_out.price, frame["price"])
    for fold in range(3):
        run, inside = out / f"fold-{fold}", held_out.fold == fold
        parts = pd.read_parquet(run / "split.parquet").groupby("part")["id"].agg(set)
        assert parts["valid"] == set(held_out.ids[inside]) == parts["valid"] - parts["train"]
        assert len(parts["train"]) + len(parts["valid"]) == 75
        priced = open_run(run).predictor().predict(held_out.text[inside].tolist())
        assert np.allclose(priced, held_out.predicted[inside], rtol=1e-4)
        assert scores.folds.loc[fold, "smape"] == pytest.approx(
            smape(held_out.predicted[inside], held_out.price[inside])
        )
        state = open_run(run).preprocessor.features.parts[0].state
        assert state != open_run(out / f"fold-{(fold + 1) % 3}").preprocessor.features.parts[0].state


def test_sizes_of_one_product_are_in_one_fold(done):
    held_out = read_held_out(done[0])
    assert np.array_equal(held_out.fold[45:60], held_out.fold[60:75])
    assert len(set(held_out.fold[45:60])) > 1


def test_runs_of_folds_are_ordinary_and_keep_their_last_weights(done, table):
    out, _ = done
    run = open_run(out / "fold-1")
    assert run.facts["table"] == table.name
    assert run.facts["best_epoch"] == 2
    assert run.config.training.keep == "last"
    assert (
        read_held_out(out / "fold-1").rows.tolist() == np.flatnonzero(read_held_out(out).fold == 1).tolist()
    )


def test_the_folder_contains_the_metrics_and_predictions(done):
    out, scores = done
    facts = json.loads((out / "cv.json").read_text("utf-8"))
    assert [fold["fold"] for fold in facts["folds"]] == [0, 1, 2]
    assert facts["scores"]["mean"]["smape"] == pytest.approx(np.mean([f["smape"] for f in facts["folds"]]))
    assert facts["scores"]["sd"]["smape"] == pytest.approx(
        np.std([f["smape"] for f in facts["folds"]], ddof=1)
    )
    assert facts["seconds"] > 0
    assert facts["config"]["training"]["keep"] == "last"
    assert scores.rows == 75


def test_a_killed_cross_validation_resumes_where_it_stopped(done, table, tmp_path, monkeypatch):
    """Killed at the end of the second fold, it keeps the first, scores the second and trains the third."""
    out, called = shutil.copytree(done[0], tmp_path / "cv"), []
    for name in ("cv.json", "held_out.parquet", "fold-1/run.json", "fold-1/held_out.parquet"):
        (out / name).unlink()
    for folder in (out, out / "fold-1"):
        advance_to(folder, "unfinished")
    shutil.rmtree(out / "fold-2")
    dead = subprocess.run([sys.executable, "-c", HOLD_AND_DIE, out / "fold-0"], check=False)
    assert (dead.returncode, (out / ".fold-0.lock").exists()) == (-signal.SIGKILL, True)

    def train(*args, call=runs.train, **named):
        called.append(args[2].name)
        return call(*args, **named)

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(cv, "duplicates_in", None)  # the folds are those that were written
    cross_validate(Source(table), config(), out, mode="resume")
    assert called == ["fold-1", "fold-2"]
    whole, mine = read_held_out(done[0]), read_held_out(out)
    assert np.array_equal(whole.fold, mine.fold)
    assert np.array_equal(whole.predicted, mine.predicted)
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("listed", [True, False], ids=["with digests", "without digests"])
def test_a_damaged_plan_is_named_before_any_work(done, table, tmp_path, listed, raises):
    out = shutil.copytree(done[0], tmp_path / "cv")
    (out / "plan.json").write_bytes(b'{"digest": "\xe0')
    if not listed:
        (out / "files.json").unlink()
    with raises(TrainingError):
        pricekit.cross_validate(tmp_path / "absent.csv", out=out, resume=True)


@pytest.mark.parametrize("change", ["fewer rows", "other prices"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_different_table_is_not_resumed(done, table, tmp_path, change, begun, raises):
    out = shutil.copytree(done[0], tmp_path / "cv")
    if not begun:
        for folder in out.glob("fold-*"):
            shutil.rmtree(folder)
    frame = pd.read_csv(table)
    frame = frame.head(70) if change == "fewer rows" else frame.assign(price=frame["price"] * 2)
    frame.to_csv(tmp_path / "other.csv", index=False)
    with raises(TrainingError, "table", "valid", "encoding", "decimal", "out"):
        cross_validate(Source(tmp_path / "other.csv"), config(), out, mode="resume")


@pytest.mark.parametrize("name", ["folds.parquet", "plan.json"])
def test_a_damaged_cross_validation_is_reported(done, table, tmp_path, name, raises):
    out = shutil.copytree(done[0], tmp_path / "cv")
    (out / name).write_text("{")
    with raises(TrainingError):
        cross_validate(Source(table), config(), out, mode="resume")


def test_only_its_own_folds_are_members_of_an_ensemble(done, tmp_path, raises):
    out = shutil.copytree(done[0], tmp_path / "cv")
    shutil.copytree(out / "fold-0", out / "fold-old")
    shutil.copytree(out / "fold-0", out / "fold-7")
    made = make_ensemble([done[0], out], tmp_path / "both")
    assert {member["path"].rpartition("-")[2] for member in made["members"]} == {"0", "1", "2"}
    shutil.rmtree(out / "fold-1")
    with raises(TrainingError):
        make_ensemble([done[0], out], tmp_path / "other")


def test_an_unfinished_teacher_is_found_before_the_first_fold(done, table, tmp_path, raises):
    teacher = shutil.copytree(done[0], tmp_path / "cv")
    advance_to(teacher / "fold-2", "unfinished")
    with raises(TrainingError, "teacher"):
        cross_validate(Source(table, unpriced=(table,), teachers=(teacher,)), config(), tmp_path / "out", 3)


def test_an_existing_folder_is_overwritten_only_on_request(done, table, tmp_path, raises):
    (tmp_path / "page.html").write_text("mine")
    with raises(TrainingError, "out"):
        cross_validate(Source(table), config(), tmp_path, mode="overwrite")
    out = shutil.copytree(done[0], tmp_path / "cv")
    with raises(TrainingError, "resume", "overwrite", "out"):
        cross_validate(Source(table), config(), out, 2)
    (out / "fold-2" / "notes.txt").write_text("mine")
    cross_validate(Source(table), config({"training": {"epochs": 1}}), out, 2, mode="overwrite")
    assert len(json.loads((out / "cv.json").read_text("utf-8"))["folds"]) == 2
    assert sorted(path.name for path in (out / "fold-2").iterdir()) == ["notes.txt"]


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in (cv.PLAN, cv.CONFIG)), cv.FOLDS]
)
def test_a_cross_validation_killed_at_its_start_starts_again(table, tmp_path, monkeypatch, name, raises):
    out = tmp_path / "cv"

    def replace_file(source, target, call=os.replace):
        if Path(target).name == name:
            raise OSError(28, "No space left on device")
        return call(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_file)
        with raises(OSError):
            cross_validate(Source(table), config(), out, 2)
    cross_validate(Source(table), config(), out, 2)
    assert len(read_held_out(out)) == 75


@pytest.mark.parametrize("name", [cv.FOLDS, cv.CONFIG])
def test_a_finished_folder_with_a_missing_file_is_not_changed(done, table, tmp_path, name, raises):
    out = shutil.copytree(done[0], tmp_path / "cv")
    (out / name).unlink()
    with raises(TrainingError, "resume", "overwrite", "out"):
        cross_validate(Source(table), config(), out, 3)
    assert (out / "fold-0" / "run.json").exists()


def test_with_keep_best_a_part_of_the_other_rows_selects_the_epoch(table, tmp_path):
    out = tmp_path / "cv"
    cross_validate(Source(table), config({"training": {"epochs": 1}}, keep="best"), out, 2)
    held_out, cluster = read_held_out(out), pd.read_parquet(out / "folds.parquet")["together"].to_numpy()
    for fold in range(2):
        chosen_by = read_held_out(out / f"fold-{fold}").rows
        assert len(chosen_by)
        assert not (held_out.fold[chosen_by] == fold).any()
        trained = np.setdiff1d(np.flatnonzero(held_out.fold != fold), chosen_by)
        assert not set(cluster[trained]) & set(cluster[chosen_by])


def test_ten_rows_of_one_price(tmp_path, logged, raises):
    make_catalog(10, seed=1).assign(price=5.0).to_csv(tmp_path / "t.csv", index=False)
    short = config({"training": {"epochs": 1}})
    scores = cross_validate(Source(tmp_path / "t.csv"), short, tmp_path / "cv", 2)
    assert scores.metrics["smape"] < 10
    assert "all prices are 5" in logged()
    with raises(ConfigError, "folds", folds=11, rows=10):
        cross_validate(Source(tmp_path / "t.csv"), config(), tmp_path / "more", 11)
    assert not (tmp_path / "more").exists()


def test_a_leak_stops_it_before_anything_is_written(table, tmp_path, raises):
    frame = pd.read_csv(table)
    frame.assign(market=(frame["price"] * 1.2).round(1)).to_csv(tmp_path / "t.csv", index=False)
    text = {"columns": {"text": ["catalog_content", "market"]}}
    with raises(DataError, "text", "allow_leak", columns=["market"]):
        cross_validate(Source(tmp_path / "t.csv"), config(text), tmp_path / "cv", 2)
    assert not (tmp_path / "cv").exists()


def test_a_validation_table_is_refused(table, tmp_path, raises):
    with raises(ConfigError, "valid"):
        cross_validate(Source(table, valid=table), config(), tmp_path / "cv", 2)


def test_folds_have_separate_weights(done):
    first, second = (open_run(done[0] / f"fold-{fold}").model.state_dict() for fold in (0, 1))
    assert not torch.equal(first["heads.0.0.weight"], second["heads.0.0.weight"])


def test_the_old_cross_validation_stays_until_the_new_one_is_complete(
    done, table, tmp_path, monkeypatch, raises
):
    out = shutil.copytree(done[0], tmp_path / "cv")
    (out / "fold-2" / "notes.txt").write_text("mine")
    before = {file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()}
    fast = config({"training": {"epochs": 1}})
    with monkeypatch.context() as patch:
        patch.setattr(
            cv, "write_held_out", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        with raises(OSError):
            cross_validate(Source(table), fast, out, 2, mode="overwrite")
    assert {file.relative_to(out): file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    with raises(TrainingError, "resume", "overwrite", "out"):
        cross_validate(Source(table), fast, out, 2)
    cross_validate(Source(table), fast, out, mode="resume")
    assert len(json.loads((out / "cv.json").read_text("utf-8"))["folds"]) == 2
    assert sorted(path.name for path in (out / "fold-2").iterdir()) == ["notes.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["cv"]


def test_a_fold_does_what_train_does(catalog, tmp_path):
    """A part of the other folds chooses the epoch, then all of their rows are trained on."""
    options = {"config": TINY, "refit": True, "epochs": 2}
    found = pricekit.cross_validate(catalog, out=tmp_path / "cv", folds=2, **options)
    parts = pd.read_parquet(found.path / "folds.parquet")
    for fold, run in enumerate(found.runs):
        others, facts = int((parts["fold"] != fold).sum()), facts_of(run.path)
        assert facts["refit"] == {"rows": others, "epochs": facts["best_epoch"]}
        assert facts["rows"]["train"] + facts["rows"]["valid"] == others
        held = found.held_out[found.held_out["fold"] == fold]
        assert set(held["row"]).isdisjoint(run.held_out["row"])
        assert run.predict(held["text"].tolist()) == pytest.approx(held["predicted"], rel=0.2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (True, "best")),
        ({"refit": False}, (False, "last")),
        ({"refit": False, "settings": {"training.keep": "best"}}, (False, "best")),
        ({"settings": {"training.keep": "last"}}, (False, "last")),
        ({"policy": "blazing"}, (False, "last")),
    ],
)
def test_without_a_refit_folds_keep_the_last_weights(options, expected):
    training = cv.config_of_folds(options).training
    assert (training.refit, training.keep) == expected


def test_a_cross_validation_with_a_refit_is_resumed_in_the_second_pass(catalog, tmp_path, monkeypatch):
    options = {"config": TINY, "refit": True, "epochs": 2, "folds": 2}
    whole = pricekit.cross_validate(catalog, out=tmp_path / "whole", **options)

    def fail(self, pause, call=Session.after_pause):
        call(self, pause)
        if self.folder == tmp_path / "cv" / "fold-1" / "refit" and self.state.epoch:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "after_pause", fail)
        with pytest.raises(KeyboardInterrupt):
            pricekit.cross_validate(catalog, out=tmp_path / "cv", **options)
    found = pricekit.cross_validate(catalog, out=tmp_path / "cv", resume=True)
    pd.testing.assert_frame_equal(found.held_out, whole.held_out)
    assert not list(found.path.rglob("refit"))
