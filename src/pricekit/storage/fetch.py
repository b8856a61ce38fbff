"""Local copies of remote files, and of standard input.

A file is read once, in parts, each of which is repeated if it fails. So what is read locally does not change, however
often it is read, and no failing connection loses or doubles a row.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pricekit.errors import DataError
from pricekit.storage.address import Address, Location
from pricekit.storage.connect import call, explained
from pricekit.storage.listing import facts_of, version_of
from pricekit.support.causes import FULL
from pricekit.support.log import logger

PART_BYTES = 16 << 20
"""How much is read at a time, and so lost when a connection is cut."""
_ANNOUNCED_BYTES = 100 << 20

_lock = threading.Lock()
_spooled: tuple[object, Copy] | None = None
"""Standard input, which can be read only once, and its copy."""


class Copy:
    """A local file with the content of a location; a temporary one is deleted with this object, or after its block.

    Keep the object for as long as the path is used.

    Attributes:
        path: the local file. It has the suffix of its location.
    """

    def __init__(self, path: Path, folder: str | None = None) -> None:
        self.path = path
        if folder is not None:
            weakref.finalize(self, _delete, folder, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        """Do nothing: the end of the block ends the object, unless someone else has it, too."""


def _delete(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child has the object, too
        shutil.rmtree(folder, ignore_errors=True)


def fetch(location: Location) -> Copy:
    """Return a local copy of a file; a local file stands for itself.

    The copy of a remote file is in the folder for temporary files, and as large as the file. Standard input is read to
    its end, and is JSON lines if it begins with "{", otherwise CSV; a process reads it once and keeps the copy.

    Example:
        >>> with fetch(Path(__file__)) as path:
        ...     path.name
        'fetch.py'

    Raises:
        DataError: there is no such file, access is denied, the file was replaced meanwhile, or the disk is full.
        ConfigError: the package for the scheme is not installed.
    """
    if isinstance(location, Path):
        return Copy(location)
    return _spool(location) if location.is_stream else _download(location)


def _download(address: Address) -> Copy:
    with explained(address, "read", "table"):
        facts = facts_of(address)
        if facts is None:
            raise FileNotFoundError(address.text)
    if facts.get("type") == "directory":
        raise DataError(f"{address} is a folder, not a file. Name an existing table.", parameters=("table",))
    with _new_copy(address, address.name) as copy:
        download(address, copy.path, facts["size"])
        if version_of(facts_of(address) or {}) != version_of(facts):
            raise DataError(
                f"{address} was replaced while it was read; try again when nothing writes it.",
                parameters=("table",),
            )
    return copy


def download(address: Address, path: Path, size: int) -> None:
    """Write the first `size` bytes of a remote file to a local path; raises DataError, and OSError for a full disk."""
    if size >= _ANNOUNCED_BYTES:
        logger.info(f"fetching {address}: {size / 1e6:,.0f} MB")
    if size > (free := shutil.disk_usage(path.parent).free):
        raise _too_small(address, path.parent, f"it has {free:,} bytes left, and {size:,} are needed")
    with open(path, "wb") as file:
        for start in range(0, size, PART_BYTES):
            end = min(start + PART_BYTES, size)
            with explained(address, "read"):
                part = call(address, "cat_file", start, end)
                if len(part) != end - start:
                    raise ConnectionError(f"{len(part):,} of {end - start:,} bytes arrived")
            _write(file, part, address, path.parent)


def _write(file: BinaryIO, part: bytes, address: Address, folder: Path) -> None:
    try:
        file.write(part)
        file.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _too_small(address, folder, "it is full") from error


def _too_small(address: Address, folder: Path, why: str) -> DataError:
    found = DataError(
        f"{address} cannot be copied to the disk of {folder}: {why}. Free some space there, or set the environment "
        "variable TMPDIR to a folder on another disk."
    )
    found.__cause__ = OSError(next(iter(FULL)), os.strerror(next(iter(FULL))))
    return found


@contextmanager
def _new_copy(address: Address, name: str) -> Iterator[Copy]:
    """Yield a copy that is still empty; after an error it is deleted at once."""
    folder = tempfile.mkdtemp(prefix="pricekit-")
    try:
        yield Copy(Path(folder) / name, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _spool(address: Address) -> Copy:
    """Return the copy of standard input, which several calls share."""
    global _spooled
    with _lock:
        if _spooled is None or _spooled[0] is not sys.stdin:
            _spooled = sys.stdin, _read_stdin(address)
        return _spooled[1]


def _read_stdin(address: Address) -> Copy:
    stream: BinaryIO = sys.stdin.buffer
    with _new_copy(address, "stdin") as copy:
        with open(copy.path, "wb") as file:
            while part := stream.read(1 << 20):
                _write(file, part, address, copy.path.parent)
        copy.path = copy.path.rename(copy.path.with_suffix(_suffix(address, copy.path)))
    return copy


def _suffix(address: Address, path: Path) -> str:
    if address.name != "-":
        return address.suffix
    with open(path, "rb") as file:
        head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    return ".jsonl" if head.startswith(b"{") else ".csv"
