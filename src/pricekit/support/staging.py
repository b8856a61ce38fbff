"""Replacing a folder that takes hours to write: the new one is written beside it, and both change places at the end.

The new folder is `.NAME.new`. A marker in it says that it is complete, so that after a kill at any moment the next
command knows which of the two folders is the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pricekit.support.files import replace_folder, sync
from pricekit.support.leftovers import is_temporary
from pricekit.support.log import logger

Item = TypeVar("Item")

_COMPLETE, _KEPT = ".complete", ".kept"
"""Markers in a replacement: it is complete; the other files of the old folder are in it."""
_READS = 3


def staging_of(out: Path) -> Path:
    """Return the folder in which a replacement of `out` is written."""
    path = Path(os.path.realpath(out))
    return path.with_name(f".{path.name}.new")


def target_of(folder: Path) -> Path:
    """Return the folder that a folder of `staging_of` replaces, and any other folder unchanged."""
    staged = folder.name.startswith(".") and folder.name.endswith(".new") and len(folder.name) > 5
    return folder.with_name(folder.name[1:-4]) if staged else folder


def continued(out: Path, begun: Callable[[Path], bool]) -> Path:
    """Return the folder to resume: the replacement of `out` if one has begun, otherwise `out`.

    Args:
        out: the folder.
        begun: tells whether a folder contains something to resume.
    """
    return staging if begun(staging := staging_of(out)) else out


def can_stage(out: Path) -> bool:
    """Return whether a replacement can be written beside a folder; log a warning if it cannot."""
    path = Path(os.path.realpath(out))
    if os.path.ismount(path) or not os.access(path.parent, os.W_OK):
        where = "it is a mount point" if os.path.ismount(path) else f"{path.parent} cannot be written"
        logger.warning(f"{out} is cleared before its replacement is complete, because {where}")
        return False
    return True


@contextmanager
def replacing(
    out: Path, folder: Path, own: Callable[[Path], bool], *, enabled: bool = True
) -> Iterator[None]:
    """Put a folder that the block completes into the place of `out`; after an error, `out` is unchanged.

    If the block completes `out` itself, an abandoned replacement is deleted.

    Args:
        out: the folder to replace.
        folder: as of `staging_of`, or `out` itself.
        own: tells from a path relative to `out` whether pricekit wrote the file; all others are kept.
        enabled: False in all but the first of several processes that train together.
    """
    if not enabled:
        yield
        return
    if folder == out:
        yield
        _discard(staging_of(out), out, own)
        return
    try:
        yield
    except BaseException:
        logger.warning(f"{out} is unchanged; its unfinished replacement is in {folder}")
        raise
    try:
        keep_others(out, folder, own)
        (folder / _COMPLETE).touch()
        sync(folder)
        settle(out)
    except OSError as error:
        error.filename = error.filename or str(out)  # an error for a full disk may have no file name
        raise


def read_whole(path: Path, read: Callable[[Path], Item]) -> Item:
    """Return what `read` returns for a folder; if another process replaces the folder meanwhile, read it again.

    Otherwise some files could be those of the old folder, and others those of the new one.
    """
    for _ in range(_READS):
        before = _identity(path)
        try:
            found = read(path)
        except Exception:
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return found
    return read(path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def settle(out: Path) -> None:
    """Exchange a folder and its replacement if that is complete, and delete the old one.

    After a kill at any moment, the next call continues.
    """
    staging = staging_of(out)
    if (staging / _COMPLETE).exists():
        replace_folder(staging, target_of(staging))
    if (out / _COMPLETE).exists():
        shutil.rmtree(staging, ignore_errors=True)
        (out / _KEPT).unlink(missing_ok=True)
        (out / _COMPLETE).unlink()


def _discard(staging: Path, out: Path, own: Callable[[Path], bool]) -> None:
    """Delete a replacement, unless it contains files that pricekit did not write and that are not in the old folder."""
    files = [file for file in staging.rglob("*") if not file.is_dir() or file.is_symlink()]
    if all(_is_dispensable(file, file.relative_to(staging), out, own) for file in files):
        shutil.rmtree(staging, ignore_errors=True)


def _is_dispensable(file: Path, name: Path, out: Path, own: Callable[[Path], bool]) -> bool:
    if own(name) or is_temporary(file) or name.name == _KEPT:
        return True
    return (out / name).exists() and file.samefile(out / name)


def keep_others(old: Path, new: Path, own: Callable[[Path], bool]) -> None:
    """Link the files that pricekit did not write into the new folder; a second call links only later files.

    A plugin that observes a run finds its own files of the old run in the new folder, and may delete them there.
    """
    marker = new / _KEPT
    since = marker.stat().st_mtime_ns if marker.exists() else 0
    for file in sorted(old.rglob("*")):
        if file.lstat().st_mtime_ns <= since:
            continue
        copy = new / file.relative_to(old)
        if (file.is_dir() and not file.is_symlink()) or is_temporary(file) or _is_lock(file):
            continue
        if not own(file.relative_to(old)) and not os.path.lexists(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, copy, follow_symlinks=False)
            except OSError:  # a file system without links
                shutil.copy2(file, copy, follow_symlinks=False)
    marker.touch()


def _is_lock(file: Path) -> bool:
    return file.name.startswith(".") and file.name.endswith(".lock")
