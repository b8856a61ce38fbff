"""Windows of rows, in order: while one is priced, the next ones are read and prepared."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pricekit.monitoring.priced_rows import PricedRows
from pricekit.prediction.workers import Found, price_in_processes, worthwhile
from pricekit.table import Table

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor

Item = TypeVar("Item")


@dataclass
class Pace:
    """The seconds that rows took so far.

    Attributes:
        preparing: for tokens and features.
        pricing: in the engine.
    """

    preparing: float = 0.0
    pricing: float = 0.0

    def price(self, predictor: Predictor, table: Table, counting: bool) -> Found:
        """Return the prices of a table, float32 (N,), and its counts if they are wanted."""
        began = time.perf_counter()
        inputs = predictor.prepare(table)
        prepared = time.perf_counter()
        prices = predictor.price(inputs)
        self.preparing += prepared - began
        self.pricing += time.perf_counter() - prepared
        return prices, predictor.count(table, inputs, prices) if counting else None


def priced(
    predictor: Predictor,
    tables: Iterable[Table],
    size: int,
    *,
    done: int = 0,
    processes: int | None = 1,
    pace: Pace | None = None,
    counting: bool = False,
) -> Iterator[tuple[Table, np.ndarray | None, PricedRows | None]]:
    """Yield each table with its prices, float32 (N,), and with counts of its rows if they are wanted.

    Args:
        predictor: the model.
        tables: consecutive windows of rows.
        size: the final `Table.position`.
        done: the number of tables at the beginning that are not priced; they come with None.
        processes: the number of processes; None: several if that is faster.
        pace: learns from the first window how long rows take.
        counting: whether the rows are counted, for `drift`.
    """
    tables, pace = prefetched(tables), pace or Pace()
    for table in islice(tables, done):
        yield table, None, None
    for first in islice(tables, 1):
        yield first, *pace.price(predictor, first, counting)
        if processes is None:
            windows_left = (size - first.position) / max(1, first.position) * (done + 1)
            processes = worthwhile(predictor, pace.preparing, pace.pricing, windows_left)
    if processes is not None and processes > 1:
        yield from price_in_processes(predictor, tables, processes, counting=counting)
        return
    for table, inputs in prefetched((table, predictor.prepare(table)) for table in tables):
        prices = predictor.price(inputs)
        yield table, prices, predictor.count(table, inputs, prices) if counting else None


def prefetched(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items; another thread computes the next one while the last one is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item
