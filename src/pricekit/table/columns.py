"""Convert whole raw columns to clean text and to pandas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.table.table import MAX_TEXT_CHARS, column_name
from pricekit.table.vectors import as_vectors, is_list_of_numbers, pandas_type
from pricekit.text.labelled_lines import FEW_TEXTS
from pricekit.wording import shorten

_NULLABLE = {
    getattr(pa, kind.lower())(): pd.api.types.pandas_dtype(kind)
    for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 and 9999, counted from 1970."""

_ZEROS = r"(\.[0-9]*[1-9])0+((?:Z|[+-][0-9]{4})?)$|\.0+((?:Z|[+-][0-9]{4})?)$"
"""Zeros behind the second of a time."""

RAW_TEXT_CHARS = 4 * MAX_TEXT_CHARS
"""Readers cut cells to so many characters, before anything is done with them; `clean` cuts to `MAX_TEXT_CHARS`."""
MAX_ROW_BYTES = 64 << 20
"""No row of a text file may have more bytes, because it is read as a whole; a character takes up to four in memory."""
MAX_CHUNK_CELLS = 2 << 20
"""A chunk of a text file has about as many cells at most."""

NOT_FOR_PANDAS = (pa.ArrowException, ValueError, OverflowError)
"""The errors of values that Python or pandas cannot hold."""


@dataclass(frozen=True)
class RawChunk:
    """Consecutive rows as read from a file, unchanged.

    Attributes:
        columns: the columns, unchanged.
        ragged: bool (N,), rows with too few or too many fields; None in formats where that cannot happen.
        position: bytes of the file read so far.
        numbers: columns of text whose filled cells are all numbers as programs write them, with a decimal point.
    """

    columns: pa.Table
    ragged: np.ndarray | None
    position: int
    numbers: frozenset[str] = frozenset()

    def cells(self, name: str) -> pa.Array:
        """Return a column whose cells are read, (N,): one of `numbers` as float64, "" as null."""
        column = flat(self.columns.column(name))
        if name not in self.numbers:
            return column
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column).cast(pa.float64())


@dataclass
class Contradictions:
    """The cells of a column that contradict its format.

    Attributes:
        filled: cells that are not blank.
        unreadable: cells that are not numbers, and count as missing.
        other_mark: numbers that show the other decimal mark, and are read with it.
        other_unit: numbers with another unit than nearly all of the training table, or without one.
        decimals: numbers with three decimals in a column of whole numbers: 60.000 may be 60,000.
        example: the first of these cells.
        row: its number, from 0.
    """

    filled: int = 0
    unreadable: int = 0
    other_mark: int = 0
    other_unit: int = 0
    decimals: int = 0
    example: str = ""
    row: int = 0

    @property
    def count(self) -> int:
        """All of these cells."""
        return self.unreadable + self.other_mark + self.other_unit + self.decimals

    def note(self, cell: str, row: int, **counts: int) -> None:
        """Count cells of a kind, of which this is the first."""
        if not self.count:
            self.example, self.row = cell, row
        for kind, count in counts.items():
            setattr(self, kind, getattr(self, kind) + count)

    def __str__(self) -> str:
        """Say how many cells of each kind there are, and where the first one is."""
        kinds = {
            "are not numbers, and count as missing": self.unreadable,
            "show another decimal mark, and are read with it": self.other_mark,
            "have another unit, or none, and are not converted": self.other_unit,
            "have three decimals, and may be thousands": self.decimals,
        }
        counts = "; ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        return f"{counts}. The first is {shorten(self.example)!r} in row {self.row:,}, counted from 0"


@dataclass
class ReadWarnings:
    """The repairs made while a table was read.

    Attributes:
        ragged: rows with too few or too many fields.
        first_ragged_line: the line of the first of them.
        ends_in_quotes: the file ends inside a quoted cell.
        quoted_lines: lines inside quoted cells that look like rows.
        first_quoted_line: the line on which the first such cell begins.
        extra_empty: rows with empty fields beyond the header.
        wider: rows with filled fields beyond the header.
        nul_cells: cells from which NUL bytes were removed.
        cut_cells: cells that were cut to `MAX_TEXT_CHARS`.
        not_utf8: cells with bytes that are not UTF-8.
        new_key_rows: JSON objects with keys that the first chunk lacks.
        first_new_key: the first such key.
        duplicate_names: column names that the header has more than once.
        contradictions: cells that contradict the formats of their columns, by column.
        numbers_for_words: columns that were words in the training table, and whose first cells are numbers.
    """

    ragged: int = 0
    first_ragged_line: int = 0
    ends_in_quotes: bool = False
    quoted_lines: int = 0
    first_quoted_line: int = 0
    extra_empty: int = 0
    wider: int = 0
    nul_cells: int = 0
    cut_cells: int = 0
    not_utf8: int = 0
    new_key_rows: int = 0
    first_new_key: str = ""
    duplicate_names: tuple[str, ...] = ()
    contradictions: dict[str, Contradictions] = field(default_factory=dict)
    numbers_for_words: list[str] = field(default_factory=list)

    def sentences(self, name: str) -> list[str]:
        """Return one sentence for each kind of repair; `name` is that of the table."""
        return [f"{name}: {repair}" for repair in self._repairs()]

    def _repairs(self) -> Iterator[str]:
        if self.ragged:
            yield (
                f"rows with too few or too many fields: {self.ragged:,}, the first on line "
                f"{self.first_ragged_line:,}. Prediction prices them, training rejects them."
            )
        if self.duplicate_names:
            names = ", ".join(repr(shorten(name)) for name in self.duplicate_names[:5])
            yield f"several columns have the same name: {names}. The first one keeps it, the others get a number."
        if self.extra_empty:
            yield (
                f"rows with empty fields beyond the header: {self.extra_empty:,}. If the cause is a delimiter inside "
                "an unquoted field, the columns after it are shifted."
            )
        if self.quoted_lines:
            yield (
                f"{self.quoted_lines:,} lines that look like rows are inside quoted cells, the first of which begins "
                f'on line {self.first_quoted_line:,}; they are not rows. Write a quote inside a text as "".'
            )
        if self.ends_in_quotes:
            yield "the file ends inside a quoted cell; it may be incomplete."
        if self.new_key_rows:
            yield (
                f"rows with keys that the first rows lack, which are ignored: {self.new_key_rows:,}, the first such "
                f"key {shorten(self.first_new_key)!r}."
            )
        if self.nul_cells:
            yield f"cells from which NUL bytes were removed: {self.nul_cells:,}."
        if self.cut_cells:
            yield f"cells cut to {MAX_TEXT_CHARS:,} characters: {self.cut_cells:,}."
        if self.not_utf8:
            yield f"cells with bytes that are not UTF-8: {self.not_utf8:,}; each such byte is read as '\ufffd'."
        for column in self.numbers_for_words:
            yield (
                f"the column {shorten(column)!r} has words in the training table, and only numbers in the first rows "
                "of this one. Check that the columns are the right ones."
            )
        for column, cells in self.contradictions.items():
            if cells.count:
                yield f"cells that do not fit the numbers of the column {shorten(column)!r}: {cells}."


@contextmanager
def readable(table: str, column: str) -> Iterator[None]:
    """Turn the errors of values that cannot be read into a DataError that names the table and the column."""
    try:
        yield
    except NOT_FOR_PANDAS as error:
        raise unreadable_values(table, column, error) from None


def unreadable_values(table: str, column: str, error: Exception) -> DataError:
    """Return the error for a column with values that cannot be read."""
    return DataError(
        f"{table}: the column {shorten(column)!r} has values that cannot be read ({str(error).rstrip('.')}). Leave it "
        "out, or write it as text.",
        parameters=("table",),
        column=column,
    )


MOST_COLUMNS = 100_000
"""The most columns of a table."""
MOST_READ = 10_000
"""The most columns that are read of a table, unless a model names those that it needs."""


def places_of(table: str, names: Sequence[str], wanted: frozenset[str] | None) -> list[int]:
    """Return the places of the columns to read: those that are wanted, or the first one; all if `wanted` is None.

    Raises:
        DataError: there are more than `MOST_COLUMNS` names.
    """
    if len(names) > MOST_COLUMNS:
        raise too_many_columns(table, MOST_COLUMNS)
    if wanted is None:
        return list(range(len(names)))
    return [place for place, name in enumerate(names) if name in wanted] or [0][: len(names)]


def too_many_columns(table: str, most: int) -> DataError:
    """Return the error for a table with more columns than are read."""
    return DataError(
        f"{table} has more than {most:,} columns. Keep those that describe the products, or write a table with one row "
        "for each product.",
        parameters=("table",),
        most=most,
    )


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def column_names_of(written: Iterable[str]) -> list[str]:
    """Return the names of columns as `column_name` returns them; one without a name is called by its number.

    Example:
        >>> column_names_of([" title ", ""])
        ['title', 'column 2']
    """
    return [column_name(name) or f"column {number}" for number, name in enumerate(written, start=1)]


def check_names(name: str, columns: Sequence[str]) -> None:
    """Raise DataError if several columns of the table called `name` have the same name."""
    if twice := repeated(columns):
        raise DataError(
            f"{name} has several columns named {twice[0]!r}. Rename all but one of them.",
            parameters=("table",),
            column=twice[0],
            duplicates=twice,
        )


def text_array(cells: Sequence[str]) -> pa.Array:
    """Return Python strings as an Arrow column; lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    try:
        return pa.array(cells, pa.large_string())
    except UnicodeEncodeError:
        whole = [cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for cell in cells]
        return pa.array(whole, pa.large_string())


def as_pandas(cells: pa.Array) -> Any:
    """Return an Arrow column of text, (N,), as pandas `str`; pandas' own conversion looks at each value."""
    kind: Any = pd.StringDtype("pyarrow", na_value=np.nan)
    return kind.__from_arrow__(cells)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this Arrow type contains text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a column of this Arrow type contains numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def keeps_type(kind: pa.DataType) -> bool:
    """Return whether a column of this Arrow type has one pandas type, whatever its values."""
    types = pa.types
    checks = (is_text, types.is_integer, types.is_floating, types.is_timestamp, types.is_duration)
    return any(check(kind) for check in checks)


def flat(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; text becomes `large_string` with "" for null."""
    if is_text(column.type):
        column = column.cast(pa.large_string())
        column = pc.fill_null(column, "") if column.null_count else column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def as_text(column: pa.Array) -> pa.Array:
    """Return any column as text, "" for null: numbers as Python writes them, lists and structs as JSON.

    A float without decimals is written as an integer, because one missing cell turns 2015 into 2015.0 in pandas.
    """
    kind = column.type
    if is_text(kind):
        return column.cast(pa.large_string())
    if isinstance(kind, pa.UuidType):
        return text_array([str(value or "") for value in column.to_pylist()])
    if isinstance(kind, pa.BaseExtensionType):
        return pc.fill_null(as_text(column.storage), "")
    if pa.types.is_floating(kind):
        written = pa.array(column.to_numpy(zero_copy_only=False).astype(str), pa.large_string())
        whole = pc.replace_substring_regex(written, r"\.0$", "")
        return pc.if_else(column.is_null(nan_is_null=True), "", whole)
    types = pa.types
    bytes_only = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    if not (types.is_nested(kind) or bytes_only or types.is_fixed_size_binary(kind)):
        with suppress(pa.ArrowNotImplementedError):  # Arrow does not write every type
            return pc.fill_null(column.cast(pa.large_string()), "")
    return text_array([_as_json(value) for value in _python_values(column)])


def _python_values(column: pa.Array) -> list[Any]:
    """Return a column as Python values; if some are times that Python cannot hold, all its times are text in UTC."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        without_zones = column.cast(_with_plain_times(column.type, text=False))
        return list(without_zones.cast(_with_plain_times(column.type, text=True)).to_pylist())


def _with_plain_times(kind: pa.DataType, *, text: bool) -> pa.DataType:
    """Return a type whose times, also those inside lists, structs and maps, are text, or only have no zone.

    Durations, which Arrow does not write, become integers.
    """
    types, inner = pa.types, partial(_with_plain_times, text=text)
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type), inner(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(inner(field.type)) for field in kind])
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        return pa.large_list(inner(kind.value_type))
    if types.is_duration(kind):
        return pa.int64()
    if not text:
        return pa.timestamp(kind.unit) if types.is_timestamp(kind) else kind
    return pa.large_string() if types.is_temporal(kind) else kind


def as_model_text(column: pa.Array) -> pa.Array:
    """Return any column as text for a model: like `as_text`, but equal values are equal texts.

    The decimal 87.00 becomes 87. A time has no zeros behind the second, and midnight is only a date, as in a CSV file.
    """
    text = as_text(column)
    if pa.types.is_timestamp(column.type):
        text = pc.replace_substring_regex(text, _ZEROS, r"\1\2\3")
        return pc.replace_substring_regex(text, " 00:00:00$", "")
    if not pa.types.is_decimal(column.type):
        return text
    return pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")


def _as_json(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str)


def as_frame(arrays: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Return columns as a pandas frame. Integers with missing values stay integers: an id 7 must not become 7.0.

    Columns with values that Python cannot hold, such as a date after the year 9999, become text. Lists of numbers stay
    in Arrow, in the form of `as_vectors`.

    Raises:
        pa.ArrowException, ValueError, OverflowError: the columns of `unreadable` fit neither pandas nor text.
    """
    arrays = {
        name: as_text(cells)
        if _is_beyond_python(cells)
        else as_vectors(cells)
        if is_list_of_numbers(cells.type)
        else cells
        for name, cells in arrays.items()
    }
    try:
        frame: pd.DataFrame = pa.table(dict(arrays)).to_pandas(types_mapper=pandas_type)
    except NOT_FOR_PANDAS:
        odd = unreadable(arrays)
        plain = pa.table({n: as_text(c) if n in odd else c for n, c in arrays.items()})
        frame = plain.to_pandas(types_mapper=pandas_type)
    for name, cells in arrays.items():
        if cells.null_count and cells.type in _NULLABLE:
            frame[name] = pa.table({name: cells}).to_pandas(types_mapper=_NULLABLE.get)[name]
    return frame


def as_ids(name: str, cells: pa.Array) -> pd.Series:
    """Return a column of ids.

    Decimals, dates and others become text: they are objects in pandas, and Arrow would guess their type again for each
    chunk.
    """
    return as_frame({name: cells if keeps_type(cells.type) else as_text(cells)})[name]


def _is_beyond_python(cells: pa.Array) -> bool:
    """Return whether a column has times before the year 1 or after 9999, or such durations; pandas holds them."""
    if not (pa.types.is_timestamp(cells.type) or pa.types.is_duration(cells.type)):
        return False
    ends = pc.min_max(cells.cast(pa.int64())).as_py().values()
    low, high = (end // _UNITS[cells.type.unit] for end in ends) if None not in ends else (0, 0)
    return low < _FIRST_SECOND or high > _LAST_SECOND


def unreadable(arrays: Mapping[str, pa.Array]) -> list[str]:
    """Return the names of the columns that neither pandas nor text can hold."""
    odd = []
    for name, cells in arrays.items():
        try:
            pa.table({name: cells}).to_pandas()
            as_text(cells)
        except NOT_FOR_PANDAS:
            odd.append(name)
    return odd


def _is_odd(cell: str | None) -> bool:
    return cell is not None and ("\0" in cell or len(cell) > MAX_TEXT_CHARS)


def clean(cells: pa.Array, read_warnings: ReadWarnings) -> pa.Array:
    """Remove NUL bytes and cut to `MAX_TEXT_CHARS` characters; changed cells are counted in `read_warnings`."""
    if len(cells) <= FEW_TEXTS and not any(_is_odd(cell) for cell in cells.to_pylist()):
        return cells
    has_nul = pc.sum(pc.match_substring(cells, "\0")).as_py() or 0
    if has_nul:
        read_warnings.nul_cells += has_nul
        cells = pc.replace_substring(cells, "\0", "")
    if (pc.max(pc.binary_length(cells)).as_py() or 0) > MAX_TEXT_CHARS:
        read_warnings.cut_cells += pc.sum(pc.greater(pc.utf8_length(cells), MAX_TEXT_CHARS)).as_py()
        cells = pc.utf8_slice_codeunits(cells, 0, MAX_TEXT_CHARS)
    return cells
