"""What the pages of a Parquet file take in memory, known before any of them is unpacked.

A file of a few kilobytes may hold a cell of a gigabyte, or one text that a million rows share. Arrow unpacks a page as
a whole, and writes the texts of a dictionary out for each row that names them. The headers of the pages, which Arrow
does not expose, state both sizes (https://parquet.apache.org/docs/file-format/). They limit how many rows are read at a
time, or the file is refused. Arrow never unpacks more than a header states, and fails if the statement is false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from pricekit.errors import DataError
from pricekit.wording import shorten

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAX_PAGE_BYTES = 64 << 20
"""The limit of a page, unpacked, and so of a cell: a page holds whole cells."""
MAX_OPEN_BYTES = 512 << 20
"""The current pages of all columns and their dictionaries together, which Arrow copies; most pages have a megabyte."""
MAX_BATCH_BYTES = 128 << 20
"""The cells of rows that are read at a time."""
MAX_ROW_BYTES = 192 << 20
"""The cells of one row, as its pages bound them."""

_DICTIONARY_PAGE = 2
_DATA_PAGES = {0: 5, 3: 8}
"""The types of pages with cells, and the fields of their headers."""
_INDEXES, _PREFIXES = (2, 8), 7
"""Encodings of cells: as places in a dictionary, and without the beginning that they share with the cell before."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_LEVELS = 16
"""Bytes for the place of a value in a list or a structure."""
_HEADER, _LONGEST_HEADER = 1 << 12, 1 << 24
_DEEPEST = 16
_MEASURED = 8 << 20
"""Larger dictionaries are not searched for their longest text; writers end dictionaries at one megabyte."""
_PADDING = 100
"""Bytes that Arrow reads behind a column, which some old writers did not count."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}


@dataclass(frozen=True)
class _Page:
    """A page: its type, its bytes in the file and unpacked, its values and their encoding; where its content begins."""

    kind: int
    packed: int
    size: int
    values: int
    encoding: int
    start: int


def rows_at_once(
    path: Path, file: pq.ParquetFile, group: int, most: int, names: list[str] | None = None
) -> tuple[int, list[str]]:
    """Return how many rows of a row group fit into memory at a time, and the columns of lists that may still not fit.

    How many values a row has in a list is not known before they are unpacked, so the latter must be tried.

    Args:
        path: the file.
        file: the same, opened.
        group: the number of the row group.
        most: the highest number of rows to return; the lowest is 1.
        names: the columns to read; None: all.

    Raises:
        DataError: a page, or the pages that are open at a time, are too large.
        ValueError, OSError: a header is damaged.
    """
    facts = file.metadata.row_group(group)
    columns = []
    with open(path, "rb") as stream:
        for number in range(facts.num_columns):
            path_in_schema = file.schema.column(number).path
            if names is not None and not any(f"{path_in_schema}.".startswith(f"{name}.") for name in names):
                continue
            columns.append(_Column(stream, facts.column(number), file.schema.column(number)))
            if max(columns[-1].largest, columns[-1].dictionary) > MAX_PAGE_BYTES:
                raise _too_large(path, group, columns[-1].name, MAX_PAGE_BYTES)
        if sum(column.largest + 2 * column.dictionary for column in columns) > MAX_OPEN_BYTES:
            raise _too_large(path, group, None, MAX_OPEN_BYTES)
        unknown = [
            column.name
            for column in columns
            if column.is_nested and column.all_bytes(stream) > MAX_OPEN_BYTES
        ]
        flat = [column for column in columns if not column.is_nested]
        while most > 1 and sum(column.most_bytes(most) for column in flat) > MAX_BATCH_BYTES:
            widest = sorted(flat, key=lambda column: -column.repeated)
            if not any(column.measure(stream) for column in widest):
                most //= 2
        if sum(column.most_bytes(1) for column in flat) > MAX_ROW_BYTES:
            raise _too_large(path, group, None, MAX_ROW_BYTES)
    return max(most, 1), unknown


class _Column:
    """The pages of a column in a row group.

    Attributes:
        name: the name of the column.
        is_nested: a row has any number of values.
        largest: the bytes of the largest page.
        dictionary: the bytes of the dictionary, 0 if there is none.
        repeated: the bytes that each row may take, however small the pages are.
    """

    def __init__(self, stream: BinaryIO, chunk: Any, schema: Any) -> None:
        self.name, self.is_nested = chunk.path_in_schema, schema.max_repetition_level > 0
        self._codec = chunk.compression
        pages = list(_pages(stream, chunk))
        data = [page for page in pages if page.kind in _DATA_PAGES]
        dictionaries = [page for page in pages if page.kind == _DICTIONARY_PAGE]
        self._sizes = [(page.values, page.size) for page in data]
        self._dictionary = max(dictionaries, key=lambda page: page.size, default=None)
        self.largest = max((page.size for page in data), default=0)
        self.dictionary = sum(page.size for page in dictionaries)
        self._width = _WIDTHS.get(chunk.physical_type, max(schema.length or 0, 0))
        self.repeated, self._prefixed = self._width, 0
        if not self._width:
            self._prefixed = max((page.size for page in data if page.encoding == _PREFIXES), default=0)
            self.repeated = max(self._prefixed, self.dictionary)
        self._is_measured = self.dictionary > _MEASURED or self._codec not in (*_CODECS, "UNCOMPRESSED")

    def most_bytes(self, rows: int) -> int:
        """Return how many bytes so many rows may take, of a column that is not nested."""
        return rows * self.repeated + (0 if self._width else self._window(rows))

    def all_bytes(self, stream: BinaryIO) -> int:
        """Return how many bytes all rows may take."""
        values = sum(values for values, _ in self._sizes)
        if values * self.repeated > MAX_OPEN_BYTES:
            self.measure(stream)
        return values * (_LEVELS + self.repeated) + sum(size for _, size in self._sizes)

    def measure(self, stream: BinaryIO) -> bool:
        """Look for the longest text of the dictionary; return whether that was not yet known."""
        if self._is_measured or self._width or self._dictionary is None:
            return False
        self._is_measured = True
        stream.seek(self._dictionary.start)
        content: Any = stream.read(self._dictionary.packed)
        if self._codec in _CODECS:
            content = pa.Codec(_CODECS[self._codec]).decompress(content, self._dictionary.size)
        before, self.repeated = self.repeated, max(self._prefixed, _longest(memoryview(content)))
        return self.repeated < before

    def _window(self, rows: int) -> int:
        """Return how large consecutive pages are, at most, that so many consecutive rows may touch."""
        largest = size = inner = first = 0
        for values, page in self._sizes:
            size += page
            while inner >= rows:  # of the pages between the first and this one
                size -= self._sizes[first][1]
                first += 1
                inner -= self._sizes[first][0]
            largest = max(largest, size)
            inner += values if size > page else 0
        return largest


def _longest(texts: memoryview) -> int:
    """Return the length of the longest of the texts of a dictionary, which stand one behind the other."""
    longest = at = 0
    while at + 4 <= len(texts):
        length = int.from_bytes(texts[at : at + 4], "little")
        longest = max(longest, length)
        at += 4 + length
    return longest


def _too_large(path: Path, group: int, column: str | None, most: int) -> DataError:
    where = "its columns together" if column is None else f"the column {shorten(column)!r}"
    return DataError(
        f"{path}: in row group {group}, {where} would take more than {most >> 20} MB at a time. Write it with smaller "
        "cells, pages and row groups.",
        parameters=("table",),
        column=column,
        row_group=group,
    )


def _pages(stream: BinaryIO, chunk: Any) -> Iterator[_Page]:
    """Yield the pages of a column in a row group as Arrow finds them."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
        at = chunk.dictionary_page_offset
    end, left = at + chunk.total_compressed_size + _PADDING, chunk.num_values
    while at < end and left > 0:
        fields, start = _header(stream, at)
        kind, size, packed = (_whole(fields, number) for number in (1, 2, 3))
        values, encoding = 0, -1
        if kind in _DATA_PAGES:
            header = fields.get(_DATA_PAGES[kind])
            values, encoding = _whole(header, 1), _whole(header, 2 if kind == 0 else 4)
            left -= values
        yield _Page(kind, packed, size, values, encoding, start)
        at = start + packed


def _whole(fields: Any, number: int) -> int:
    """Return a field that is a number of at least 0."""
    value = fields.get(number) if isinstance(fields, dict) else None
    if type(value) is not int or value < 0:
        raise ValueError("the header of a page is incomplete")
    return value


def _header(stream: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of the header of a page by their numbers, and where the content of the page begins."""
    size = _HEADER
    while True:
        stream.seek(at)
        data = stream.read(size)
        try:
            fields, length = _struct(data, 0, 0)
            return fields, at + length
        except IndexError:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise ValueError("the header of a page is damaged") from None
            size *= 8


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return a structure of Thrift's compact protocol, and where it ends; IndexError if the data end before."""
    fields: dict[int, Any] = {}
    number = 0
    if depth > _DEEPEST:
        raise ValueError("the header of a page is nested too deeply")
    while byte := data[at]:
        at += 1
        if byte >> 4:
            number += byte >> 4
        else:
            value, at = _number(data, at)
            number = (value >> 1) ^ -(value & 1)
        kind = byte & 15
        if kind in (1, 2):
            fields[number] = kind == 1
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        value, at = _number(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 12:
        return _struct(data, at, depth + 1)
    if kind == 8:
        length, at = _number(data, at)
    elif kind in (3, 7):
        length = 1 if kind == 3 else 8
    else:
        raise ValueError("the header of a page has lists")
    if at + length > len(data):
        raise IndexError
    return None, at + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("the header of a page has a number that is too large")
