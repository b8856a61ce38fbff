"""The rows of a table that are compared: some of them if there are many, whatever columns it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.monitoring.make import MOST_ROWS, SEED, some_rows
from pricekit.storage import Address
from pricekit.support.progress import progress
from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    Columns,
    ReadOptions,
    Table,
    column_names,
    concat_tables,
    files_size,
    iter_files,
    iter_table,
    table_files,
)
from pricekit.table.columns import as_model_text, join_text
from pricekit.table.table import ReadWarnings


@dataclass(frozen=True)
class ComparedRows:
    """The rows that are compared.

    Attributes:
        table: N rows; missing text columns are empty, and there are no prices if the table has no price column.
        count: the number of rows of the whole table.
        missing: columns that the model reads and the table lacks.
        readable: whether the table has at least one text column.
    """

    table: Table
    count: int
    missing: tuple[str, ...] = ()
    readable: bool = True


def rows_of(table: Table) -> ComparedRows:
    """Return the rows of a table that has all columns, or some of them if there are many."""
    return ComparedRows(table.take(some_rows(len(table))), len(table))


def read_rows(
    source: Any,
    columns: Columns,
    others: Sequence[str] = (),
    *,
    required: Collection[str] = (),
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ComparedRows:
    """Read the rows of a file or a frame, and draw some if there are many, in bounded memory.

    Args:
        source: a file, a folder of Parquet files, a pattern, or a frame.
        columns: that are read.
        others: further columns that the model's features read.
        required: columns that must exist.
        limit: read only the first `limit` rows.
        read_options: how to read the table.

    Raises:
        DataError: the table cannot be read, has no rows, or lacks a required column.
    """
    files = table_files(source) if isinstance(source, Path | Address) else [source]
    names = column_names(files[0], read_options)
    known = {*names, *required}
    present = tuple(name for name in columns.text if name in known)
    missing = [name for name in columns.text if name not in known]
    read = replace(
        columns,
        text=present or tuple(names[:1]),
        price=columns.price if columns.price in known else None,
    )
    given: dict[str, Any] = {"limit": limit, "read_options": read_options}
    if isinstance(source, Path | Address):
        tables, size = iter_files(files, read, **given), files_size(files)
    else:
        tables, size = iter_table(source, read, **given), 0
    table, count = _drawn(tables, size)
    if missing:
        table = _with_columns(table, columns.text)
    lacking = (*missing, *(name for name in others if name not in names))
    return ComparedRows(table, count, lacking, bool(present))


def _drawn(tables: Iterable[Table], size: int) -> tuple[Table, int]:
    """Return all rows, or `MOST_ROWS` of them drawn by chance, and the number of all rows.

    Each row gets a random number, and those with the lowest numbers are kept (reservoir sampling by keys).
    """
    rng, count = np.random.default_rng(SEED), 0
    kept: list[Table] = []
    keys = np.empty(0)
    for table in _with_progress(tables, size):
        count += len(table)
        kept.append(table)
        keys = np.concatenate([keys, rng.random(len(table))])
        if len(keys) > 4 * MOST_ROWS:
            kept, keys = _lowest(kept, keys)
    if len(keys) > MOST_ROWS:
        kept, keys = _lowest(kept, keys)
    return concat_tables(kept), count


def _lowest(tables: list[Table], keys: np.ndarray) -> tuple[list[Table], np.ndarray]:
    chosen = np.sort(np.argpartition(keys, MOST_ROWS)[:MOST_ROWS])
    return [concat_tables(tables).take(chosen)], keys[chosen]


def _with_progress(tables: Iterable[Table], size: int) -> Iterator[Table]:
    position = rows = 0
    with progress("reading", max(1, size)) as advance:
        for table in tables:
            rows += len(table)
            advance(table.position - position, f"{rows:,} rows")
            position = table.position
            yield table


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    """Return a table with all text columns, the missing ones empty."""
    blank = pd.Series(pd.array([""] * len(table), dtype="str"))
    frame = table.frame.assign(**{name: blank for name in names if name not in table.frame})
    cells = [as_model_text(pa.array(frame[name], from_pandas=True)) for name in names]
    text = pd.Series(pd.array(join_text(names, cells, ReadWarnings()), dtype="str"), name="text")
    return replace(table, frame=frame, text=text)


def describe_rows(rows: ComparedRows) -> list[str]:
    """Return sentences about rows that were left out, and about columns that are missing."""
    found = []
    if rows.count > len(rows.table):
        found.append(f"Of {rows.count:,} rows, {len(rows.table):,} drawn by chance are compared.")
    if rows.missing:
        names = ", ".join(repr(name) for name in rows.missing)
        found.append(f"The table lacks {names}, which the model reads.")
    return found
