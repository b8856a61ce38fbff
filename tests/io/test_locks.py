"""Two commands never write one output."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path

import pytest
from filelock import SoftFileLease

from pricekit.errors import TrainingError
from pricekit.io import locks
from pricekit.io.files import machine, start_of
from pricekit.io.locks import owned, read_owner, renewed_in_child

HOLD = """
import sys
from pathlib import Path
from pricekit.io.locks import owned
with owned(Path(sys.argv[1]), "run", ValueError):
    print("owned", flush=True)
    sys.stdin.read()
"""
OTHER_MACHINE = """filelock/2
pid=17
host=elsewhere
mode=lease
token=00
duration=60.0
machine=00000000
kind=bundle
since=2026-01-02T03:04:05+00:00
"""


@contextmanager
def holding(out):
    """Another process that owns an output until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "owned\n"
    try:
        yield process
    finally:
        process.communicate()


def test_an_output_has_one_owner_at_a_time(tmp_path, raises):
    out = tmp_path / "run"
    with holding(out):
        with raises(TrainingError, "out"), owned(out, "bundle", TrainingError):
            pass
        with owned(tmp_path / "other", "run", TrainingError):
            pass
    with owned(out, "run", TrainingError):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_killed_owner_blocks_nobody(tmp_path):
    out = tmp_path / "run"
    with holding(out) as process:
        process.kill()
    assert (tmp_path / ".run.lock").exists()
    with owned(out, "run", TrainingError):
        assert read_owner(tmp_path / ".run.lock").process == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_new_process_with_the_number_of_a_killed_owner_blocks_nobody(tmp_path, monkeypatch, raises):
    """A restarted container has the same name, and its processes have the same numbers."""
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.3)
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.1)
    with owned(tmp_path / "run", "run", TrainingError):
        text = (tmp_path / ".run.lock").read_text()
    own = f"started={start_of(os.getpid())}\n"
    assert own in text
    (tmp_path / ".run.lock").write_text(
        text.replace(own, "started=1\n").replace("duration=60.0", "duration=0.3")
    )
    with owned(tmp_path / "run", "run", TrainingError):
        assert own in (tmp_path / ".run.lock").read_text()
    (tmp_path / ".run.lock").write_text(text)
    with (
        raises(TrainingError, "out"),
        owned(tmp_path / "run", "run", TrainingError),
    ):
        pass


def test_a_lock_that_a_killed_process_did_not_write_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_UNREADABLE_SECONDS", 0.2)
    (tmp_path / ".run.lock").touch()
    with owned(tmp_path / "run", "run", TrainingError):
        assert read_owner(tmp_path / ".run.lock").process == os.getpid()


def test_threads_exclude_each_other(tmp_path):
    refused = []

    def write():
        try:
            with owned(tmp_path / "run", "run", TrainingError):
                pass
        except TrainingError as error:
            refused.append(str(error))

    with owned(tmp_path / "run", "run", TrainingError):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert refused[0].startswith("another thread of this process has been writing the run")


def test_links_to_one_folder_share_its_lock(tmp_path, raises):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with (
        owned(tmp_path / "link", "run", TrainingError),
        raises(TrainingError, "out"),
        owned(tmp_path / "real", "run", TrainingError),
    ):
        pass


def test_the_lease_of_another_machine_is_awaited(tmp_path, monkeypatch, logged, raises):
    """A process on another machine cannot be asked; it renews its lease, or it is dead."""
    monkeypatch.setattr(locks, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.1)
    lock = tmp_path / ".run.lock"
    lock.write_text(OTHER_MACHINE.replace("60.0", "0.6"))
    renew = threading.Timer(0.3, lambda: os.utime(lock))
    renew.start()
    with raises(TrainingError, "out"), owned(tmp_path / "run", "run", TrainingError):
        pass
    renew.join()
    with owned(tmp_path / "run", "run", TrainingError):
        assert read_owner(lock).process == os.getpid()
    assert "waiting up to 1 s to see whether it still runs" in logged()


def test_the_owner_renews_its_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.05)
    with owned(tmp_path / "run", "run", TrainingError):
        lock = tmp_path / ".run.lock"
        os.utime(lock, (0, 0))
        renewed = threading.Event()
        while lock.stat().st_mtime == 0:
            renewed.wait(0.01)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_own_its_parents_lock(tmp_path):
    lock = tmp_path / ".run.lock"
    with owned(tmp_path / "run", "run", TrainingError):
        scope = owned(tmp_path / "deep" / "run", "run", TrainingError)
        with scope:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    scope.__exit__(None, None, None)  # the child leaves the block
                    with pytest.raises(TrainingError):
                        owned(tmp_path / "run", "run", TrainingError).__enter__()
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(pid, 0)[1] == 0
            assert (tmp_path / "deep" / ".run.lock").exists()
            assert read_owner(lock).process == os.getpid()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), NotImplementedError()])
def test_without_locks_the_output_is_written_nevertheless(tmp_path, monkeypatch, error, raises):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(SoftFileLease, "acquire", refuse)
    with owned(tmp_path / "run", "run", TrainingError):
        assert list(tmp_path.iterdir()) == []
    if isinstance(error, OSError):  # the lock of another user cannot be replaced
        (tmp_path / ".run.lock").write_text(OTHER_MACHINE)
        with raises(TrainingError, "out"), owned(tmp_path / "run", "run", TrainingError):
            pass


def test_without_space_for_a_lock_the_output_is_not_written(tmp_path, monkeypatch, raises):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SoftFileLease, "acquire", refuse)
    with (
        raises(OSError) as raised,
        owned(tmp_path / "run", "run", TrainingError),
    ):
        pass
    assert raised.value.filename == str(tmp_path / "run")


def test_the_folder_of_an_output_is_created_and_deleted_if_nothing_is_written(tmp_path):
    with owned(tmp_path / "a" / "b" / "run", "run", TrainingError):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a").exists()
    with owned(tmp_path / "a" / "run", "run", TrainingError):
        (tmp_path / "a" / "run").touch()
    assert (tmp_path / "a" / "run").exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_delete_the_folder_of_an_output(tmp_path):
    scope = owned(tmp_path / "a" / "run", "run", TrainingError)
    with scope:
        (tmp_path / "a" / ".run.lock").unlink()  # so the folder is empty
        pid = os.fork()
        if pid == 0:
            try:
                scope.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert (tmp_path / "a").is_dir()


def test_the_owner_first_brings_back_what_a_killed_process_was_replacing(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    old = tmp_path / f".run.{machine()}.{process.pid:x}.0123.old"
    old.mkdir()
    (old / "run.json").touch()
    with owned(tmp_path / "run", "run", TrainingError):
        assert (tmp_path / "run" / "run.json").exists()


def test_some_outputs_need_no_lock(tmp_path):
    for out, enabled in ((Path("/"), True), (tmp_path / "run", False)):
        with owned(out, "run", TrainingError, enabled=enabled), nullcontext():
            assert list(tmp_path.iterdir()) == []


@renewed_in_child
class Slow:
    """A value that another thread is computing when the process is forked."""

    @cached_property
    def value(self):
        HOLDS.set()
        time.sleep(0.2)
        return 1


HOLDS = threading.Event()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_what_a_thread_of_its_parent_was_computing():
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    HOLDS.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        os._exit(Slow().value)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    thread.join()
