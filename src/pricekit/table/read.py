"""Read table sources into tables. Training and prediction both use only this module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from pricekit.errors import DataError, check_limit
from pricekit.storage import Location, is_remote
from pricekit.support.log import logger
from pricekit.table.assemble import assemble, check_width, resolve
from pricekit.table.columns import flat, readable
from pricekit.table.formats.parquet import names_of_parquet, plain_columns
from pricekit.table.guess import describe_guess, guess_columns
from pricekit.table.model import Columns, Notices, RawChunk, ReadWarnings, Table, concat_tables
from pricekit.table.prices.parse import describe_prices
from pricekit.table.prices.price_format import PriceFormat, price_format
from pricekit.table.source import (
    DEFAULT_READ_OPTIONS,
    OpenedTable,
    ReadOptions,
    TableSource,
    no_rows,
    open_table,
)

_CHUNK = 8192
_SOME_ROWS = 64


@dataclass(frozen=True)
class Facts:
    """The results of detection for a table.

    Attributes:
        file: its format, encoding and layout.
        columns: the roles of the columns.
        prices: the format of its prices; None if no price column was read.
    """

    file: OpenedTable
    columns: Columns
    prices: PriceFormat | None


def read_table(
    source: TableSource,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
) -> Table:
    """Read a whole table into memory.

    Args:
        source: the path of a .csv, .tsv, .txt, .parquet, .pq, .jsonl or .ndjson file, its address such as
            "s3://bucket/new.csv", or "-" for standard input; or a pandas, Arrow or polars frame, or any other with the
            Arrow PyCapsule interface. The index of a pandas frame is ignored.
        columns: the roles of the columns; None guesses them with `guess_columns`.
        limit: read only the first `limit` rows.
        read_options: how to read the table; options that are not set are detected.
        notices: receives one sentence for each problem that the user should know about.

    Raises:
        NoRowsError: the table has no rows.
        DataError: the file is missing, damaged, or of an unknown format or a different encoding; the frame has several
            columns with the same name or values that cannot be read; the source is not a table; or a column is missing.

    Example:
        >>> import pandas as pd
        >>> table = read_table(pd.DataFrame({"title": ["Green tea 50 g", "Jam 250 g"], "price": ["€3.50", "€2.80"]}))
        >>> table.price, table.text.tolist()
        (array([3.5, 2.8]), ['Green tea 50 g', 'Jam 250 g'])
    """
    return read_with_facts(source, columns, limit=limit, read_options=read_options, notices=notices)[0]


def read_with_facts(
    source: TableSource | OpenedTable,
    columns: Columns | None,
    *,
    limit: int | None,
    read_options: ReadOptions,
    notices: Notices,
) -> tuple[Table, Facts]:
    """Read a whole table into memory, with the results of detection; arguments and errors are those of `read_table`."""
    check_limit(limit)
    file, columns = _open(source, columns, read_options, notices)
    read_warnings = ReadWarnings()
    raws = list(_limited(file, _CHUNK if limit is None else min(_CHUNK, limit), limit, read_warnings))
    if not raws:
        raise no_rows(file)
    meant = resolve(file, raws[0].columns.column_names, columns, notices)
    prices = _prices(file, raws, meant, read_options, notices)
    tables = list(assemble(file, raws, meant, prices, 0, read_warnings))
    for sentence in read_warnings.sentences(file.name):
        notices(sentence)
    currency = None if prices is None else prices.currency
    return replace(concat_tables(tables), currency=currency), Facts(file, columns, prices)


def iter_table(
    source: TableSource,
    columns: Columns | None = None,
    *,
    rows: int = _CHUNK,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
    first_row: int = 0,
) -> Iterator[Table]:
    """Yield a table in consecutive chunks, in bounded memory; no row is omitted.

    A price column is read completely before the first chunk, because the whole column determines the format of its
    prices. Arguments and errors are those of `read_table`; an error is raised with the chunk that causes it.

    Args:
        source: a file or a frame.
        columns: the roles of the columns; None guesses them.
        rows: maximum number of rows per chunk; a chunk of a file also ends at about 64 MB of text.
        limit: read only the first `limit` rows.
        read_options: how to read the table; options that are not set are detected.
        notices: receives sentences for the user: first about the detected options, at the end about repairs.
        first_row: the number of the first row.
    """
    opened, columns = _open(source, columns, read_options, notices)
    given: dict[str, Any] = {"limit": limit, "read_options": read_options, "notices": notices}
    yield from iter_with_facts(opened, columns, rows=rows, first_row=first_row, **given)[0]


def iter_with_facts(
    source: TableSource | OpenedTable,
    columns: Columns | None,
    *,
    rows: int,
    limit: int | None,
    read_options: ReadOptions,
    notices: Notices,
    first_row: int = 0,
) -> tuple[Iterator[Table], Facts]:
    """Return the chunks of a table, and the results of detection; arguments and errors are those of `iter_table`."""
    check_limit(limit)
    file, columns = _open(source, columns, read_options, notices)
    read_warnings = ReadWarnings()
    rows = rows if limit is None else max(1, min(rows, limit))
    raws = _limited(file, rows, limit, read_warnings)
    first = next(raws, None)
    if first is None:
        raise no_rows(file)
    check_width(file, first, read_warnings)
    meant = resolve(file, first.columns.column_names, columns, notices, first_row)
    prices = _prices(file, _limited(file, rows, limit, ReadWarnings()), meant, read_options, notices)

    def tables() -> Iterator[Table]:
        yield from assemble(file, chain([first], raws), meant, prices, first_row, read_warnings)
        for sentence in read_warnings.sentences(file.name):
            notices(sentence)

    return tables(), Facts(file, columns, prices)


def read_frame(frame: TableSource, columns: Columns) -> Table:
    """Read a frame for prediction, which may have no rows; arguments and errors are those of `read_table`."""
    file = open_table(frame, DEFAULT_READ_OPTIONS, logger.debug)
    columns = resolve(file, file.origin.column_names, columns, logger.debug)
    if not file.origin.num_rows:
        batch = pa.RecordBatch.from_pylist([], file.origin.schema)
        chunk = RawChunk(plain_columns(batch, ReadWarnings()), None, 0)
        return next(assemble(file, [chunk], columns, PriceFormat(), 0, ReadWarnings()))
    return read_with_facts(
        file, columns, limit=None, read_options=DEFAULT_READ_OPTIONS, notices=logger.warning
    )[0]


def columns_found(
    path: Location, columns: Columns, read_options: ReadOptions = DEFAULT_READ_OPTIONS
) -> Columns:
    """Return the columns that `iter_table` would read, from the beginning of a file.

    Raises:
        NoRowsError: the file has no rows.
        DataError: the file is damaged or lacks a column.
    """
    file, names = _beginning(path, read_options)
    return resolve(file, names, columns, logger.debug)


def _beginning(path: Location, read_options: ReadOptions) -> tuple[OpenedTable, list[str]]:
    """Open a file, of a remote one only a part if that is enough, and return the names of its columns."""
    if is_remote(path):
        with suppress(DataError):  # such as a part that ends within the first row
            part = open_table(path, read_options, logger.debug, whole=False)
            return part, _names(part)
    file = open_table(path, read_options, logger.debug)
    return file, _names(file)


def column_names(source: TableSource, read_options: ReadOptions = DEFAULT_READ_OPTIONS) -> list[str]:
    """Return the names of a table's columns, from its beginning; raises DataError."""
    return _names(open_table(source, read_options, logger.debug))


def _names(file: OpenedTable) -> list[str]:
    if file.kind == "parquet":
        with file.named():
            names = names_of_parquet(file.origin)
    else:  # the first object of JSON lines may lack a key
        rows, read_warnings = _CHUNK if file.kind == "jsonl" else _SOME_ROWS, ReadWarnings()
        first = next(_limited(file, rows, rows, read_warnings), None)
        if first is None:
            raise no_rows(file)
        check_width(file, first, read_warnings)
        names = first.columns.column_names
    if not names:
        raise no_rows(file)
    return names


def _open(
    source: TableSource | OpenedTable, columns: Columns | None, read_options: ReadOptions, notices: Notices
) -> tuple[OpenedTable, Columns]:
    """Open a table, and guess its columns if they are None."""
    file = open_table(source, read_options, notices)
    if columns is not None:
        return file, columns
    guess = guess_columns(file)
    for sentence in describe_guess(guess):
        logger.info(f"{file.name}: {sentence}")
    return guess.file, guess.columns


def _limited(
    file: OpenedTable, rows: int, limit: int | None, read_warnings: ReadWarnings
) -> Iterator[RawChunk]:
    """Yield the chunks that have rows, `limit` rows in all."""
    left = limit
    for raw in file.chunks(rows, read_warnings):
        kept = raw if left is None else _first(raw, left)
        if len(kept.columns):
            yield kept
        if left is not None:
            left -= len(kept.columns)
            if left <= 0:
                return


def _first(raw: RawChunk, rows: int) -> RawChunk:
    ragged = None if raw.ragged is None else raw.ragged[:rows]
    return replace(raw, columns=raw.columns.slice(0, rows), ragged=ragged)


def _prices(
    file: OpenedTable,
    raws: Iterable[RawChunk],
    columns: Columns,
    read_options: ReadOptions,
    notices: Notices,
) -> PriceFormat | None:
    """Determine the format of a table's prices, and report it."""
    if columns.price is None:
        return None
    name = columns.price
    with readable(file.name, name):
        found = price_format((flat(raw.columns.column(name)) for raw in raws), read_options)
    if description := describe_prices(found):
        notices(f"{file.name}: {description}")
    return found
