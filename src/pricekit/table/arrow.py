"""Data frames, and files of typed columns, read with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.io import sandbox
from pricekit.io.compression import FREE_BYTES, MAX_RATIO, ROW_BYTES, too_packed
from pricekit.io.cpus import available_memory
from pricekit.io.sandbox import in_sandbox
from pricekit.table.columns import (
    RAW_TEXT_CHARS,
    RawChunk,
    ReadWarnings,
    check_names,
    column_names_of,
    is_text,
    places_of,
    text_array,
)
from pricekit.table.feather_buffers import MAX_OPEN_BYTES, batch_bytes
from pricekit.table.parquet_pages import rows_at_once
from pricekit.wording import shorten

MAX_CHUNK_BYTES = 16 << 20
_ROWS_AT_ONCE = 256
"""Rows per batch. Their size is unknown until dictionary-encoded values are decoded."""
_BUFFER_BYTES = 1 << 18
"""As much of a column is read ahead."""
MAX_CELL_BYTES = 64 << 20
"""The most bytes of a row in columns whose cells share values or are lists."""
_VALUE_BYTES = 64
"""What a value of a list takes in Python."""
_TRY_SECONDS, _TRY_BYTES_PER_SECOND, _TRY_MEMORY = 60, 10 << 20, 704 << 20
_PACKED = 3
"""The cells are assumed to be this many times larger than a file whose format does not state their size."""


def read_columnar(
    path: Path,
    kind: str,
    rows: int,
    read_warnings: ReadWarnings,
    wanted: frozenset[str] | None = None,
) -> Iterator[RawChunk]:
    """Yield chunks of at most `rows` rows or about `MAX_CHUNK_BYTES`, dictionary-encoded values written out.

    Bytes in a text that are not UTF-8 become U+FFFD and are counted in `read_warnings`.

    Args:
        path: the file.
        kind: one of `COLUMNAR`.
        rows: maximum number of rows per chunk.
        read_warnings: counts repairs.
        wanted: the columns to read; None: all.

    Raises:
        DataError: a file of another format, a damaged one, too many columns, or several with the same name.
    """
    with _explained(path, kind):
        yield from _chunks(path, kind, rows, read_warnings, wanted)


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
    ) as error:  # a damaged name: UnicodeDecodeError
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
        batches: yields batches of at most so many rows, each with the share of the file that was read with it. They
            have at least the named columns, or all.
    """

    schema: pa.Schema
    has_rows: Callable[[], bool]
    bytes: int
    batches: Callable[[int, list[str] | None], Iterator[tuple[pa.RecordBatch, float]]]


@contextmanager
def _parquet(path: Path) -> Iterator[_Columnar]:
    import pyarrow.parquet as pq  # slow to import

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        facts = file.metadata
        size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))

        def batches(rows: int, names: list[str] | None) -> Iterator[tuple[pa.RecordBatch, float]]:
            done, rows = 0, _rows_at_once(rows, size, facts.num_rows)
            for group in range(facts.num_row_groups):
                at_once, unknown = rows_at_once(path, file, group, rows, names)
                if unknown:
                    _try(path, read_row_group, str(group), str(at_once), *unknown)
                for batch in file.iter_batches(at_once, [group], names):
                    done += len(batch)
                    yield batch, done / facts.num_rows
            if done != facts.num_rows:
                raise OSError(f"{done:,} rows were read, but its footer counts {facts.num_rows:,}")

        yield _Columnar(file.schema_arrow, lambda: facts.num_rows > 0, size, batches)


@contextmanager
def _feather(path: Path) -> Iterator[_Columnar]:
    largest = batch_bytes(path)
    new = pa.memory_map if largest > MAX_OPEN_BYTES else pa.OSFile  # nothing of it is compressed
    with new(str(path)) as file, pa.ipc.open_file(file) as reader:
        yield _Columnar(
            reader.schema,
            lambda: any(len(reader.get_batch(number)) for number in range(reader.num_record_batches)),
            _PACKED * file.size(),
            lambda rows, _: _sliced(reader.get_batch, reader.num_record_batches, rows),
        )


@contextmanager
def _orc(path: Path) -> Iterator[_Columnar]:
    from pyarrow.orc import ORCFile

    with pa.OSFile(str(path)) as stream:
        file = ORCFile(stream)

        def batches(rows: int, _: list[str] | None) -> Iterator[tuple[pa.RecordBatch, float]]:
            _try(path, read_stripes)
            yield from _sliced(file.read_stripe, file.nstripes, rows)

        yield _Columnar(file.schema, lambda: file.nrows > 0, _PACKED * stream.size(), batches)


def _try(path: Path, read: Callable[..., object], *arguments: str) -> None:
    """Read a part of a file, whose format states no sizes, in a sandbox; raise DataError if it takes too much."""
    state = path.stat()
    _try_once(path.absolute(), state.st_size, state.st_mtime_ns, read.__name__, arguments)


@lru_cache
def _try_once(path: Path, size: int, _changed: int, read: str, arguments: tuple[str, ...]) -> None:
    outcome = in_sandbox(
        "pricekit.table.arrow:load_libraries",
        f"pricekit.table.arrow:{read}",
        [str(path), *arguments],
        seconds=max(_TRY_SECONDS, size // _TRY_BYTES_PER_SECOND),
        memory=int(min(_TRY_MEMORY, available_memory())),
    )
    if outcome.failure in (sandbox.MEMORY, sandbox.TIME):
        raise DataError(
            f"{path} was opened in a sandbox, and cannot be read: {outcome.message}. Write it with smaller cells, and "
            "fewer rows in a stripe or row group.",
            parameters=("table",),
        )
    if outcome.failure:
        raise OSError(outcome.message)


def load_libraries() -> None:
    """Load what reads ORC and Parquet before the limits begin; called in the sandbox."""
    import pyarrow.orc  # noqa: F401


def read_stripes(path: str) -> tuple[None, bytes]:
    """Read the parts of an ORC file one by one; called in the sandbox."""
    from pyarrow.orc import ORCFile

    file = ORCFile(path)
    for number in range(file.nstripes):
        file.read_stripe(number)
    return None, b""


def read_row_group(path: str, group: str, rows: str, *names: str) -> tuple[None, bytes]:
    """Read columns of a row group of a Parquet file, so many rows at a time; called in the sandbox."""
    import pyarrow.parquet as pq  # slow to import

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        for _ in file.iter_batches(int(rows), [int(group)], list(names), use_threads=False):
            pass
    return None, b""


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


def _chunks(
    path: Path, kind: str, rows: int, read_warnings: ReadWarnings, wanted: frozenset[str] | None
) -> Iterator[RawChunk]:
    size = path.stat().st_size
    left = FREE_BYTES + MAX_RATIO * size
    with COLUMNAR[kind](path) as file:
        names = column_names_of(file.schema.names)
        check_names(str(path), names)
        places = places_of(str(path), names, wanted)
        read_names = None if len(places) == len(names) else [file.schema.names[place] for place in places]
        names = [names[place] for place in places]
        position = done = 0
        parts: list[pa.Table] = []
        for batch, read in file.batches(rows, read_names):
            if read_names is not None:
                batch = batch.select(read_names)
            for some in _small(path, batch.rename_columns(names), done):
                full = (
                    sum(map(len, parts)) + len(some) > rows
                    or sum(part.nbytes for part in parts) >= MAX_CHUNK_BYTES
                )
                if parts and full:
                    yield RawChunk(pa.concat_tables(parts), None, position)
                    parts = []
                parts.append(plain_columns(some, read_warnings))
                left -= ROW_BYTES * len(some) + max(some.nbytes, parts[-1].nbytes)
                if left < 0:
                    raise too_packed(path)
            done += len(batch)
            position = int(size * read)
        if parts:
            yield RawChunk(pa.concat_tables(parts), None, size)


def _small(path: Path, batch: pa.RecordBatch, first: int) -> Iterator[pa.RecordBatch]:
    """Yield consecutive rows that fit into memory with cells written out; raises DataError for a larger row."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    written = {name: sizes for name, column in columns if (sizes := written_bytes(column)) is not None}
    ends = np.cumsum(sum(written.values()) if written else np.zeros(len(batch), np.int64))
    start = 0
    while len(ends) and ends[-1] - (before := ends[start - 1] if start else 0) > MAX_CELL_BYTES:
        stop = int(np.searchsorted(ends, before + MAX_CELL_BYTES, side="right"))
        if stop == start:
            widest = max(written, key=lambda name: written[name][start])
            raise DataError(
                f"{path}: row {first + start:,}, counted from 0, takes more than {MAX_CELL_BYTES >> 20} MB, most of "
                f"them in the column {shorten(widest)!r}. Shorten its cells, or leave the row out.",
                parameters=("table",),
                column=widest,
                row=first + start,
            )
        yield batch.slice(start, stop - start)
        start = stop
    yield batch.slice(start) if start else batch


def written_bytes(column: pa.Array) -> np.ndarray | None:
    """Return about how many bytes each cell takes when it is written out, int64 (N,); None if all are already."""
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return written_bytes(column.storage)
    shares = types.is_dictionary(kind) or types.is_run_end_encoded(kind) or types.is_nested(kind)
    return _bytes_of(column) if shares or types.is_string_view(kind) or types.is_binary_view(kind) else None


def _bytes_of(column: Any) -> np.ndarray:
    kind, types, rows = column.type, pa.types, len(column)
    sizes: Any
    if isinstance(kind, pa.BaseExtensionType):
        sizes = _bytes_of(column.storage)
    elif types.is_dictionary(kind):
        values = np.append(_bytes_of(column.dictionary), 0)
        sizes = values[_whole(column.indices, len(values) - 1)]
    elif types.is_run_end_encoded(kind):
        ends = np.asarray(column.run_ends)
        sizes = _bytes_of(column.values)[np.searchsorted(ends, column.offset + np.arange(rows), side="right")]
    elif types.is_struct(kind):
        sizes = sum(map(_bytes_of, column.flatten()), np.full(rows, _VALUE_BYTES))
    elif types.is_union(kind):
        fields = [_bytes_of(column.field(number)).max(initial=0) for number in range(kind.num_fields)]
        sizes = np.full(rows, _VALUE_BYTES + max(fields, default=0))
    elif types.is_nested(kind):  # lists and maps
        lists = (
            column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
            if types.is_map(kind)
            else column
        )
        counts = _whole(pc.list_value_length(lists), 0)
        sizes = counts * _VALUE_BYTES
        if sizes.sum() <= MAX_OPEN_BYTES:  # writing the values of list views out may be too much
            ends = np.cumsum(np.append(0, _VALUE_BYTES + _bytes_of(lists.flatten())))
            places = np.cumsum(np.append(0, counts))
            sizes = ends[places[1:]] - ends[places[:-1]]
    elif types.is_string_view(kind) or types.is_binary_view(kind):
        lengths = np.frombuffer(column.buffers()[1], np.int32)[4 * column.offset :: 4][:rows]
        sizes = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    elif is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        sizes = _whole(pc.binary_length(column), 0)
    else:
        sizes = np.full(rows, kind.byte_width if types.is_fixed_size_binary(kind) else 8)
    return np.asarray(sizes, np.int64)


def _whole(numbers: pa.Array, default: int) -> np.ndarray:
    """Return whole numbers, int64 (N,), with a default for those that are missing."""
    return np.asarray(pc.fill_null(numbers.cast(pa.int64()), default))


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
        column = column.cast(pa.large_string())
        if column.nbytes > RAW_TEXT_CHARS and pc.max(pc.binary_length(column)).as_py() > RAW_TEXT_CHARS:
            column = pc.utf8_slice_codeunits(column, 0, RAW_TEXT_CHARS)
        return column
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        cells = [(cell or b"")[: 4 * RAW_TEXT_CHARS].decode("utf-8", "replace") for cell in raw]
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


def as_arrow(frame: Any, name: str, wanted: frozenset[str] | None = None) -> pa.Table:
    """Return a frame as an Arrow table; the index of a pandas frame is ignored.

    Args:
        frame: a frame that `is_frame` accepts.
        name: the name of the frame, for messages.
        wanted: the columns to read; None: all.

    Raises:
        DataError: too many columns, several with the same name, column names with several levels, or values that
            Arrow cannot represent.
    """
    if isinstance(frame, pd.DataFrame):
        _check_labels(frame, name)
        labels = column_names_of(map(str, frame.columns))
        check_names(name, labels)
        places = places_of(name, labels, wanted)
        frame = frame if len(places) == len(labels) else frame.iloc[:, places]
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
    places = places_of(name, table.column_names, wanted)
    return table if len(places) == table.num_columns else table.select(places)


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
