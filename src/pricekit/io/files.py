"""Atomic writes: files and folders are either complete or absent; and what killed processes left behind.

A temporary name is `.NAME.MACHINE.PROCESS.RANDOM.tmp`, or `.old` for a folder that another one is replacing.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.io.causes import FULL, named_in_errors
from pricekit.io.log import logger
from pricekit.wording import counted

if TYPE_CHECKING:
    import pandas as pd


LONGEST_NAME = 224
"""The longest file name, in bytes, that a temporary name can contain; most systems allow 255."""

UNKNOWN_OWNER_SECONDS = 86400.0
"""A temporary file of another machine that has not changed for this long has no living owner."""

_TEMPORARY = re.compile(
    r"\.(?P<name>.+?)\.(?P<machine>[0-9a-f]{8})\.(?P<process>[0-9a-f]{1,8})\.[0-9a-f]{4}\.(?P<kind>tmp|old)"
)
RECORD = "pricekit.json"
"""The file in every folder that pricekit makes, see `pricekit.io.record`."""
_SAFETENSORS = re.compile(r"\.tmp[A-Za-z0-9]{6}")
"""The files that safetensors writes before it renames them."""
_LOCK = re.compile(r"\.(?P<name>.+)\.lock\.(?:break|restore)\.(?P<process>\d+)\.[0-9a-f]{32}")
"""The files with which filelock takes over the lock of a process that was killed."""


_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; sync and rename it on success, delete it on failure.

    If `path` is a symbolic link, its target is written.
    """
    path = behind_link(path)
    temporary = temporary_path(path)
    try:
        with named_in_errors(path, temporary):
            temporary.touch()
            # Permissions from the umask: some libraries restrict their files to the owner.
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    finally:
        with suppress(OSError):  # the folder does not exist
            temporary.unlink(missing_ok=True)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder for temporary files, which is deleted at the end; an error of the system names it."""
    with tempfile.TemporaryDirectory(prefix="pricekit-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        except BrokenPipeError:  # of standard output, which has no file
            raise
        except OSError as error:
            if error.filename is None or str(error.filename).startswith(folder):
                error.filename = folder
                error.add_note("Temporary files are written below the folder that TMPDIR names.")
            raise


def behind_link(path: Path) -> Path:
    """Return the target of a symbolic link, whether it exists or not, and any other path unchanged."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path  # resolve() raises for circular links


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, with a line for each value."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Return the value in a JSON file."""
    return json.loads(path.read_text("utf-8"))


def write_parquet(path: Path, frame: pd.DataFrame) -> None:
    """Write a Parquet file atomically, without the index of the frame."""
    with write_atomically(path) as temporary:
        frame.to_parquet(temporary, index=False)


@contextmanager
def new_folder(path: Path, finish: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; sync it with its files and rename it on success, delete it on failure.

    An existing folder, or the target of a symbolic link at `path`, is replaced once the new folder is complete.
    `finish` is called with the synced folder before that.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            sync(file)
        if finish is not None:
            finish(temporary)
        replace_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, which appears at `path` when it is complete; an existing one is replaced."""
    with named_in_errors(path.resolve()), new_folder(path) as temporary:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content)


def is_free(path: Path) -> bool:
    """Return whether a folder can be written to `path`: it does not exist, or has only files of killed processes."""
    return not path.exists() or (path.is_dir() and all(map(is_temporary, path.iterdir())))


def replace_folder(new: Path, path: Path) -> None:
    """Rename a complete and synced folder to `path`, replacing an existing folder.

    Both change places in one step where the system can do that. Otherwise a process that is killed between two renames
    leaves `path` missing, and `pricekit.io.files.restore` brings the old folder back.
    """
    if not path.exists():
        os.rename(new, path)
        sync(path.parent)
        return
    if exchange(new, path):
        sync(path.parent)
        shutil.rmtree(new, ignore_errors=True)
        return
    old = temporary_path(path, "old")
    try:
        os.rename(path, old)
        os.rename(new, path)
    except BaseException:  # an interrupt between the renames must not lose the old folder
        if old.exists() and not path.exists():
            os.rename(old, path)
        raise
    sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step (Linux); False if the system or the file system cannot."""
    try:
        call = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return False
    return bool(call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


def sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def mode_for_others(state: os.stat_result) -> str:
    """Return the mode of a file, such as 644, if others than its owner can access it; "" if they cannot.

    Windows has no such modes.
    """
    if os.name != "posix" or not state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return ""
    return f"{stat.S_IMODE(state.st_mode):o}"


def describe_failure(error: OSError) -> str:
    """Describe which file the system refuses to read or write, and why; add advice if the disk is full."""
    file = error.filename2 or error.filename
    full = "; free some space on that disk, or choose a folder on another one. Finished work is kept"
    return f"{f'{file}: ' if file else ''}{error.strerror or error}{full if error.errno in FULL else ''}"


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
    others = path.parent.iterdir() if path.parent.is_dir() else ()
    named = [(other, _TEMPORARY.fullmatch(other.name)) for other in others]
    return sorted(
        other
        for other, parts in named
        if parts and (parts["name"], parts["kind"]) == (path.name, kind)
        if (locked and other.is_dir()) or not _is_alive(other)
    )


def delete_leftovers(path: Path, *, locked: bool) -> None:
    """Delete what killed processes left of a file or folder, beside it and in it, and log how much it was.

    Args:
        path: the output; it may not exist.
        locked: no other process writes it, so no temporary file in the folder has a living owner.
    """
    files = [file for file in _inside(path) if _is_abandoned(file, locked=locked)]
    files += _beside(path, "tmp", locked=locked)
    if locked:  # delete also what processes left that were killed while they took over the lock
        for other in path.parent.iterdir():
            parts = _LOCK.fullmatch(other.name)
            if parts and parts["name"] == path.name and not process_runs(int(parts["process"])):
                files.append(other)
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


def _inside(path: Path) -> Iterator[Path]:
    """Yield the temporary files in a folder, in the hidden folders beside it, and in the runs and passes of both."""
    folders = []
    hidden = [path.with_name(f".{path.name}.{kind}") for kind in ("new", "parts")]
    for folder in (path, *(each for each in hidden if not each.is_symlink())):
        inner = [each for pattern in ("fold-*", "refit", "fold-*/refit") for each in folder.glob(pattern)]
        folders += [folder, *(each for each in inner if not each.is_symlink())]
    for folder in folders:
        if folder.is_dir():
            yield from filter(is_temporary, list(folder.iterdir()))


def _is_abandoned(file: Path, *, locked: bool) -> bool:
    """Return whether a temporary file in a folder has no living owner.

    In a folder that only pricekit writes, the lock proves it. Elsewhere others may write files with such names.
    """
    own = (file.parent / RECORD).exists() or file.parent.name.endswith((".new", ".parts"))
    if own and locked:
        return True
    return (own or bool(_TEMPORARY.fullmatch(file.name))) and not _is_alive(file)


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
