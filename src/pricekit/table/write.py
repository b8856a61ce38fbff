"""Write predictions and other frames to CSV, TSV, JSON lines or Parquet, atomically."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.io.compression import NAMES, open_packed, suffixes_of
from pricekit.io.files import LONGEST_NAME, behind_link, delete_leftovers, write_atomically
from pricekit.io.sources import OnConflict, Output, Sink, check_sink, opened_sink
from pricekit.io.storage import Address, Location, check_bucket, is_folder, is_table, published
from pricekit.table.columns import as_frame, as_text, flat, keeps_type, repeated
from pricekit.table.formats import WRITTEN, format_of, named_format

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROW_GROUP = 1 << 17

_NO_IDS = pd.Series([], dtype="str", name="id")


def check_output(path: Location, read: Sequence[Location] = ()) -> None:
    """Check that a file can be written, before the work that computes its content.

    Whether a remote file may be written is known only when it is uploaded.

    Args:
        path: the file to write.
        read: the tables from which it is computed.

    Raises:
        DataError: the path is not a file, has an unknown suffix or too long a name, is in a folder or bucket that does
            not exist, or is one of the tables.
    """
    with _explained(path):
        problem = _problem(path, read)
    if problem:
        raise DataError(problem, parameters=("out",), path=str(path))


def _problem(path: Location, read: Sequence[Location]) -> str:
    """Return the reason why a file cannot be written, "" if there is none."""
    same = f"{path} is the table itself. Name another file."
    if isinstance(path, Path):
        if any("\ud800" <= letter <= "\udfff" for letter in str(path)):  # bytes that are not UTF-8
            return f"the file name {str(path)!r} is not valid UTF-8. Name another file."
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "a pipe or a device"
            return f"{path} is {kind}. Name a file to write."
    if is_table(path):
        return f"{path} is a table, into which only predictions are written. Name a file."
    if named_format(path) not in WRITTEN:
        return (
            f"{path}: the suffix {''.join(suffixes_of(path)) or '(none)'!r} names no format that can be written. Name "
            f"it .csv, .tsv, .parquet or .jsonl; the texts also with {', '.join(NAMES)}, such as .csv.gz."
        )
    if isinstance(path, Address):
        if path.is_stream:
            return ""
        if path in read:
            return same
        if is_folder(path):
            return f"{path} is a folder. Name a file to write."
        check_bucket(path)
        return ""
    target = behind_link(path)
    if not target.parent.is_dir():
        return f"{path} cannot be written: there is no folder {target.parent}. Create it."
    if len(os.fsencode(target.name)) > LONGEST_NAME:
        return f"{path} cannot be written: its name is too long. At most {LONGEST_NAME} bytes are expected."
    local = [table for table in read if isinstance(table, Path) and table.exists()]
    return same if path.exists() and any(map(path.samefile, local)) else ""


def write_frame(path: Location, frame: pd.DataFrame) -> None:
    """Write a frame without its index; the suffix names the format, as for `PredictionWriter`.

    Raises:
        DataError: as for `check_output`, or several columns have the same name, or the system refuses to write.
    """
    if twice := repeated([str(name) for name in frame.columns]):
        raise DataError(
            f"{path}: two columns would have the name {twice[0]!r}. Rename one of them.",
            parameters=("table",),
            column=twice[0],
        )
    check_output(path)
    if isinstance(path, Path):
        delete_leftovers(behind_link(path), locked=False)
    with (
        _explained(path),
        published(path) as temporary,
        closing(open_sink(temporary, path)) as sink,
    ):
        sink.write(frame)


def check_table_output(
    address: Address, ids: pd.Series, more: Mapping[str, np.ndarray], on_conflict: OnConflict
) -> None:
    """Check that predictions can be written into a table of a database, before they are computed.

    Args:
        address: of the table.
        ids: of any rows, or none.
        more: columns beside the price, of any rows, as of `PredictionWriter.write`.
        on_conflict: as of `PredictionWriter`.

    Raises:
        DataError: there is no such database, or the table has other columns or types.
        ConfigError: the address lacks something.
    """
    frame = _predictions(str(ids.name), ids, {"price": np.empty(len(ids)), **more})
    check_sink(Output(str(address), _schema_of(frame), on_conflict))


class PredictionWriter:
    """Writes a column of ids and the float column `price` in chunks, in the order given.

    Use it as a context manager. The suffix names the format: .csv, .tsv, .parquet, .pq, .jsonl or .ndjson; .gz, .bz2,
    .xz, .zst or .zip after that of a text compresses it. The file appears only if the block ends without an error. The
    id column has the name of the first ids, or "id" if they have none. Into a table of a database, each chunk is
    written as a whole.

    Args:
        path: the file to write; an existing one is replaced at the end. A remote one is uploaded at the end. Or a
            table.
        on_conflict: what happens to a row of a table whose id has another price.
        job: a name of this work for a table, as of `Output.job`.

    Raises:
        DataError: as for `check_output`, or the ids are named "price", or the system refuses to write.
    """

    def __init__(self, path: Location, on_conflict: OnConflict = "update", job: str = "") -> None:
        self._path, self._on_conflict, self._job = path, on_conflict, job
        if not is_table(path):
            check_output(path)
        self._id_name = ""

    def __enter__(self) -> Self:
        self._sink: _TextSink | _ParquetSink | _TableSink
        with _explained(self._path), ExitStack() as stack:
            if is_table(self._path):
                sink = _TableSink(str(self._path), self._on_conflict, self._job)
                self._sink = stack.enter_context(sink)
            else:
                temporary = stack.enter_context(published(self._path))
                temporary.touch()  # fail now rather than after an hour of predicting
                self._sink = stack.enter_context(closing(open_sink(temporary, self._path)))
                stack.push(self._without_rows)
            self._stack = stack.pop_all()
        return self

    def write(self, ids: pd.Series, price: np.ndarray, more: Mapping[str, np.ndarray] | None = None) -> None:
        """Append rows: ids (N,), prices, and more columns: prices, float (N,), or answers, bool (N,)."""
        if len(ids) != len(price):
            raise ValueError(f"{len(ids)} ids and {len(price)} prices; one price for each id is expected")
        self._id_name = self._id_name or str(ids.name or "id")
        prices = {"price": price, **(more or {})}
        if self._id_name in prices:
            raise DataError(
                f"{self._path}: the id column cannot be '{self._id_name}', because the predictions have this name. "
                "Name another id column.",
                parameters=("id",),
                column=self._id_name,
            )
        if is_table(self._path) or format_of(self._path) == "parquet":
            frame = _predictions(self._id_name, ids, prices)
        else:
            frame = pd.DataFrame({self._id_name: ids.array, **prices})
        with _explained(self._path):
            self._sink.write(frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The sink is closed first; if that fails, write_atomically removes the file. An error inside the block is not
        # raised here, so it is not explained as an error of writing.
        with _explained(self._path):
            self._stack.__exit__(kind, error, trace)

    def _without_rows(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._id_name:
            self.write(_NO_IDS, np.empty(0))


def _predictions(name: str, ids: pd.Series, prices: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a frame of ids, of prices as float64, and of answers."""
    typed = {
        name: values if values.dtype == bool else values.astype(np.float64) for name, values in prices.items()
    }
    return pd.DataFrame({name: ids.array, **typed})


def _schema_of(frame: pd.DataFrame) -> pa.Schema:
    """Return the columns of predictions in a table: an id, a whole number or a text, prices and answers."""
    ids, *others = frame.columns
    whole = pd.api.types.is_integer_dtype(frame[ids].dtype) and frame[ids].dtype != np.uint64
    kinds = {name: pa.bool_() if frame[name].dtype == bool else pa.float64() for name in others}
    return pa.schema({ids: pa.int64() if whole else pa.string(), **kinds})


def read_predictions(path: Path, *, text_ids: bool = False) -> tuple[pd.Series, dict[str, np.ndarray]]:
    """Return the ids of a Parquet file from a `PredictionWriter`, and the others by name: float32 (N,), or bool.

    Args:
        path: the file.
        text_ids: convert the ids to text.
    """
    import pyarrow.parquet as pq  # slow to import

    table = pq.ParquetFile(path).read()
    (name, *names), ids = table.column_names, flat(table.column(0))
    frame = as_frame({name: as_text(ids) if text_ids else ids})
    columns = {each: table.column(each).to_numpy() for each in names}
    return frame[name], {
        each: cells if cells.dtype == bool else cells.astype(np.float32) for each, cells in columns.items()
    }


def write_rejected(path: Path, frames: Sequence[pd.DataFrame]) -> None:
    """Write the rejected rows of several tables, as `split_usable` returns them, to one Parquet file.

    A column keeps its type if it is the same in all frames, else it becomes text. A column that a frame lacks is
    filled with nulls.

    Args:
        path: the file to write, atomically.
        frames: at least one.

    Raises:
        DataError: the system refuses to write.
    """
    import pyarrow.parquet as pq  # slow to import

    tables = [{str(name): _cells(frame[name]) for name in frame.columns} for frame in frames]
    types: dict[str, set[pa.DataType]] = {}
    for name, cells in chain.from_iterable(table.items() for table in tables):
        if not pa.types.is_null(cells.type):
            types.setdefault(name, set()).add(cells.type)
    mixed = {name for name, kinds in types.items() if len(kinds) > 1}
    columns = [
        pa.table({name: as_text(cells) if name in mixed else cells for name, cells in table.items()})
        for table in tables
    ]
    with _explained(path), write_atomically(path) as temporary:
        pq.write_table(pa.concat_tables(columns, promote_options="default"), temporary)


def _cells(column: pd.Series) -> pa.Array:
    try:
        cells = pa.array(column, from_pandas=True)
    except pa.ArrowException:  # objects of mixed types
        cells = pa.array(column.astype("str"), from_pandas=True)
    cells = flat(pa.chunked_array([cells]) if isinstance(cells, pa.Array) else cells)
    plain = keeps_type(cells.type) or pa.types.is_boolean(cells.type) or pa.types.is_null(cells.type)
    return cells if plain else as_text(cells)


@contextmanager
def _explained(path: Location) -> Iterator[None]:
    """Name the file that could not be written; the system only reports the reason."""
    try:
        yield
    except BrokenPipeError:  # whoever reads the output has read enough
        raise
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}.", parameters=("out",), path=str(path)
        ) from None


def open_sink(path: Path, named: Location) -> _TextSink | _ParquetSink:
    """Start a file to which frames of equal columns and types are appended, in the format that another path names."""
    return _ParquetSink(path) if format_of(named) == "parquet" else _TextSink(path, named)


class _TextSink:
    def __init__(self, path: Path, named: Location) -> None:
        self._kind = format_of(named)
        self._header = True
        _, compression = suffixes_of(named)
        with ExitStack() as stack:
            file = stack.enter_context(open_packed(path, compression, named.name.removesuffix(compression)))
            self._file = stack.enter_context(TextIOWrapper(file, encoding="utf-8", newline=""))
            self.close = stack.pop_all().close

    def write(self, frame: pd.DataFrame) -> None:
        text = _json_lines(frame) if self._kind == "jsonl" else self._delimited(frame)
        self._file.write(text)
        self._header = False

    def _delimited(self, frame: pd.DataFrame) -> str:
        # pandas would write times as dates if all are at midnight.
        cells = frame.astype({name: object for name in frame.columns if frame[name].dtype.kind == "M"})
        for name in [name for name in frame.columns if frame[name].dtype == bool]:
            cells[name] = np.where(frame[name], "true", "false")  # as in JSON

        def written(quoting: Literal[0, 1]) -> str:
            return cells.to_csv(
                sep="\t" if self._kind == "tsv" else ",",
                header=self._header,
                index=False,
                lineterminator="\n",
                quoting=quoting,
            )

        text = written(csv.QUOTE_MINIMAL)
        # Python below 3.13 does not quote a single carriage return, at which a reader would end the row.
        return written(csv.QUOTE_ALL) if "\r" in text else text


class _TableSink:
    """Writes into a table; the first frame decides columns and types."""

    def __init__(self, address: str, on_conflict: OnConflict, job: str) -> None:
        self._facts = address, on_conflict, job
        self._sink: Sink | None = None

    def __enter__(self) -> Self:
        self._stack = ExitStack().__enter__()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        if self._sink is None:
            address, on_conflict, job = self._facts
            self._schema = _schema_of(frame)
            output = Output(address, self._schema, on_conflict, job)
            self._sink = self._stack.enter_context(opened_sink(output))
        columns = [_cells(frame[name]) for name in frame.columns]
        if self._schema.types[0] == pa.string():
            columns[0] = as_text(columns[0])
        arrays = [cells.cast(kind) for cells, kind in zip(columns, self._schema.types, strict=True)]
        self._sink.write(pa.Table.from_arrays(arrays, schema=self._schema))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def _json_lines(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    rows = zip(*(_python_values(frame[name]) for name in frame.columns), strict=True)
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str) for row in rows)
    return "".join(line + "\n" for line in lines)


class _ParquetSink:
    """Collects chunks into row groups of a suitable size; all have the types of the first chunk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: list[pa.Table] = []
        self._schema: pa.Schema | None = None
        self._file: pq.ParquetWriter | None = None

    def write(self, frame: pd.DataFrame) -> None:
        # Arrow would guess the type of Python objects from the values of each chunk.
        objects = {name: "str" for name in frame.columns if frame[name].dtype == object}
        chunk = pa.Table.from_pandas(frame.astype(objects), self._schema, preserve_index=False)
        chunk = chunk.replace_schema_metadata()
        self._schema = self._schema or chunk.schema
        self._pending.append(chunk)
        if sum(map(len, self._pending)) >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if not self._pending:
            return
        import pyarrow.parquet as pq  # slow to import

        table = pa.concat_tables(self._pending)
        self._pending = []
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table)


def _python_values(column: pd.Series) -> list[Any]:
    """Return cells as Python values, None for a missing one, floats by their shortest decimals.

    These are 12.34 for a float32, not 12.34000015258789.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        column = pd.Series(column.to_numpy().astype(str).astype(np.float64))
    return column.astype(object).where(column.notna(), None).tolist()
