"""The local files that stand for a location: a copy to read, and a file to write that then appears there as a whole.

A remote file is read once, in parts, each of which is repeated if it fails. So what is read locally does not change,
however often it is read, and no failing connection loses or doubles a row.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pricekit.errors import DataError
from pricekit.storage.address import Address, Location
from pricekit.storage.connect import call, connect, explained, repeated
from pricekit.storage.listing import facts_of, version_of
from pricekit.support.causes import FULL
from pricekit.support.files import temporary_folder, temporary_path, write_atomically
from pricekit.support.log import logger

VARIABLE = "PRICEKIT_CACHE"

PART_BYTES = 16 << 20
"""How much is read at a time, and so lost when a connection is cut."""
_ANNOUNCED_BYTES = 100 << 20

_lock = threading.Lock()
_spooled: tuple[object, Copy] | None = None
"""Standard input, which can be read only once, and its copy."""

_SHOWS_PARTS = frozenset({"hdfs", "memory"})
"""Schemes whose files are visible while they are written; object stores show a file when its upload ends."""
_OPTIONS = {"s3": {"chunksize": 16 << 20, "max_concurrency": 4}}
"""Options of uploads; s3fs would hold half a gigabyte in memory."""


class Copy:
    """A local file with the content of a location; a temporary one is deleted with this object.

    Keep the object for as long as the path is used.

    Attributes:
        path: the local file. It has the suffix of its location; a remote name may be too long for a local file.
    """

    def __init__(self, path: Path, folder: str | None = None) -> None:
        self.path = path
        if folder is not None:
            weakref.finalize(self, _delete, folder, os.getpid())


def _delete(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child has the object, too
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Part:
    """The bytes of a remote file that are fetched.

    Attributes:
        first: bytes from the beginning. Without `last`, the copy ends with the last whole line of them.
        last: bytes from the end; the copy has zeros in between.
    """

    first: int
    last: int


def fetch(location: Location, part: Part | None = None) -> Copy:
    """Return a local copy of a file; a local file stands for itself.

    The copy of a remote file is in the folder for temporary files, and as large as the file. Standard input is read to
    its end. It is JSON lines if it begins with "{", Parquet if it begins like that, and otherwise CSV. A process reads
    it once and keeps the copy.

    Args:
        location: the file.
        part: only this part of a remote file, which is not checked for changes; None: all of it.

    Example:
        >>> fetch(Path(__file__)).path.name
        'local.py'

    Raises:
        DataError: there is no such file, access is denied, the file was replaced meanwhile, or the disk is full.
        ConfigError: the package for the scheme is not installed.
    """
    if isinstance(location, Path):
        return Copy(location)
    return _spool(location) if location.is_stream else _download(location, part)


def _download(address: Address, part: Part | None) -> Copy:
    with explained(address, "read", "table"):
        facts = facts_of(address)
        if facts is None:
            raise FileNotFoundError(address.text)
    if facts.get("type") == "directory":
        raise DataError(f"{address} is a folder, not a file. Name an existing table.", parameters=("table",))
    with _new_copy(f"table{address.suffix}") as copy:
        if part is not None and part.first + part.last < facts["size"]:
            _download_part(address, copy.path, facts["size"], part)
            return copy
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
            content = _range(address, start, min(start + PART_BYTES, size))
            _write(file, content, address, path.parent)


def _download_part(address: Address, path: Path, size: int, part: Part) -> None:
    first = _range(address, 0, part.first)
    if not part.last:
        path.write_bytes(first[: first.rfind(b"\n") + 1])
        return
    with open(path, "wb") as file:
        file.write(first)
        file.seek(size - part.last)  # the system stores no zeros in between
        file.write(_range(address, size - part.last, size))


def _range(address: Address, start: int, end: int) -> bytes:
    def once() -> bytes:
        system = connect(address)
        content: bytes = system.cat_file(system._strip_protocol(address.text), start=start, end=end)
        if len(content) != end - start:
            raise ConnectionError(f"{len(content):,} of {end - start:,} bytes arrived")
        return content

    with explained(address, "read"):
        return repeated(once, f"read {address}")


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
def _new_copy(name: str) -> Iterator[Copy]:
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
    with _new_copy("stdin") as copy:
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
    if head.startswith(b"PAR1"):
        return ".parquet"
    return ".jsonl" if head.startswith(b"{") else ".csv"


@contextmanager
def published(location: Location) -> Iterator[Path]:
    """Yield a local path to write; on success its content appears at the location as a whole, on failure nothing.

    A local file is renamed. A remote one is uploaded from the folder for temporary files, and replaces an existing one.
    A stream gets the content on standard output.

    Raises:
        DataError: the upload fails.
        OSError: the system refuses to write locally.
    """
    if isinstance(location, Path):
        with write_atomically(location) as temporary:
            yield temporary
        return
    with temporary_folder() as folder:
        local = folder / f"output{location.suffix}"
        yield local
        if location.is_stream:
            sys.stdout.flush()
            with open(local, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            upload(local, location)


def upload(local: Path, address: Address) -> None:
    """Copy a local file to an address, where it appears as a whole; raises DataError."""
    system = connect(address)
    target = system._strip_protocol(address.text)
    with explained(address, "written", "out"):
        if address.scheme in _SHOWS_PARTS:
            repeated(lambda: _upload_and_rename(system, local, target), f"upload {address}")
        else:
            options = _OPTIONS.get(address.scheme, {})
            repeated(lambda: system.put_file(str(local), target, **options), f"upload {address}")
    found, expected = (facts_of(address) or {}).get("size"), local.stat().st_size
    if found != expected:
        raise DataError(
            f"{address} has {found} bytes after {expected:,} were written; perhaps another process writes it, too. "
            "Write it again.",
            parameters=("out",),
        )


def _upload_and_rename(system: Any, local: Path, target: str) -> None:
    folder, _, name = target.rpartition("/")
    temporary = f"{folder}/{temporary_path(Path(name)).name}"
    try:
        system.put_file(str(local), temporary)
        with suppress(
            FileNotFoundError
        ):  # not every such file system replaces a file when it renames another
            system.rm_file(target)
        system.mv(temporary, target)
    except BaseException:
        with suppress(Exception):
            system.rm_file(temporary)
        raise


def read_text(location: Location) -> str:
    """Return a small UTF-8 text file; raises DataError, OSError, or ValueError if it is not UTF-8."""
    copy = fetch(location)  # the file exists for as long as this object
    return copy.path.read_text("utf-8")


def write_text(location: Location, text: str) -> None:
    """Write a small UTF-8 text file, which appears as a whole; raises DataError or OSError."""
    with published(location) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def delete(location: Location) -> None:
    """Delete a file; one that is missing is no error; raises DataError or OSError."""
    if isinstance(location, Path):
        location.unlink(missing_ok=True)
        return
    with explained(location, "deleted"), suppress(FileNotFoundError):
        call(location, "rm_file")


def cache_folder() -> Path:
    """Return the folder of pricekit's caches: `PRICEKIT_CACHE`, or by default the one that is usual on this platform.

    It may not exist yet.
    """
    from platformdirs import user_cache_path

    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("pricekit")


@contextmanager
def working_path(out: Location) -> Iterator[Path]:
    """Yield the local path whose neighbours are the lock and the checkpoint of an output.

    For a local output it is the output itself. For a remote one it is a path in the cache that depends on the address
    only, so an interrupted command can be continued on the same machine. For a stream it is in a temporary folder.

    Example:
        >>> with working_path(Path("prices.csv")) as path:
        ...     path
        PosixPath('prices.csv')
    """
    if isinstance(out, Path):
        yield out
        return
    if out.is_stream:
        with temporary_folder() as temporary:
            yield temporary / f"stdout{out.suffix}"
        return
    folder = cache_folder() / "outputs" / hashlib.sha256(out.text.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder / out.name
    finally:
        with suppress(OSError):  # it contains what an interrupted command keeps
            folder.rmdir()
