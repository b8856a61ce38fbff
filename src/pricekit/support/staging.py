"""Replacing a folder that takes hours to write: the new one is written beside it, and both change places at the end.

The new folder is `.NAME.new`. A marker in it says that it is complete, so that after a kill at any moment the next
command knows which of the two folders is the new one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pricekit.support.causes import named_in_errors
from pricekit.support.files import is_temporary, replace_folder, sync, write_text
from pricekit.support.log import logger

Item = TypeVar("Item")

_COMPLETE, _KEPT = ".complete", ".kept"
"""Markers in a replacement: it is complete; the other files of the old folder are in it, see `keep_others`."""
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

    After a kill while the old folder was being deleted, `out` is the new one and the rest of the old one is beside it.

    Args:
        out: the folder.
        begun: tells whether a folder contains something to resume.
    """
    exchanged = (out / _COMPLETE).exists()
    return staging if not exchanged and begun(staging := staging_of(out)) else out


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
        where = f"; its unfinished replacement is in {folder}" if folder.exists() else ""
        logger.warning(f"{out} is unchanged{where}")
        raise
    with named_in_errors(out):
        keep_others(out, folder, own)
        (folder / _COMPLETE).touch()
        sync(folder)
        settle(out)


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
        _keep_later(target_of(staging), staging)
        replace_folder(staging, target_of(staging))
    if (out / _COMPLETE).exists():
        shutil.rmtree(staging, ignore_errors=True)
        (out / _KEPT).unlink(missing_ok=True)
        (out / _COMPLETE).unlink()


def _discard(staging: Path, out: Path, own: Callable[[Path], bool]) -> None:
    """Delete a replacement, unless it contains files that pricekit did not write and that are not in the old folder."""
    for file in staging.rglob("*"):
        if (file.is_dir() and not file.is_symlink()) or is_temporary(file) or file.name == _KEPT:
            continue
        old = out / file.relative_to(staging)
        if not (own(file.relative_to(staging)) or (old.exists() and file.samefile(old))):
            return
    shutil.rmtree(staging, ignore_errors=True)


def keep_others(old: Path, new: Path, own: Callable[[Path], bool]) -> None:
    """Link the files that pricekit did not write into the new folder.

    A later call adds the files that came since, and replaces those that have changed in the old folder only. A plugin
    that observes a run finds its own files of the old run in the new folder; those that it deletes there stay deleted.

    The marker lists the files. It first lists those that are about to be linked; after a kill, they are linked again.
    """
    files = {file.relative_to(old).as_posix(): file for file in _others(old, own)}
    kept = _read_kept(new)
    due = [name for name, file in files.items() if _is_due(file, new / name, kept.get(name))]
    if due:
        rest = {name: marks for name, marks in kept.items() if name not in due}
        _write_kept(new, rest, due)
        kept = rest | {name: _keep(files[name], new / name) for name in due}
    _write_kept(new, kept)


def _keep_later(old: Path, new: Path) -> None:
    """Link the files that users wrote into the old folder after the new one was complete, while nothing ran."""
    since = (new / _COMPLETE).stat().st_mtime_ns
    files = {file.relative_to(old).as_posix(): file for file in _others(old, lambda _: False)}
    kept = _read_kept(new)
    for name, file in files.items():
        if name in kept:
            due = _is_due(file, new / name, kept[name])
        else:  # pricekit's own files of the old folder are older
            due = not os.path.lexists(new / name) and file.lstat().st_mtime_ns > since
        if due:
            _keep(file, new / name)


def _others(folder: Path, own: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the files in a folder that pricekit did not write."""
    for file in sorted(folder.rglob("*")):
        lock = file.name.startswith(".") and file.name.endswith(".lock")
        inner = file.is_dir() and not file.is_symlink()
        if not (is_temporary(file) or lock or inner or own(file.relative_to(folder))):
            yield file


def _read_kept(new: Path) -> dict[str, list[list[int]]]:
    """Return the names of the files that earlier calls kept, with the marks of `_keep`."""
    marker = new / _KEPT
    if not marker.exists():
        return {}
    record = json.loads(marker.read_text("utf-8"))
    for name in record["begun"]:
        (new / name).unlink(missing_ok=True)
    return dict(record["kept"])


def _write_kept(new: Path, kept: Mapping[str, list[list[int]]], begun: Iterable[str] = ()) -> None:
    write_text(new / _KEPT, json.dumps({"kept": kept, "begun": list(begun)}) + "\n")


def _is_due(file: Path, copy: Path, marks: list[list[int]] | None) -> bool:
    """Return whether a file is to be linked: it is new, or it has changed and its copy has not.

    Args:
        file: in the old folder.
        copy: in the new folder; it may not exist.
        marks: as `_keep` returned them; None for a file that was not kept before.
    """
    if not os.path.lexists(copy):
        return marks is None  # otherwise a plugin deleted it
    if marks is None:
        return False
    before, after = marks
    compared = slice(1) if before[0] == after[0] else slice(1, None)  # a link changes with its file
    return _mark(file)[compared] != before[compared] and _mark(copy)[compared] == after[compared]


def _keep(file: Path, copy: Path) -> list[list[int]]:
    """Link a file into the new folder, in the place of an earlier version, and return the marks of both."""
    before = _mark(file)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    try:
        os.link(file, copy, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(file, copy, follow_symlinks=False)
    return [before, _mark(copy)]


def _mark(file: Path) -> list[int]:
    """Return what tells a file from a later version of it: its inode, size and time."""
    found = file.lstat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]
