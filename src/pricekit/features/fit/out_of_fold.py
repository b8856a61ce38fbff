"""Fit a feature that learns from prices, and find its columns of the training rows from the rows of other folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Feature, State
from pricekit.features.fit.folds import folds_of
from pricekit.features.fitted import FittedFeature, local_options, make, plain_state, record_of, transformed
from pricekit.support.cpus import usable_cpus
from pricekit.support.progress import Advance, progress
from pricekit.table import Table

ROWS_AT_ONCE = 150_000
"""Maximum number of rows to which several threads fit a feature at the same time, in all, for the sake of memory."""


def uses_price(plugin: Feature) -> bool:
    """Return whether a feature learns from prices."""
    return bool(getattr(plugin, "uses_price", False))


def fit_one(part: FittedFeature, table: Table, price: np.ndarray | None) -> FittedFeature:
    """Fit to rows; a price feature receives a copy of their prices."""
    fit: Any = part.plugin.fit
    with plugin_call("feature", part.name, "fitting to the training rows"):
        state = fit(table) if price is None else fit(table, price.copy())
    return replace(part, state=plain_state(part.name, state))


def fit_out_of_fold(
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    *,
    folds: int,
    shown: bool,
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Fit a price feature to all rows; return it, and the columns that were fitted to the rows of other folds."""
    names = part.plugin.names
    if all(name in known for name in names):
        return fit_one(part, table, price), {name: known[name] for name in names}
    fold = folds_of(table, folds)

    def held_out(held: int) -> np.ndarray:
        others, rows = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        own = make(part.name, part.options, {})  # a plugin need not support several threads
        return transformed(fit_one(own, table.take(others), price[others]), table.take(rows))

    tasks: list[Callable[[], Any]] = [
        partial(fit_one, part, table, price),
        *(partial(held_out, number) for number in range(folds)),
    ]
    with progress(f"fitting {part.name}", len(tasks), shown=shown) as advance:
        fitted, *found = _at_once(tasks, threads_for(len(table), folds), advance)
    block = np.zeros((len(table), len(names)), np.float32)
    for held, values in enumerate(found):
        block[fold == held] = values
    return fitted, dict(zip(names, block.T, strict=True))


def fit_cached(
    cache: Path,
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    folds: int,
    fit: Callable[[], tuple[FittedFeature, dict[str, np.ndarray]]],
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Return what `fit` returns, from the cache if it is there; a feature that reads files is always fitted."""
    if part.reads_files or any(part.options.get(name) for name in local_options(part)):
        return fit()
    from pricekit.features.fit.cache import cached_fit

    def fit_plain() -> tuple[State, dict[str, np.ndarray]]:
        fitted, columns = fit()
        return fitted.state, columns

    arrays = {"price": price, **{name: known[name] for name in part.plugin.names if name in known}}
    facts = {key: value for key, value in record_of(part).items() if key != "state"}
    state, columns = cached_fit(cache, facts | {"folds": folds}, table, arrays, fit_plain)
    return replace(part, state=state), columns


def threads_for(rows: int, folds: int) -> int:
    """Return the number of threads that fit a feature to all rows and to all but each fold."""
    tasks = [rows, *[rows - rows // folds] * folds]
    allowed = int(np.searchsorted(np.cumsum(tasks), ROWS_AT_ONCE, side="right"))
    return min(len(tasks), usable_cpus(), max(1, allowed))


def _at_once(tasks: Sequence[Callable[[], Any]], threads: int, advance: Advance) -> list[Any]:
    """Return the results of tasks that several threads run, in order."""
    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(task) for task in tasks]
        for future in as_completed(futures):
            future.result()
            advance(1)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
