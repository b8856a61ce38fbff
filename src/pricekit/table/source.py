"""Table sources: files, and frames in memory, opened to raw chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pandas as pd
import pyarrow as pa

from pricekit.errors import ConfigError, DataError, NoRowsError
from pricekit.io.compression import is_larger, suffixes_of
from pricekit.io.sources import shown_address, with_query
from pricekit.io.storage import Address, Copy, Location, Part, fetch, is_remote, is_table, location_of
from pricekit.table.arrow import COLUMNAR, as_arrow, is_frame, read_arrow, read_columnar, stored_bytes
from pricekit.table.columns import MOST_READ, RawChunk, ReadWarnings, places_of, repeated, too_many_columns
from pricekit.table.currency import is_known
from pricekit.table.delimited import (
    Layout,
    detect_delimiter,
    first_row,
    header_names,
    named_columns,
    read_delimited,
)
from pricekit.table.encoding import Charset, check_readable, detect_charset
from pricekit.table.formats import format_inside, format_of, named_format
from pricekit.table.price_words import unit_named
from pricekit.table.table import Notices, column_name
from pricekit.wording import shorten

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}

_EXPECTED = {"csv": ",", "tsv": "\t", "txt": None}
_TEXTS = (*_EXPECTED, "jsonl")
_PARQUET = b"PAR1"
"""The first bytes of a Parquet file, whose columns are at the end."""
_PART_BYTES = 1 << 20
"""As much of a file shows its columns, except in rare cases."""
_SOME_ROWS = 64
"""As many rows of a database are fetched for the names of its columns."""
LARGE_BYTES = 1 << 26
"""A table of more bytes is stored. In memory, training takes about eight times the bytes of its table."""


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a table. Options that are not set are detected.

    Attributes:
        encoding: of CSV, TSV, TXT and JSON lines; a byte order mark takes precedence.
        delimiter: of a delimited file: one character, or comma, semicolon, tab, pipe or space.
        names: the column names of a delimited file without a header.
        decimal: the decimal mark of prices, "." or ",".
        currency: the currency of the prices, as a code or a sign; rows in other currencies are rejected.
        sheet: the name of the sheet of a workbook; by default the first one that has a table.
        price_unit: the unit of the prices, such as "m2", "month" or "100 g", or "total"; other rows are rejected.
        sql: the query of a database whose address names neither a table nor a query.

    Raises:
        DataError: an invalid delimiter, decimal mark, currency or price unit, or a name that occurs twice.

    Example:
        >>> ReadOptions(delimiter="semicolon", decimal=",", currency="EUR").delimiter
        ';'
    """

    encoding: str | None = None
    delimiter: str | None = None
    names: tuple[str, ...] = ()
    decimal: str | None = None
    currency: str | None = None
    sheet: str | None = None
    price_unit: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            delimiter = _DELIMITERS.get(self.delimiter.lower(), self.delimiter)
            if len(delimiter) != 1 or delimiter in '"\r\n\0' or delimiter.isalnum():
                raise DataError(
                    f"invalid delimiter {self.delimiter!r}. Use one character such as ',' or ';', or comma, semicolon, "
                    "tab, pipe or space.",
                    parameters=("delimiter",),
                    candidates=[name for name in _DELIMITERS if name.isalpha()],
                )
            object.__setattr__(self, "delimiter", delimiter)
        if self.decimal not in (None, ".", ","):
            raise DataError(
                f"invalid decimal mark {self.decimal!r}: '.' or ',' is expected.",
                parameters=("decimal",),
                candidates=[".", ","],
            )
        object.__setattr__(self, "names", tuple(map(column_name, self.names)))
        if twice := repeated(self.names):
            raise DataError(
                f"the column name {twice[0]!r} is given more than once. Each column needs its own name.",
                parameters=("columns",),
                duplicates=twice,
            )
        if self.currency is not None and not (self.currency.strip() and is_known(self.currency)):
            raise DataError(
                f"unknown currency {self.currency!r}. Use a code such as EUR, or a sign such as €.",
                parameters=("currency",),
                currency=self.currency,
            )
        if self.price_unit is not None:
            if not self.price_unit.strip():
                raise DataError(
                    "the price unit is empty. Name a unit such as m2, month or '100 g', or total.",
                    parameters=("price_unit",),
                )
            object.__setattr__(self, "price_unit", unit_named(self.price_unit))

    def beside(self, source: TableSource) -> ReadOptions:
        """Return these options for another table than the one that they describe: only workbooks have the sheet, and
        no other table is the result of the query.

        Example:
            >>> [ReadOptions(sheet="May").beside(name).sheet for name in ("new.csv", "new.xlsx")]
            [None, 'May']
        """
        file = location_of(source, "table") if isinstance(source, str) else source
        is_workbook = isinstance(file, Path | Address) and named_format(file) == "workbook"
        return replace(self, sheet=self.sheet if is_workbook else None, sql=None)


DEFAULT_READ_OPTIONS = ReadOptions()
"""Detect everything."""


class ArrowStream(Protocol):
    """A frame of any library that exports the Arrow PyCapsule interface, such as pyarrow, polars and duckdb."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule of an Arrow stream of record batches."""


TableSource: TypeAlias = "str | Path | Address | pd.DataFrame | ArrowStream"
"""A table: the path or address of a file or of a table in a database, or a pandas, Arrow, polars or similar frame."""


@dataclass(frozen=True)
class OpenedTable:
    """A table whose format is known and whose rows can be read any number of times.

    Attributes:
        name: its name in messages: the path, the address, or "the DataFrame".
        kind: the format of a file as `formats.named_format` names it, or "frame".
        origin: the local path of a file, or as Arrow a frame or the sheet of a workbook.
        charset: the encoding of a text; None for others.
        layout: the layout of a delimited file; None for all others.
        copy: of a remote file or a stream; it exists for as long as this object.
        size: the bytes of a workbook.
        wanted: the columns that `chunks` has; None: all.
    """

    name: str
    kind: str
    origin: Any  # Path | pa.Table
    charset: Charset | None = None
    layout: Layout | None = None
    copy: Copy | None = None
    size: int = 0
    wanted: frozenset[str] | None = None

    def first_row(self) -> list[str]:
        """Return the fields of the first row of a delimited file, header or not; [] for other tables."""
        with self.named():
            return [] if self.layout is None else first_row(self.origin, self.layout)

    def chunks(self, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
        """Yield the rows, at most `rows` at a time, and count repairs in `read_warnings`.

        Raises:
            DataError: the table cannot be read, or has too many columns.
        """
        with self.named():
            if isinstance(self.origin, pa.Table):
                places = places_of(self.name, self.origin.column_names, self.wanted)
                yield from read_arrow(self.origin.select(places), rows, read_warnings, self.size)
            elif self.layout is not None:
                yield from read_delimited(self.origin, self.layout, rows, read_warnings, self.wanted)
            elif self.charset is not None:
                from pricekit.table.jsonlines import read_json_lines  # slow to import

                yield from read_json_lines(self.origin, rows, self.charset, read_warnings, self.wanted)
            else:
                yield from read_columnar(self.origin, self.kind, rows, read_warnings, self.wanted)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Give errors about the local copy of a file the name of the file."""
        try:
            yield
        except DataError as error:
            if self.copy is None:
                raise
            message = str(error).replace(str(self.copy.path), self.name)
            raise type(error)(message, parameters=error.parameters, **error.facts) from None


def open_table(
    source: TableSource | OpenedTable,
    read_options: ReadOptions,
    notices: Notices,
    *,
    whole: bool = True,
    wanted: frozenset[str] | None = None,
) -> OpenedTable:
    """Detect how to read a table, and report differences from what the file's suffix suggests.

    Args:
        source: a file or a frame.
        read_options: how to read the table; options that are not set are detected.
        notices: receives sentences for the user.
        whole: False: of a remote file or a table of a database, only as much is fetched as shows its columns.
        wanted: the columns whose cells are read; None: all.

    Raises:
        DataError: the file is missing, of an unknown format, or not text despite its suffix; or the source is
            neither a path nor a frame.
        ConfigError: a sheet is named, and the table is no workbook.
    """
    if isinstance(source, OpenedTable):
        return replace(source, wanted=wanted)
    if isinstance(source, str | Path | Address):
        location = location_of(source, "table") if isinstance(source, str) else source
        return replace(_open_file(location, read_options, notices, whole, wanted), wanted=wanted)
    if not is_frame(source):
        hint = " Call its collect() first." if hasattr(source, "collect") else ""
        described = "None" if source is None else f"an object of type {type(source).__name__}"
        raise DataError(
            f"a table is expected: a path, or a pandas, Arrow or polars frame, not {described}.{hint}",
            parameters=("table",),
            type=type(source).__name__,
        )
    name = f"the {type(source).__name__}"
    _check_sheet(name, read_options)
    if read_options.sql is not None:
        raise _no_database(name)
    return OpenedTable(name, "frame", as_arrow(source, name, wanted), wanted=wanted)


def _open_file(
    location: Location,
    read_options: ReadOptions,
    notices: Notices,
    whole: bool,
    wanted: frozenset[str] | None,
) -> OpenedTable:
    location = queried(location, read_options)
    if is_table(location):
        copy = fetch(location, None, wanted, None if whole else _SOME_ROWS)
        _check_sheet(str(location), read_options)
        return OpenedTable(shown_address(location.text), "parquet", copy.path, copy=copy)
    if isinstance(location, Path):
        check_readable(location)
        return _detected(OpenedTable(str(location), format_inside(location), location), read_options, notices)
    name, part = "standard input", None
    if is_remote(location):
        name = str(location)
        kind = format_of(location)  # an unknown format is not worth fetching
        if not whole and kind == "parquet":
            part = Part(len(_PARQUET), _PART_BYTES)
        elif not whole and kind in _TEXTS and not suffixes_of(location)[1]:
            part = Part(_PART_BYTES, 0)
    copy = fetch(location, part)
    file = OpenedTable(name, "", copy.path, copy=copy)
    with file.named():
        file = replace(file, kind=format_inside(copy.path))
        return _detected(file, read_options, lambda text: notices(text.replace(str(copy.path), name)))


def queried(location: Location, read_options: ReadOptions) -> Location:
    """Return a location, that of a database with the query of the options.

    Raises:
        ConfigError: there is a query, and the table is none of a database, or names a table itself.
    """
    if read_options.sql is None or (is_table(location) and location.copy is not None):
        return location
    if not is_table(location):
        raise _no_database(str(location))
    return Address(with_query(location.text, read_options.sql))


def _no_database(name: str) -> ConfigError:
    return ConfigError(
        f"a query is set, but {name} is no database. Leave the query out, or name a database such as sqlite:///shop.db.",
        parameters=("sql",),
    )


def _detected(file: OpenedTable, read_options: ReadOptions, notices: Notices) -> OpenedTable:
    """Return a file with its encoding and layout, or with the sheet of a workbook."""
    path, kind = file.origin, file.kind
    if kind == "workbook":
        return _sheet(file, read_options, notices)
    _check_sheet(file.name, read_options)
    if kind not in _TEXTS:
        return file
    charset = detect_charset(path, kind, read_options.encoding, notices)
    if kind == "jsonl":
        return replace(file, charset=charset)
    delimiter = read_options.delimiter or detect_delimiter(path, charset, _EXPECTED[kind], notices)
    return replace(file, charset=charset, layout=Layout(charset, delimiter, read_options.names))


def _check_sheet(name: str, read_options: ReadOptions) -> None:
    """Raise ConfigError if a sheet is named for a table that is no workbook."""
    if read_options.sheet is not None:
        raise ConfigError(
            f"the sheet {shorten(read_options.sheet)!r} is set, but {name} is not a workbook. Remove the sheet, or "
            "name a workbook.",
            parameters=("sheet",),
            sheet=read_options.sheet,
        )


def _sheet(file: OpenedTable, read_options: ReadOptions, notices: Notices) -> OpenedTable:
    """Return a workbook with the columns of its sheet."""
    path, names = file.origin, read_options.names
    from pricekit.table.workbook import read_workbook  # slow to import

    sheet = read_workbook(path, read_options.sheet, names)
    read_warnings = ReadWarnings()
    header = (
        named_columns(path, names, sheet.header) if names else header_names(path, sheet.header, read_warnings)
    )
    for sentence in (*(f"{path}: {note}" for note in sheet.notes), *read_warnings.sentences(str(path))):
        notices(sentence)
    return replace(file, origin=sheet.columns.rename_columns(header), size=path.stat().st_size)


def source_name(source: TableSource) -> str:
    """Return a short name of a table: "products.csv" for a path, "DataFrame" for a frame.

    Example:
        >>> from pathlib import Path
        >>> source_name(Path("data/products.csv"))
        'products.csv'
    """
    if not isinstance(source, str | Path | Address):
        return type(source).__name__
    location = location_of(source, "table")
    return "standard input" if isinstance(location, Address) and location.is_stream else location.name


def no_rows(table: OpenedTable) -> NoRowsError:
    """Return the error for a table without rows."""
    where = "" if table.kind == "frame" else " below the header"
    return NoRowsError(f"{table.name} has no rows: at least one is expected{where}.", parameters=("table",))


def check_count(file: OpenedTable, first: RawChunk) -> None:
    """Raise DataError for a table with more columns than are read at once; `first` are its first rows."""
    if first.columns.num_columns > MOST_READ:
        raise too_many_columns(file.name, MOST_READ)


def is_large(file: OpenedTable) -> bool:
    """Return whether a table is stored rather than kept in memory: by the bytes of its cells, without reading them."""
    if isinstance(file.origin, pa.Table):
        return int(file.origin.nbytes) > LARGE_BYTES
    with suppress(DataError):  # reported by whoever reads the table
        if file.kind in COLUMNAR:
            return stored_bytes(file.origin, file.kind) > LARGE_BYTES
        return is_larger(file.origin, LARGE_BYTES)
    return False
