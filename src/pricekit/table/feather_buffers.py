"""What the batches of a Feather file take in memory, known before any of them is unpacked.

Arrow unpacks all columns of a batch at once, and does not expose their sizes. Each compressed buffer begins with its
unpacked size, and the metadata, tables of FlatBuffers, state where the buffers are
(https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from pricekit.errors import DataError

MAX_OPEN_BYTES = 256 << 20
"""All columns of a batch, or all dictionaries, unpacked."""

_MAGIC = b"ARROW1"
_DICTIONARIES, _BATCHES = 2, 3
"""Fields of the footer."""
_HEADER, _DATA, _BUFFERS, _COMPRESSION = 2, 1, 2, 3
"""Fields of a message, of a dictionary in it, and of a batch."""


def batch_bytes(path: Path) -> int:
    """Return the bytes of the largest batch that is not compressed, 0 if all are.

    Raises:
        DataError: a batch that is compressed, or all dictionaries, are too large.
        ValueError, OSError: the file is not complete.
    """
    if path.stat().st_size < 2 * len(_MAGIC):
        raise ValueError("Not an Arrow file")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[-len(_MAGIC) :] != _MAGIC:
            raise ValueError("Not an Arrow file")
        try:
            return _largest(path, data)
        except (struct.error, IndexError):
            raise ValueError("its metadata are damaged") from None


def _largest(path: Path, data: mmap.mmap) -> int:
    end = len(data) - len(_MAGIC) - 4
    footer = _root(data, end - _number(data, "i", end))
    largest = dictionaries = 0
    for kind in (_DICTIONARIES, _BATCHES):
        for number, (start, length, body) in enumerate(_blocks(data, footer, kind)):
            unpacked = _unpacked(data, start, length, kind == _DICTIONARIES)
            largest = max(largest, 0 if unpacked else body)
            dictionaries += (unpacked or body) if kind == _DICTIONARIES else 0
            if max(unpacked, dictionaries) > MAX_OPEN_BYTES:
                what = f"batch {number}" if kind == _BATCHES else "dictionaries"
                raise DataError(
                    f"{path}: {what} would take more than {MAX_OPEN_BYTES >> 20} MB. Write it with smaller batches.",
                    parameters=("table",),
                )
    return largest


def _blocks(data: mmap.mmap, footer: int, field: int) -> Iterator[tuple[int, int, int]]:
    """Yield the place of each message of a kind, and the bytes of its metadata and of its body."""
    for at in _vector(data, footer, field, 24):
        start, length, body = struct.unpack_from("<qi4xq", data, at)
        if min(start, length, body) < 0 or start + length + body > len(data):
            raise IndexError
        yield start, length, body


def _unpacked(data: mmap.mmap, start: int, length: int, is_dictionary: bool) -> int:
    """Return how many bytes the columns of a message take, 0 if they are not compressed."""
    message = _root(data, start + (8 if _number(data, "I", start) == 0xFFFFFFFF else 4))
    batch = _table(data, message, _HEADER)
    if batch and is_dictionary:
        batch = _table(data, batch, _DATA)
    if not batch or not _field(data, batch, _COMPRESSION):
        return 0
    size = 1
    for at in _vector(data, batch, _BUFFERS, 16):
        place, packed = struct.unpack_from("<qq", data, at)
        if packed > 0:
            size += max(_number(data, "q", start + length + place), packed)
    return size


def _number(data: mmap.mmap, kind: str, at: int) -> int:
    if at < 0:
        raise IndexError
    return int(struct.unpack_from(f"<{kind}", data, at)[0])


def _root(data: mmap.mmap, at: int) -> int:
    return at + _number(data, "I", at)


def _field(data: mmap.mmap, table: int, field: int) -> int:
    """Return the place of a field of a table, 0 if it has none."""
    fields = table - _number(data, "i", table)
    place = 4 + 2 * field
    offset = _number(data, "H", fields + place) if place < _number(data, "H", fields) else 0
    return table + offset if offset else 0


def _table(data: mmap.mmap, table: int, field: int) -> int:
    """Return the place of a table in a field, 0 if it has none."""
    at = _field(data, table, field)
    return _root(data, at) if at else 0


def _vector(data: mmap.mmap, table: int, field: int, size: int) -> range:
    """Return the places of the structures in a field."""
    at = _table(data, table, field)
    count = _number(data, "I", at) if at else 0
    if at + 4 + count * size > len(data):
        raise IndexError
    return range(at + 4, at + 4 + count * size, size)
