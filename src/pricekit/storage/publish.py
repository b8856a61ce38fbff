"""Writing to a location: the content is complete before anything appears there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pricekit.errors import DataError
from pricekit.storage.address import Address, Location
from pricekit.storage.connect import call, connect, explained, repeated
from pricekit.storage.copies import fetch
from pricekit.storage.listing import facts_of
from pricekit.support.files import temporary_folder, write_atomically
from pricekit.support.leftovers import temporary_path

_SHOWS_PARTS = frozenset({"hdfs", "memory"})
"""Schemes whose files are visible while they are written; object stores show a file when its upload ends."""
_OPTIONS = {"s3": {"chunksize": 16 << 20, "max_concurrency": 4}}
"""Options of uploads; s3fs would hold half a gigabyte in memory."""


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
            _print(local)
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


def _print(local: Path) -> None:
    stream = sys.stdout.buffer
    sys.stdout.flush()
    with open(local, "rb") as file:
        while part := file.read(1 << 20):
            stream.write(part)
    stream.flush()


def write_text(location: Location, text: str) -> None:
    """Write a small UTF-8 text file, which appears as a whole; raises DataError or OSError."""
    with published(location) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def read_text(location: Location) -> str:
    """Return a small UTF-8 text file; raises DataError, OSError, or ValueError if it is not UTF-8."""
    with fetch(location) as path:
        return path.read_text("utf-8")


def delete(location: Location) -> None:
    """Delete a file; one that is missing is no error; raises DataError or OSError."""
    if isinstance(location, Path):
        location.unlink(missing_ok=True)
        return
    with explained(location, "deleted"), suppress(FileNotFoundError):
        call(location, "rm_file")
