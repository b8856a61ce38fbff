"""Files that are mapped into memory: what is read from them takes no memory that the system cannot take back.

The system keeps the pages of a mapped file in memory while there is room. `release_pages` gives them back, so that the
memory of a process stays bounded, and shows what the process needs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pricekit.io.causes import named_in_errors

WINDOW_ROWS = 1 << 18
"""Rows that are read in any order; of more rows, one such part after the other."""

RELEASED_ROWS = 1 << 16
"""Rows after which `rows_read` gives pages back: a page that is still needed is mapped again in microseconds."""

_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_rows = 0


def map_file(file: IO[bytes]) -> mmap.mmap | bytes:
    """Map a file that is complete; the result stays valid when the file is closed or deleted."""
    file.flush()
    if not os.fstat(file.fileno()).st_size:  # cannot be mapped
        return b""
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _mapped.add(mapped)
    return mapped


def release_pages() -> None:
    """Give back the pages of all mapped files; reading maps them again."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for mapped in list(_mapped):
            mapped.madvise(mmap.MADV_DONTNEED)


def release_heap() -> None:
    """Give memory back that was freed between objects that are still in use; glibc keeps it otherwise."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def rows_read(count: int) -> None:
    """Count rows that were read from mapped files, and give back pages from time to time."""
    global _rows
    if _mapped:
        _rows += count
        if _rows >= RELEASED_ROWS:
            _rows = 0
            release_pages()


def nameless_file(folder: Path) -> IO[bytes]:
    """Return an unlinked temporary file in a folder, which disappears with the process."""
    return tempfile.TemporaryFile(dir=folder, prefix=".pricekit-")


@contextmanager
def scratch_file(folder: Path | None) -> Iterator[IO[bytes]]:
    """Yield a nameless file to write and then to map, in a folder or where temporary files are.

    Raises:
        OSError: it cannot be written; the error names the folder.
    """
    place = folder or Path(tempfile.gettempdir())
    with named_in_errors(place), nameless_file(place) as file:
        yield file


def folder_for_files(path: Path) -> Path:
    """Return the nearest existing folder of a path, or the one for temporary files if it cannot be written."""
    nearest = next((folder for folder in (path, *path.absolute().parents) if folder.is_dir()), None)
    return nearest if nearest and os.access(nearest, os.W_OK) else Path(tempfile.gettempdir())
