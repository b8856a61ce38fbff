"""Counts of the rows that a server prices, for `pricekit drift`, and files of them."""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from pricekit.plugin import ConfigError, PricekitError, counted, describe_failure, logger
from pricekit.plugin.runners import (
    WAIT_SECONDS,
    BusyError,
    Predictor,
    PricedRows,
    add_when_free,
    check_priced_file,
    require_sketch,
    table_of,
)
from pricekit_serve.metrics import Metrics
from pricekit_serve.queues import Prices
from pricekit_serve.rows import Rows

SECONDS = 10.0
"""Time between counts."""
MOST_ROWS = 1024
"""More rows in this time are sampled to this number, because counting a row costs as much as a price."""

Drawn = tuple[dict[str, str], float]
"""The cells of a row by column, and its price."""


class Sketches:
    """The sketches of all models of a server. Threads may share it.

    Args:
        folder: of the files, one for each version of a model; it is created.
        metrics: of the server.

    Raises:
        ConfigError: the folder cannot be created.
    """

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder, self._metrics = folder, metrics
        self._recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the folder of sketches {folder} cannot be created: {describe_failure(error)}",
                parameters=("sketches",),
            ) from None

    def recorder(self, name: str, version: str, predictor: Predictor) -> Recorder:
        """Return what counts the rows of a model; raises BundleError if it has no sketch of its training table."""
        found = Recorder(self._folder / f"{name}-{version}.json", name, predictor, self._metrics)
        self._recorders.add(found)
        return found

    def write(self) -> None:
        """Count the rows that came since the last time, and add them to the files."""
        for recorder in list(self._recorders):
            recorder.write()

    def finish(self) -> None:
        """Do so for the last time, and wait up to 30 seconds for other processes that add to the files."""
        until = time.monotonic() + WAIT_SECONDS
        for recorder in list(self._recorders):
            recorder.finish(until)


class Recorder:
    """Counts the rows of one model.

    Args:
        file: to which their counts are added.
        name: of the model.
        predictor: that prices them.
        metrics: of the server.

    Raises:
        BundleError: the model has no sketch of its training table.
        DataError: the file contains something else.
    """

    def __init__(self, file: Path, name: str, predictor: Predictor, metrics: Metrics) -> None:
        self._file, self._name, self._predictor, self._metrics = file, name, predictor, metrics
        self._sketch = require_sketch(predictor.sketch)
        check_priced_file(file, self._sketch)
        self._drawn: list[Drawn] = []
        self._seen, self._random = 0, random.Random(0)  # noqa: S311 - a sample, not a secret
        self._changed, self._writing = threading.Lock(), threading.Lock()
        self._left: PricedRows | None = None
        self._failed = self._busy = False

    def add(self, rows: Rows, prices: Prices) -> None:
        """Keep some of the rows that were priced until they are counted (reservoir sampling)."""
        with self._changed:
            for row in range(len(rows)):
                if (place := self._place()) is not None:
                    cells = {name: column[row] for name, column in rows.cells.items()}
                    self._drawn[place : place + 1] = [(cells, float(prices[row]))]

    def _place(self) -> int | None:
        """Return the place of the next row among those that are drawn; None if it is not drawn."""
        self._seen += 1
        place = len(self._drawn)
        if place >= MOST_ROWS and (place := self._random.randrange(self._seen)) >= MOST_ROWS:
            return None
        return place

    def write(self) -> None:
        """Count the rows that came since the last time, and add them to the file.

        After a failure they are kept until the next time. It is logged once; another process that adds to the file is
        no failure unless it does so at two times in a row.
        """
        with self._writing:
            if (error := self._failure(0.0)) is None:
                self._failed = self._busy = False
                return
            if isinstance(error, BusyError) and not self._busy:
                self._busy = True
                return
            if not self._failed:
                logger.warning(f"the sketch of the model {self._name} is kept in memory: {_reason(error)}")
            self._failed = True

    def finish(self, until: float | None = None) -> None:
        """Do so for the last time. Rows that cannot be added are lost, and the log says how many.

        Args:
            until: how long to wait for other processes that add to the file, as of `time.monotonic`; None: 30 seconds.
        """
        with self._writing:
            error = self._failure(time.monotonic() + WAIT_SECONDS if until is None else until)
            with self._changed:
                rows = self._seen + (0 if self._left is None else self._left.rows)
                self._drawn, self._seen, self._left = [], 0, None
            if error is not None:
                lost = counted(rows, "row")
                logger.error(f"the sketch of the model {self._name} loses {lost}: {_reason(error)}")

    def _failure(self, until: float) -> Exception | None:
        """Count the rows and add them to the file; return the error if that fails."""
        try:
            self._count()
            if self._left is not None:
                add_when_free(self._file, self._left, self._sketch, until)
        except Exception as error:  # whatever is wrong with these rows, the server goes on
            return error
        self._left = None
        return None

    def _count(self) -> None:
        with self._changed:
            drawn, seen = self._drawn, self._seen
            self._drawn, self._seen = [], 0
        left = self._left
        try:
            parts = [self._counts_of(part, prices) for part, prices in _alike(drawn)]
            for part in parts:
                left = part if left is None else left.plus(part, self._sketch)
        except BaseException:
            self._put_back(drawn, seen)
            raise
        if left is not None:
            self._left = left.model_copy(update={"rows": left.rows + seen - len(drawn)})
        for part in parts:
            self._metrics.drifted(self._name, part.counts, self._sketch)

    def _put_back(self, drawn: list[Drawn], seen: int) -> None:
        """Keep rows that could not be counted, and draw among those that came meanwhile."""
        with self._changed:
            later, total = self._drawn, self._seen + seen
            self._drawn, self._seen = drawn, seen
            for row in later:
                if (place := self._place()) is not None:
                    self._drawn[place : place + 1] = [row]
            self._seen = total

    def _counts_of(self, rows: Rows, prices: np.ndarray) -> PricedRows:
        predictor = self._predictor
        table = table_of(rows.for_predictor(predictor.columns), replace(predictor.columns, price=None))
        found: PricedRows = predictor.count(table, predictor.prepare(table), prices)
        return found.model_copy(update={"rows": found.counts.rows})


def recorded(price: Callable[[Rows], Prices], recorder: Recorder) -> Callable[[Rows], Prices]:
    """Return a function that prices rows and lets them be counted."""

    def found(rows: Rows) -> Prices:
        prices = price(rows)
        recorder.add(rows, prices[:, 0] if rows.spread else prices)
        return prices

    return found


def _reason(error: Exception) -> str:
    if isinstance(error, PricekitError):
        return str(error)
    return describe_failure(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _alike(drawn: list[Drawn]) -> Iterator[tuple[Rows, np.ndarray]]:
    """Yield the rows that have the same columns, and their prices, float32 (N,)."""
    groups: dict[tuple[str, ...], list[Drawn]] = {}
    for each in drawn:
        groups.setdefault(tuple(each[0]), []).append(each)
    for names, some in groups.items():
        cells = {name: [row[name] for row, _ in some] for name in names}
        yield Rows(cells), np.array([price for _, price in some], np.float32)
