"""Processes that price windows of rows, each with a copy of the model on one CPU.

Most of the time that a small model needs for a row is spent in Python, which runs in one thread at a time. Several
processes do not wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.errors import ConfigError, PluginError
from pricekit.monitoring.priced_rows import PricedRows
from pricekit.prediction.processes import in_new_processes
from pricekit.support.cpus import available_memory, used_memory
from pricekit.table import Table

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor

Found = tuple[np.ndarray, PricedRows | None]
"""Prices of rows, and counts of the rows if they are wanted."""

WORTH_SECONDS = 10.0
"""Starting processes takes some two seconds, so shorter work does without."""

MOST = 16
"""Maximum number of processes by default: the rows are read in one process."""

AHEAD = 2
"""Windows that wait for each process, so that none is idle while the next ones are read."""


def check_processes(predictor: Predictor, processes: int | None) -> None:
    """Raise ConfigError unless a number of processes is possible."""
    if processes is not None and processes < 1:
        raise ConfigError(
            f"the number of processes is {processes}; expected at least 1", parameters=("processes",)
        )
    if processes not in (None, 1) and predictor.origin is None:
        raise ConfigError(
            "only a model that was loaded from its folder can be opened by other processes; load it, or use one "
            "process",
            parameters=("processes",),
        )


def price_in_processes(
    predictor: Predictor, tables: Iterable[Table], processes: int, *, counting: bool = False
) -> Iterator[tuple[Table, np.ndarray, PricedRows | None]]:
    """Yield each table with its prices, float32 (N,), in order, and with counts of its rows if they are wanted.

    Args:
        predictor: loaded from a folder, which each process opens again.
        tables: windows of rows; at most `AHEAD + 1` for each process are in memory.
        processes: the number of processes.
        counting: whether the rows are counted.

    Raises:
        PluginError: a process ended before it returned the prices, or a plugin fails.
        BundleError: the model has changed since it was loaded, or returns an invalid price.
    """
    waiting: deque[tuple[Table, Future[Found]]] = deque()
    with in_new_processes(processes, _keep, Opened(predictor)) as pool:
        try:
            for table in tables:
                waiting.append((table, pool.submit(_price, table, counting)))
                if len(waiting) > (AHEAD + 1) * processes:
                    yield _next(waiting)
            while waiting:
                yield _next(waiting)
        except BrokenProcessPool:
            raise ended_early() from None


def ended_early() -> PluginError:
    """Return the error for a worker that was killed."""
    return PluginError(
        "a process that priced rows ended before it returned their prices. The system may have ended it for lack of "
        "memory: use fewer processes",
        parameters=("processes",),
    )


def _next(
    waiting: deque[tuple[Table, Future[Found]]],
) -> tuple[Table, np.ndarray, PricedRows | None]:
    table, found = waiting.popleft()
    return table, *found.result()


def worthwhile(predictor: Predictor, preparing: float, pricing: float, left: float) -> int:
    """Return the number of processes that price faster than threads, 1 if that is none.

    Threads suffice where the engine takes more time than what precedes it, because engines do not hold Python's lock.

    Args:
        predictor: of which the processes would have copies.
        preparing: seconds for tokens and features of some rows.
        pricing: seconds that the engine took for them.
        left: how many times as many rows are left.
    """
    streams = min(member.engine.streams for member in predictor.members)
    if left * (preparing + pricing) < WORTH_SECONDS:
        return 1
    if streams == 1 or predictor.origin is None or preparing < pricing:
        return 1
    return int(max(1, min(streams, MOST, available_memory() / 2 / used_memory())))


@dataclass(frozen=True)
class Opened:
    """Returns an open predictor. Pickled, it becomes a `Recipe`, because an open engine belongs to its process."""

    predictor: Predictor = field(repr=False)

    def __call__(self) -> Predictor:
        """Return the predictor."""
        return self.predictor

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to open the same model."""
        return Recipe, self.predictor.__reduce__()


@dataclass(frozen=True)
class Recipe:
    """Opens a model when it is called, so that an error reaches whoever waits for prices.

    Attributes:
        load: opens it; the last model of a process stays open.
        arguments: of `load`.
    """

    load: Callable[..., Predictor]
    arguments: tuple[Any, ...]

    def __call__(self) -> Predictor:
        """Return the predictor; raises BundleError if the model has changed."""
        return self.load(*self.arguments)


_models: list[Callable[[], Predictor]] = []
"""Returns the predictor of this process, if it is a worker."""


def _keep(model: Callable[[], Predictor]) -> None:
    _models[:] = [model]


def _price(table: Table, counting: bool) -> Found:
    predictor = _models[0]()
    inputs = predictor.prepare(table)
    prices = predictor.price(inputs)
    return prices, predictor.count(table, inputs, prices) if counting else None
