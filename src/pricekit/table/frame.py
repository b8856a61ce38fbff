"""Frames in memory: pandas, Arrow, polars and any other with the Arrow PyCapsule interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.table.columns import RawChunk, ReadWarnings, check_names
from pricekit.table.parquet import plain_columns


def is_frame(value: object) -> bool:
    """Return whether a value is a frame with named columns: pandas, Arrow, polars or one with `__arrow_c_stream__`."""
    if isinstance(value, pd.DataFrame | pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    if isinstance(value, type) or not hasattr(value, "__arrow_c_stream__"):
        return False
    try:  # a single column also has the interface, but its type is not a struct
        with _panic_as_error():
            pa.RecordBatchReader.from_stream(value)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


def as_arrow(frame: Any, name: str) -> pa.Table:
    """Return a frame as an Arrow table; the index of a pandas frame is ignored.

    Args:
        frame: a frame that `is_frame` accepts.
        name: the name of the frame, for messages.

    Raises:
        DataError: several columns with the same name, column names with several levels, or values that Arrow cannot
            represent.
    """
    if isinstance(frame, pd.DataFrame):
        _check_labels(frame, name)
    try:
        with _panic_as_error():
            table = _arrow(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        column = _unreadable_column(frame) if isinstance(frame, pd.DataFrame) else None
        where = "" if column is None else f" in the column {column!r}"
        # The first argument of a UnicodeError is only the encoding.
        reason = str(error) if isinstance(error, UnicodeError) or not error.args else str(error.args[0])
        raise DataError(
            f"{name} has values that cannot be read{where}: {reason.rstrip('.')}. "
            "Convert the column to one type, or leave it out.",
            parameters=("table",),
            column=column,
        ) from None
    check_names(name, table.column_names)
    return table


def read_arrow(frame: pa.Table, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows, dictionary-encoded values written out."""
    for start in range(0, frame.num_rows, rows):
        batches = frame.slice(start, rows).to_batches()
        yield RawChunk(pa.concat_tables(plain_columns(batch, read_warnings) for batch in batches), None, 0)


@contextmanager
def _panic_as_error() -> Iterator[None]:
    """Turn a panic of polars, which is a BaseException, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from None


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    return pa.table(frame)


def _check_labels(frame: pd.DataFrame, name: str) -> None:
    if frame.columns.nlevels > 1:
        raise DataError(
            f"{name} has a MultiIndex of {frame.columns.nlevels} levels as its columns. Give each column one name, for "
            "example with frame.columns = frame.columns.map('_'.join).",
            parameters=("table",),
            columns=[str(column) for column in frame.columns],
        )
    check_names(name, [str(column) for column in frame.columns])


def _unreadable_column(frame: pd.DataFrame) -> str | None:
    for label in frame.columns:
        try:
            pa.array(frame[label], from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return str(label)
    return None
