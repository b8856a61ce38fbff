"""Data frames, and files of typed columns, read with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.table.columns import RawChunk, ReadWarnings, check_names, column_names_of, is_text, text_array

MAX_CHUNK_BYTES = 64 << 20
_ROWS_AT_ONCE = 256
"""Rows per batch. Their size is unknown until dictionary-encoded values are decoded."""
_PACKED = 3
"""How many times larger the cells of a file may be whose format does not tell it."""


def read_columnar(path: Path, kind: str, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows or about `MAX_CHUNK_BYTES`, dictionary-encoded values written out.

    Bytes in a text that are not UTF-8 become U+FFFD and are counted in `read_warnings`.

    Args:
        path: the file.
        kind: one of `COLUMNAR`.
        rows: maximum number of rows per chunk.
        read_warnings: counts repairs.

    Raises:
        DataError: a file of another format, a damaged one, or several columns with the same name.
    """
    with _explained(path, kind):
        yield from _chunks(path, kind, rows, read_warnings)


def describe_columnar(path: Path, kind: str) -> tuple[pa.Schema, bool]:
    """Return the columns, and whether there are rows; raises DataError for a damaged file."""
    with _explained(path, kind), COLUMNAR[kind](path) as file:
        return _renamed(file.schema), file.has_rows()


def stored_bytes(path: Path, kind: str) -> int:
    """Return about the bytes of all cells, unpacked; raises DataError for a damaged file."""
    with _explained(path, kind), COLUMNAR[kind](path) as file:
        return file.bytes


def no_cells(schema: pa.Schema) -> pa.Table:
    """Return columns as `read_columnar` and `read_arrow` would, but without their rows."""
    batch = pa.record_batch([pa.nulls(0, kind) for kind in schema.types], schema.names)
    return plain_columns(batch, ReadWarnings())


def _renamed(schema: pa.Schema) -> pa.Schema:
    """Return columns with the names that `column_names_of` gives them."""
    names = column_names_of(schema.names)
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


@contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # a damaged name is a UnicodeDecodeError
        raise DataError(
            f"{path} cannot be read as {_TITLES[kind]}: {str(error).rstrip('.')}. It may be incomplete, damaged, or in "
            "a different format.",
            parameters=("table",),
        ) from None


@dataclass(frozen=True)
class _Columnar:
    """An open file of typed columns.

    Attributes:
        schema: its columns.
        has_rows: returns whether it has rows.
        bytes: about the bytes of all cells, unpacked.
        batches: yields batches of at most so many rows, each with the share of the file that was read with it.
    """

    schema: pa.Schema
    has_rows: Callable[[], bool]
    bytes: int
    batches: Callable[[int], Iterator[tuple[pa.RecordBatch, float]]]


@contextmanager
def _parquet(path: Path) -> Iterator[_Columnar]:
    with pq.ParquetFile(path) as file:
        facts = file.metadata
        size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))

        def batches(rows: int) -> Iterator[tuple[pa.RecordBatch, float]]:
            done, rows = 0, _rows_at_once(rows, size, facts.num_rows)
            for batch in file.iter_batches(batch_size=rows):
                done += len(batch)
                yield batch, done / facts.num_rows
            if done != facts.num_rows:
                raise OSError(f"{done:,} rows were read, but its footer counts {facts.num_rows:,}")

        yield _Columnar(file.schema_arrow, lambda: facts.num_rows > 0, size, batches)


@contextmanager
def _feather(path: Path) -> Iterator[_Columnar]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield _Columnar(
            reader.schema,
            lambda: any(len(reader.get_batch(number)) for number in range(reader.num_record_batches)),
            _PACKED * file.size(),
            lambda rows: _sliced(reader.get_batch, reader.num_record_batches, rows),
        )


@contextmanager
def _orc(path: Path) -> Iterator[_Columnar]:
    from pyarrow.orc import ORCFile

    with pa.OSFile(str(path)) as stream:
        file = ORCFile(stream)
        yield _Columnar(
            file.schema,
            lambda: file.nrows > 0,
            _PACKED * stream.size(),
            lambda rows: _sliced(file.read_stripe, file.nstripes, rows),
        )


def _sliced(
    read: Callable[[int], pa.RecordBatch], count: int, rows: int
) -> Iterator[tuple[pa.RecordBatch, float]]:
    for number in range(count):
        batch = read(number)
        batch.validate(full=True)  # a damaged file may point outside of it
        step = _rows_at_once(rows, batch.nbytes, len(batch))
        for start in range(0, len(batch), step):
            yield batch.slice(start, step), (number + min(1.0, (start + step) / len(batch))) / count


def _rows_at_once(rows: int, size: int, total: int) -> int:
    """Return how many rows to read at a time, of rows that have `size` bytes in all."""
    return max(1, min(rows, _ROWS_AT_ONCE, MAX_CHUNK_BYTES // max(size // max(total, 1), 1)))


_TITLES = {"parquet": "Parquet", "feather": "Feather", "orc": "ORC"}
COLUMNAR = {"parquet": _parquet, "feather": _feather, "orc": _orc}
"""The formats of files with typed columns, and what opens them."""


def _chunks(path: Path, kind: str, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    size = path.stat().st_size
    with COLUMNAR[kind](path) as file:
        names = column_names_of(file.schema.names)
        check_names(str(path), names)
        position = 0
        parts: list[pa.Table] = []
        for batch, read in file.batches(rows):
            full = (
                sum(map(len, parts)) + len(batch) > rows
                or sum(part.nbytes for part in parts) >= MAX_CHUNK_BYTES
            )
            if parts and full:
                yield RawChunk(pa.concat_tables(parts), None, position)
                parts = []
            parts.append(plain_columns(batch.rename_columns(names), read_warnings))
            position = int(size * read)
        if parts:
            yield RawChunk(pa.concat_tables(parts), None, size)


def plain_columns(batch: pa.RecordBatch, read_warnings: ReadWarnings) -> pa.Table:
    """Return the columns with encoded values written out, all text in valid UTF-8, and times in known zones.

    A time in a zone that this machine does not know is read in UTC, in which Arrow stores it.
    """
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            values = column.dictionary
            if pa.types.is_string_view(values.type):  # as polars has; Arrow has no kernel to take from it
                values = values.cast(pa.large_string())
            column = values.take(column.indices)
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_timestamp(column.type) and not _is_known(column.type.tz):
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        columns[name] = _utf8(column, read_warnings) if is_text(column.type) else column
    return pa.table(columns)


@lru_cache
def _is_known(zone: str | None) -> bool:
    """Return whether times in a zone can be read on this machine; None is a time without a zone."""
    if zone is None:
        return True
    try:
        pc.strftime(pa.array([0], pa.timestamp("s", zone)))
        pa.scalar(0, pa.timestamp("s", zone)).as_py()
    except (pa.ArrowException, ValueError):
        return False
    return True


def _utf8(column: pa.Array, read_warnings: ReadWarnings) -> pa.Array:
    try:
        column.validate(full=True)
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        cells = [(cell or b"").decode("utf-8", "replace") for cell in raw]
        read_warnings.not_utf8 += sum("\ufffd" in cell for cell in cells)
        return text_array(cells)


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
        return hasattr(value, "columns")  # `as_arrow` names the column that has a type of its own
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
            if isinstance(frame, pd.DataFrame):
                table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
            else:
                table = pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        column = _unreadable_column(frame)
        where = "" if column is None else f" in the column {column!r}"
        # The first argument of a UnicodeError is only the encoding.
        reason = str(error) if isinstance(error, UnicodeError) or not error.args else str(error.args[0])
        if "format string" in reason and column is not None:
            reason = f"pyarrow does not know their type, {frame[column].dtype}"
        raise DataError(
            f"{name} has values that cannot be read{where}: {reason.rstrip('.')}. "
            "Convert the column to one type, or leave it out.",
            parameters=("table",),
            column=column,
        ) from None
    table = table.rename_columns(column_names_of(table.column_names))
    check_names(name, table.column_names)
    return table


def read_arrow(frame: pa.Table, rows: int, read_warnings: ReadWarnings, size: int = 0) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows, dictionary-encoded values written out; `size` is that of their file."""
    for start in range(0, frame.num_rows, rows):
        part = frame.slice(start, rows)
        columns = pa.concat_tables(plain_columns(batch, read_warnings) for batch in part.to_batches())
        yield RawChunk(columns, None, size * (start + len(part)) // frame.num_rows)


@contextmanager
def _panic_as_error() -> Iterator[None]:
    """Turn a panic of polars, which is a BaseException, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from None


def _check_labels(frame: pd.DataFrame, name: str) -> None:
    if frame.columns.nlevels > 1:
        raise DataError(
            f"{name} has a MultiIndex of {frame.columns.nlevels} levels as its columns. Give each column one name, for "
            "example with frame.columns = frame.columns.map('_'.join).",
            parameters=("table",),
            columns=[str(column) for column in frame.columns],
        )
    check_names(name, [str(column) for column in frame.columns])


def _unreadable_column(frame: Any) -> str | None:
    for label in getattr(frame, "columns", ()):
        try:
            if isinstance(frame, pd.DataFrame):
                pa.array(frame[label], from_pandas=True)
            else:
                pa.chunked_array(frame[label])
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return str(label)
    return None
