"""Damaged checkpoints: a resumed run falls back to an earlier one, and ends with the same weights."""

import errno
import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from conftest import tiny_config
from pricekit.errors import TrainingError
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.checkpoint import BEST, LAST, METRICS, checkpoints, read_state, recover_checkpoint

EARLIER = "last-1.safetensors"


def _weights(run):
    return open_run(run).model.state_dict()


def _stop_in(monkeypatch, epoch):
    """Let training fail in the validation of an epoch, counted from 0."""

    def validate(session, interrupted, call=loop.validate):
        if session.state.epoch == epoch:
            raise KeyboardInterrupt
        return call(session, interrupted)

    monkeypatch.setattr(loop, "validate", validate)


@pytest.fixture(scope="module")
def whole(catalog, tmp_path_factory):
    """An uninterrupted run of three epochs."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(Source(catalog), tiny_config(), out)
    return out


@pytest.fixture(scope="module")
def stopped(catalog, tmp_path_factory):
    """A run that was killed in its third epoch; both earlier epochs were the best so far."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        _stop_in(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), tiny_config(), out)
    return out


@pytest.fixture
def copy(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "copy")


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _is_like(run, whole):
    expected = _weights(whole)
    assert all(torch.equal(value, expected[name]) for name, value in _weights(run).items())
    keys = ("epoch", "step", "loss", "valid_smape")
    lines = [[json.loads(line) for line in (d / METRICS).read_text().splitlines()] for d in (run, whole)]
    assert [[line[key] for key in keys] for line in lines[0]] == [
        [line[key] for key in keys] for line in lines[1]
    ]


def test_an_unfinished_run_keeps_two_checkpoints_and_a_finished_one_the_last(stopped, whole):
    assert [path.name for path in checkpoints(stopped)] == [LAST, EARLIER]
    assert [read_state(path)["epoch"] for path in checkpoints(stopped)] == [2, 1]
    assert [path.name for path in checkpoints(whole)] == [LAST]


def test_the_number_of_checkpoints_is_a_setting(catalog, tmp_path, monkeypatch):
    _stop_in(monkeypatch, 2)
    config = tiny_config({"training": {"keep_checkpoints": 3}})
    with pytest.raises(KeyboardInterrupt):
        train(Source(catalog), config, tmp_path / "run")
    assert [read_state(path)["epoch"] for path in checkpoints(tmp_path / "run")] == [2, 1, 0]


@pytest.mark.parametrize("damage", [_flip, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_damaged_last_checkpoint_is_replaced_by_the_earlier_one(catalog, copy, whole, logged, damage):
    damage(copy / LAST)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    said = logged()
    assert f"{copy / LAST}" in said
    assert "continues from step 6, the checkpoint last-1.safetensors" in said
    _is_like(copy, whole)


@pytest.mark.parametrize("damaged", [[BEST], [BEST, LAST]])
def test_damaged_best_weights_are_made_again(catalog, copy, whole, logged, damaged):
    for name in damaged:
        _flip(copy / name)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    said = logged()
    assert all(f"{copy / name} was altered or damaged" in said for name in damaged)
    _is_like(copy, whole)


def test_without_an_intact_checkpoint_the_error_names_the_files_before_any_work(copy, raises):
    _flip(copy / LAST)
    _flip(copy / EARLIER)
    with raises(TrainingError, "overwrite"):
        train(Source(copy / "no table"), tiny_config(), copy, mode="resume")


def test_best_weights_that_no_checkpoint_has_are_an_error(catalog, tmp_path, monkeypatch, raises):
    """The best epoch is two epochs before the last checkpoint."""
    _stop_in(monkeypatch, 3)
    config = tiny_config({"training": {"epochs": 5, "learning_rate": 1e-9}})

    def validate(session, interrupted, call=loop.validate):
        result = call(session, interrupted)
        return result if result.epoch == 1 else type(result)(result.epoch, result.step, result.loss, 190.0)

    monkeypatch.setattr(loop, "validate", validate)
    with pytest.raises(KeyboardInterrupt):
        train(Source(catalog), config, tmp_path / "run")
    _flip(tmp_path / "run" / BEST)
    with raises(TrainingError, "overwrite"):
        train(Source(catalog), config, tmp_path / "run", mode="resume")


def test_a_checkpoint_of_another_run_is_refused_by_name(catalog, copy, whole, logged):
    shutil.copyfile(whole / LAST, copy / LAST)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    assert f"{copy / LAST} is a file of another run" in logged()
    _is_like(copy, whole)


def test_exchanged_checkpoints_of_one_run_are_found(catalog, copy, whole, logged):
    shutil.copyfile(copy / LAST, copy / BEST)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    assert f"{copy / BEST} is a file of another run, or another checkpoint" in logged()
    _is_like(copy, whole)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]\n", b""])
def test_damaged_metrics_are_written_again(catalog, copy, whole, logged, content):
    (copy / METRICS).write_bytes(content)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    assert f"{copy / METRICS} was altered or damaged; it is written again" in logged()
    _is_like(copy, whole)


def test_a_line_of_a_killed_epoch_is_no_damage(catalog, copy, whole, logged):
    with (copy / METRICS).open("a") as file:
        file.write('{"epoch": 3}\n')
    train(Source(catalog), tiny_config(), copy, mode="resume")
    assert "damaged" not in logged()
    _is_like(copy, whole)


def test_a_checkpoint_that_cannot_be_read_now_is_not_replaced(copy, monkeypatch, raises):
    before = {path.name: path.read_bytes() for path in copy.glob("*.safetensors")}

    def refuse(path):
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    monkeypatch.setattr("pricekit.training.checkpoint.check_seal", refuse)
    with raises(OSError):
        recover_checkpoint(copy, "")
    assert {path.name: path.read_bytes() for path in copy.glob("*.safetensors")} == before


def test_missing_best_weights_are_named_if_nothing_replaces_them(copy, raises):
    (copy / BEST).unlink()
    state = read_state(copy / LAST)
    for path in checkpoints(copy):
        with safe_open(path, framework="pt") as file:
            record, tensors = json.loads(file.metadata()["pricekit"]), load_file(path)
        record["state"] |= {"best_epoch": 1, "epoch": 2}
        save_file(tensors, path, metadata={"pricekit": json.dumps(record)})
    assert state["epoch"] == 2
    with raises(TrainingError, "overwrite"):
        recover_checkpoint(copy, "")
