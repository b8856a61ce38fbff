"""Finding models in folders, and reading them."""

import json
import shutil
from pathlib import Path

import pytest

from pricekit.answers.leaderboard import find_contenders, read_contender
from pricekit.errors import ConfigError, DataError, PricekitError, TrainingError
from pricekit.io.digests import list_files
from pricekit.io.record import Record, advance_to, write_record
from tests.answers.folders_of_leaderboard import worse, write_cv, write_ensemble, write_run


def test_each_kind_of_model_is_read(tmp_path):
    run = read_contender(write_run(tmp_path / "run", worse(1.1), metric="rmsle"))
    assert (run.kind, run.parts, run.runs, run.seconds) == ("run", 1, (tmp_path / "run",), 10)
    assert (run.metric, run.currency, len(run.held_out)) == ("rmsle", "USD", 100)
    assert run.bytes == 1000 + (tmp_path / "run" / "config.toml").stat().st_size
    assert run.settings[0]["training.epochs"] == 3
    both = read_contender(write_ensemble(tmp_path / "both", worse(1.0), {"seed": 1}, {"seed": 2}))
    assert (both.kind, both.parts, both.seconds) == ("ensemble", 2, 20)
    assert [one["seed"] for one in both.settings] == [1, 2]
    assert both.bytes > 2000
    cv = read_contender(write_cv(tmp_path / "cv", worse(1.0), folds=3))
    assert (cv.kind, cv.parts, cv.seconds, cv.runs) == (
        "cross-validation",
        3,
        20,
        (tmp_path / "cv" / "fold-0",),
    )
    assert (cv.currency, cv.bytes) == ("USD", run.bytes)


def test_the_folds_of_a_cross_validation_may_be_ensembles(tmp_path):
    cv = write_cv(tmp_path / "cv", worse(1.0))
    shutil.rmtree(cv / "fold-0")
    write_ensemble(cv / "fold-0", worse(1.0), {"seed": 1}, {"seed": 2})
    found = read_contender(cv)
    assert found.runs == tuple(cv / "fold-0" / "members" / name for name in "01")
    assert [one["seed"] for one in found.settings] == [1, 2]


def test_a_folder_stands_for_the_finished_models_in_it(tmp_path, logged):
    for name in ("b", "a", ".hidden", "outside/c"):
        write_run(tmp_path / name, worse(1.1))
    write_run(tmp_path / "begun", worse(1.1), finished=False)
    (tmp_path / "bundle").mkdir()
    write_record(tmp_path / "bundle", Record("bundle", "finished"))
    (tmp_path / "tuned").mkdir()
    write_record(tmp_path / "tuned", Record("search", "finished"))
    (tmp_path / "notes.txt").write_text("")
    found = find_contenders([tmp_path, tmp_path / "outside" / "c", tmp_path / "outside" / ".." / "b"])
    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == ["a", "b", "outside/c"]
    said = logged()
    assert f"left out, because they are not finished: {tmp_path / 'begun'}" in said
    assert f"{tmp_path / 'tuned'} is a search; name {tmp_path / 'tuned' / 'run'}" in said


def test_a_damaged_model_in_a_folder_is_left_out_and_a_named_one_is_an_error(tmp_path, logged, raises):
    write_run(tmp_path / "a", worse(1.1))
    damaged = write_run(tmp_path / "b", worse(1.1))
    (damaged / "held_out.parquet").write_bytes(b"PAR1")
    assert [one.path.name for one in find_contenders([tmp_path])] == ["a"]
    assert f"{damaged} is left out: {damaged / 'held_out.parquet'} is damaged" in logged()
    with raises(DataError):
        find_contenders([damaged])


@pytest.mark.parametrize(
    ("file", "content", "error", "parameters"),
    [
        ("run.json", "{", TrainingError, ()),
        ("run.json", "[1]", TrainingError, ()),
        ("run.json", "{}", TrainingError, ()),
        ("run.json", '{"seconds": "long"}', TrainingError, ()),
        ("config.toml", "=", ConfigError, ("config",)),
        ("config.toml", "seed = -1", ConfigError, ("seed", "settings")),
        ("held_out.parquet", "", DataError, ()),
    ],
)
def test_damaged_files_are_named(tmp_path, file, content, error, parameters, raises):
    run = write_run(tmp_path / "run", worse(1.1))
    (run / file).write_text(content)
    with raises(error, *parameters):
        read_contender(run)


@pytest.mark.parametrize(
    ("name", "content"),
    [("ensemble.json", "{}"), ("ensemble.json", '{"members": [1]}'), ("ensemble.json", '{"members": []}')],
)
def test_damaged_ensembles_are_named(tmp_path, name, content, raises):
    folder = write_ensemble(tmp_path / "both", worse(1.0), {"seed": 1})
    (folder / name).write_text(content)
    with raises(TrainingError):
        read_contender(folder)
    shutil.rmtree(folder / "members")
    (folder / name).write_text('{"members": [{"folder": "0"}]}')
    with raises(TrainingError):
        read_contender(folder)


def test_files_are_compared_with_their_digests(tmp_path, raises):
    run = write_run(tmp_path / "run", worse(1.1))
    list_files(run, ["config.toml"], {"run.json": (run / "run.json").read_text()})
    read_contender(run)
    for name in ("config.toml", "run.json"):
        before = (run / name).read_text()
        (run / name).write_text(before.replace("10", "11", 1))
        with raises(TrainingError):
            read_contender(run)
        (run / name).write_text(before)


def test_what_is_no_model_is_explained(tmp_path):
    def message(path: Path) -> str:
        with pytest.raises(PricekitError) as caught:
            find_contenders([path])
        return str(caught.value)

    empty, file, bundle = tmp_path / "empty", tmp_path / "file", tmp_path / "bundle"
    empty.mkdir()
    file.write_text("")
    bundle.mkdir()
    write_record(bundle, Record("bundle", "finished"))
    begun = write_run(tmp_path / "begun", worse(1.0), finished=False)
    unfinished = write_cv(tmp_path / "cv", worse(1.0))
    advance_to(unfinished, "unfinished")
    assert "does not exist" in message(tmp_path / "nothing")
    assert "is a file" in message(file)
    assert "is a bundle" in message(bundle)
    assert "contains no finished model" in message(empty)
    assert "begun is not a finished run" in message(begun)
    assert "cv is not a finished cross-validation" in message(unfinished)


def test_a_member_outside_of_its_ensemble_is_not_read(tmp_path, raises):
    folder = write_ensemble(tmp_path / "both", worse(1.0), {"seed": 1})
    write_run(tmp_path / "other", worse(1.0))
    (folder / "ensemble.json").write_text(json.dumps({"members": [{"folder": "../../other"}]}))
    with raises(TrainingError):
        read_contender(folder)
