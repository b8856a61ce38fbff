"""Fit features to the training rows: which rows, out of fold, within a time; and continue them with more rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.errors import ConfigError, DataError
from pricekit.features.assets import split_state
from pricekit.features.fitted import FittedFeatures, local_options, make, plain_state, record_of
from pricekit.features.fitted_feature import (
    FittedFeature,
    check_declared,
    compare,
    learned,
    own_table,
    transformed,
    unusual_rows,
)
from pricekit.features.table_cache import digest_of, read_entry, write_entry
from pricekit.io.cpus import in_threads, usable_cpus
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.table import Table
from pricekit.text.likeness import equal_texts, few_distinct

FOLDS = 5
"""Number of folds of the training rows for features that use the price."""

FEW_FOLDS = 2
"""Number of folds of a sample that is less than half of the training rows: most rows are out of fold anyway."""

MOST_ROWS = 100_000
"""Larger tables are sampled to this number of training rows, which fit the tokenizer and the features."""

LARGEST_GROUP = 0.05
"""Rows of the same product, as a share of a sample, that may be part of it: all others would be too few."""


def some_rows(count: int, most: int | None = None) -> np.ndarray:
    """Return the numbers of all rows, or of a random sample of `MOST_ROWS`, int64, ascending."""
    if count <= (most := most or MOST_ROWS):
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def sample_of(table: Table) -> np.ndarray:
    """Return the numbers of the rows that features are fitted to, int64, ascending: all, or about `MOST_ROWS`.

    Duplicates are drawn together, so that a row outside of the sample has none in it. What features learn from the
    prices of the sample is then out of fold for all other rows. If few texts are distinct, they are labels, and each
    row is drawn separately.
    """
    if len(table) <= MOST_ROWS:
        return np.arange(len(table))
    same = equal_texts(table.text) if table.cluster is None else table.cluster
    _, group, rows = np.unique(same, return_inverse=True, return_counts=True)
    if table.cluster is None and table.group is None and few_distinct(group):
        return some_rows(len(table))
    order = np.random.default_rng(0).permutation(len(rows))
    order = order[rows[order] <= LARGEST_GROUP * MOST_ROWS]
    drawn = np.zeros(len(rows), bool)
    drawn[order[np.cumsum(rows[order]) <= MOST_ROWS]] = True
    return np.flatnonzero(drawn[group])


@dataclass(frozen=True)
class Sample:
    """The training rows that the tokenizer and the features are fitted to: all of them, or a part of many.

    Attributes:
        rows: their numbers, int64 (M,), ascending.
        table: these rows.
        count: the number of all training rows.
    """

    rows: np.ndarray
    table: Table
    count: int

    @classmethod
    def of(cls, train: Table) -> Sample:
        """Choose the rows; say so if they are not all."""
        rows = sample_of(train)
        if len(rows) == len(train):
            return cls(rows, train, len(train))
        logger.info(f"tokenizer and features are fitted to a sample of {len(rows):,} of {len(train):,} rows")
        return cls(rows, train.take(rows), len(train))

    @property
    def folds(self) -> int:
        """The number of folds from which the rows of the sample get their values out of fold."""
        return FEW_FOLDS if 2 * len(self.rows) < self.count else FOLDS

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of the sample, float32 (M,), at the places of its rows, float32 (N,); NaN elsewhere."""
        if len(self.rows) == self.count:
            return values
        column = np.full(self.count, np.nan, np.float32)
        column[self.rows] = values
        return column


def folds_of(table: Table, count: int = FOLDS) -> np.ndarray:
    """Return the fold of each row, int64 (N,); duplicates share a fold, because one reveals the other's price.

    Duplicates are the rows with equal `Table.cluster`, otherwise equal texts. If few texts are distinct, they are
    labels, which recur in new rows; then each row is assigned separately. With times, the folds are consecutive parts.
    There are `count` folds, numbered from 0.
    """
    same = equal_texts(table.text)
    if (parts := _parts_by_time(table, count)) is not None:
        return parts
    if few_distinct(same) and table.group is None:
        same = np.arange(len(same))
    elif table.cluster is not None:
        same = np.unique(table.cluster, return_inverse=True)[1]
    folds: np.ndarray = (np.random.default_rng(0).permutation(same.max(initial=-1) + 1) % count)[same]
    return folds


def _parts_by_time(table: Table, count: int) -> np.ndarray | None:
    """Return the place of each row among `count` consecutive parts, int64 (N,); None with too few different times.

    So each part is predicted from rows of other times, as new rows will be.
    """
    if table.time is None:
        return None
    _, row, rows = np.unique(table.time, return_inverse=True, return_counts=True)
    part = ((np.cumsum(rows) - rows / 2) * count / len(table)).astype(np.int64)
    return part[row] if len(np.unique(part)) == count else None


_STATE = "state"
"""The name of the state in an entry of the cache."""

ROWS_AT_ONCE = 150_000
"""Maximum number of rows to which several threads fit a feature at the same time, in all, for the sake of memory."""


def fit_one(part: FittedFeature, table: Table, price: np.ndarray | None) -> FittedFeature:
    """Fit to rows; a price feature receives a copy of their prices."""
    fit: Any = part.plugin.fit

    def learn(rows: Table) -> Any:
        return fit(rows) if price is None else fit(rows, price.copy())

    state = learned(part, table, "fitting to the training rows", learn)
    return replace(part, state=plain_state(part.name, state))


def fit_out_of_fold(
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    *,
    folds: int,
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Fit a price feature to all rows; return it, and the columns that were fitted to the rows of other folds."""
    names = part.plugin.names
    if all(name in known for name in names):
        return fit_one(part, table, price), {name: known[name] for name in names}
    fold = folds_of(table, folds)

    def held_out(held: int) -> np.ndarray:
        others, rows = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        own = make(part.name, part.options, {})  # a plugin need not support several threads
        own = replace(own, guard=part.guard)
        return transformed(fit_one(own, table.take(others), price[others]), table.take(rows))

    tasks: list[Callable[[], Any]] = [
        partial(fit_one, part, table, price),
        *(partial(held_out, number) for number in range(folds)),
    ]
    with progress(f"fitting {part.name}", len(tasks)) as advance:
        results = []
        for result in in_threads(lambda task: task(), tasks, threads_for(len(table), folds)):
            results.append(result)
            advance(1)
    fitted, *blocks = results
    block = np.zeros((len(table), len(names)), np.float32)
    for held, values in enumerate(blocks):
        block[fold == held] = values
    return fitted, dict(zip(names, block.T, strict=True))


def fit_cached(
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    folds: int,
    cache: Path | None,
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Return what `fit_out_of_fold` returns: from the cache, or computed and then cached.

    A feature that reads files is always fitted. A state with assets is not cached: they usually come from files, which
    the name of the entry does not tell apart.

    Args:
        part: the feature, not fitted yet.
        table: the N rows that it is fitted to.
        price: their prices, float64 (N,).
        known: columns that are known, float32 (N,), by name.
        folds: the number of folds.
        cache: the folder of the cache; None: nothing is cached.
    """
    fit = partial(fit_out_of_fold, part, table, price, known, folds=folds)
    if cache is None or part.reads_files or any(part.options.get(name) for name in local_options(part)):
        return fit()
    facts = {key: value for key, value in record_of(part).items() if key != "state"}
    unless = f"the feature '{part.name}' is not cached"
    digest = digest_of(json.dumps(facts | {"folds": folds}, sort_keys=True), table, unless)
    if digest is None:
        return fit()
    own = {"weight": table.weight, "group": table.group, "time": table.time, "cluster": table.cluster}
    for name, values in [("price", price), *own.items(), *known.items()]:
        content = b"-" if values is None else np.ascontiguousarray(values).tobytes()
        digest.update(f"{name}\0".encode() + content)
    path = cache / f"fit-{digest.hexdigest()}.safetensors"
    entry = read_entry(path)
    with suppress(KeyError, ValueError):
        return replace(part, state=json.loads(entry.pop(_STATE).tobytes())), entry
    fitted, columns = fit()
    plain, assets = split_state(fitted.state)
    if not assets:
        stored = {_STATE: np.frombuffer(json.dumps(plain).encode(), np.uint8)}
        write_entry(path, stored | columns, unless)
    return fitted, columns


def threads_for(rows: int, folds: int) -> int:
    """Return the number of threads that fit a feature to all rows and to all but each fold."""
    tasks = [rows, *[rows - rows // folds] * folds]
    allowed = int(np.searchsorted(np.cumsum(tasks), ROWS_AT_ONCE, side="right"))
    return min(len(tasks), usable_cpus(), max(1, allowed))


def fit_features(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    known: Mapping[str, np.ndarray] = {},
    *,
    folds: int = FOLDS,
    cache: Path | None = None,
    hidden: str | None = None,
) -> tuple[FittedFeatures, dict[str, np.ndarray]]:
    """Fit feature plugins on the training rows.

    Args:
        names: the names of the plugins, in order.
        options: the options of each plugin.
        table: the N training rows, with prices for features that use them; plugins see them without.
        known: out-of-fold columns that need not be computed again, float32 (N,), by name.
        folds: the number of folds from which features that learn from prices find the columns of the training rows.
        cache: folder of a cache for features that learn from prices.
        hidden: the price column, which no feature may declare.

    Returns:
        The fitted features, and by name the out-of-fold columns, float32 (N,), that replace those of `transform` on
        the training rows: the values of a row were learned from other rows only.

    Raises:
        ConfigError, PluginError: an option or a plugin is invalid.
        DataError: a feature uses prices, and the table has none; or the table lacks a column that a feature declares.
    """
    if unused := set(options) - set(names):
        raise ConfigError(
            f"feature_options names {', '.join(sorted(unused))}, not among features {', '.join(names)}",
            parameters=("features", "settings"),
            unknown=sorted(unused),
            candidates=list(names),
        )
    price, table = table.price, replace(table, price=None)
    parts = [make(name, options.get(name, {}), {}) for name in names]
    out_of_fold: dict[str, np.ndarray] = {}
    for place, part in enumerate(parts):
        check_declared(part, hidden)
        if part.plugin.uses_price:
            if price is None:
                raise DataError(
                    f"the feature '{part.name}' learns from prices, which are not read here; leave it out",
                    parameters=("features",),
                    feature=part.name,
                )
            own = {name: known[name] for name in part.plugin.names if name in known}
            part, columns = fit_cached(part, table, price, own, folds, cache)
            out_of_fold |= columns
        else:
            part = fit_one(part, table, None)
        parts[place] = part
        if part.guard is not None:
            some = table.take(unusual_rows(own_table(part, table)))
            compare(part, some, transformed(part, some), np.arange(len(some))[:, None])
    fitted = FittedFeatures(tuple(parts))
    if twice := sorted({c for c in fitted.names if fitted.names.count(c) > 1}):
        raise ConfigError(
            f"the features {', '.join(names)} have columns of the same name: {', '.join(twice)}; leave one feature out",
            parameters=("features",),
            duplicates=twice,
        )
    return fitted, out_of_fold


def continue_features(
    fitted: FittedFeatures, table: Table, price: np.ndarray, *, again: bool
) -> tuple[FittedFeatures, dict[str, str]]:
    """Adapt features to more training rows, and keep what a model has learned to read.

    A feature that does not use prices keeps its state, because its columns must not change their meaning. One that
    uses prices learns again or goes on learning; its columns still mean what they meant. Many rows are represented by
    their `sample_of`.

    Args:
        fitted: the features.
        table: the N training rows, without the price.
        price: their prices, float64 (N,).
        again: fit features that use prices again, because these rows contain the earlier ones; otherwise those with a
            method `update` continue, and others keep their state.

    Returns:
        The features, and by name what happened to each: "kept", "continued" or "fitted again".
    """
    rows = sample_of(table)
    if len(rows) < len(table):
        table, price = table.take(rows), price[rows]
    parts, done = [], {}
    for part in fitted.parts:
        done[part.name] = "kept"
        if part.plugin.uses_price and again:
            done[part.name], part = "fitted again", fit_one(part, table, price)
        elif part.plugin.uses_price and part.plugin.update is not None:
            done[part.name], part = "continued", _continued(part, table, price)
        parts.append(part)
    return FittedFeatures(tuple(parts)), done


def _continued(part: FittedFeature, table: Table, price: np.ndarray) -> FittedFeature:
    """Let a price feature that has an `update` learn from more rows."""
    update: Any = part.plugin.update

    def learn(rows: Table) -> Any:
        return update(rows, price.copy(), part.state)

    state = learned(part, table, "continuing with more rows", learn)
    return replace(part, state=plain_state(part.name, state))


PILOT_ROWS = 200
"""Least number of rows that show how long a feature takes, under a time budget."""

QUICK = 0.2
"""Seconds of a first fit up to which no second one shows what of it happens only once, such as opening an encoder."""

GROWTH = 0.8
"""The time of a fit grows with the number of rows to this power, because a part of it does not depend on them."""


def too_slow(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    seconds: float,
    folds: int = FOLDS,
) -> list[str]:
    """Return the features that learn from prices and take longer than they may, by the time for a part of the rows.

    Args:
        names: the names of the plugins, in order.
        options: the options of each plugin.
        table: the N training rows with their prices.
        seconds: how long these features may take together, the first of them first.
        folds: the number of folds, see `fit_features`.
    """
    price, table = table.known_price, replace(table, price=None)
    slow = []
    for name in names:
        part = make(name, options.get(name, {}), {})
        if part.plugin.uses_price:
            needed = _seconds_for(part, table, price, folds, seconds)
            if needed <= seconds:
                seconds -= needed
                continue
            logger.warning(
                f"the feature '{name}' would take about {needed:,.0f} s, and the time budget leaves {seconds:,.0f} s "
                "for it, so it is left out; give more time"
            )
            slow.append(name)
    return slow


def _seconds_for(part: FittedFeature, table: Table, price: np.ndarray, folds: int, most: float) -> float:
    """Return about how long it takes to fit a feature out of fold in at most `most` seconds.

    What only the first fit of a process does is done then, so the time of a second one counts, if there is enough time.
    """
    pilot = np.sort(np.random.default_rng(0).permutation(len(table))[: max(PILOT_ROWS, len(table) // 10)])
    taken = _seconds_of_fit(part, table.take(pilot), price[pilot])
    if QUICK < taken < most / 3:
        taken = _seconds_of_fit(part, table.take(pilot), price[pilot])
    each = taken * (len(table) / len(pilot)) ** GROWTH
    # All rows once, and all but one fold so often; two threads hinder each other, and do the work of one and a half.
    return float(each) * folds / ((1 + threads_for(len(table), folds)) / 2)


def _seconds_of_fit(part: FittedFeature, table: Table, price: np.ndarray) -> float:
    started = time.perf_counter()
    fit_one(part, table, price)
    return time.perf_counter() - started
