"""Files to tables: the one way in, for training and prediction alike."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError, NoRowsError
from pricekit.table.columns import (
    as_frame,
    as_model_text,
    as_text,
    clean,
    flat,
    is_text,
    join_text,
    keeps_type,
    unreadable,
)
from pricekit.table.formats.dialect import looks_like_data
from pricekit.table.formats.parquet import check_names, names_of_parquet, plain_columns
from pricekit.table.formats.table_file import OpenedFile, open_file
from pricekit.table.model import (
    RAGGED,
    Columns,
    Notices,
    RawChunk,
    ReadWarnings,
    Table,
    concat_tables,
)
from pricekit.table.options import AS_FOUND, ReadOptions
from pricekit.table.prices.describe import describe_prices
from pricekit.table.prices.parse import parse_price
from pricekit.table.prices.price_format import PriceFormat, price_format
from pricekit.text import did_you_mean, shorten

_log = logging.getLogger("pricekit")
_CHUNK = 8192
_SOME_ROWS = 64
_SHOWN_COLUMNS = 30
MAY_BE_TITLE = " If the first line is a title above the header, delete it."


@dataclass(frozen=True)
class Facts:
    """How a file was read.

    Attributes:
        file: its format, encoding and layout.
        prices: how its prices are written; None where no price column was read.
    """

    file: OpenedFile
    prices: PriceFormat | None


def read_table(
    path: Path,
    columns: Columns,
    *,
    limit: int | None = None,
    read_options: ReadOptions = AS_FOUND,
    notices: Notices = _log.warning,
) -> Table:
    """The whole table in memory; arguments and errors as of `iter_table`."""
    return read_with_facts(path, columns, limit=limit, read_options=read_options, notices=notices)[0]


def read_with_facts(
    path: Path, columns: Columns, *, limit: int | None, read_options: ReadOptions, notices: Notices
) -> tuple[Table, Facts]:
    """The whole table in memory, and how it was read; arguments and errors as of `iter_table`."""
    path = Path(path)
    read_warnings = ReadWarnings()
    file = open_file(path, read_options, notices)
    raws = list(_limited(file, _CHUNK if limit is None else min(_CHUNK, limit), limit, read_warnings))
    if not raws:
        raise _no_rows(path)
    meant = _resolve(file, raws[0].columns.column_names, columns, notices)
    prices = _prices(path, raws, meant, read_options, notices)
    tables = list(_assembled(path, raws, meant, prices, 0, read_warnings))
    for sentence in read_warnings.sentences(path):
        notices(sentence)
    currency = None if prices is None else prices.currency
    return replace(concat_tables(tables), currency=currency), Facts(file, prices)


def iter_table(
    path: Path,
    columns: Columns,
    *,
    rows: int = _CHUNK,
    limit: int | None = None,
    read_options: ReadOptions = AS_FOUND,
    notices: Notices = _log.warning,
    first_row: int = 0,
) -> Iterator[Table]:
    """Yield the table in consecutive chunks, in bounded memory; no row is left out.

    Where a price column is read, all of it is looked at before the first chunk: how prices are written is
    told by the whole column.

    Args:
        path: a .csv, .tsv, .txt, .parquet, .pq, .jsonl or .ndjson file.
        columns: which columns mean what.
        rows: rows of a chunk, at most; a chunk also ends at about 64 MB of text.
        limit: read the first `limit` rows only.
        read_options: how the file is read, where it does not show it.
        notices: is told in one sentence each how the file was read where that is no matter of course, and, at
            its end, what was repaired.
        first_row: what rows are counted from.

    Raises:
        DataError: the file is missing, empty, damaged, of an unknown format or another encoding, or
            lacks a column. Raised when the chunk that shows it is asked for.
    """
    path = Path(path)
    read_warnings = ReadWarnings()
    rows = rows if limit is None else max(1, min(rows, limit))
    file = open_file(path, read_options, notices)
    raws = _limited(file, rows, limit, read_warnings)
    first = next(raws, None)
    if first is None:
        raise _no_rows(path)
    _check_width(path, first, read_warnings)
    meant = _resolve(file, first.columns.column_names, columns, notices, first_row)
    prices = _prices(path, _limited(file, rows, limit, ReadWarnings()), meant, read_options, notices)
    yield from _assembled(path, chain([first], raws), meant, prices, first_row, read_warnings)
    for sentence in read_warnings.sentences(path):
        notices(sentence)


def read_frame(frame: pd.DataFrame | pa.Table, columns: Columns) -> Table:
    """The rows of a frame in memory, read as a Parquet file of it would be; its index is left out.

    Raises:
        DataError: a column is missing, there twice, or of values that Arrow cannot hold.
    """
    where, read_warnings = Path(f"the {type(frame).__name__}"), ReadWarnings()
    try:
        arrow = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        said = ", ".join(str(part) for part in error.args)
        raise DataError(f"{where} has values that cannot be read: {said}. Leave that column out.") from None
    check_names(where, arrow.column_names)
    meant = _resolve(OpenedFile(where, "parquet"), arrow.column_names, columns, _log.debug)
    batches = arrow.to_batches(_CHUNK) or [pa.RecordBatch.from_pylist([], arrow.schema)]
    raws = [RawChunk(plain_columns(batch, read_warnings), None, 0) for batch in batches]
    table = concat_tables(list(_assembled(where, raws, meant, None, 0, read_warnings)))
    for sentence in read_warnings.sentences(where):
        _log.warning(sentence)
    return table


def columns_found(path: Path, columns: Columns, read_options: ReadOptions = AS_FOUND) -> Columns:
    """Return the columns that `iter_table` would read, by a file's beginning.

    Raises:
        NoRowsError: the file has no rows.
        DataError: the file is damaged or lacks a column.
    """
    file = open_file(path, read_options, _log.debug)
    if file.kind == "parquet":
        names = names_of_parquet(path)
    else:  # the first object of JSON lines may lack a key
        rows, read_warnings = _CHUNK if file.kind == "jsonl" else _SOME_ROWS, ReadWarnings()
        first = next(_limited(file, rows, rows, read_warnings), None)
        if first is None:
            raise _no_rows(path)
        _check_width(path, first, read_warnings)
        names = first.columns.column_names
    if not names:
        raise _no_rows(path)
    return _resolve(file, names, columns, _log.debug)


def _check_width(path: Path, first: RawChunk, read_warnings: ReadWarnings) -> None:
    """Refuse rows all of which are wider than the header: their cells would be read as those of other columns."""
    rows, width = first.columns.num_rows, first.columns.num_columns
    if rows > 1 and read_warnings.wide >= rows:
        raise DataError(
            f"{path}: all rows have more fields than the header, which has {width}. Perhaps it "
            "lacks a name for the first column, or is not on the first line, or fields that hold the delimiter are not "
            "in quotes. Mend the file, or name all of its columns with --columns, and delete the header then"
        )


def _limited(
    file: OpenedFile, rows: int, limit: int | None, read_warnings: ReadWarnings
) -> Iterator[RawChunk]:
    """Chunks that hold rows, `limit` rows in all."""
    left = limit
    for raw in file.chunks(rows, read_warnings):
        kept = raw if left is None else _first(raw, left)
        if len(kept.columns):
            yield kept
        if left is not None:
            left -= len(kept.columns)
            if left <= 0:
                return


def _prices(
    path: Path, raws: Iterable[RawChunk], columns: Columns, read_options: ReadOptions, notices: Notices
) -> PriceFormat | None:
    """Decide how the prices of a file are written, and say it."""
    if columns.price is None:
        return None
    name = columns.price
    found = price_format((flat(raw.columns.column(name)) for raw in raws), read_options)
    if said := describe_prices(found):
        notices(f"{path}: {said}")
    return found


def _assembled(
    path: Path,
    raws: Iterable[RawChunk],
    columns: Columns,
    prices: PriceFormat | None,
    start: int,
    read_warnings: ReadWarnings,
) -> Iterator[Table]:
    for raw in raws:
        try:
            table = _assemble(raw, columns, prices, start, read_warnings)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            odd = unreadable({name: flat(raw.columns.column(name)) for name in raw.columns.column_names})
            if not odd:
                raise
            raise DataError(
                f"{path}: column {odd[0]!r} holds values that cannot be read ({error}). Write the file without it, or "
                "with it as text."
            ) from None
        yield table
        start += len(table)


def _no_rows(path: Path) -> NoRowsError:
    return NoRowsError(f"{path} has no rows: at least one is expected below the header.")


def _first(raw: RawChunk, rows: int) -> RawChunk:
    ragged = None if raw.ragged is None else raw.ragged[:rows]
    return replace(raw, columns=raw.columns.slice(0, rows), ragged=ragged)


def _resolve(
    file: OpenedFile, names: list[str], columns: Columns, notices: Notices, first_row: int = 0
) -> Columns:
    """Check that the columns are there; an id column that nobody asked for may be missing."""
    for name in columns.text:
        _require(file, names, name, "--text")
    if columns.price is not None:
        _require(file, names, columns.price, "--price")
    if columns.id is None or columns.id in names:
        return columns
    if columns.id_required:
        _require(file, names, columns.id, "--id")
    notices(
        f"{file.path} has no id column {columns.id!r}: row numbers from {first_row:,} are used instead (--id names "
        "another)."
    )
    return replace(columns, id=None)


def _require(file: OpenedFile, names: list[str], name: str, flag: str) -> None:
    if name in names:
        return
    shown = ", ".join(shorten(n) for n in names[:_SHOWN_COLUMNS])
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    raise DataError(
        f"{file.path} has no column {name!r}. It has: {shown}{more}.{did_you_mean(name, names)} Name it with {flag}."
        + _no_header(file, names)
    )


def _no_header(file: OpenedFile, names: list[str]) -> str:
    """What to do where the first line of a file is no header."""
    if file.layout is not None and len(names) == 1:
        return MAY_BE_TITLE
    value = looks_like_data(names) if file.layout is not None and not file.layout.names else None
    if value is None:
        return ""
    return (
        f" The first line looks like data ({shorten(value)!r}); if the file has no header, name its {len(names)} "
        "columns with --columns, in their order."
    )


def _assemble(
    raw: RawChunk, columns: Columns, prices: PriceFormat | None, start: int, read_warnings: ReadWarnings
) -> Table:
    arrays = {name: flat(raw.columns.column(name)) for name in raw.columns.column_names}
    # The price is read before NUL bytes are removed: "1\0999" is no number and must not become one.
    price, flaws = None, None
    if columns.price is not None and prices is not None:
        price, flaws = parse_price(arrays[columns.price], prices)
    if raw.ragged is not None and raw.ragged.any():
        flaws = np.full(len(raw.columns), "", dtype=object) if flaws is None else flaws
        flaws[raw.ragged] = RAGGED
    arrays = {
        name: clean(cells, read_warnings) if is_text(cells.type) else cells for name, cells in arrays.items()
    }
    text = join_text(columns.text, [as_model_text(arrays[name]) for name in columns.text], read_warnings)
    frame = as_frame(arrays)
    rows = np.arange(start, start + len(frame), dtype=np.int64)
    return Table(
        ids=pd.Series(rows, name="row") if columns.id is None else _ids(columns.id, arrays, frame),
        text=pa.table({"text": text}).to_pandas()["text"],
        price=price,
        frame=frame,
        flaws=flaws,
        rows=rows,
        position=raw.position,
    )


def _ids(name: str, arrays: dict[str, pa.Array], frame: pd.DataFrame) -> pd.Series:
    # Decimals, dates and the like are objects in pandas, whose Arrow type would be guessed anew for each chunk.
    if keeps_type(arrays[name].type):
        return frame[name]
    text: pd.DataFrame = pa.table({name: as_text(arrays[name])}).to_pandas()
    return text[name]
