"""Parquet, a batch at a time, every column in its own type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.table.encoding import check_readable
from pricekit.table.model import RawChunk

MAX_CHUNK_BYTES = 64 << 20


def read_parquet(path: Path, rows: int) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows, fewer where an average row is large.

    Raises:
        DataError: no Parquet, a damaged file, or a column name twice.
    """
    check_readable(path)
    try:
        yield from _batches(path, rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as Parquet: {error}. It may be cut off, damaged, or of another format."
        ) from None


def _batches(path: Path, rows: int) -> Iterator[RawChunk]:
    size = path.stat().st_size
    with pq.ParquetFile(path) as file:
        _check_names(path, file.schema_arrow.names)
        total = file.metadata.num_rows
        done = 0
        for batch in file.iter_batches(batch_size=_batch_size(file.metadata, rows)):
            done += len(batch)
            yield RawChunk(pa.Table.from_batches([batch]), None, size * done // total)


def _batch_size(metadata: pq.FileMetaData, rows: int) -> int:
    groups = range(metadata.num_row_groups)
    average: int = sum(metadata.row_group(g).total_byte_size for g in groups) // max(metadata.num_rows, 1)
    return max(1, min(rows, MAX_CHUNK_BYTES // max(average, 1)))


def _check_names(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: the column {twice[0]!r} is there more than once. Rename one of them.")
