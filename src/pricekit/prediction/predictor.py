"""The predictor: preprocessor and engine, over a table in memory or streamed from files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit import __version__
from pricekit.engines.choose import AUTO
from pricekit.errors import ConfigError, DataError
from pricekit.log import logger
from pricekit.prediction.checkpoint import PredictionCheckpoint
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.members import BundleReader, Member, read_bundle
from pricekit.preprocess import Inputs
from pricekit.progress import progress
from pricekit.table import (
    AS_FOUND,
    Columns,
    PredictionWriter,
    ReadOptions,
    Table,
    check_labelled,
    check_output,
    concat_tables,
    files_size,
    iter_files,
    read_frame,
    table_files,
    table_of_texts,
)
from pricekit.text import counted

Item = TypeVar("Item")

BOUNDS = "price_low", "price_high"

WINDOW, WINDOW_BYTES = 8192, 64 << 20
"""Rows held in memory at once, sorted by length inside, and bytes of text of several files among them."""


@dataclass(frozen=True)
class Predictor:
    """Prices from a trained model, or from several whose log prices are averaged.

    Attributes:
        members: the models, at least one; their weights sum to 1.
        model: what the weights are known by, to tell one model's unfinished output from another's.
        intervals: None where the model is older than they are.
        currency: of the prices, None where the training table showed none.
    """

    members: tuple[Member, ...]
    model: str = ""
    intervals: Intervals | None = None
    currency: str | None = None

    @classmethod
    def load(cls, path: str | Path, engine: str = AUTO) -> Predictor:
        """Open a bundle in the engine of that name; `pricekit.load` also opens runs and ensembles.

        Args:
            path: the folder of the bundle.
            engine: its name; "auto" is the fastest one here, which is measured the first time.

        Raises:
            BundleError: the bundle is damaged.
            PluginError: a feature or an engine is missing.
        """
        return cls.from_bundle(read_bundle(path), engine)

    @classmethod
    def from_bundle(cls, reader: BundleReader, engine: str = AUTO) -> Predictor:
        """Open a bundle that was read; raises PluginError, BundleError."""
        bundle = reader.bundle
        saved = bundle.files.get("intervals.json")
        intervals = None if saved is None else read_intervals(saved, bundle.path)
        return cls(reader.open_members(engine), bundle.digest, intervals, bundle.manifest.get("currency"))

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: an engine belongs to its process."""
        raise TypeError(
            "a Predictor cannot be sent to another process; load it there, with Predictor.load(path)"
        )

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained with."""
        return self.members[0].preprocessor.columns

    @property
    def engine(self) -> str:
        """The name of the engine that prices, of several members' each once."""
        return ", ".join(dict.fromkeys(member.engine.name for member in self.members))

    def predict(self, rows: Table | pd.DataFrame | pa.Table | Sequence[str]) -> np.ndarray:
        """Return one price a row, float32 (N,), in the order given.

        Args:
            rows: a table; or a pandas or Arrow frame with the columns of `columns`, read as a Parquet file of it
                would be; or texts. Where the model reads several columns a text is a line "column: cell" for each.

        Raises:
            DataError: a column is missing, or the texts are none that the model knows.
        """
        columns = replace(self.columns, price=None)
        if isinstance(rows, pd.DataFrame | pa.Table):
            rows = read_frame(rows, columns)
        if isinstance(rows, Table):
            table = rows
        else:
            table = table_of_texts(rows, columns.text[0])
            check_labelled(table.text.tolist(), columns)
        return self._prices(self._inputs(table)) if len(table) else np.empty(0, np.float32)

    def interval(self, price: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the interval around predicted prices, (N,), that holds the share `level` of true ones.

        Raises:
            ConfigError: the level cannot be had, or the model has no intervals.
        """
        if self.intervals is None:
            raise ConfigError(
                "this model was trained before there were price intervals; train and export it again, or leave "
                "--interval out"
            )
        return self.intervals.bounds(price, level)

    def predict_file(
        self,
        source: Path,
        out: Path,
        *,
        columns: Columns | None = None,
        read_options: ReadOptions = AS_FOUND,
        limit: int | None = None,
        interval: float | None = None,
        resume: bool = False,
        notices: Callable[[str], None] = logger.warning,
    ) -> int:
        """Price table files window by window in bounded memory; returns the number of rows.

        Every input row gets exactly one output row, in the table's order. The output appears whole
        or not at all; windows that are priced are kept in a hidden folder beside it until then.

        Args:
            source: a table file, a folder of Parquet files, or a pattern of files.
            out: the file to write.
            columns: which columns mean what; those of training where it is None.
            read_options: how the files are read, where they do not show it.
            limit: price the first `limit` rows only.
            interval: also write `price_low` and `price_high`, between which this share of true prices lies.
            resume: go on with the windows that an interrupted prediction kept.
            notices: is told what the user should know.

        Raises:
            DataError: the table cannot be read, or the output cannot be written.
        """
        files = table_files(source)
        check_output(out, files)
        if interval is not None:
            self.interval(np.ones(1), interval)  # said before the work, not after it
        columns = replace(columns or self.columns, price=None)
        if columns.id in ("price", *(BOUNDS if interval is not None else ())):
            raise DataError(
                f"the id column cannot be '{columns.id}', the name of what is predicted; name another with --id"
            )
        tables = _joined(
            iter_files(files, columns, rows=WINDOW, limit=limit, read_options=read_options, notices=notices)
        )
        fingerprint = _fingerprint(files)
        made_from: dict[str, object] = {
            "model": self.model,
            "columns": str(columns),
            "way of reading": str(read_options),
            "limit": limit,
            "table, or it was changed since": fingerprint,
            "version of pricekit": [WINDOW, __version__],
        }
        with PredictionCheckpoint(out, made_from) as parts:
            _begin(parts, resume, notices)
            try:
                rows, empty = self._price_windows(tables, parts, files_size(files))
                if _fingerprint(files) != fingerprint:
                    parts.end()
                    raise DataError(
                        f"{source} was changed while it was priced; price it again when it is complete."
                    )
                self._write(out, parts, interval)
            except BaseException:
                if parts.count:
                    notices(
                        "what is priced so far is kept; the same again with --resume goes on with it, unless a file "
                        "changes."
                    )
                raise
            parts.end()
        if empty:
            notices(f"{empty:,} of {rows:,} rows have no text; they were priced all the same.")
        _say_what_came_later(source, [*files, out], notices)
        return rows

    def _write(self, out: Path, parts: PredictionCheckpoint, interval: float | None) -> None:
        """Write what has been priced, all of it, as one file."""
        with PredictionWriter(out) as writer:
            for ids, prices in parts:
                bounds = () if interval is None else self.interval(prices, interval)
                writer.write(ids, prices, dict(zip(BOUNDS, bounds, strict=False)))

    def _price_windows(
        self, tables: Iterator[Table], parts: PredictionCheckpoint, size: int
    ) -> tuple[int, int]:
        """Price the windows that are not among the parts yet; return the rows, and those without text."""
        done, rows, priced, empty, position = parts.count, 0, 0, 0, 0
        numbered = enumerate(_made_ahead(tables))
        prepared = ((table, None if i < done else self._inputs(table)) for i, table in numbered)
        started = time.perf_counter()
        with progress("pricing", size) as advance:
            for table, inputs in _made_ahead(prepared):
                if inputs is not None:
                    parts.add(table.ids, self._prices(inputs))
                    priced += len(table)
                rows += len(table)
                empty += int((table.text.str.strip() == "").sum())
                speed = priced / (time.perf_counter() - started)
                advance(table.position - position, f"{rows:,} rows  {speed:,.0f} rows/s")
                position = table.position
        return rows, empty

    def _inputs(self, table: Table) -> list[Inputs]:
        return [member.preprocessor(table) for member in self.members]

    def _prices(self, inputs: list[Inputs]) -> np.ndarray:
        """Return the weighted geometric mean of the members' prices, float32 (N,)."""
        prices = [member.prices(some) for member, some in zip(self.members, inputs, strict=True)]
        if len(prices) == 1:
            return prices[0]
        logs = [
            member.weight * np.log(price.astype(np.float64))
            for member, price in zip(self.members, prices, strict=True)
        ]
        return cast(np.ndarray, np.exp(np.sum(logs, axis=0)).astype(np.float32))


def _joined(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the tables, small ones of the same columns as one: of many small files each would be a window."""
    found: list[Table] = []
    rows = size = 0
    for table in tables:
        rows, size = rows + len(table), size + _bytes(table)
        if found and (rows > WINDOW or size > WINDOW_BYTES or not _alike_tables(found[-1], table)):
            yield concat_tables(found)
            found, rows, size = [], len(table), _bytes(table)
        found.append(table)
    if found:
        yield concat_tables(found)


def _alike_tables(one: Table, other: Table) -> bool:
    return one.ids.dtype == other.ids.dtype and one.frame.dtypes.equals(other.frame.dtypes)


def _bytes(table: Table) -> int:
    return int(table.text.memory_usage(index=False, deep=True))


def _made_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, the next one made in another thread while the last one is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item


def _say_what_came_later(source: Path, known: Iterable[Path], notices: Callable[[str], None]) -> None:
    """Name a file that a folder or a pattern had not when its prediction began."""
    with suppress(DataError):  # all are gone
        if later := {file.absolute() for file in table_files(source)} - {file.absolute() for file in known}:
            notices(
                f"{counted(len(later), 'file')} of {source} came while it was priced, such as {min(later)}: not in the "
                "output."
            )


def _fingerprint(files: list[Path]) -> list[list[object]]:
    """Return what tells files that were changed from those that were read before."""
    return [
        [str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns]
        for file in files
        if file.exists()
    ]


def _begin(parts: PredictionCheckpoint, resume: bool, notices: Callable[[str], None]) -> None:
    """Go on with the parts that an interrupted prediction left, or without any."""
    windows, other = parts.kept()
    if resume and windows and not other:
        notices(f"going on after {counted(windows, 'window')} of {WINDOW:,} rows, priced already.")
        parts.resume(windows)
        return
    if windows:
        why = (
            f"they are of another {'; another '.join(other)}"
            if other
            else "--resume would have gone on with them"
        )
        notices(f"deleting {counted(windows, 'window')} that an interrupted prediction kept: {why}.")
    elif resume:
        notices("there is nothing to resume of this prediction; starting from the first row.")
    parts.start()
