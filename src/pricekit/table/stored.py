"""Tables whose texts are in a file that is mapped into memory: for tables that are larger than memory.

Such a table is a `Table` like any other. Its text columns are Arrow arrays in the file; numbers stay in memory. Rows
that are taken from it are stored in the same way if they are many, and `parts_of` reads it in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pricekit.mapped import map_file, nameless_file, release_pages
from pricekit.table.model import Table, concat_tables
from pricekit.table.source import OpenedTable

LARGE_BYTES = 1 << 26
"""A table of more bytes is stored. In memory, training takes about eight times the bytes of its table."""

PART_ROWS = 1 << 15
"""Rows that are read or taken together."""

_ALIGNMENT = 64
_TEXT, _IDS = "text", "ids"


def is_large(file: OpenedTable) -> bool:
    """Return whether a table is stored rather than kept in memory: by the bytes of its cells, without reading them."""
    if file.kind == "frame":
        return int(file.origin.nbytes) > LARGE_BYTES
    if file.kind == "parquet":
        with suppress(pa.ArrowException, OSError):  # reported by whoever reads the table
            facts = pq.read_metadata(file.origin)  # its columns are compressed
            size = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
            return bool(size > LARGE_BYTES)
        return False
    return Path(file.origin).stat().st_size > LARGE_BYTES


def stored(parts: Iterable[Table], folder: Path) -> Table:
    """Return a table of consecutive parts, at least one, whose texts are in a file.

    Args:
        parts: tables of the same columns, which are read one after the other.
        folder: the folder of the file, which has no name and disappears with the table.

    Raises:
        OSError: the file cannot be written; the error names the folder.
    """
    try:
        with nameless_file(folder) as file:
            rest, places = [], []
            for part in parts:
                texts, names = _texts_of(part)
                places.append((*_append(file, texts), names))
                rest.append(_without_texts(part))
                release_pages()
            mapped = pa.py_buffer(map_file(file))
    except OSError as error:
        error.filename = error.filename or str(folder)  # an error for a full disk has no file name
        raise
    tables = [
        _with_texts(part, pa.ipc.open_stream(mapped.slice(start, size)).read_all(), names)
        for part, (start, size, names) in zip(rest, places, strict=True)
    ]
    return replace(concat_tables(tables), folder=folder)


def parts_of(table: Table, rows: int = 0) -> Iterator[Table]:
    """Yield the rows of a table in consecutive parts in memory; a table in memory is one part.

    Args:
        table: the table.
        rows: of a part, at most; 0: `PART_ROWS`.
    """
    size = rows or PART_ROWS
    if table.folder is None or not len(table):
        yield table
        return
    for start in range(0, len(table), size):
        yield table.slice(start, start + size)
        release_pages()


def take_stored(table: Table, positions: np.ndarray, folder: Path) -> Table:
    """Return the rows of a stored table at these positions, int (M,), in this order; many rows are stored again."""
    if len(positions) <= PART_ROWS:
        return _take(table, positions)
    some = np.array_split(positions, -(-len(positions) // PART_ROWS))
    return stored((_take(table, part) for part in some), folder)


def _take(table: Table, positions: np.ndarray) -> Table:
    """Return rows in memory. They are taken from one part after the other, because Arrow would join all of them."""
    part = positions // PART_ROWS
    order = np.argsort(part, kind="stable")
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        start = int(part[rows[0]]) * PART_ROWS if len(rows) else 0
        found.append(table.slice(start, start + PART_ROWS).take(positions[rows] - start))
    whole = concat_tables(found)
    if (np.diff(order) > 0).all():
        return whole
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return whole.take(inverse)


def texts_in_parts(texts: pd.Series) -> Iterator[pd.Series]:
    """Yield a column in consecutive parts of at most `PART_ROWS` rows, at least one."""
    for start in range(0, max(1, len(texts)), PART_ROWS):
        yield texts.iloc[start : start + PART_ROWS]
        release_pages()


def _texts_of(table: Table) -> tuple[pa.Table, dict[Any, str]]:
    """Return the different text columns of a table, and for each place in the table the name of its column."""
    found: dict[str, pa.ChunkedArray] = {}
    names: dict[Any, str] = {}
    columns: list[tuple[Any, pd.Series]] = [(_TEXT, table.text), (_IDS, table.ids)]
    columns += [(place, table.frame.iloc[:, place]) for place in range(table.frame.shape[1])]
    for place, column in columns:
        if isinstance(column.dtype, pd.StringDtype):
            cells = pa.chunked_array(pa.array(column))
            same = (name for name, other in found.items() if cells.equals(other))
            names[place] = next(same, str(len(found)))
            found.setdefault(names[place], cells)
    return pa.table(found), names


def _append(file: Any, columns: pa.Table) -> tuple[int, int]:
    """Write columns at the end of a file; return their place and size in bytes."""
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    start = file.tell()
    with pa.ipc.new_stream(file, columns.schema) as writer:
        writer.write_table(columns)
    return start, file.tell() - start


def _without_texts(table: Table) -> Table:
    """Return a table without its texts, each of them an empty column."""
    gone = pd.Series(np.zeros(len(table), np.int8))
    frame = pd.DataFrame(
        {
            place: gone
            if isinstance(table.frame.dtypes.iloc[place], pd.StringDtype)
            else table.frame.iloc[:, place]
            for place in range(table.frame.shape[1])
        },
        index=table.frame.index,
    )
    frame.columns = table.frame.columns
    ids = _named(gone, table.ids) if isinstance(table.ids.dtype, pd.StringDtype) else table.ids
    return replace(table, text=_named(gone, table.text), ids=ids, frame=frame)


def _with_texts(table: Table, texts: pa.Table, names: dict[Any, str]) -> Table:
    """Return a table with the texts that `_texts_of` returned."""
    columns = texts.to_pandas()
    frame = {
        place: columns[names[place]] if place in names else table.frame.iloc[:, place]
        for place in range(table.frame.shape[1])
    }
    whole = pd.DataFrame(frame, index=table.frame.index)
    whole.columns = table.frame.columns
    ids = _named(columns[names[_IDS]], table.ids) if _IDS in names else table.ids
    return replace(table, text=_named(columns[names[_TEXT]], table.text), ids=ids, frame=whole)


def _named(column: pd.Series, like: pd.Series) -> pd.Series:
    """Return a column with the name of another one."""
    return pd.Series(column.array, name=like.name)
