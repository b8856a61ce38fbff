"""Which folder a training writes: the run itself, or its replacement."""

import json
import shutil
from contextlib import contextmanager

import pytest
import torch

import pricekit as pk
from conftest import tiny_config
from pricekit.errors import TrainingError
from pricekit.io.record import advance_to, staging_of
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop

OTHER = {"training": {"epochs": 2}, "seed": 5}


@pytest.fixture
def old(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


@contextmanager
def failing(error):
    """Fail after the first epoch and its checkpoint."""

    def fail(self, pause, call=loop.Session.after_pause):
        call(self, pause)
        if self.state.epoch:
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Session, "after_pause", fail)
        yield


@pytest.mark.parametrize("error", [TrainingError("No space left on device"), KeyboardInterrupt()])
def test_the_old_run_stays_until_the_new_one_is_complete(old, catalog, tmp_path, logged, error, raises):
    before = {file.name: file.read_bytes() for file in old.iterdir()}
    (old / "notes.txt").write_text("mine")
    with failing(error), pytest.raises(type(error)):
        train(Source(catalog), tiny_config(OTHER), old, mode="overwrite")
    assert {file.name: file.read_bytes() for file in old.iterdir()} == before | {"notes.txt": b"mine"}
    assert f"{old} is unchanged; its unfinished replacement is in {staging_of(old)}" in logged()
    with raises(TrainingError, "resume", "overwrite", "out"):
        train(Source(catalog), tiny_config(OTHER), old)
    run = pk.train(catalog, out=old, resume=True)
    assert (run.path, len((old / "metrics.jsonl").read_text().splitlines())) == (old, 2)
    assert open_run(old).config.seed == 5
    assert (old / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_new_run_equals_one_in_an_empty_folder(old, catalog, tmp_path):
    train(Source(catalog), tiny_config(OTHER), tmp_path / "new")
    facts = train(Source(catalog), tiny_config(OTHER), old, mode="overwrite")
    expected, found = (open_run(path).model.state_dict() for path in (tmp_path / "new", old))
    assert all(torch.equal(weights, found[name]) for name, weights in expected.items())
    assert json.loads((old / "run.json").read_text()) == facts


def test_overwriting_again_replaces_the_replacement(old, catalog, tmp_path):
    with failing(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        train(Source(catalog), tiny_config(OTHER), old, mode="overwrite")
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), old, mode="overwrite")
    assert len((old / "metrics.jsonl").read_text().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_unfinished_run_is_overwritten_in_its_folder(old, catalog, tmp_path, monkeypatch):
    advance_to(old, "unfinished")
    folders = []
    monkeypatch.setattr(
        "pricekit.runs.train.fit",
        lambda job, out, call=loop.fit, **o: folders.append(out) or call(job, out, **o),
    )
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), old, mode="overwrite")
    assert folders == [old]


def test_the_command_line_names_the_run_and_the_command_that_continues(
    old, catalog, pricekit, monkeypatch, tmp_path
):
    table = ["train", catalog, "--out", old]
    tiny = [
        f"--set={name}" for name in ("backbone.name=bag", "backbone.vocab_size=1000", "training.epochs=2")
    ]
    with failing(KeyboardInterrupt()):
        code, out, err = pricekit(*table, "--overwrite", *tiny)
    assert (code, f"continue with: pricekit train {catalog} --out {old} --resume" in err + out) == (130, True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    old.rename(tmp_path / "runs" / "run")
    staging_of(old).rename(tmp_path / "runs" / ".run.new")
    code, out, err = pricekit("train", catalog, "--resume")
    assert (code, "the run is in runs/run;" in err + out) == (0, True)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]
