"""Writing files and folders so that they appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LONGEST_NAME = 240
"""Bytes of a file's name that leave room for what `write_atomically` adds; most systems hold 255."""
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{8}\.tmp")


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and renamed, on failure removed.

    Of a link the file that it points to is written.
    """
    path = behind_link(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # what the user's umask says; some libraries write for the owner only
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def behind_link(path: Path) -> Path:
    """Return what a link points to, there or not, and any other path as it is."""
    return (
        Path(os.path.realpath(path)) if path.is_symlink() else path
    )  # resolve() raises where links go round


def write_text(path: Path, text: str) -> None:
    """Write one UTF-8 text file atomically."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def publish_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a temporary folder, sync it, and rename it to `path`.

    A folder that is there already, or that a link at `path` points to, is replaced only when the new one is complete.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content)
            sync(temporary / name)
        sync(temporary)
        replace_folder(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk names none
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_free(path: Path) -> bool:
    """Say whether a folder can be made at `path`: nothing is there, or a folder of nothing but `leftovers`."""
    return not path.exists() or (path.is_dir() and set(path.iterdir()) == set(leftovers(path)))


def leftovers(path: Path) -> list[Path]:
    """Return the files in a folder that `write_atomically` had not finished when the process was killed."""
    return [file for file in path.iterdir() if _TEMPORARY.fullmatch(file.name) and file.is_file()]


def others(path: Path, known: Iterable[str]) -> list[str]:
    """Return the names of what lies in a folder but is neither known nor of `leftovers`."""
    return sorted({file.name for file in path.iterdir()} - {*known, *(file.name for file in leftovers(path))})


def replace_folder(new: Path, path: Path) -> None:
    """Rename a complete and synced folder to `path`, in the place of one that may be there."""
    if not path.exists():
        os.rename(new, path)
        sync(path.parent)
        return
    old = path.with_name(f".{path.name}.{secrets.token_hex(4)}.old")
    try:
        os.rename(path, old)
        os.rename(new, path)
    except BaseException:  # an interrupt between the two renames must not cost the old folder
        if old.exists() and not path.exists():
            os.rename(old, path)
        raise
    sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
