"""A folder stays until its replacement is complete."""

import os
import shutil
from functools import partial

import pytest

from pricekit.errors import TrainingError
from pricekit.io import files, staging
from pricekit.io.files import RECORD
from pricekit.io.locks import owned
from pricekit.io.record import (
    Record,
    advance_to,
    begin,
    continued,
    read_record,
    staging_of,
    write_record,
)
from pricekit.io.staging import (
    can_stage,
    keep_others,
    new_or_replaced,
    read_whole,
    replacing,
    settle,
    target_of,
)
from pricekit.predict import bundle as bundle_module
from pricekit.predict.bundle import open_bundle

FILES = ("run.json", "config.toml")


def _write(folder, value, *names):
    """Write a finished run with some files."""
    folder.mkdir(parents=True)
    write_record(folder, Record("run", "finished"))
    for name in names or FILES:
        (folder / name).write_text(value)


def _read(folder):
    """Return the contents of all files but the record, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD
    }


@pytest.fixture(params=["exchange", "renames"])
def out(request, tmp_path, monkeypatch):
    """An old folder with two files of the user."""
    if request.param == "renames":
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    _write(tmp_path / "run", "old")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "deep").mkdir()
    (tmp_path / "run" / "deep" / "config.toml").write_text("mine")
    return tmp_path / "run"


NEW = {"run.json": "new", "config.toml": "new", "notes.txt": "mine", "deep/config.toml": "mine"}


def test_the_new_folder_takes_the_place_of_the_old_one(out):
    with replacing(out, staging_of(out)):
        _write(staging_of(out), "new")
        assert _read(out)["config.toml"] == "old"
    assert _read(out) == NEW
    assert [path.name for path in out.parent.iterdir()] == ["run"]


def test_own_files_of_the_old_folder_are_gone_if_the_new_one_lacks_them(out):
    with replacing(out, staging_of(out)):
        _write(staging_of(out), "new", "run.json")
    assert _read(out) == {name: text for name, text in NEW.items() if name != "config.toml"}


def test_an_error_leaves_the_old_folder(out, logged, raises):
    _write(staging_of(out), "new")
    with raises(OSError), replacing(out, staging_of(out)):
        raise OSError("full")
    assert _read(out)["config.toml"] == "old"
    assert "is unchanged; its unfinished replacement is in" in logged()
    assert continued(out) == staging_of(out)
    with replacing(out, out):  # the old folder was completed after all
        pass
    assert [path.name for path in out.parent.iterdir()] == ["run"]


def test_an_error_before_the_replacement_begins_names_no_replacement(out, logged, raises):
    with raises(OSError), replacing(out, staging_of(out)):
        raise OSError("no table")
    assert logged() == f"{out} is unchanged"


def _replace_until(out, step):
    """Replace the folder in another process, which ends before it changes the disk for the nth time."""
    calls = iter(range(100))

    def stopping(call):
        def stop(*arguments, **options):
            if next(calls) == step:
                os._exit(9)
            return call(*arguments, **options)

        return stop

    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for name in ("rename", "replace", "link", "unlink", "rmdir"):
        setattr(os, name, stopping(getattr(os, name)))
    files.exchange = stopping(files.exchange)
    with replacing(out, staging_of(out)):
        pass
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_kill_at_any_moment_the_next_command_continues(out):
    for step in range(100):
        if not staging_of(out).exists():
            _write(staging_of(out), "new")
        ended = _replace_until(out, step)
        with owned(out, "run", TrainingError):
            complete = _read(out) == NEW
            assert complete or _read(out) == NEW | {"run.json": "old", "config.toml": "old"}
            assert staging_of(out).exists() is not complete
        assert {path.name for path in out.parent.iterdir()} <= {"run", ".run.new"}
        if ended == 0:
            break
        if complete:
            _write(staging_of(out), "new")
            for name in FILES:
                (out / name).write_text("old")
    assert complete
    assert step > 6


def test_after_the_exchange_the_new_folder_is_resumed_and_not_the_rest_of_the_old_one(out):
    _write(staging_of(out), "new")
    assert continued(out) == staging_of(out)
    write_record(staging_of(out), Record("run", "finished", replaces=True))
    new, old = staging_of(out), out.with_name("old")
    out.rename(old)
    new.rename(out)
    old.rename(new)
    assert continued(out) == out


def test_without_a_complete_replacement_nothing_is_exchanged(out):
    _write(staging_of(out), "new")
    settle(out)
    assert _read(out)["config.toml"] == "old"
    assert _read(staging_of(out))["config.toml"] == "new"


def test_a_replacement_with_files_of_the_user_is_not_deleted(out):
    _write(staging_of(out), "new")
    (staging_of(out) / "notes.txt").write_text("mine")
    with replacing(out, out):
        pass
    assert staging_of(out).exists()


def test_names(tmp_path):
    assert target_of(staging_of(tmp_path / "run")) == tmp_path / "run"
    for name in ("run", ".new", "run.new", ".run"):
        assert target_of(tmp_path / name) == tmp_path / name
    (tmp_path / "link").symlink_to("run")
    assert staging_of(tmp_path / "link") == tmp_path / ".run.new"


def test_a_mount_point_and_a_folder_in_a_read_only_one_are_cleared_in_place(tmp_path, monkeypatch, logged):
    assert can_stage(tmp_path)
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    assert not can_stage(tmp_path)
    assert (
        logged() == f"{tmp_path} is cleared before its replacement is complete, because it is a mount point"
    )
    monkeypatch.setattr(os.path, "ismount", lambda path: False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not can_stage(tmp_path)
    assert f"because {tmp_path.parent} cannot be written" in logged()


def _read_while_replaced(out, error):
    first = (out / "run.json").read_text()
    if staging_of(out).exists():
        with owned(out, "run", TrainingError), replacing(out, staging_of(out)):
            pass
        if error:
            raise error
    return first, (out / "config.toml").read_text()


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(out):
    """Between its two files, and while the second one is missing."""
    for error in (None, OSError("the folder is gone")):
        _write(staging_of(out), "new")
        assert read_whole(out, partial(_read_while_replaced, error=error)) == ("new", "new")
    with pytest.raises(FileNotFoundError):
        read_whole(out, lambda folder: (folder / "missing").read_text())


def test_a_bundle_is_read_whole(bundle, tmp_path, monkeypatch):
    """It is replaced after its manifest was read."""
    old, new = (shutil.copytree(bundle, tmp_path / age) for age in ("old", "new"))
    (new / "manifest.json").write_text((new / "manifest.json").read_text() + "\n")
    expected, read_manifest = open_bundle(new).digest, bundle_module.read_manifest

    def then_replace(path, *others):
        found = read_manifest(path, *others)
        if new.exists():
            files.replace_folder(new, path)
        return found

    monkeypatch.setattr(bundle_module, "read_manifest", then_replace)
    assert open_bundle(old).digest == expected


def test_files_that_an_observer_deletes_in_the_new_folder_do_not_come_back(tmp_path):
    out, new = tmp_path / "run", staging_of(tmp_path / "run")
    for each in (out, new):
        _write(each, each.name, "run.json")
    (out / "log.txt").write_text("of the old run")
    (out / "notes.txt").write_text("of the user")
    with replacing(out, new):
        keep_others(out, new)
        (new / "log.txt").unlink()
        assert (out / "log.txt").exists()
        (out / "later.txt").write_text("written during the training")
    assert _read(out).keys() == {"run.json", "notes.txt", "later.txt"}
    assert (out / "run.json").read_text() == new.name
    assert not new.exists()


def _edit(file, text):
    """Write a file as editors do that rename the new version; it seems to be old, as after `mv` or `cp -p`."""
    new = file.with_name("new version")
    new.write_text(text)
    os.utime(new, (1e9, 1e9))
    new.rename(file)


@pytest.fixture(params=["links", "copies"])
def links(request, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    if request.param == "copies":
        monkeypatch.setattr(os, "link", refuse)
    return request.param == "links"


@pytest.fixture
def begun(out, links):
    """An old folder whose files are in its replacement."""
    for name in ("log.txt", "state.txt"):
        (out / name).write_text("of a plugin")
    _write(staging_of(out), "new")
    keep_others(out, staging_of(out))
    return out


def test_what_users_change_in_the_old_folder_meanwhile_is_kept(begun):
    new = staging_of(begun)
    with replacing(begun, new):
        _edit(begun / "notes.txt", "edited")
        (begun / "deep" / "config.toml").write_text("edited in place")
        _edit(begun / "precious.txt", "moved in")
        _edit(begun / "log.txt", "of the plugin, but edited")
        for name in ("log.txt", "state.txt"):
            _edit(new / name, "of the new run")
    assert _read(begun) == NEW | {
        "notes.txt": "edited",
        "deep/config.toml": "edited in place",
        "precious.txt": "moved in",
        "log.txt": "of the new run",
        "state.txt": "of the new run",
    }


def test_changes_before_a_resumed_training_are_kept_as_those_after_it(begun, links):
    new = staging_of(begun)
    for text in ("first version", "the second version"):
        _edit(begun / "notes.txt", text)
        keep_others(begun, new)
        assert (new / "notes.txt").read_text() == text
        assert (new / "notes.txt").samefile(begun / "notes.txt") is links
    (new / "state.txt").unlink()
    keep_others(begun, new)
    assert not (new / "state.txt").exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_changes_after_a_kill_at_any_moment_are_kept(tmp_path):
    for step in range(100):
        out = tmp_path / str(step) / "run"
        _write(out, "old", "run.json", "first.txt", "second.txt")
        _write(staging_of(out), "new")
        if step % 2:
            keep_others(out, staging_of(out))
        edited = {"first.txt": "edited", "second.txt": "edited", "third.txt": "moved in"}
        for name, text in edited.items():
            _edit(out / name, text)
        _replace_until(out, step)
        if any(record and record.replaces for record in map(read_record, (out, staging_of(out)))):
            break
        edited |= {"first.txt": "edited again", "fourth.txt": "moved in"}
        for name, text in edited.items():
            _edit(out / name, text)
        with owned(out, "run", TrainingError), replacing(out, staging_of(out)):
            pass
        assert _read(out) == {"run.json": "new", "config.toml": "new"} | edited
        assert [path.name for path in out.parent.iterdir()] == ["run"]
    assert step > 8


def test_files_that_come_after_a_replacement_was_complete_are_kept(tmp_path, monkeypatch):
    """The process was killed before the folders changed places."""
    out, folder = tmp_path / "run", tmp_path / ".run.new"
    for each in (out, folder):
        _write(each, each.name, "run.json")
    (out / "notes.md").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(staging, "settle", lambda out: None)
        with replacing(out, folder):
            pass
    for name in ("later.txt", "notes.md"):
        written = out / f"{name}~"
        written.write_text("new")
        os.utime(written, (4_000_000_000, 4_000_000_000))
        written.replace(out / name)
    settle(out)
    assert _read(out) == {
        "run.json": ".run.new",
        "notes.md": "new",
        "later.txt": "new",
    }
    assert not folder.exists()


def test_what_a_user_changes_between_two_replacements_that_begin_is_kept(tmp_path):
    """The second one begins anew: what the first one linked is older."""
    out = tmp_path / "run"
    _write(out, "old")
    (out / "notes.txt").write_text("first version")
    for _ in range(2):
        begin(staging_of(out), "run")
        keep_others(out, staging_of(out))
        _edit(out / "notes.txt", "second version")
    advance_to(staging_of(out), "finished")
    with replacing(out, staging_of(out)):
        pass
    assert (out / "notes.txt").read_text() == "second version"


def test_files_that_cannot_be_read_are_kept_in_a_folder_that_appears_at_once(tmp_path):
    out = tmp_path / "bundle"
    _write(out, "old", "model.onnx")
    os.mkfifo(out / "pipe")
    (out / "nowhere").symlink_to(tmp_path / "missing")
    with new_or_replaced(out) as folder:
        (folder / "pricekit.json").write_text("new")
    assert {file.name for file in out.iterdir()} == {"pricekit.json", "pipe", "nowhere", "model.onnx"}
