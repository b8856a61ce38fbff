"""The record of a folder: what it tells, and which files it makes pricekit's."""

import json
import os
import shutil
from pathlib import Path

import pytest

from pricekit.io.digests import DamagedError
from pricekit.io.files import RECORD
from pricekit.io.record import (
    LAYOUT,
    REFIT,
    Record,
    advance_to,
    begin,
    clear,
    clear_away,
    continued,
    is_own,
    others_in,
    read_record,
    staging_of,
    state_of,
    write_record,
)
from pricekit.io.staging import publish_pass

ASSET = f"asset-{'0' * 64}.onnx"


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def names_in(folder):
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()} - {RECORD}


def test_a_folder_goes_through_its_states(tmp_path):
    out = tmp_path / "run"
    assert state_of(out).name == "absent"
    begin(out, "run")
    assert (state_of(out).name, state_of(out).kind) == ("absent", "run")
    advance_to(out, "unfinished")
    assert (state_of(out).name, state_of(out).checkpoint) == ("unfinished", False)
    write(out, "last.safetensors")
    assert state_of(out).checkpoint
    advance_to(out, "finished")
    assert state_of(out).name == "finished"
    write_record(staging_of(out).parent, Record("run", "finished"))
    assert not state_of(out).replacement
    begin(staging_of(out), "run")
    assert continued(out) == out
    advance_to(staging_of(out), "unfinished")
    assert state_of(out).replacement
    assert continued(out) == staging_of(out)


def test_a_folder_without_a_record_is_foreign_unless_it_is_empty(tmp_path):
    write(tmp_path / "mine", "source.json", "config.toml", "run.json")
    assert state_of(tmp_path / "mine").name == "foreign"
    assert state_of(tmp_path / "mine" / "run.json").name == "foreign"
    (tmp_path / "empty").mkdir()
    assert state_of(tmp_path / "empty").name == "absent"
    assert state_of(Path("/")).name == "foreign"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 4000,
        '{"kind": "run", "format": 5, "state": "done", "pass": "first"}',
        '{"kind": "walk", "format": 5, "state": "finished"}',
        '{"kind": "bundle", "format": "5", "state": "finished"}',
        '{"kind": "bundle", "format": 5, "state": "finished", "more": 1}',
        '{"kind": ["run"], "format": 5, "state": "finished"}',
    ],
)
def test_a_record_that_says_what_no_record_says_is_damaged(tmp_path, content):
    (tmp_path / RECORD).write_text(content)
    with pytest.raises(DamagedError):
        read_record(tmp_path)
    assert state_of(tmp_path).name == "damaged"


def test_a_file_of_another_program_with_this_name_is_no_record(tmp_path):
    write(tmp_path, "README.md", "products.csv")
    (tmp_path / RECORD).write_text(json.dumps({"name": "my app"}))
    assert read_record(tmp_path) is None
    assert state_of(tmp_path).name == "foreign"
    (tmp_path / RECORD).unlink()
    os.mkfifo(tmp_path / RECORD)
    assert read_record(tmp_path) is None


def test_clearing_deletes_the_files_of_the_kind_and_keeps_all_others(tmp_path):
    out = tmp_path / "run"
    begin(out, "run")
    mine = {"notes.txt", "asset-notes.txt", "last-good.safetensors", "deep/config.toml", "refit/notes.txt"}
    mine |= {"observers/mlflow/run_id.json", "asset-pictures/a.bin", "ensemble.json", ".kept"}
    own = {
        "config.toml",
        "best.safetensors",
        "last-2.safetensors",
        ASSET,
        "refit/config.toml",
        ".x.0123abcd.1f.0123.tmp",
    }
    write(out, *mine, *own)
    assert {file.relative_to(out).as_posix() for file in others_in(out)} == mine - {".kept"}
    clear(out)
    assert names_in(out) == mine
    assert read_record(out) == Record("run", "starting")
    begin(out, "cross-validation")
    assert names_in(out) == mine
    clear_away(out)
    assert names_in(out) == mine
    assert state_of(out).name == "foreign"


def test_clearing_away_deletes_the_folder_if_nothing_else_is_in_it(tmp_path):
    begin(tmp_path / "cv", "cross-validation")
    begin(tmp_path / "cv" / "fold-0", "run")
    write(tmp_path / "cv", "cv.toml", "fold-0/config.toml", "fold-0/refit/source.json")
    clear_away(tmp_path / "cv")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path):
    write(tmp_path / "elsewhere", "config.toml")
    begin(tmp_path / "run", "run")
    (tmp_path / "run" / "refit").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run" / "config.toml").symlink_to(tmp_path / "elsewhere" / "config.toml")
    clear(tmp_path / "run")
    assert (tmp_path / "elsewhere" / "config.toml").exists()
    assert (tmp_path / "run" / "refit").is_symlink()
    assert not (tmp_path / "run" / "config.toml").exists()


def test_where_the_record_is_damaged_only_files_of_models_are_deleted(tmp_path):
    begin(tmp_path, "run")
    mine = {"products.csv", "cache/notes.txt", "trials/1.csv", "checkpoints/x", "study.log"}
    write(tmp_path, *mine, "config.toml", "fold-0/config.toml", "members/one/best.safetensors")
    (tmp_path / RECORD).write_text("{")
    begin(tmp_path, "run")
    assert names_in(tmp_path) == mine


@pytest.mark.parametrize("kind", LAYOUT)
def test_the_record_is_own_in_every_kind(kind):
    assert is_own(Path(RECORD), [kind])
    assert not is_own(Path("notes.txt"), [kind])


def passes(run):
    """A run whose second pass is finished, but not yet in its place."""
    begin(run, "run")
    advance_to(run, "unfinished")
    write(run, "config.toml", "files.json", "last.safetensors", "last-1.safetensors", ASSET, "notes.txt")
    write(run, "asset-notes.txt", "asset-pictures/a.bin", "last-good.safetensors")
    begin(run / REFIT, "run", second=True)
    for name in ("config.toml", "best.safetensors"):
        (run / REFIT / name).write_text("second")
    advance_to(run / REFIT, "finished")


def test_the_second_pass_takes_the_places_of_the_first_one_and_of_nothing_else(tmp_path):
    passes(tmp_path / "run")
    (tmp_path / "run" / "files.json").unlink()
    assert state_of(tmp_path / "run").phase == "publishing"
    publish_pass(tmp_path / "run")
    assert names_in(tmp_path / "run") == {
        *("config.toml", "best.safetensors", "last.safetensors", "notes.txt", "asset-notes.txt"),
        *("asset-pictures/a.bin", "last-good.safetensors"),
    }
    assert (tmp_path / "run" / "config.toml").read_text() == "second"
    assert (state_of(tmp_path / "run").name, state_of(tmp_path / "run").phase) == ("finished", "second")
    assert not (tmp_path / "run" / REFIT).exists()


@pytest.mark.parametrize("parent", ["no run", "a finished run", "another kind"])
def test_a_folder_that_is_only_named_like_a_second_pass_is_not_moved(tmp_path, parent):
    passes(tmp_path / "runs")
    if parent == "no run":
        (tmp_path / "runs" / RECORD).unlink()
    else:
        write_record(tmp_path / "runs", Record("search" if parent == "another kind" else "run", "finished"))
    inner = shutil.copytree(tmp_path / "runs", tmp_path / "before")
    publish_pass(tmp_path / "runs")
    assert names_in(tmp_path / "runs") == names_in(inner)
