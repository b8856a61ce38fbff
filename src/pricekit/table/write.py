"""Predictions out, whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pricekit.errors import DataError
from pricekit.files import write_atomically
from pricekit.table.model import format_of

_ROW_GROUP = 1 << 17


class _Sink(Protocol):
    def write(self, ids: pd.Series, price: np.ndarray) -> None: ...

    def close(self) -> None: ...


class PredictionWriter:
    """Writes a column of ids and the float column `price`, a chunk at a time, in the order given.

    Used as a context manager. The suffix decides the format: .csv, .tsv, .parquet, .pq, .jsonl or
    .ndjson. The file appears under its name when the block ends well, and not at all otherwise.

    Args:
        path: the file to write; an existing one is replaced at the end.
        id_name: the name of the id column.

    Raises:
        DataError: an unknown suffix, an id column called "price", or the system refuses to write.
    """

    def __init__(self, path: Path, id_name: str) -> None:
        self._path = Path(path)
        self._id_name = id_name
        self._format = format_of(self._path)
        if id_name == "price":
            raise DataError(f"{path}: the id column cannot be called 'price', the name of what is predicted.")

    def __enter__(self) -> Self:
        if self._path.is_dir():
            raise DataError(f"{self._path} is a folder. Give the path of the file to write.")
        with _explained(self._path), ExitStack() as stack:
            temporary = stack.enter_context(write_atomically(self._path))
            temporary.touch()  # what cannot be written is said now, not after an hour of predicting
            self._sink = self._open(temporary)
            stack.callback(self._sink.close)
            self._stack = stack.pop_all()
        return self

    def write(self, ids: pd.Series, price: np.ndarray) -> None:
        """Append rows: ids (N,) and prices, float (N,), in the table's currency."""
        if len(ids) != len(price):
            raise ValueError(f"{len(ids)} ids and {len(price)} prices; one price for each id is expected")
        with _explained(self._path):
            self._sink.write(ids, price)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The sink is closed first; a failure there, too, reaches write_atomically, which removes the file.
        # What failed inside the block is not raised here but goes on from there, unexplained.
        with _explained(self._path):
            self._stack.__exit__(kind, error, trace)

    def _open(self, temporary: Path) -> _Sink:
        if self._format == "parquet":
            return _ParquetSink(temporary, self._id_name)
        if self._format == "jsonl":
            return _JsonSink(temporary, self._id_name)
        return _DelimitedSink(temporary, self._id_name, "\t" if self._format == "tsv" else ",")


class _DelimitedSink:
    def __init__(self, path: Path, id_name: str, delimiter: str) -> None:
        self._delimiter = delimiter
        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()
        self._rows([(id_name, "price")], quote_all="\r" in id_name)

    def write(self, ids: pd.Series, price: np.ndarray) -> None:
        cells = _plain(ids, missing="")
        # Python below 3.13 leaves a lone carriage return unquoted, and a reader would end the row there.
        quote_all = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        self._rows(zip(cells, price.astype(str).tolist(), strict=True), quote_all)

    def close(self) -> None:
        self._file.close()

    def _rows(self, rows: Iterable[tuple[Any, str]], quote_all: bool) -> None:
        writer = csv.writer(
            self._file,
            delimiter=self._delimiter,
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL,
        )
        writer.writerows(rows)


class _JsonSink:
    def __init__(self, path: Path, id_name: str) -> None:
        self._id_name = id_name
        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()

    def write(self, ids: pd.Series, price: np.ndarray) -> None:
        # float(str(x)) is the shortest decimal of a float32 too: 12.34 and not 12.34000015258789.
        for cell, value in zip(_plain(ids, missing=None), price.astype(str).tolist(), strict=True):
            row = {self._id_name: cell, "price": float(value)}
            self._file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")

    def close(self) -> None:
        self._file.close()


class _ParquetSink:
    """Gathers chunks into row groups of a size that readers like."""

    def __init__(self, path: Path, id_name: str) -> None:
        self._path = path
        self._id_name = id_name
        self._waiting: list[pa.Table] = []
        self._file: pq.ParquetWriter | None = None

    def write(self, ids: pd.Series, price: np.ndarray) -> None:
        cells = pa.array(ids)
        self._waiting.append(pa.table({self._id_name: cells, "price": price.astype(np.float64)}))
        if sum(map(len, self._waiting)) >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        if not self._waiting and self._file is None:
            self._waiting = [pa.table({self._id_name: pa.array([], pa.string()), "price": np.empty(0)})]
        self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting = []
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table)


def _plain(ids: pd.Series, missing: str | None) -> list[Any]:
    """Ids as Python values."""
    if not ids.isna().any():
        return ids.tolist()
    return ids.astype(object).where(ids.notna(), missing).tolist()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say which file could not be written, where the system only says why."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from None
