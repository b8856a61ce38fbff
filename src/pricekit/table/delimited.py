"""CSV, TSV and TXT, read with the standard library's `csv`: every row of the file becomes one row of the table.

Faster parsers guess types, drop lines that they cannot parse, or mishandle quotes when several threads read. This one
does not, and takes an eighth of the time of the fastest prediction.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.io.compression import TooMuchError
from pricekit.table.columns import (
    MAX_CHUNK_CELLS,
    MAX_ROW_BYTES,
    MOST_COLUMNS,
    RAW_TEXT_CHARS,
    RawChunk,
    ReadWarnings,
    column_names_of,
    places_of,
    repeated,
    text_array,
    too_many_columns,
)
from pricekit.table.encoding import Charset, bytes_of, open_text
from pricekit.table.table import Notices
from pricekit.wording import shorten

MAX_CHUNK_CHARS = 4 << 20
_MAX_ROW_CELLS = 2 << 20
_MAX_CELL_CHARS = 32 << 20
_SAMPLE_CHARS = 1 << 18
_SAMPLE_ROWS = 200
_MIN_SHARE = 0.9  # of rows with equally many fields
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}

_EXCEL = re.compile(r"sep=([^\w\r\n\"])\r?\n", re.IGNORECASE)
_EXCEL_ROW = ["sep=", ""]
"""The first row (split) of a file that declares its delimiter to Excel; it is not the header."""

TITLE_HINT = " If the first line is a title above the header, delete it."

_AROUND_COMMA = re.compile(r"(?<=(.)),(?=(.))")
_LIKE_A_VALUE = re.compile(
    r"https?://.*|[^\w\s]*\s*\d[\d.,\s']*\s*[^\w\s]*|\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b.*", re.DOTALL
)


def detect_delimiter(path: Path, charset: Charset, expected: str | None, notices: Notices) -> str:
    """Return the delimiter that the first rows show, and report it unless it is `expected` for the suffix."""
    with open_text(path, charset, newline="") as stream:
        text = stream.read(_SAMPLE_CHARS)
    if len(text) == _SAMPLE_CHARS:  # the last row may be incomplete
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    delimiter = guess_delimiter(text, expected or ",")
    if delimiter != expected:
        notices(
            f"{path}: the detected delimiter is {NAMES.get(delimiter, repr(delimiter))}. Set delimiter if that is "
            "wrong."
        )
    return delimiter


def guess_delimiter(text: str, default: str) -> str:
    """Return the delimiter that splits the first rows into the same number of fields, or `default`; respects quotes."""
    if hint := _EXCEL.match(text):
        return hint[1]
    fits: dict[str, tuple[bool, bool, bool, int]] = {}
    commas = [before.isdigit() and after.isdigit() for before, after in _AROUND_COMMA.findall(text)]
    are_decimals = sum(commas) * 2 > len(commas)  # they also occur in sentences, so they need more evidence
    for mark in NAMES:
        width, alike = _width(text, mark)
        if width > 1 and alike >= 0.5:
            fits[mark] = alike >= _MIN_SHARE, mark != "," or not are_decimals, mark == default, width
    return max(fits, key=lambda mark: fits[mark]) if fits else default


def looks_like_data(header: Sequence[str]) -> str | None:
    """Return the first name of a header that looks like a value: a number, a price, a date or a web address."""
    return next((name for name in header if _LIKE_A_VALUE.fullmatch(name)), None)


def _width(text: str, mark: str) -> tuple[int, float]:
    """Return the number of fields of the first row, and the share of rows with the same number."""
    try:
        rows = filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=mark))
        widths = [len(row) for row in islice(rows, _SAMPLE_ROWS)]
    except csv.Error:
        return 0, 0.0
    return (widths[0], widths.count(widths[0]) / len(widths)) if widths else (0, 0.0)


Record = tuple[int, list[str]]  # the line on which a row begins, and its fields


@dataclass(frozen=True)
class Layout:
    """The encoding and delimiter of a file, and its column names if it has no header."""

    charset: Charset
    delimiter: str
    names: tuple[str, ...] = ()


def read_delimited(
    path: Path,
    layout: Layout,
    rows: int,
    read_warnings: ReadWarnings,
    wanted: frozenset[str] | None = None,
) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows, `MAX_CHUNK_CELLS` cells or about `MAX_CHUNK_CHARS` characters, all text.

    A row with fewer fields than the header is filled with "", one with more is cut. Both are marked as ragged, except
    rows whose fields beyond the header are all empty, which are counted. Of the columns, only those that are `wanted`
    are kept, or all.

    Raises:
        DataError: too many columns, no header, data instead of a header, more names than fields, a different encoding,
            a row of more than `MAX_ROW_BYTES`, or a quote that is never closed and so encloses the rows after it.
    """
    with open_text(path, layout.charset, newline="") as stream:
        records = _records(path, stream, layout.delimiter, read_warnings)
        first = next(records, None)
        if first is None:
            raise NoRowsError(
                f"{path} has no rows: the file is empty. A header and at least one row are expected.",
                parameters=("table",),
            )
        if len(first[1]) > MOST_COLUMNS:
            raise too_many_columns(str(path), MOST_COLUMNS)
        if not layout.names:
            names = header_names(path, first[1], read_warnings)
        else:
            names = named_columns(path, layout.names, first[1])
            if column_names_of(first[1]) != names:
                records = chain([first], records)
        places = places_of(str(path), names, wanted)
        yield from _chunks(path, names, places, records, stream, layout.delimiter, rows, read_warnings)


def first_row(path: Path, layout: Layout) -> list[str]:
    """Return the fields of the first row of a file, [] for an empty file."""
    with open_text(path, layout.charset, newline="") as stream:
        records = _records(path, stream, layout.delimiter, ReadWarnings())
        return next((fields for _, fields in records), [])


def _records(
    path: Path, stream: TextIOWrapper, delimiter: str, read_warnings: ReadWarnings
) -> Iterator[Record]:
    """Yield the rows that are not blank, without a first one that declares the delimiter."""
    # The limit applies to the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL_CHARS))
    begin_chunk(stream, delimiter)
    ended: list[bool] = []
    reader = csv.reader(chain(stream, _at_end(ended)), delimiter=delimiter)
    first_line = 1
    width = 0
    try:
        for fields in reader:
            if ended:  # the reader asked for another line in the middle of this row
                _end_in_quotes(path, fields, first_line, width, delimiter, read_warnings)
            if fields and (width or fields != _EXCEL_ROW):
                width = width or len(fields)
                if reader.line_num > first_line and (lines := _quoted_lines(fields, width, delimiter)):
                    read_warnings.quoted_lines += lines
                    read_warnings.first_quoted_line = read_warnings.first_quoted_line or first_line
                yield first_line, fields
            elif not fields:
                begin_chunk(stream, delimiter)
            first_line = reader.line_num + 1
    except (TooMuchError, csv.Error):
        raise _too_large(path, first_line) from None


def _too_large(path: Path, line: int) -> DataError:
    return DataError(
        f"{path}: the row that begins on line {line:,} is too large: at most {MAX_ROW_BYTES >> 20} MB, "
        f"{_MAX_ROW_CELLS:,} fields, and {_MAX_CELL_CHARS:,} characters in a cell are expected. Perhaps a quote opens "
        "there and never closes. Fix or delete the row.",
        parameters=("table",),
        line=line,
    )


def begin_chunk(stream: TextIOWrapper, delimiter: str = "") -> None:
    """Begin to count the bytes of a chunk, and of the row that completes it; more of them raise `TooMuchError`."""
    mark = delimiter.encode() if delimiter.isascii() else b""
    bytes_of(stream).expect(4 * MAX_CHUNK_CHARS + MAX_ROW_BYTES, mark, MAX_CHUNK_CELLS + _MAX_ROW_CELLS)


def _at_end(ended: list[bool]) -> Iterator[str]:
    """Note that the lines before this iterator have ended; yield nothing."""
    ended.append(True)
    yield from ()


def _quoted_lines(fields: list[str], width: int, delimiter: str) -> int:
    """Return how many lines of a cell look like rows, because stray quotes enclose them; 0 for prose."""
    for cell in fields if width > 2 else ():
        start = cell.find("\n")
        end = cell.find("\n", start + 1) if start >= 0 else -1
        if end >= 0 and cell.count(delimiter, start, end) >= width - 1:
            inner = cell.splitlines()[1:-1]
            # A single such line may be an address.
            if len(inner) > 1 and all(line.count(delimiter) == width - 1 for line in inner):
                return len(inner) + 1
    return 0


def _end_in_quotes(
    path: Path, fields: list[str], line: int, width: int, delimiter: str, read_warnings: ReadWarnings
) -> None:
    """Keep the last row of a file that was cut off inside a cell; raise DataError if the open quote encloses rows."""
    enclosed = fields[-1].splitlines()[1:]
    rows = sum(len(row) == width for row in csv.reader(enclosed, delimiter=delimiter))
    if not width or (width > 1 and rows * 2 > len(enclosed)):
        raise DataError(
            f"{path}: a quote opens in the row on line {line:,} and never closes, so the {len(enclosed):,} "
            'lines after it would be one cell. Close the quote, or write a quote inside a text as "".',
            parameters=("table",),
            line=line,
        )
    read_warnings.ends_in_quotes = True


def header_names(path: Path, fields: list[str], read_warnings: ReadWarnings) -> list[str]:
    """Return the names of the columns; the second and later columns with the same name get a number."""
    names = column_names_of(fields)
    twice = repeated(names)
    if twice and (value := looks_like_data(names)):
        duplicates = ", ".join(repr(shorten(name)) for name in twice[:5])
        raise DataError(
            f"{path}: the first line has {duplicates} more than once and looks like data ({shorten(value)!r}), not "
            f"like a header. If the file has no header, name its {len(names)} columns, in their order.",
            parameters=("columns",),
            duplicates=twice,
        )
    read_warnings.duplicate_names = tuple(twice)
    original, next_number = set(names), dict.fromkeys(names, 2)
    used: dict[str, None] = {}
    for name in names:
        new = name
        while new in used or (new != name and new in original):
            new = f"{name} ({next_number[name]})"
            next_number[name] += 1
        used[new] = None
    return list(used)


def named_columns(path: Path, names: tuple[str, ...], first: list[str]) -> list[str]:
    """Return the user's names; further fields are named by their number; raises DataError for too many names."""
    if len(names) > len(first):
        raise DataError(
            f"{path}: {len(names)} column names were given, but the first row has {len(first)} fields. Set one name "
            "per field, or the right delimiter.",
            parameters=("columns", "delimiter"),
            names=list(names),
            fields=len(first),
        )
    return [*names, *(f"column {number}" for number in range(len(names) + 1, len(first) + 1))]


def _chunks(
    path: Path,
    names: list[str],
    places: list[int],
    records: Iterator[Record],
    stream: TextIOWrapper,
    delimiter: str,
    rows: int,
    read_warnings: ReadWarnings,
) -> Iterator[RawChunk]:
    width = len(names)
    rows = max(1, min(rows, MAX_CHUNK_CELLS // len(places)))
    table: list[Sequence[str]] = []
    ragged: list[int] = []
    chars = counted = 0
    kept = [names[place] for place in places]
    pick = None if len(places) == width else itemgetter(*places) if len(places) > 1 else _only(places[0])
    for line, fields in records:
        counted += len(fields)
        fits = len(fields) == width or _fit(fields, width, read_warnings)
        if not fits or read_warnings.ends_in_quotes:  # true for the last row only
            read_warnings.ragged += 1
            read_warnings.first_ragged_line = read_warnings.first_ragged_line or line
            ragged.append(len(table))
        size = sum(map(len, fields))
        if size > RAW_TEXT_CHARS:
            if size > MAX_ROW_BYTES:
                raise _too_large(path, line)
            fields = [cell[:RAW_TEXT_CHARS] for cell in fields]
        cells: Sequence[str] = fields if pick is None else pick(fields)
        table.append(cells)
        chars += size if pick is None else sum(map(len, cells))
        counted += size
        is_full = len(table) >= rows or chars >= MAX_CHUNK_CHARS
        if is_full:
            yield _chunk(kept, table, ragged, stream)
            table, ragged, chars = [], [], 0
        if is_full or counted >= MAX_CHUNK_CELLS:  # cells that are not kept take no memory
            begin_chunk(stream, delimiter)
            counted = 0
    if table:
        yield _chunk(kept, table, ragged, stream)


def _only(place: int) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return what keeps one field of a row."""
    return lambda fields: (fields[place],)


def _fit(fields: list[str], width: int, read_warnings: ReadWarnings) -> bool:
    """Fill or cut a row to the width of the header; return whether only empty fields were cut."""
    is_wider = any(islice(fields, width, None))
    del fields[width:]
    missing = width - len(fields)
    fields.extend([""] * missing)
    fits = missing <= 0 and not is_wider
    read_warnings.extra_empty += fits
    read_warnings.wider += is_wider
    return fits


def _chunk(
    names: list[str], table: list[Sequence[str]], ragged: list[int], stream: TextIOWrapper
) -> RawChunk:
    marks = np.zeros(len(table), dtype=bool)
    marks[ragged] = True
    cells = zip(names, zip(*table, strict=True), strict=True)
    columns = pa.table({name: text_array(column) for name, column in cells})
    return RawChunk(columns, marks, bytes_of(stream).position)
