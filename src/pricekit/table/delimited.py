"""CSV, TSV and TXT: every row of the file becomes one row of the table.

The parts of a file in which quotes stand only around cells, and all rows have as many fields as the header, are read
with Arrow. The others are read with the standard library's `csv`, row by row: faster parsers guess types, drop lines
that they cannot parse, or mishandle quotes.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import TextIOWrapper
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as csv_of_arrow

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
from pricekit.table.encoding import BYTES, Charset, bytes_of, open_text
from pricekit.table.table import Notices
from pricekit.wording import shorten

MAX_CHUNK_CHARS = 4 << 20
_MAX_ROW_CELLS = 2 << 20
_MAX_CELL_CHARS = 32 << 20
_ROW_CHARS = 1024
"""Characters that are read at once for each row of a chunk."""
_BLOCK_CHARS = 1 << 20
"""Characters that are read at once at most."""
_CLEAN_COLUMNS = 1000
"""Rows with more fields are divided by `csv`."""
_MARK = codecs.BOM_UTF8.decode(BYTES)
_QUOTE, _BREAK, _RETURN = map(ord, '"\n\r')
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
    with _opened(path, layout, read_warnings) as opened:
        first = opened.first()
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
        is_header = not layout.names or column_names_of(first[1]) == names
        known = [] if is_header else [first]
        yield from opened.chunks(names, places_of(str(path), names, wanted), rows, known)


def first_row(path: Path, layout: Layout) -> list[str]:
    """Return the fields of the first row of a file, [] for an empty file."""
    with _opened(path, layout, ReadWarnings()) as opened:
        first = opened.first()
        return [] if first is None else first[1]


@contextmanager
def _opened(path: Path, layout: Layout, read_warnings: ReadWarnings) -> Iterator[_Rows]:
    """Open a file; UTF-8 is not decoded before its rows are divided, because Arrow reads it."""
    is_utf8 = layout.charset.name in ("utf-8", "utf-8-sig") and layout.delimiter.isascii()
    with open_text(path, layout.charset, newline="", undecoded=is_utf8) as stream:
        yield _Rows(path, stream, layout.delimiter, read_warnings, layout.charset if is_utf8 else None)


@dataclass
class _Rows:
    """The rows of an open text.

    Attributes:
        path: of the file.
        stream: the text behind the rows that were read.
        delimiter: between the fields.
        read_warnings: counts repairs.
        undecoded: the encoding of the text, whose characters are bytes; None if it is decoded.
        line: the line on which the next row begins.
        width: fields of the first row; 0 before it is read.
    """

    path: Path
    stream: TextIOWrapper
    delimiter: str
    read_warnings: ReadWarnings
    undecoded: Charset | None
    line: int = 1
    width: int = 0

    def __post_init__(self) -> None:
        # The limit applies to the whole process, so it is only ever raised.
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL_CHARS))
        begin_chunk(self.stream, self.delimiter)

    def first(self) -> Record | None:
        """Return the first row that is not blank and does not declare the delimiter, None if there is none."""
        while line := self._next_lines(0):
            if self.line == 1 and self.undecoded is not None:
                line = line.removeprefix(_MARK)
            for record in self._records(line):
                return record
        return None

    def chunks(
        self, names: Sequence[str], places: Sequence[int], rows: int, known: Sequence[Record]
    ) -> Iterator[RawChunk]:
        """Yield chunks as `read_delimited` does.

        Args:
            names: of all columns.
            places: of the columns to keep.
            rows: the maximum number of rows in a chunk.
            known: the first row, if it was read already.
        """
        rows = max(1, min(rows, MAX_CHUNK_CELLS // len(places)))
        size = min(_BLOCK_CHARS, MAX_CHUNK_CHARS, rows * _ROW_CHARS)
        parser = _Parser(self.delimiter, len(names), places)
        kept = [names[place] for place in places]
        rest, waiting = "", None
        for chunk in self._divided(names, places, rows, known):
            waiting = chunk.columns
        while text := rest + (more := self._next_lines(size, rest)):
            end = _end_of_rows(text) if more else len(text)
            block, rest = text[:end], text[end:]
            columns = parser.columns(self._bytes(block))
            if columns is not None:
                self.line += block.count("\n")
                columns = columns.rename_columns(kept)
                columns = columns if waiting is None else pa.concat_tables([waiting, columns])
                full = len(columns) // rows * rows
                waiting = columns.slice(full)
                if waiting.nbytes >= MAX_CHUNK_CHARS:
                    full, waiting = len(columns), None
                yield from self._cut(columns.slice(0, full), rows)
            else:
                rest = ""
                if waiting is not None:
                    yield from self._cut(waiting, rows)
                    waiting = None
                yield from self._divided(names, places, rows, self._records(text))
        if waiting is not None:
            yield from self._cut(waiting, rows)

    def _cut(self, columns: pa.Table, rows: int) -> Iterator[RawChunk]:
        for start in range(0, len(columns), rows):
            part = columns.slice(start, rows)
            yield RawChunk(part, np.zeros(len(part), bool), bytes_of(self.stream).position)

    def _next_lines(self, characters: int, rest: str = "") -> str:
        """Return so many characters behind `rest`, and the end of their last line; "" at the end of the file."""
        parts = [rest]
        try:
            for part in range(0, characters, MAX_CHUNK_CELLS):
                begin_chunk(self.stream, self.delimiter)
                parts.append(self.stream.read(min(MAX_CHUNK_CELLS, characters - part)))
            begin_chunk(self.stream, self.delimiter)
            return "".join([*parts[1:], self.stream.readline()])
        except TooMuchError:
            text = "".join(parts)
            end = _end_of_rows(text[: text.rfind("\n") + 1])
            raise self._too_large(self.line + text.count("\n", 0, end)) from None

    def _records(self, text: str) -> Iterator[Record]:
        """Yield the rows that begin in the next lines of the text and are not blank, as `csv` divides them.

        The first row of the file is left out if it declares the delimiter.
        """
        lines = io.StringIO(text, newline="").readlines()
        ended: list[bool] = []
        reader = csv.reader(chain(lines, self.stream, _at_end(ended)), delimiter=self.delimiter)
        before = self.line
        while reader.line_num < len(lines):
            first_line = self.line
            try:
                fields = next(reader)
            except (TooMuchError, csv.Error):
                raise self._too_large(first_line) from None
            if ended:  # the reader asked for another line in the middle of this row
                self._end_in_quotes(fields, first_line)
            self.line = before + reader.line_num
            if fields and (self.width or fields != _EXCEL_ROW):
                self.width = self.width or len(fields)
                if self.line > first_line + 1 and self.width > 2:
                    self._count_quoted_lines(fields, first_line)
                yield first_line, list(map(self._decoded, fields))
            elif not fields:
                begin_chunk(self.stream, self.delimiter)

    def _bytes(self, text: str) -> bytes:
        """Return a part of the text in UTF-8; b"" if that is impossible, because of lone surrogates."""
        try:
            return text.encode("utf-8" if self.undecoded is None else BYTES)
        except UnicodeEncodeError:
            return b""

    def _decoded(self, text: str) -> str:
        if self.undecoded is None or text.isascii():
            return text
        return text.encode(BYTES).decode("utf-8", self.undecoded.errors)

    def _too_large(self, line: int) -> DataError:
        return DataError(
            f"{self.path}: the row that begins on line {line:,} is too large: at most {MAX_ROW_BYTES >> 20} MB, "
            f"{_MAX_ROW_CELLS:,} fields, and {_MAX_CELL_CHARS:,} characters in a cell are expected. Perhaps a quote "
            "opens there and never closes. Fix or delete the row.",
            parameters=("table",),
            line=line,
        )

    def _count_quoted_lines(self, fields: list[str], line: int) -> None:
        """Count the lines of a cell that look like rows, because stray quotes enclose them."""
        rows_inside = _rows_inside(self.delimiter, self.width)
        for cell in fields:
            if re.fullmatch(rows_inside, cell):
                self.read_warnings.quoted_lines += cell.count("\n")
                self.read_warnings.first_quoted_line = self.read_warnings.first_quoted_line or line
                return

    def _end_in_quotes(self, fields: list[str], line: int) -> None:
        """Keep the last row of a file that was cut off in a cell; raise DataError if the open quote encloses rows."""
        enclosed = fields[-1].splitlines()[1:]
        rows = sum(len(row) == self.width for row in csv.reader(enclosed, delimiter=self.delimiter))
        if not self.width or (self.width > 1 and rows * 2 > len(enclosed)):
            raise DataError(
                f"{self.path}: a quote opens in the row on line {line:,} and never closes, so the {len(enclosed):,} "
                'lines after it would be one cell. Close the quote, or write a quote inside a text as "".',
                parameters=("table",),
                line=line,
            )
        self.read_warnings.ends_in_quotes = True

    def _divided(
        self, names: Sequence[str], places: Sequence[int], rows: int, records: Iterable[Record]
    ) -> Iterator[RawChunk]:
        """Yield the chunks of rows that `csv` has divided into fields."""
        width, read_warnings = len(names), self.read_warnings
        table: list[Sequence[str]] = []
        ragged: list[int] = []
        chars = counted = 0
        kept = [names[place] for place in places]
        pick = None if len(places) == width else itemgetter(*places) if len(places) > 1 else _only(places[0])
        for line, fields in records:
            counted += len(fields)
            if len(fields) > _MAX_ROW_CELLS:
                raise self._too_large(line)
            fits = len(fields) == width or _fit(fields, width, read_warnings)
            if not fits or read_warnings.ends_in_quotes:  # true for the last row only
                read_warnings.ragged += 1
                read_warnings.first_ragged_line = read_warnings.first_ragged_line or line
                ragged.append(len(table))
            size = sum(map(len, fields))
            if size > RAW_TEXT_CHARS:
                if size > MAX_ROW_BYTES:
                    raise self._too_large(line)
                fields = [cell[:RAW_TEXT_CHARS] for cell in fields]
            cells: Sequence[str] = fields if pick is None else pick(fields)
            table.append(cells)
            chars += size if pick is None else sum(map(len, cells))
            counted += size
            is_full = len(table) >= rows or chars >= MAX_CHUNK_CHARS
            if is_full:
                yield _chunk(kept, table, ragged, self.stream)
                table, ragged, chars = [], [], 0
            if is_full or counted >= MAX_CHUNK_CELLS:  # cells that are not kept take no memory
                begin_chunk(self.stream, self.delimiter)
                counted = 0
        if table:
            yield _chunk(kept, table, ragged, self.stream)


class _Parser:
    """Divides rows into fields with Arrow, if `csv` would do the same.

    Args:
        delimiter: between the fields.
        width: fields of a row.
        places: of the fields to keep.
    """

    def __init__(self, delimiter: str, width: int, places: Sequence[int]) -> None:
        names = [str(place) for place in range(width)]
        self._mark = ord(delimiter) if delimiter.isascii() and width <= _CLEAN_COLUMNS else None
        self._kept = [names[place] for place in places]
        self._rows_inside = f"^(?:{_rows_inside(delimiter, width)})$" if width > 2 and self._mark else ""
        self._read = csv_of_arrow.ReadOptions(use_threads=False, block_size=1 << 30, column_names=names)
        self._parse = (
            csv_of_arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True) if self._mark else None
        )
        types = dict.fromkeys(names, pa.large_string())
        self._convert = csv_of_arrow.ConvertOptions(column_types=types, strings_can_be_null=False)

    def columns(self, data: bytes) -> pa.Table | None:
        """Return the fields to keep of whole rows, in UTF-8; None if `csv` has to divide them."""
        if self._mark is None or not data or b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
            return None
        if b'"' in data and not self._quotes_only_cells(np.frombuffer(data, np.uint8)):
            return None
        try:
            table = csv_of_arrow.read_csv(pa.BufferReader(data), self._read, self._parse, self._convert)
        except pa.ArrowInvalid:  # such as a row with more fields, or another encoding
            return None
        if any((pc.max(pc.binary_length(cells)).as_py() or 0) > RAW_TEXT_CHARS for cells in table.columns):
            return None
        if self._rows_inside and data.count(b"\n") > len(table):
            for column in table.columns:
                if pc.any(pc.match_substring_regex(column, self._rows_inside)).as_py():
                    return None
        return table.select(self._kept)

    def _quotes_only_cells(self, data: np.ndarray) -> bool:
        """Return whether quotes stand only around cells, and are doubled within."""
        quote = np.flatnonzero(data == _QUOTE)
        if len(quote) % 2:
            return False
        before, behind = quote[::2] - 1, quote[1::2] + 1
        before, behind = data[before[before >= 0]], data[behind[behind < len(data)]]
        is_begun = (before == self._mark) | (before == _BREAK) | (before == _QUOTE)
        is_ended = (behind == self._mark) | (behind == _BREAK) | (behind == _RETURN) | (behind == _QUOTE)
        return bool(is_begun.all() and is_ended.all())


def _end_of_rows(text: str) -> int:
    """Return where the last row ends behind which no quote is open, in whole lines; 0 without such a row."""
    end, quotes = len(text), text.count('"')
    while quotes % 2:
        start = text.rfind("\n", 0, end - 1) + 1
        quotes -= text.count('"', start, end)
        end = start
    return end


@cache
def _rows_inside(delimiter: str, width: int) -> str:
    """Return the expression of a cell in which stray quotes enclose rows; a single such line may be an address."""
    mark = re.escape(delimiter)
    field = rf"[^{mark}\n]*"
    return rf"[^\n]*\n(?:(?:{field}{mark}){{{width - 1}}}{field}\n){{2,}}[^\n]*"


def begin_chunk(stream: TextIOWrapper, delimiter: str = "") -> None:
    """Begin to count the bytes of a chunk, and of the row that completes it; more of them raise `TooMuchError`."""
    mark = delimiter.encode() if delimiter.isascii() else b""
    bytes_of(stream).expect(4 * MAX_CHUNK_CHARS + MAX_ROW_BYTES, mark, MAX_CHUNK_CELLS + _MAX_ROW_CELLS)


def _at_end(ended: list[bool]) -> Iterator[str]:
    """Note that the lines before this iterator have ended; yield nothing."""
    ended.append(True)
    yield from ()


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
