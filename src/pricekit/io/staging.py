"""Replacing a folder that takes hours to write: the new one is written beside it, and both change places at the end.

The new folder is `.NAME.new`. Its record says when it is complete, so that after a kill at any moment the next command
knows which of the two folders is the new one. `publish_pass` replaces the files of a run's first pass in the same way.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pricekit.io.causes import named_in_errors
from pricekit.io.digests import LISTING, DamagedError, read_listing
from pricekit.io.files import RECORD, is_temporary, new_folder, replace_folder, sync, write_text
from pricekit.io.log import logger
from pricekit.io.record import (
    KEPT,
    REFIT,
    Record,
    files_in,
    is_own,
    others_in,
    read_record,
    staging_of,
    write_record,
)

Item = TypeVar("Item")

_READS = 3


def target_of(folder: Path) -> Path:
    """Return the folder that a folder of `staging_of` replaces, and any other folder unchanged."""
    staged = folder.name.startswith(".") and folder.name.endswith(".new") and len(folder.name) > 5
    return folder.with_name(folder.name[1:-4]) if staged else folder


def can_stage(out: Path) -> bool:
    """Return whether a replacement can be written beside a folder; log a warning if it cannot."""
    path = Path(os.path.realpath(out))
    if os.path.ismount(path) or not os.access(path.parent, os.W_OK):
        where = "it is a mount point" if os.path.ismount(path) else f"{path.parent} cannot be written"
        logger.warning(f"{out} is cleared before its replacement is complete, because {where}")
        return False
    return True


@contextmanager
def replacing(out: Path, folder: Path, *, enabled: bool = True) -> Iterator[None]:
    """Put a folder that the block completes into the place of `out`; after an error, `out` is unchanged.

    If the block completes `out` itself, an abandoned replacement is deleted.

    Args:
        out: the folder to replace.
        folder: as of `staging_of`, or `out` itself.
        enabled: False in all but the first of several processes that train together.
    """
    if not enabled:
        yield
        return
    if folder == out:
        yield
        _discard(staging_of(out), out)
        return
    try:
        yield
    except BaseException:
        where = f"; its unfinished replacement is in {folder}" if folder.exists() else ""
        logger.warning(f"{out} is unchanged{where}")
        raise
    with named_in_errors(out):
        keep_others(out, folder)
        record = read_record(folder)
        assert record is not None
        write_record(folder, replace(record, replaces=True))
        settle(out)


@contextmanager
def new_or_replaced(out: Path) -> Iterator[Path]:
    """Yield a temporary folder for all files of a new one, as `new_folder`; files of an old one that are not pricekit's
    are kept.
    """

    def keep(new: Path) -> None:
        for file in others_in(out) if out.is_dir() else ():
            if not os.path.lexists(copy := new / file.relative_to(out)):
                _keep(file, copy)

    with (
        named_in_errors(out.resolve()),
        new_folder(out, keep) as temporary,
        named_in_errors(out.resolve(), temporary),
    ):
        yield temporary


def read_whole(path: Path, read: Callable[[Path], Item]) -> Item:
    """Return what `read` returns for a folder; if another process replaces the folder meanwhile, read it again.

    Otherwise some files could be those of the old folder, and others those of the new one.
    """
    for _ in range(_READS):
        before = _identity(path)
        try:
            content = read(path)
        except Exception:
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return content
    return read(path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def settle(out: Path) -> None:
    """Finish what a killed process had begun to publish: a complete replacement of a folder, or a run's second pass.

    The record of a complete replacement says `replaces` until the old folder is deleted. After a kill at any moment,
    the next call continues.
    """
    staging = staging_of(out)
    if (record := _complete(staging)) is not None:
        keep_others(target_of(staging), staging)  # those that users wrote while nothing ran
        replace_folder(staging, target_of(staging))
    if (record := _complete(out)) is not None:
        shutil.rmtree(staging, ignore_errors=True)
        (out / KEPT).unlink(missing_ok=True)
        write_record(out, replace(record, replaces=False))
    for folder in (out, staging):
        publish_pass(folder)


def _complete(folder: Path) -> Record | None:
    """Return the record of a folder that replaces another one; None for others."""
    try:
        record = read_record(folder)
    except DamagedError:
        return None
    return record if record is not None and record.replaces else None


def publish_pass(run: Path) -> None:
    """Put the files of a finished second pass into the places of those of the first one; its record is the last.

    Until then the run is unfinished. After a kill at any moment, the next call continues.
    """
    part = run / REFIT
    try:
        whole, record = read_record(run), read_record(part)
    except DamagedError:
        return
    if whole is None or whole.kind != "run" or whole.state == "finished":
        return
    if record is None and part.is_dir() and not any(part.iterdir()):
        part.rmdir()
    if record is None or not (record.kind == "run" and record.second and record.state == "finished"):
        return
    files = [file for file in files_in(part) if is_own(file.relative_to(part), ["run"])]
    last = (part / LISTING, part / RECORD)
    if last[0].exists():  # without digests, nothing in the run counts as damaged meanwhile
        (run / LISTING).unlink(missing_ok=True)
    for file in [*(file for file in files if file not in last), last[0]]:
        if file.exists():
            os.replace(file, run / file.name)
    listed = read_listing(run) or {}
    for file in run.iterdir():
        own = is_own(Path(file.name), ["run"])
        if own and file.name.startswith(("asset-", "last-")) and file.name not in listed:
            file.unlink()
    for file in filter(is_temporary, list(part.iterdir())):
        file.unlink()
    sync(run)
    os.replace(last[1], run / RECORD)
    sync(run)
    if not any(part.iterdir()):
        part.rmdir()


def _discard(staging: Path, out: Path) -> None:
    """Delete a replacement, unless it contains files that pricekit did not write and that are not in the old folder."""
    if not staging.is_dir():
        return
    for file in others_in(staging):
        old = out / file.relative_to(staging)
        if not (old.exists() and file.samefile(old)):
            return
    shutil.rmtree(staging, ignore_errors=True)


def keep_others(old: Path, new: Path) -> None:
    """Link the files that pricekit did not write into the new folder.

    A later call adds the files that came since, and replaces those that have changed in the old folder only. A plugin
    that observes a run finds its own files of the old run in the new folder; those that it deletes there stay deleted.

    The marker lists the files. It first lists those that are about to be linked; after a kill, they are linked again.
    """
    files = {file.relative_to(old).as_posix(): file for file in others_in(old)}
    kept = _read_kept(new)
    due = [name for name, file in files.items() if _is_due(file, new / name, kept.get(name))]
    if due:
        rest = {name: marks for name, marks in kept.items() if name not in due}
        _write_kept(new, rest, due)
        kept = rest | {name: _keep(files[name], new / name) for name in due}
    _write_kept(new, kept)


def _read_kept(new: Path) -> dict[str, list[list[int]]]:
    """Return the names of the files that earlier calls kept, with the marks of `_keep`."""
    marker = new / KEPT
    if not marker.exists():
        return {}
    record = json.loads(marker.read_text("utf-8"))
    for name in record["begun"]:
        (new / name).unlink(missing_ok=True)
    return dict(record["kept"])


def _write_kept(new: Path, kept: Mapping[str, list[list[int]]], begun: Iterable[str] = ()) -> None:
    write_text(new / KEPT, json.dumps({"kept": kept, "begun": list(begun)}) + "\n")


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
    facts = file.lstat()
    return [facts.st_ino, facts.st_size, facts.st_mtime_ns]
