"""Processes that price windows of rows, each with a copy of the model on one CPU.

Most of the time that a small model needs for a row is spent in Python, which runs in one thread at a time. Several
processes do not wait for each other.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple  # functions import multiprocessing, which few commands need

import numpy as np

from pricekit.errors import ConfigError, PluginError
from pricekit.features.preprocess import Inputs
from pricekit.io.cpus import CPUS, available_memory, read_ahead, used_memory
from pricekit.io.log import silence
from pricekit.predict.predictor import Predictor
from pricekit.table import Table

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from pricekit.insight.priced_rows import PricedRows


class Priced(NamedTuple):
    """N rows that are priced.

    Attributes:
        price: float32 (N,).
        spread: as of `Predictor.spread`, float32 (N,), if it is wanted.
        counts: of the rows, for `drift`, if they are wanted.
    """

    price: np.ndarray
    spread: np.ndarray | None = None
    counts: PricedRows | None = None


WORTH_SECONDS = 10.0
"""Starting processes takes some two seconds, so shorter work does without."""

MOST = 16
"""Maximum number of processes by default: the rows are read in one process."""

AHEAD = 2
"""Windows that wait for each process, so that none is idle while the next ones are read."""

_ONE_CPU = {CPUS: "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
"""Several processes with several threads each would wait for each other's CPUs."""


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
    predictor: Predictor, tables: Iterable[Table], processes: int, wanted: Wanted | None = None
) -> Iterator[tuple[Table, Priced]]:
    """Yield each table with its prices, in order.

    Args:
        predictor: loaded from a folder, which each process opens again.
        tables: windows of rows; at most `AHEAD + 1` for each process are in memory.
        processes: the number of processes.
        wanted: what is computed of the rows beside their prices.

    Raises:
        PluginError: a process ended before it returned the prices, or a plugin fails.
        BundleError: the model has changed since it was loaded, or returns an invalid price.
    """
    with in_new_processes(processes, Opened(predictor)) as pool:
        submitted = ((table, pool.submit(_price, table, wanted or Wanted())) for table in tables)
        for table, priced in read_ahead(submitted, (AHEAD + 1) * processes):
            yield table, priced.result()


def _price(table: Table, wanted: Wanted) -> Priced:
    return Pricing(wanted=wanted).price(kept()(), table)


@dataclass(frozen=True)
class Wanted:
    """What is computed of rows beside their prices.

    Attributes:
        spread: whether it is computed, for intervals.
        counts: whether the rows are counted, for `drift`.
    """

    spread: bool = False
    counts: bool = False

    def of(self, predictor: Predictor, table: Table, inputs: list[Inputs]) -> Priced:
        """Price rows whose inputs are prepared."""
        price = predictor.price(inputs)
        spread = predictor.spread(inputs) if self.spread else None
        return Priced(price, spread, predictor.count(table, inputs, price) if self.counts else None)


@dataclass
class Pricing:
    """How rows are priced, and the seconds that they took so far.

    Attributes:
        preparing: seconds for tokens and features.
        pricing: seconds in the engine, and for what is wanted beside the prices.
        wanted: what is computed of the rows beside their prices.
    """

    preparing: float = 0.0
    pricing: float = 0.0
    wanted: Wanted = field(default_factory=Wanted)

    def price(self, predictor: Predictor, table: Table) -> Priced:
        """Price the rows of a table."""
        began = time.perf_counter()
        inputs = predictor.prepare(table)
        prepared = time.perf_counter()
        priced = self.wanted.of(predictor, table, inputs)
        self.preparing += prepared - began
        self.pricing += time.perf_counter() - prepared
        return priced


def worthwhile(predictor: Predictor, seconds: Pricing, left: float) -> int:
    """Return the number of processes that price faster than threads, 1 if that is none.

    Threads suffice where the engine takes more time than what precedes it, because engines do not hold Python's lock.

    Args:
        predictor: of which the processes would have copies.
        seconds: of some rows.
        left: how many times as many rows are left.
    """
    streams = min(member.engine.streams for member in predictor.members)
    if left * (seconds.preparing + seconds.pricing) < WORTH_SECONDS or seconds.preparing < seconds.pricing:
        return 1
    if streams == 1 or predictor.origin is None:
        return 1
    return int(max(1, min(streams, MOST, available_memory() / 2 / used_memory())))


@dataclass(frozen=True)
class Opened:
    """Returns an open predictor. Pickled, it becomes a function that opens the same model when it is called.

    An open engine belongs to its process. So an error reaches whoever waits for prices; the last model of a process
    stays open.
    """

    predictor: Predictor = field(repr=False)

    def __call__(self) -> Predictor:
        """Return the predictor."""
        return self.predictor

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to open the same model."""
        load, arguments = self.predictor.__reduce__()
        return partial, (load, *arguments)


@contextmanager
def in_new_processes(processes: int, value: object) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of new processes, which end with the block, or when this process ends.

    Args:
        processes: their number.
        value: what can be pickled; `kept` returns it in each process.

    Raises:
        PluginError: a process ended before its task did.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    pool = ProcessPoolExecutor(processes, context, _begin, (value,))
    try:
        with _for_children():
            for _ in range(processes):  # a process starts when there is work and no other one is idle
                pool.submit(int)
        yield pool
    except BrokenProcessPool:
        raise PluginError(
            "a process that priced rows ended before it returned their prices. The system may have ended it for lack "
            "of memory: use fewer processes",
            parameters=("processes",),
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_kept: list[Any] = []
"""What this process received, if it is a worker."""


def kept() -> Any:
    """Return what this worker received when it started."""
    return _kept[0]


def _begin(value: object) -> None:
    """Make this process a worker: it logs nothing, and ends with its parent."""
    import multiprocessing

    silence()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True, name="parent").start()
    _kept[:] = [value]


def _end_with(sentinel: int) -> None:
    from multiprocessing.connection import wait

    wait([sentinel])
    os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """Start processes in the block with one CPU each, without the user's script, and deaf to Ctrl-C.

    A new process would import the script again, and a script without `if __name__ == "__main__"` would start to work
    a second time. What pricekit sends to its processes needs nothing from it. A terminal sends Ctrl-C to all
    processes, and only this one handles it.
    """
    before = {name: os.environ.get(name) for name in _ONE_CPU}
    script: Any = sys.modules["__main__"]
    handles = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if handles else None
    os.environ |= _ONE_CPU
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
