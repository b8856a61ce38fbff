"""The work of a prediction from folder to folder: a job prices one file after the other, in any process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit import __version__
from pricekit.errors import BundleError, DataError, NoRowsError, PricekitError
from pricekit.prediction.folders.parts import Part
from pricekit.prediction.folders.record import Record, read_record, write_record
from pricekit.prediction.intervals import BOUNDS
from pricekit.prediction.shipped import Shipped
from pricekit.prediction.windows import Pace, priced
from pricekit.prediction.workers import Opened
from pricekit.storage import delete, fingerprint, size_of
from pricekit.support.causes import causes, is_temporary
from pricekit.support.files import describe_failure
from pricekit.support.log import logger
from pricekit.table import Columns, PredictionWriter, ReadOptions, Table, iter_table
from pricekit.table.many_files import ids_without_rows
from pricekit.table.source import DEFAULT_READ_OPTIONS
from pricekit.table.table import Notices

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.prediction.predictor import Predictor

WINDOW = 8192
"""Rows that are priced together."""


@dataclass(frozen=True)
class Outcome:
    """What became of a part.

    Attributes:
        name: of the part.
        rows: the number of its rows; 0 if it failed.
        problem: why it failed, in one paragraph; "" if its prices are complete.
        seconds: the time that it took.
        preparing, pricing: the seconds for tokens and features of its first window, and those of the engine.
        notices: sentences for the user about how it was read; whoever receives the outcome logs them.
    """

    name: str
    rows: int = 0
    problem: str = ""
    seconds: float = 0.0
    preparing: float = 0.0
    pricing: float = 0.0
    notices: Sequence[str] = ()


@dataclass(frozen=True)
class Job:
    """Prices the files of a folder.

    A job can be pickled, also for other machines: then `model` must open the bundle there.

    Attributes:
        model: opens the predictor, in each process once.
        digest: of the model.
        columns: the columns to read.
        read_options: how to read them.
        interval: also write an interval of this level.

    Example:
        >>> import pricekit as pk
        >>> from pricekit.prediction.folders import Job
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> predictor = pk.load("bundle", engine="ort-cpu")
        >>> Job.of(predictor).digest == predictor.digest
        True
    """

    model: Callable[[], Predictor] = field(repr=False)
    digest: str
    columns: Columns
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    interval: float | None = None

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        columns: Columns | None = None,
        read_options: ReadOptions = DEFAULT_READ_OPTIONS,
        interval: float | None = None,
    ) -> Job:
        """Return the job of a predictor, for this process and its children."""
        read = replace(columns or predictor.columns, price=None)
        return cls(Opened(predictor), predictor.digest, read, read_options, interval)

    def shipped(self) -> Job:
        """Return a job that contains the bundle, for workers that do not see its folder.

        Raises:
            ConfigError: the model is no bundle.
            BundleError: the bundle has changed since it was loaded.
        """
        return replace(self, model=Shipped.of(self.model()))

    def check(self) -> None:
        """Open the model; raises PluginError or BundleError, with the reason why a worker cannot work."""
        found = self.model().digest
        if found != self.digest:
            raise BundleError(
                f"the worker has another bundle, with the digest {found}; expected {self.digest}"
            )

    @property
    def request(self) -> dict[str, Any]:
        """Everything on which prices depend beside table and model, as plain JSON values."""
        return {
            "columns": str(self.columns),
            "read options": str(self.read_options),
            "interval": self.interval,
            "pricekit version": [WINDOW, __version__],
        }

    def finished(self, part: Part) -> Record | None:
        """Return the record of a part that need not be priced again; None if it is not finished."""
        record = read_record(part.record)
        done = record and record.covers(fingerprint(part.source), self.digest, self.request, part.target)
        return record if done else None

    def __call__(self, part: Part, processes: int | None = 1) -> Outcome:
        """Price one part: its file appears when it is complete, then its record.

        A problem of this file is part of the outcome, because other files may have none.

        Args:
            part: the file.
            processes: as of `Predictor.predict_file`.

        Raises:
            PricekitError: the model cannot be used.
            OSError: the disk is full.
        """
        began, pace, notices = time.perf_counter(), Pace(), list[str]()
        try:
            rows = self._price(part, processes, pace, notices.append)
        except (DataError, OSError) as error:
            if any(map(is_temporary, causes(error))):
                raise
            problem = str(error) if isinstance(error, PricekitError) else describe_failure(error)
            return Outcome(part.name, 0, problem, time.perf_counter() - began, notices=notices)
        seconds = time.perf_counter() - began
        return Outcome(part.name, rows, "", seconds, pace.preparing, pace.pricing, notices)

    def _price(self, part: Part, processes: int | None, pace: Pace, notices: Notices) -> int:
        predictor, before, rows = self.model(), fingerprint(part.source), 0
        if isinstance(part.target, Path):
            part.target.parent.mkdir(parents=True, exist_ok=True)
        with PredictionWriter(part.target) as writer:
            size = size_of(part.source)
            tables = self._tables(part, notices)
            for table, prices, _ in priced(predictor, tables, size, processes=processes, pace=pace):
                assert prices is not None
                self._write(writer, table.ids, prices)
                rows += len(table)
            if not rows:  # readers of the folder expect the columns of the other files
                ids = ids_without_rows(part.source, self.columns, self.read_options)
                self._write(writer, ids, np.empty(0))
            if fingerprint(part.source) != before:
                raise DataError(
                    f"{part.source} changed during the prediction; predict again when the file is complete."
                )
            delete(part.record)  # so that it never describes another file, even if this process is killed
        if isinstance(part.record, Path):
            part.record.parent.mkdir(parents=True, exist_ok=True)
        size = size_of(part.target)
        write_record(
            part.record,
            Record(table=before, model=self.digest, request=self.request, rows=rows, bytes=size),
        )
        return rows

    def _write(self, writer: PredictionWriter, ids: pd.Series, prices: np.ndarray) -> None:
        bounds = () if self.interval is None else self.model().interval(prices, self.interval)
        writer.write(ids, prices, dict(zip(BOUNDS, bounds, strict=False)))

    def _tables(self, part: Part, notices: Notices) -> Iterator[Table]:
        try:
            yield from iter_table(
                part.source,
                self.columns,
                rows=WINDOW,
                read_options=self.read_options,
                notices=notices,
            )
        except NoRowsError:
            logger.debug(f"{part.source} has no rows")
