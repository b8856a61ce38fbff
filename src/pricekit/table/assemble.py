"""Raw chunks to tables: check the columns, read prices, clean text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.support.text import did_you_mean, nearest, shorten
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
    unreadable_values,
)
from pricekit.table.formats.delimited import TITLE_HINT, looks_like_data
from pricekit.table.model import RAGGED, Columns, Notices, RawChunk, ReadWarnings, Table
from pricekit.table.prices.parse import parse_price
from pricekit.table.prices.price_format import PriceFormat
from pricekit.table.source import OpenedTable

_SHOWN_COLUMNS = 30


def resolve(
    file: OpenedTable, names: list[str], columns: Columns, notices: Notices, first_row: int = 0
) -> Columns:
    """Check that the columns are in a table; an id column that the user did not name may be missing.

    Args:
        file: the table.
        names: its columns.
        columns: the expected columns.
        notices: receives a sentence if the id column is missing.
        first_row: the number of the first row, for that notice.

    Raises:
        DataError: a column is missing.
    """
    for name in columns.text:
        _require(file, names, name, "text")
    if columns.price is not None:
        _require(file, names, columns.price, "price")
    if columns.id is None or columns.id in names:
        return columns
    if columns.id_required:
        _require(file, names, columns.id, "id")
    if file.kind == "frame":  # its rows are identified by position
        return replace(columns, id=None)
    notices(
        f"{file.name} has no id column {columns.id!r}: row numbers from {first_row:,} are used instead (set id to "
        "another column)."
    )
    return replace(columns, id=None)


def _require(file: OpenedTable, names: list[str], name: str, parameter: str) -> None:
    if name in names:
        return
    shown = ", ".join(shorten(n) for n in names[:_SHOWN_COLUMNS]) or "none"
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    headless, parameters = _missing_header(file, names)
    raise DataError(
        f"{file.name} has no column {name!r}. Its columns are: {shown}{more}.{did_you_mean(name, names)}{headless}",
        parameters=(parameter, *parameters),
        column=name,
        candidates=names,
        suggestion=nearest(name, names),
    )


def _missing_header(file: OpenedTable, names: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return advice for a file whose first line is not a header, and the parameter that it names."""
    if file.layout is not None and len(names) == 1:
        return TITLE_HINT, ()
    value = looks_like_data(names) if file.layout is not None and not file.layout.names else None
    if value is None:
        return "", ()
    hint = (
        f" The first line looks like data ({shorten(value)!r}); if the file has no header, name its {len(names)} "
        "columns, in their order."
    )
    return hint, ("columns",)


def check_width(file: OpenedTable, first: RawChunk, read_warnings: ReadWarnings) -> None:
    """Raise DataError if all rows are wider than the header: cells would be read into the wrong columns."""
    rows, width = first.columns.num_rows, first.columns.num_columns
    if rows > 1 and read_warnings.wider >= rows:
        raise DataError(
            f"{file.name}: all rows have more fields than the header, which has {width}. Perhaps it lacks a name for "
            "the first column, or is not on the first line, or fields that contain the delimiter are not quoted. Fix "
            "the file, or delete the header and name all columns.",
            parameters=("columns",),
            width=width,
        )


def assemble(
    file: OpenedTable,
    raws: Iterable[RawChunk],
    columns: Columns,
    prices: PriceFormat | None,
    start: int,
    read_warnings: ReadWarnings,
) -> Iterator[Table]:
    """Yield a table for each chunk.

    Args:
        file: the source of the chunks.
        raws: the chunks.
        columns: the roles of the columns; all of them exist.
        prices: the format of the prices; None reads none.
        start: the number of the first row.
        read_warnings: counts the repairs.

    Raises:
        DataError: values that pandas cannot hold.
    """
    for raw in raws:
        try:
            table = _table(raw, columns, prices, start, read_warnings)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            odd = unreadable({name: flat(raw.columns.column(name)) for name in raw.columns.column_names})
            if not odd:
                raise
            raise unreadable_values(file.name, odd[0], error) from None
        if columns.id is not None and len(table):
            _check_ids(file.name, raw.columns.schema.field(columns.id).type, table.ids)
        yield table
        start += len(table)


def _check_ids(name: str, kind: pa.DataType, ids: pd.Series) -> None:
    """Raise DataError if ids of a type that pandas keeps became text in this chunk: those of others would not."""
    if keeps_type(kind) and not is_text(kind) and isinstance(ids.dtype, pd.StringDtype):
        error = ValueError("times before the year 1 or after 9999")
        raise unreadable_values(name, str(ids.name), error)


def _table(
    raw: RawChunk, columns: Columns, prices: PriceFormat | None, start: int, read_warnings: ReadWarnings
) -> Table:
    arrays = {name: flat(raw.columns.column(name)) for name in raw.columns.column_names}
    # Read prices before NUL bytes are removed: "1\0999" is not a number and must not become one.
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
    # Decimals, dates and others are objects in pandas, and Arrow would guess their type again for each chunk.
    if keeps_type(arrays[name].type):
        return frame[name]
    text: pd.DataFrame = pa.table({name: as_text(arrays[name])}).to_pandas()
    return text[name]
