"""Atomic writes: files and folders are either complete or absent."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import cast

from pricekit.support.causes import FULL
from pricekit.support.leftovers import is_temporary, temporary_path

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
        temporary.touch()
        mode = (
            temporary.stat().st_mode
        )  # permissions from the umask; some libraries restrict their files to the owner
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        if error.filename in (None, str(temporary), temporary):  # an error for a full disk has no file name
            error.filename = str(path)
        raise
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


def publish_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a temporary folder, sync it, and rename it to `path`.

    An existing folder, or the target of a symbolic link at `path`, is replaced once the new folder is complete.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    temporary.mkdir()
    try:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content)
            sync(temporary / name)
        sync(temporary)
        replace_folder(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # an error for a full disk has no file name
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_free(path: Path) -> bool:
    """Return whether a folder can be written to `path`: it does not exist, or it contains only `leftovers`."""
    return not path.exists() or (path.is_dir() and set(path.iterdir()) == set(leftovers(path)))


def leftovers(path: Path) -> list[Path]:
    """Return the temporary files in a folder, left by processes that were killed."""
    return [file for file in path.iterdir() if is_temporary(file)]


def others(path: Path, known: Iterable[str]) -> list[str]:
    """Return the sorted names in a folder that are neither `known` nor `leftovers`."""
    return sorted({file.name for file in path.iterdir()} - {*known, *(file.name for file in leftovers(path))})


def replace_folder(new: Path, path: Path) -> None:
    """Rename a complete and synced folder to `path`, replacing an existing folder.

    Both change places in one step where the system can do that. Otherwise a process that is killed between two renames
    leaves `path` missing, and `pricekit.support.leftovers.restore` brings the old folder back.
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
    call = _renameat2()
    if call is None:
        return False
    return call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


@cache
def _renameat2() -> Callable[..., int] | None:
    try:
        return cast(Callable[..., int], ctypes.CDLL(None).renameat2)
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return None


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
