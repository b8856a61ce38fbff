"""What killed processes leave behind."""

import os
import subprocess
import sys

import pytest

from pricekit.io import files
from pricekit.io.files import (
    RECORD,
    delete_leftovers,
    is_temporary,
    machine,
    process_runs,
    restore,
    temporary_path,
    write_atomically,
)

DIE = """
import os, sys
from pathlib import Path
from pricekit.io.files import write_atomically
with write_atomically(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"x" * 2_400_000)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _of(path, process, kind="tmp", where=None):
    return path.with_name(f".{path.name}.{where or machine()}.{process:x}.0123.{kind}")


def test_the_file_of_a_killed_process_is_deleted(tmp_path, logged):
    out = tmp_path / "prices.csv"
    subprocess.run([sys.executable, "-c", DIE, str(out)], check=False)
    assert [is_temporary(file) for file in tmp_path.iterdir()] == [True]
    delete_leftovers(out, locked=False)
    assert list(tmp_path.iterdir()) == []
    assert logged() == f"deleted 1 unfinished file of a killed process in {out}: 2 MB"


def test_files_of_living_processes_and_of_the_user_are_kept(tmp_path, dead, logged):
    out = tmp_path / "run"
    kept = [
        temporary_path(out),
        _of(out, os.getppid()),
        _of(out, dead, where="0123abcd"),  # of another machine, just now
        _of(tmp_path / "run2", dead),
        tmp_path / ".run.0123abcd.tmp",  # without a process
        tmp_path / ".run.tmp",
        tmp_path / ".tmpAbc123",
        tmp_path / "run.0123abcd.1f.0123.tmp",
    ]
    for file in kept:
        file.touch()
    delete_leftovers(out, locked=True)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    assert logged() == ""
    for file in kept:
        os.utime(file, (0, 0))
    delete_leftovers(out, locked=True)
    assert set(kept) - set(tmp_path.iterdir()) == {kept[2]}


def test_temporary_files_in_a_locked_folder_have_no_owner(tmp_path, logged):
    out, link = tmp_path / "run", tmp_path / "elsewhere"
    inside = [
        out / ".last.safetensors.0123abcd.1f.0123.tmp",
        out / ".tmpAbc123",
        temporary_path(out / "fold-0" / "run.json"),
    ]
    inside += [
        tmp_path / ".run.new" / ".tmpAbc123",
        tmp_path / ".run.parts" / ".part-000000.parquet.0123abcd.1f.0123.tmp",
    ]
    for folder in (out, out / "fold-0"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RECORD).touch()
    others = [out / ".tmpfiles", out / "run.json", out / "mine" / ".tmpAbc123", link / ".tmpAbc123"]
    for file in [*inside, *others]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"12")
    (out / "fold-1").symlink_to(link)
    delete_leftovers(out, locked=False)
    assert all(file.exists() for file in inside)
    delete_leftovers(out, locked=True)
    assert not any(file.exists() for file in inside)
    assert all(file.exists() for file in others)
    assert "deleted 5 unfinished files of a killed process in" in logged()


def test_locks_that_killed_processes_were_taking_over_are_deleted(tmp_path, dead, logged):
    names = [
        f".run.lock.break.{dead}.{'a' * 32}",
        f".run.lock.restore.{dead}.{'b' * 32}",
        f".run.lock.break.{os.getppid()}.{'c' * 32}",
        f".other.lock.break.{dead}.{'d' * 32}",
        ".run.lock",
    ]
    for name in names:
        (tmp_path / name).touch()
    delete_leftovers(tmp_path / "run", locked=False)
    assert len(list(tmp_path.iterdir())) == 5
    delete_leftovers(tmp_path / "run", locked=True)
    assert {path.name for path in tmp_path.iterdir()} == set(names[2:])
    assert "deleted 2 unfinished files" in logged()


def test_in_a_folder_of_something_else_only_files_of_dead_processes_are_deleted(tmp_path, dead):
    """Another command may write a prediction into the folder."""
    out = tmp_path / "data"
    out.mkdir()
    dying, living = _of(out / "prices.csv", dead), _of(out / "prices.csv", os.getppid())
    others = {living, out / ".tmpAbc123", out / ".prices.csv.0123abcd.1f.0123.tmp"}
    for file in (dying, *others):
        file.touch()
    delete_leftovers(out, locked=True)
    assert set(out.iterdir()) == others


def test_in_a_folder_without_a_lock_only_files_of_dead_processes_are_deleted(tmp_path, dead):
    out = tmp_path / "run"
    out.mkdir()
    files = _of(out / "run.json", dead), _of(out / "run.json", os.getppid())
    for file in files:
        file.touch()
    delete_leftovers(out, locked=False)
    assert list(out.iterdir()) == [files[1]]


def test_unfinished_folders_are_deleted(tmp_path, dead, logged):
    folder = _of(tmp_path / "bundle", dead)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"1" * 1500)
    (folder / "link").symlink_to(tmp_path)
    old = _of(tmp_path / "bundle", dead, "old")
    old.mkdir()
    delete_leftovers(tmp_path / "bundle", locked=True)
    assert list(tmp_path.iterdir()) == [old]
    assert logged().endswith(": 2 kB")


def test_a_folder_that_was_being_replaced_is_restored(tmp_path, dead, logged):
    out, link = tmp_path / "bundle", tmp_path / "link"
    link.symlink_to("bundle")
    living = _of(out, os.getppid(), "old")
    living.mkdir()
    assert restore(out) == out
    assert not out.exists()  # its owner replaces it now
    old = _of(out, dead, "old")
    old.mkdir()
    assert restore(link) == link
    assert out.exists()
    assert "the old folder is back" in logged()
    old.mkdir()
    assert restore(out) == out
    assert old.exists()
    out.rmdir()
    older = old.with_name(old.name.replace("0123", "4567"))
    older.mkdir()
    os.utime(older, (0, 0))
    (old / "newer").touch()
    restore(out)
    assert (out / "newer").exists()
    delete_leftovers(out, locked=False)
    assert sorted(tmp_path.iterdir()) == sorted([living, out, link])


def test_a_zombie_does_not_run(dead):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process_runs(process.pid)
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process_runs(process.pid)
    process.wait()
    assert not process_runs(dead)
    assert not process_runs(1 << 31)
    assert process_runs(1)


def test_the_longest_name_still_has_a_temporary_one(tmp_path):
    longest = tmp_path / ("x" * files.LONGEST_NAME)
    with write_atomically(longest) as temporary:
        temporary.write_text("1")
    assert longest.read_text() == "1"
    assert len(str(temporary_path(longest).name)) <= 255
