"""CSV and TSV, read with the standard library's reader: every row of the file is one row of the table.

A faster parser guesses types, drops lines it does not understand, or counts quotes on several
threads; this one does as it is told, for an eighth of what the cheapest prediction costs.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.table.columns import text_array
from pricekit.table.formats.dialect import ANNOUNCED, looks_like_data
from pricekit.table.formats.encoding import Charset, bytes_read, open_text
from pricekit.table.model import RawChunk, ReadWarnings

MAX_CHUNK_CHARS = 64 << 20
_MAX_CELL_CHARS = 64 << 20

# Fed after the last line. A row of its own says that the file ended between two rows; at the end of
# another row it says that the file ended inside quotes, which the reader does not tell.
_END = "\0END\0"

Record = tuple[int, list[str]]  # the line of the file that a row begins on, and its fields


@dataclass(frozen=True)
class Layout:
    """How a delimited file is laid out: its encoding, its delimiter, and its column names where no header says them."""

    charset: Charset
    delimiter: str
    names: tuple[str, ...] = ()


def read_delimited(path: Path, layout: Layout, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows or about `MAX_CHUNK_CHARS` characters, every column as text.

    A row with fewer fields than the header is filled with "", one with more is cut; both are marked
    as ragged, save rows whose fields beyond the header are all empty, which are counted.

    Raises:
        DataError: no header, data in its place, more names than fields, text in another encoding, or a
            quote that is opened and swallows the rows after it.
    """
    with open_text(path, layout.charset, newline="") as stream:
        records = _records(path, stream, layout.delimiter, read_warnings)
        first = next(records, None)
        if first is not None and first[1] == ANNOUNCED:
            first = next(records, None)
        if layout.names and first is not None:
            names = _given_names(path, layout.names, first[1])
            records = (
                records if _plain_names(first[1]) == list(names[: len(first[1])]) else chain([first], records)
            )
        else:
            names = _header(path, first, read_warnings)
        yield from _chunks(names, records, stream, rows, read_warnings)


def first_row(path: Path, layout: Layout) -> list[str]:
    """Return the fields of a file's first row, none of an empty file."""
    with open_text(path, layout.charset, newline="") as stream:
        rows = (
            fields
            for _, fields in _records(path, stream, layout.delimiter, ReadWarnings())
            if fields != ANNOUNCED
        )
        return next(rows, [])


def _records(
    path: Path, stream: TextIOWrapper, delimiter: str, read_warnings: ReadWarnings
) -> Iterator[Record]:
    """Rows that are not blank."""
    # The limit belongs to the whole process; it is raised, never lowered under somebody else's feet.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL_CHARS))
    reader = csv.reader(chain(stream, [_END]), delimiter=delimiter)
    first_line = 1
    width = 0
    try:
        for fields in reader:
            if fields == [_END]:
                return
            if fields and fields[-1].endswith(_END):
                _end_in_quotes(path, fields, first_line, width, delimiter, read_warnings)
            if fields:
                width = width or len(fields)
                if reader.line_num > first_line and (swallowed := _swallowed(fields, width, delimiter)):
                    read_warnings.swallowed += swallowed
                    read_warnings.first_swallowing_line = read_warnings.first_swallowing_line or first_line
                yield first_line, fields
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}: the row that begins on line {first_line:,} cannot be read: {error}. "
            "Perhaps a quote is opened there and never closed."
        ) from None


def _swallowed(fields: list[str], width: int, delimiter: str) -> int:
    """Return how many rows a cell holds, as between two quotes that are none of the format's; 0 for prose."""
    for cell in fields:
        start = cell.find("\n")
        end = cell.find("\n", start + 1)
        if width > 2 and 0 <= start < end and cell.count(delimiter, start, end) >= width - 1:
            inner = cell.splitlines()[1:-1]
            # One line may be that of an address.
            if len(inner) > 1 and all(line.count(delimiter) == width - 1 for line in inner):
                return len(inner) + 1
    return 0


def _end_in_quotes(
    path: Path, fields: list[str], line: int, width: int, delimiter: str, read_warnings: ReadWarnings
) -> None:
    """Keep the last row of a file that was cut off inside a cell; refuse a quote that swallowed rows."""
    fields[-1] = fields[-1].removesuffix(_END)
    swallowed = fields[-1].splitlines()[1:]
    alike = sum(len(row) == width for row in csv.reader(swallowed, delimiter=delimiter))
    if not width or (width > 1 and alike * 2 > len(swallowed)):
        raise DataError(
            f"{path}: a quote opened in the row on line {line:,} is never closed, so the {len(swallowed):,} "
            'lines after it would be one cell. Close the quote, or write a quote of the text itself as "".'
        )
    read_warnings.ends_in_quotes = True


def _header(path: Path, record: Record | None, read_warnings: ReadWarnings) -> list[str]:
    """The names of the columns; of several of one name the later ones get a number."""
    if record is None:
        raise NoRowsError(
            f"{path} has no rows: the file is empty. A header and at least one row are expected."
        )
    names = _plain_names(record[1])
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice and (value := looks_like_data(names)):
        names_twice = ", ".join(repr(name[:40]) for name in twice[:5])
        raise DataError(
            f"{path}: the header names {names_twice} more than once. The first line looks like data ({value[:40]!r}), "
            f"not like a header; if the file has none, name its {len(names)} columns with --columns, in their order."
        )
    read_warnings.doubled = tuple(twice)
    return _numbered(names)


def _numbered(names: list[str]) -> list[str]:
    """Give the second and later columns of a name the next number that makes a name of its own."""
    taken, following = set(names), dict.fromkeys(names, 2)
    met: set[str] = set()
    found = []
    for name in names:
        new = name
        while new in met or (new != name and new in taken):
            new = f"{name} ({following[name]})"
            following[name] += 1
        met.add(new)
        found.append(new)
    return found


def _plain_names(fields: list[str]) -> list[str]:
    names = [unicodedata.normalize("NFC", name.replace("\0", "")).strip("\ufeff \t\r\n") for name in fields]
    return [name or f"column {number}" for number, name in enumerate(names, start=1)]


def _given_names(path: Path, names: tuple[str, ...], first: list[str]) -> list[str]:
    """The names given with --columns; fields beyond them are called by their number."""
    if len(names) > len(first):
        raise DataError(
            f"{path}: --columns has {len(names)} names, but the first row has {len(first)} fields. Give a name for "
            "each field, or the right --delimiter."
        )
    return [*names, *(f"column {number}" for number in range(len(names) + 1, len(first) + 1))]


def _chunks(
    names: list[str], records: Iterator[Record], stream: TextIOWrapper, rows: int, read_warnings: ReadWarnings
) -> Iterator[RawChunk]:
    width = len(names)
    table: list[list[str]] = []
    ragged: list[int] = []
    chars = 0
    for line, fields in records:
        fits = len(fields) == width or _fit(fields, width, read_warnings)
        if not fits or read_warnings.ends_in_quotes:  # only the last row finds the latter true
            read_warnings.ragged += 1
            read_warnings.first_ragged_line = read_warnings.first_ragged_line or line
            ragged.append(len(table))
        table.append(fields)
        chars += sum(map(len, fields))
        if len(table) >= rows or chars >= MAX_CHUNK_CHARS:
            yield _chunk(names, table, ragged, stream)
            table, ragged, chars = [], [], 0
    if table:
        yield _chunk(names, table, ragged, stream)


def _fit(fields: list[str], width: int, read_warnings: ReadWarnings) -> bool:
    """Make a row as wide as the header; True where it only had empty fields too many."""
    beyond = fields[width:]
    del fields[width:]
    missing = width - len(fields)
    fields.extend([""] * missing)
    fits = missing <= 0 and not any(beyond)
    read_warnings.surplus += fits
    read_warnings.wide += any(beyond)
    return fits


def _chunk(names: list[str], table: list[list[str]], ragged: list[int], stream: TextIOWrapper) -> RawChunk:
    marks = np.zeros(len(table), dtype=bool)
    marks[ragged] = True
    cells = zip(names, zip(*table, strict=True), strict=True)
    columns = pa.table({name: text_array(column) for name, column in cells})
    return RawChunk(columns, marks, bytes_read(stream))
