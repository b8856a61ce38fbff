"""Locks on what commands write: two commands never write one folder or file.

The lock is a file beside the output, `.NAME.lock`, which filelock's lease writes and renews every few seconds. It needs
nothing of the file system but exclusive creation, so several machines on one network disk see it. A process that is
killed leaves the file behind, and the next one replaces it: at once on the same machine, and otherwise as soon as the
lease has not been renewed for `LEASE_SECONDS`. A forked child does not own the lock of its parent.

Without permission to write beside the output, commands continue without a lock.

`renewed_in_child` is for another kind of lock, that of a thread, which a forked child cannot release.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pricekit.io.causes import is_temporary
from pricekit.io.files import delete_leftovers, machine, process_runs, restore, start_of
from pricekit.io.log import logger
from pricekit.io.staging import settle

if TYPE_CHECKING:
    from filelock import LeaseCompromise, SoftFileLease

Kind = TypeVar("Kind")

LEASE_SECONDS = 60.0
"""A lock of another machine that was not renewed for this long is taken over."""

_BEAT_SECONDS = 5.0
_POLL_SECONDS = 0.1
_UNREADABLE_SECONDS = 3.0
"""A lock without content is that of a process that was killed before it could write it."""


@dataclass(frozen=True)
class Owner:
    """The process that holds a lock, as its lock file describes it.

    Attributes:
        process: its number.
        host: the name of the machine.
        machine: as of `pricekit.io.files.machine`.
        kind: what it writes, such as "run".
        since: when it began, in ISO format.
        started: as of `pricekit.io.files.start_of`; "" if it is unknown.
        renewed: time stamp of the file, in nanoseconds.
    """

    process: int
    host: str
    machine: str
    kind: str
    since: str
    started: str
    renewed: int

    def here(self) -> bool:
        """Return whether it is a running process of this machine."""
        if self.machine != machine() or not process_runs(self.process):
            return False
        return self.started in ("", start_of(self.process))  # otherwise its number belongs to a new process

    def __str__(self) -> str:
        """Return "another process (PID 17 on host)", or the name for another thread."""
        if self.machine == machine() and self.process == os.getpid():
            return "another thread of this process"
        return f"another process (PID {self.process} on {self.host})"


@contextmanager
def owned(
    out: Path,
    kind: str,
    error: Callable[..., Exception],
    *,
    enabled: bool = True,
    shown: object = None,
) -> Iterator[None]:
    """Own an output while the block runs; first repair and delete what killed processes left of it.

    Args:
        out: the file or folder to write; its folder is created.
        kind: what is written, such as "run".
        error: makes the exception for an output that another process or thread writes; it gets a message and
            `parameters`.
        enabled: False in all but the first of several processes that train together.
        shown: what messages name; None: `out`.
    """
    path = Path(os.path.realpath(out))
    if not enabled or not path.name:
        yield
        return
    from filelock import SoftFileLease  # slow to import

    with existing(path.parent):
        lease = SoftFileLease(
            path.with_name(f".{path.name}.lock"),
            lease_duration=LEASE_SECONDS,
            heartbeat_interval=_BEAT_SECONDS,
            on_compromise=_warn,
        )
        locked = _acquire(lease, out if shown is None else shown, kind, error)
        try:
            settle(restore(path))
            delete_leftovers(path, locked=locked)
            yield
        finally:
            lease.release()


def _acquire(lease: SoftFileLease, out: object, kind: str, error: Callable[..., Exception]) -> bool:
    """Return whether the lock was acquired; False if the file system refuses to write it."""
    from filelock import Timeout

    try:
        watch = _watch(Path(lease.lock_file), out)
        lease.acquire(timeout=LEASE_SECONDS + _BEAT_SECONDS, poll_interval=_POLL_SECONDS, cancel_check=watch)
    except Timeout as timeout:
        raise _refusal(read_owner(lease.lock_file), out, kind, error) from timeout
    except (OSError, NotImplementedError) as problem:
        if isinstance(problem, OSError) and (is_temporary(problem) or problem.errno == errno.EIO):
            problem.filename = problem.filename or str(out)
            raise
        owner = read_owner(lease.lock_file)
        if owner is not None and time.time() - owner.renewed / 1e9 < LEASE_SECONDS:  # of another user
            raise _refusal(owner, out, kind, error) from problem
        logger.debug(f"{out} is written without a lock: {problem}")
        return False
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    # filelock ignores other lines than its own.
    with suppress(OSError), open(lease.lock_file, "a", encoding="utf-8", newline="\n") as stream:
        stream.write(f"machine={machine()}\nkind={kind}\nsince={since}\nstarted={start_of(os.getpid())}\n")
    return True


def _watch(file: Path, out: object) -> Callable[[], bool]:
    """Return a function that says whether to stop waiting for a lock: its owner runs here, or has just renewed it."""
    began, renewed = time.monotonic(), 0

    def stop() -> bool:
        nonlocal renewed
        owner, waited = read_owner(file), time.monotonic() - began
        if owner is None:
            return waited > _UNREADABLE_SECONDS and not _delete_empty(file)
        if owner.here():
            return waited > 2 * _POLL_SECONDS
        if not renewed:
            renewed = owner.renewed
            logger.info(
                f"{owner} was writing {out}; waiting up to {LEASE_SECONDS:.0f} s to see whether it still runs"
            )
        return owner.renewed != renewed

    return stop


def _delete_empty(file: Path) -> bool:
    with suppress(OSError):
        if file.lstat().st_size == 0:
            file.unlink()
            return True
    return False


def renewed_in_child(kind: type[Kind]) -> type[Kind]:
    """Give the cached properties of a class new locks in a forked child.

    Python 3.11 holds a lock while it computes one. A process that is forked while another thread computes has that
    lock, but not the thread that would release it. Later versions have no such lock.
    """
    locked = [
        value
        for value in vars(kind).values()
        if isinstance(value, cached_property) and hasattr(value, "lock")
    ]

    def renew() -> None:
        for value in locked:
            setattr(value, "lock", threading.RLock())  # noqa: B010 - unknown to later versions

    if locked and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return kind


def read_owner(file: str | Path) -> Owner | None:
    """Return the content of a lock file; None if it is missing or incomplete."""
    try:
        with open(file, encoding="utf-8") as stream:
            lines = stream.read(2048).splitlines()
            renewed = os.fstat(stream.fileno()).st_mtime_ns
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        return Owner(
            int(values["pid"]),
            values["host"].partition("?pidns-")[0],
            values["machine"],
            values["kind"],
            values["since"],
            values.get("started", ""),
            renewed,
        )
    except (OSError, ValueError, KeyError):
        return None


def _refusal(owner: Owner | None, out: object, kind: str, error: Callable[..., Exception]) -> Exception:
    who, since = str(owner or "another process"), ""
    if owner is not None:
        kind, began = owner.kind, datetime.fromisoformat(owner.since).astimezone()
        today = began.date() == datetime.now().astimezone().date()
        since = f" since {began:{'%H:%M:%S' if today else '%Y-%m-%d %H:%M:%S'}}"
    return error(
        f"{who} has been writing the {kind} {out}{since}; wait for it, or choose another output",
        parameters=("out",),
        path=str(out),
    )


def _warn(loss: LeaseCompromise) -> None:
    logger.warning(
        f"the lock {loss.lock_file} was lost, perhaps because this process was stopped for more than "
        f"{LEASE_SECONDS:.0f} s; if another process writes the same output, write one of them elsewhere"
    )


@contextmanager
def existing(folder: Path) -> Iterator[None]:
    """Create a folder; delete it after the block if it is empty."""
    owner, missing = os.getpid(), [each for each in (folder, *folder.parents) if not each.exists()]
    with suppress(OSError):  # reported by whoever writes the output
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if os.getpid() == owner:
            for each in missing:
                with suppress(OSError):
                    each.rmdir()
