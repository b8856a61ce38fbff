"""Write rejected rows of tables of any format to one file, for people to inspect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pricekit.table.columns import as_text, flat, keeps_type
from pricekit.table.output.write import atomic_output


def write_rejected(path: Path, frames: Sequence[pd.DataFrame]) -> None:
    """Write the rejected rows of several tables, as `split_usable` returns them, to one Parquet file.

    A column keeps its type if it is the same in all frames, else it becomes text. A frame without a column has nulls in
    it.

    Args:
        path: the file to write; it appears complete or not at all.
        frames: at least one.

    Raises:
        DataError: the system refuses to write.
    """
    tables = [_arrow(frame) for frame in frames]
    mixed = _mixed(tables)
    tables = [_with_text(table, mixed) for table in tables]
    with atomic_output(path) as temporary:
        pq.write_table(pa.concat_tables(tables, promote_options="default"), temporary)


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.table({str(name): _cells(frame[name]) for name in frame.columns})


def _cells(column: pd.Series) -> pa.Array:
    try:
        cells = pa.array(column, from_pandas=True)
    except pa.ArrowException:  # objects of mixed types
        cells = pa.array(column.astype("str"), from_pandas=True)
    cells = flat(pa.chunked_array([cells]) if isinstance(cells, pa.Array) else cells)
    plain = keeps_type(cells.type) or pa.types.is_boolean(cells.type) or pa.types.is_null(cells.type)
    return cells if plain else as_text(cells)


def _mixed(tables: list[pa.Table]) -> set[str]:
    types: dict[str, set[pa.DataType]] = {}
    for field in (field for table in tables for field in table.schema):
        if not pa.types.is_null(field.type):
            types.setdefault(field.name, set()).add(field.type)
    return {name for name, found in types.items() if len(found) > 1}


def _with_text(table: pa.Table, names: set[str]) -> pa.Table:
    cells = {name: flat(table.column(name)) for name in table.column_names}
    return pa.table({name: as_text(c) if name in names else c for name, c in cells.items()})
