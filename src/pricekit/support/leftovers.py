"""Temporary files and folders: names that tell their owner, and what killed processes left behind.

A temporary name is `.NAME.MACHINE.PROCESS.RANDOM.tmp`, or `.old` for a folder that another one is replacing.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pricekit.support.log import logger
from pricekit.support.text import counted

LONGEST_NAME = 224
"""The longest file name, in bytes, that a temporary name can contain; most systems allow 255."""

UNKNOWN_OWNER_SECONDS = 86400.0
"""A temporary file of another machine that has not changed for this long has no living owner."""

_OWNED = r"(?:(?P<machine>[0-9a-f]{8})\.(?P<process>[0-9a-f]{1,8})\.[0-9a-f]{4}|[0-9a-f]{8})"
_TEMPORARY = re.compile(rf"\.(?P<name>.+?)\.{_OWNED}\.(?P<kind>tmp|old)")
_MARKS = ("source.json", "cv.toml", "members.toml", "ensemble.json", "manifest.json", "tune.toml")
"""Files that tell a run, a cross-validation, an ensemble, a bundle or a search."""
_SAFETENSORS = re.compile(r"\.tmp[A-Za-z0-9]{6}")
"""The files that safetensors writes before it renames them."""
_LOCK = re.compile(r"\.(?P<name>.+)\.lock\.(?:break|restore)\.(?P<process>\d+)\.[0-9a-f]{32}")
"""The files with which filelock takes over the lock of a process that was killed."""


def machine() -> str:
    """Return 8 hexadecimal digits for this machine, and in a container for its process numbers."""
    try:
        numbers = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:  # not Linux
        numbers = 0
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:8]


def temporary_path(path: Path, kind: str = "tmp") -> Path:
    """Return a new hidden name beside a file or folder, which tells the process that uses it.

    Args:
        path: the file or folder to be written.
        kind: "tmp", or "old" for what is replaced.
    """
    return path.with_name(f".{path.name}.{machine()}.{os.getpid():x}.{secrets.token_hex(2)}.{kind}")


def is_temporary(file: Path) -> bool:
    """Return whether a file is a temporary one, by its name."""
    return bool(_TEMPORARY.fullmatch(file.name) or _SAFETENSORS.fullmatch(file.name)) and file.is_file()


def restore(path: Path) -> Path:
    """Return a path; if a process was killed while it replaced that folder, bring the old folder back first."""
    real = Path(os.path.realpath(path))
    if not real.exists() and (old := _beside(real, "old", locked=False)):
        with suppress(OSError):  # another process was faster
            max(old, key=lambda folder: folder.stat().st_mtime).rename(real)
            logger.warning(
                f"{path} was lost when a process that replaced it was killed; the old folder is back"
            )
    return path


def _beside(path: Path, kind: str, *, locked: bool) -> list[Path]:
    """Return the temporary files and folders of one kind for `path`, without a living owner.

    Only processes that own `path` write folders.
    """
    found = []
    for other in path.parent.iterdir() if path.parent.is_dir() else ():
        parts = _TEMPORARY.fullmatch(other.name)
        if parts and (parts["name"], parts["kind"]) == (path.name, kind):
            found += [other] * ((locked and other.is_dir()) or not _is_alive(other))
    return sorted(found)


def delete_leftovers(path: Path, *, locked: bool) -> None:
    """Delete what killed processes left of a file or folder, beside it and in it, and log how much it was.

    Args:
        path: the output; it may not exist.
        locked: no other process writes it, so no temporary file in the folder has a living owner.
    """
    files = [file for file in _inside(path) if _is_abandoned(file, locked=locked)]
    files += _beside(path, "tmp", locked=locked)
    files += _locks_beside(path) if locked else []
    files += _beside(path, "old", locked=locked) if path.exists() else []
    _delete_all(files, path)


def delete_abandoned(folders: Iterable[Path], shown: Path) -> None:
    """Delete the temporary files in folders whose processes have ended, and log how much it was.

    Args:
        folders: not searched below; they may not exist.
        shown: what the message names.
    """
    files = [file for folder in folders if folder.is_dir() for file in folder.iterdir()]
    _delete_all([file for file in files if _TEMPORARY.fullmatch(file.name) and not _is_alive(file)], shown)


def _delete_all(files: Iterable[Path], shown: Path) -> None:
    freed = [size for size in map(_delete, files) if size is not None]
    if freed:
        logger.info(
            f"deleted {counted(len(freed), 'unfinished file')} of a killed process in {shown}: {_bytes(sum(freed))}"
        )


def _locks_beside(path: Path) -> list[Path]:
    """Return what processes left that were killed while they took over the lock of `path`."""
    found = [(other, _LOCK.fullmatch(other.name)) for other in path.parent.iterdir()]
    return [
        other
        for other, parts in found
        if parts and parts["name"] == path.name and not process_runs(int(parts["process"]))
    ]


def _inside(path: Path) -> Iterator[Path]:
    """Yield the temporary files in a folder, in the hidden folders beside it, and in the runs and passes of both."""
    hidden = [path.with_name(f".{path.name}.{kind}") for kind in ("new", "parts")]
    for folder in (path, *hidden):
        if folder.is_dir() and not (folder != path and folder.is_symlink()):
            for each in (folder, *folder.glob("fold-*"), *folder.glob("refit"), *folder.glob("fold-*/refit")):
                if each.is_dir() and (each == folder or not each.is_symlink()):
                    yield from filter(is_temporary, list(each.iterdir()))


def _is_abandoned(file: Path, *, locked: bool) -> bool:
    """Return whether a temporary file in a folder has no living owner.

    In a folder that only pricekit writes, the lock proves it. Elsewhere others may write files with such names.
    """
    if any((file.parent / name).exists() for name in _MARKS) or file.parent.name.endswith((".new", ".parts")):
        return locked or not _is_alive(file)
    return bool(_TEMPORARY.fullmatch(file.name)) and not _is_alive(file)


def _is_alive(file: Path) -> bool:
    """Return whether the process that writes a temporary file may still run."""
    parts = _TEMPORARY.fullmatch(file.name)
    if parts is not None and parts["machine"] == machine():
        return process_runs(int(parts["process"], 16))
    try:
        return time.time() - file.lstat().st_mtime < UNKNOWN_OWNER_SECONDS
    except OSError:  # just deleted
        return True


def process_runs(process: int) -> bool:
    """Return whether a process of this machine runs; one that ended and waits for its parent does not."""
    if os.name == "nt":  # os.kill would end it
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        pass
    facts = _facts_of(process)
    return not facts or facts[0] != "Z"


def start_of(process: int) -> str:
    """Return when a process of this machine was started, in ticks since the machine was; "" if it is unknown.

    A restarted container may have the same name, and give its processes the same numbers.
    """
    facts = _facts_of(process)
    return facts[19] if len(facts) > 19 else ""


def _facts_of(process: int) -> list[str]:
    """Return the fields of a process after its name, see proc(5); empty where there is no /proc."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return []


def _delete(path: Path) -> int | None:
    """Delete a file or folder and return its size in bytes; None if it is already gone or cannot be deleted."""
    try:
        folder = path.is_dir() and not path.is_symlink()
        files = [file for file in path.rglob("*") if file.is_file()] if folder else [path]
        size = sum(file.lstat().st_size for file in files)
        shutil.rmtree(path) if folder else path.unlink()
    except OSError:
        return None
    return size


def _bytes(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size = round(size / 1000)
    return f"{size:,} GB"
