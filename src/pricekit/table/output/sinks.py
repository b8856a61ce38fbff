"""Write CSV, TSV, JSON lines or Parquet one frame at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP = 1 << 17


class Sink(Protocol):
    """An open file to which frames with the same columns and types are appended."""

    def write(self, frame: pd.DataFrame) -> None:
        """Append the rows of a frame."""

    def close(self) -> None:
        """Finish the file."""


def open_sink(path: Path, kind: str) -> Sink:
    """Start a file of one of the formats of `format_of`."""
    if kind == "parquet":
        return _ParquetSink(path)
    if kind == "jsonl":
        return _JsonSink(path)
    return _DelimitedSink(path, "\t" if kind == "tsv" else ",")


class _DelimitedSink:
    def __init__(self, path: Path, delimiter: str) -> None:
        self._delimiter = delimiter
        self._has_header = False
        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()

    def write(self, frame: pd.DataFrame) -> None:
        if not self._has_header:
            names = [str(name) for name in frame.columns]
            self._rows([names], quote_all="\r" in "".join(names))
            self._has_header = True
        columns = [_decimals(frame[name], "") or _plain(frame[name], missing="") for name in frame.columns]
        # Python below 3.13 does not quote a single carriage return, at which a reader would end the row.
        quote_all = any(isinstance(cell, str) and "\r" in cell for cells in columns for cell in cells)
        self._rows(zip(*columns, strict=True), quote_all)

    def close(self) -> None:
        self._file.close()

    def _rows(self, rows: Iterable[Iterable[Any]], quote_all: bool) -> None:
        writer = csv.writer(
            self._file,
            delimiter=self._delimiter,
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL,
        )
        writer.writerows(rows)


class _JsonSink:
    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 - closed by close()

    def write(self, frame: pd.DataFrame) -> None:
        names = [str(name) for name in frame.columns]
        columns = [_floats(frame[name]) or _plain(frame[name], missing=None) for name in frame.columns]
        for row in zip(*columns, strict=True):
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str)
            self._file.write(line + "\n")

    def close(self) -> None:
        self._file.close()


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
        table = pa.concat_tables(self._pending)
        self._pending = []
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table)


def _decimals(column: pd.Series, missing: str | None) -> list[Any]:
    """Return floats as their shortest decimals (12.34 for a float32, not 12.34000015258789); [] for other types."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "f":
        return []
    written = column.to_numpy().astype(str).astype(object)
    written[column.isna()] = missing
    return written.tolist()


def _floats(column: pd.Series) -> list[float | None]:
    return [None if cell is None else float(cell) for cell in _decimals(column, None)]


def _plain(column: pd.Series, missing: str | None) -> list[Any]:
    """Return cells as Python values."""
    if not column.isna().any():
        return column.tolist()
    return column.astype(object).where(column.notna(), missing).tolist()
