"""Processes that price windows of rows, each with a copy of the model on one CPU.

Most of the time that a small model needs for a row is spent in Python, which runs in one thread at a time. Several
processes do not wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.errors import ConfigError, PluginError
from pricekit.prediction.processes import in_new_processes
from pricekit.support.cpus import available_memory, used_memory
from pricekit.table import Table

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor

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
    predictor: Predictor, tables: Iterable[Table], processes: int
) -> Iterator[tuple[Table, np.ndarray]]:
    """Yield each table with its prices, float32 (N,), in order.

    Args:
        predictor: loaded from a folder, which each process opens again.
        tables: windows of rows; at most `AHEAD + 1` for each process are in memory.
        processes: the number of processes.

    Raises:
        PluginError: a process ended before it returned the prices, or a plugin fails.
        BundleError: the model has changed since it was loaded, or returns an invalid price.
    """
    waiting: deque[tuple[Table, Future[np.ndarray]]] = deque()
    with in_new_processes(processes, _keep, *predictor.__reduce__()) as pool:
        try:
            for table in tables:
                waiting.append((table, pool.submit(_price, table)))
                if len(waiting) > (AHEAD + 1) * processes:
                    yield _next(waiting)
            while waiting:
                yield _next(waiting)
        except BrokenProcessPool:
            raise PluginError(
                "a process that priced rows ended before it returned their prices. The system may have ended it for "
                "lack of memory: use fewer processes",
                parameters=("processes",),
            ) from None


def _next(waiting: deque[tuple[Table, Future[np.ndarray]]]) -> tuple[Table, np.ndarray]:
    table, prices = waiting.popleft()
    return table, prices.result()


def worthwhile(predictor: Predictor, preparing: float, pricing: float, left: float) -> int:
    """Return the number of processes that price faster than threads, 1 if that is none.

    Threads suffice where the engine takes more time than what precedes it, because engines do not hold Python's lock.

    Args:
        predictor: of which the processes would have copies.
        preparing: seconds for tokens and features of some rows.
        pricing: seconds that the engine took for them.
        left: seconds that the remaining rows would take.
    """
    streams = min(member.engine.streams for member in predictor.members)
    if streams == 1 or predictor.origin is None or preparing < pricing or left < WORTH_SECONDS:
        return 1
    return int(max(1, min(streams, MOST, available_memory() / 2 / used_memory())))


_recipe: list[tuple[Callable[..., Predictor], tuple[Any, ...]]] = []
"""How to open the model in this process, if it is a worker."""


def _keep(load: Callable[..., Predictor], arguments: tuple[Any, ...]) -> None:
    _recipe[:] = [(load, arguments)]


@cache
def _opened() -> Predictor:
    """Open the model with the first rows, so that an error reaches whoever waits for their prices."""
    ((load, arguments),) = _recipe
    return load(*arguments)


def _price(table: Table) -> np.ndarray:
    predictor = _opened()
    return predictor.price(predictor.prepare(table))
