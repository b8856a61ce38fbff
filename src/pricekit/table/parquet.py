"""Parquet, read in batches; every column keeps its type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.table.columns import RawChunk, ReadWarnings, check_names, flat, is_text, text_array
from pricekit.table.encoding import check_readable

MAX_CHUNK_BYTES = 64 << 20
_ROWS_AT_ONCE = 256
"""Rows per batch. Their size is unknown until dictionary-encoded values are decoded."""


def read_parquet(path: Path, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows or about `MAX_CHUNK_BYTES`, dictionary-encoded values written out.

    Bytes in a text that are not UTF-8 become U+FFFD and are counted in `read_warnings`.

    Raises:
        DataError: not a Parquet file, a damaged one, or several columns with the same name.
    """
    check_readable(path)
    with _explained(path):
        yield from _chunks(path, rows, read_warnings)


def names_of_parquet(path: Path) -> list[str]:
    """Return the names of the columns, [] for a file without rows; raises DataError for a damaged file."""
    with _explained(path), pq.ParquetFile(path) as file:
        return list(file.schema_arrow.names) if file.metadata.num_rows else []


def no_cells(path: Path) -> dict[str, pa.Array]:
    """Return the columns as `read_parquet` would, but without their rows; raises DataError for a damaged file."""
    with _explained(path), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        batch = pa.record_batch([pa.nulls(0, kind) for kind in schema.types], schema.names)
        columns = plain_columns(batch, ReadWarnings())
    return {name: flat(columns[name]) for name in columns.column_names}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # a damaged name is a UnicodeDecodeError
        raise DataError(
            f"{path} cannot be read as Parquet: {str(error).rstrip('.')}. It may be incomplete, damaged, or in "
            "a different format.",
            parameters=("table",),
        ) from None


def _chunks(path: Path, rows: int, read_warnings: ReadWarnings) -> Iterator[RawChunk]:
    size = path.stat().st_size
    with pq.ParquetFile(path) as file:
        check_names(str(path), file.schema_arrow.names)
        total = file.metadata.num_rows
        done = 0
        parts: list[pa.Table] = []
        for batch in file.iter_batches(batch_size=_batch_size(file.metadata, rows)):
            full = (
                sum(map(len, parts)) + len(batch) > rows
                or sum(part.nbytes for part in parts) >= MAX_CHUNK_BYTES
            )
            if parts and full:
                yield RawChunk(pa.concat_tables(parts), None, size * done // total)
                parts = []
            parts.append(plain_columns(batch, read_warnings))
            done += len(batch)
        if parts:
            yield RawChunk(pa.concat_tables(parts), None, size)
        if done != total:
            raise OSError(f"{done:,} rows were read, but its footer counts {total:,}")


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


def _batch_size(metadata: pq.FileMetaData, rows: int) -> int:
    groups = range(metadata.num_row_groups)
    average: int = sum(metadata.row_group(g).total_byte_size for g in groups) // max(metadata.num_rows, 1)
    return max(1, min(rows, _ROWS_AT_ONCE, MAX_CHUNK_BYTES // max(average, 1)))
