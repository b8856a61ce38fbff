"""The feature plugins of a run: fitted to the training rows, stored as JSON, applied in training and prediction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Feature, State
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PluginError, PricekitError
from pricekit.features.folds import FOLDS, folds_of, sample_of
from pricekit.support.cpus import usable_cpus
from pricekit.support.log import logger
from pricekit.support.progress import Advance, progress
from pricekit.support.text import shorten
from pricekit.table import Table
from pricekit.table.stored import parts_of

CHECKED_ROWS = 8
"""Number of rows on which a fitted feature is checked row by row."""

PILOT_ROWS = 200
"""Least number of rows that show how long a feature takes, under a time budget."""

GROWTH = 0.8
"""The time of a fit grows with the number of rows to this power, because a part of it does not depend on them."""

ROWS_AT_ONCE = 150_000
"""Maximum number of rows to which several threads fit a feature at the same time, in all, for the sake of memory."""


@dataclass(frozen=True)
class FittedFeature:
    """One feature plugin with its options and its fitted state."""

    name: str
    options: dict[str, Any]
    plugin: Feature
    state: State


@dataclass(frozen=True)
class FittedFeatures:
    """The feature plugins of a run, in order."""

    parts: tuple[FittedFeature, ...]

    @property
    def names(self) -> list[str]:
        """The names of the K columns."""
        return [column for part in self.parts for column in part.plugin.names]

    @property
    def log_price(self) -> int | None:
        """The first column that is a complete estimate of the log price; None if there is none.

        Raises:
            PluginError: a feature names a column that it does not have.
        """
        for part in self.parts:
            name = getattr(part.plugin, "log_price", None)
            if name is not None and name not in part.plugin.names:
                raise PluginError(
                    f"the feature '{part.name}' sets log_price to {shorten(repr(name))}, which is not one of its "
                    f"columns {', '.join(part.plugin.names)}; report it to the plugin's author"
                )
            if name is not None:
                return self.names.index(name)
        return None

    @property
    def holding_training_rows(self) -> list[str]:
        """The names of the features whose state contains training rows."""
        return [part.name for part in self.parts if getattr(part.plugin, "holds_training_rows", False)]

    def transform(self, table: Table) -> np.ndarray:
        """Return the feature columns, float32 (N, K); raise PluginError if a plugin breaks its contract."""
        found = []
        for rows in parts_of(table):
            blocks = [_transformed(part, rows) for part in self.parts]
            found.append(np.hstack(blocks) if blocks else np.zeros((len(rows), 0), np.float32))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def to_json(self) -> list[dict[str, Any]]:
        """Return names, packages, versions, options and states as plain JSON values."""
        return [_record(part) for part in self.parts]

    @classmethod
    def from_json(cls, parts: Sequence[Mapping[str, Any]]) -> FittedFeatures:
        """Return the features that `to_json` described; raise PluginError if a plugin is not installed."""
        return cls(tuple(_restore(part) for part in parts))


def fit_features(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    price: np.ndarray | None = None,
    known: Mapping[str, np.ndarray] | None = None,
    *,
    show_progress: bool = True,
    cache: Path | None = None,
) -> tuple[FittedFeatures, dict[str, np.ndarray]]:
    """Fit feature plugins on the training rows.

    Args:
        names: the names of the plugins, in order.
        options: the options of each plugin.
        table: the N training rows, without the price.
        price: the training prices, float64 (N,), for features that use them.
        known: out-of-fold columns that need not be computed again, float32 (N,), by name.
        show_progress: show a bar while a feature learns from prices.
        cache: folder of a cache for features that learn from prices.

    Returns:
        The fitted features, and by name the out-of-fold columns, float32 (N,), that replace those of `transform` on
        the training rows: the values of a row were learned from other rows only.

    Raises:
        ConfigError, PluginError: an option or a plugin is invalid.
        DataError: a feature uses prices, and `price` is None.
    """
    if unused := set(options) - set(names):
        raise ConfigError(
            f"feature_options names {', '.join(sorted(unused))}, not among features {', '.join(names)}",
            parameters=("features", "settings"),
            unknown=sorted(unused),
            candidates=list(names),
        )
    parts = [_make(name, options.get(name, {}), {}) for name in names]
    out_of_fold: dict[str, np.ndarray] = {}
    for place, part in enumerate(parts):
        if uses_price(part.plugin):
            prices = _required(part.name, price)
            fit = partial(_fit_out_of_fold, part, table, prices, known or {}, shown=show_progress)
            part, columns = fit() if cache is None else _cached(cache, part, table, prices, known or {}, fit)
            out_of_fold |= columns
        else:
            part = _fit(part, table, None)
        parts[place] = part
        _check_rows_alone(part, table)
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
        if uses_price(part.plugin) and again:
            done[part.name], part = "fitted again", _fit(part, table, price)
        elif uses_price(part.plugin) and hasattr(part.plugin, "update"):
            with plugin_call("feature", part.name, "continuing with more rows"):
                state = part.plugin.update(table, price.copy(), part.state)
            done[part.name], part = "continued", replace(part, state=_plain(part.name, state))
        parts.append(part)
    return FittedFeatures(tuple(parts)), done


def uses_price(plugin: Feature) -> bool:
    """Return whether a feature learns from prices."""
    return bool(getattr(plugin, "uses_price", False))


def _fit(part: FittedFeature, table: Table, price: np.ndarray | None) -> FittedFeature:
    """Fit to rows; a price feature receives a copy of their prices."""
    fit: Any = part.plugin.fit
    with plugin_call("feature", part.name, "fitting to the training rows"):
        state = fit(table) if price is None else fit(table, price.copy())
    return replace(part, state=_plain(part.name, state))


def _required(name: str, price: np.ndarray | None) -> np.ndarray:
    if price is None:
        raise DataError(
            f"the feature '{name}' learns from prices, which are not read here; leave it out",
            parameters=("features",),
            feature=name,
        )
    return price


def _fit_out_of_fold(
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    *,
    shown: bool,
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Fit a price feature to all rows; return it, and the columns that were fitted to the rows of other folds."""
    names = part.plugin.names
    if all(name in known for name in names):
        return _fit(part, table, price), {name: known[name] for name in names}
    fold = folds_of(table)

    def held_out(held: int) -> np.ndarray:
        others, rows = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        own = _make(part.name, part.options, {})  # a plugin need not support several threads
        return _transformed(_fit(own, table.take(others), price[others]), table.take(rows))

    tasks: list[Callable[[], Any]] = [
        partial(_fit, part, table, price),
        *(partial(held_out, number) for number in range(FOLDS)),
    ]
    with progress(f"fitting {part.name}", len(tasks), shown=shown) as advance:
        fitted, *found = _at_once(tasks, table, advance)
    block = np.zeros((len(table), len(names)), np.float32)
    for held, values in enumerate(found):
        block[fold == held] = values
    return fitted, dict(zip(names, block.T, strict=True))


def _cached(
    cache: Path,
    part: FittedFeature,
    table: Table,
    price: np.ndarray,
    known: Mapping[str, np.ndarray],
    fit: Callable[[], tuple[FittedFeature, dict[str, np.ndarray]]],
) -> tuple[FittedFeature, dict[str, np.ndarray]]:
    """Return what `fit` returns, from the cache if it is there."""
    from pricekit.features.cache import cached_fit

    def fit_plain() -> tuple[State, dict[str, np.ndarray]]:
        fitted, columns = fit()
        return fitted.state, columns

    arrays = {"price": price, **{name: known[name] for name in part.plugin.names if name in known}}
    facts = {key: value for key, value in _record(part).items() if key != "state"}
    state, columns = cached_fit(cache, facts | {"folds": FOLDS}, table, arrays, fit_plain)
    return replace(part, state=state), columns


def too_slow(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    price: np.ndarray,
    seconds: float,
) -> list[str]:
    """Return the features that learn from prices and take longer than they may, by the time for a part of the rows.

    Args:
        names: the names of the plugins, in order.
        options: the options of each plugin.
        table: the N training rows, without the price.
        price: the training prices, float64 (N,).
        seconds: how long these features may take together, the first of them first.
    """
    found = []
    for name in names:
        part = _make(name, options.get(name, {}), {})
        if uses_price(part.plugin):
            needed = _seconds_for(part, table, price)
            if needed <= seconds:
                seconds -= needed
                continue
            logger.warning(
                f"the feature '{name}' would take about {needed:,.0f} s, and the time budget leaves {seconds:,.0f} s "
                "for it, so it is left out; give more time"
            )
            found.append(name)
    return found


def _seconds_for(part: FittedFeature, table: Table, price: np.ndarray) -> float:
    """Return about how long it takes to fit a feature out of fold."""
    pilot = np.random.default_rng(0).permutation(len(table))[: max(PILOT_ROWS, len(table) // 10)]
    started = time.perf_counter()
    _fit(part, table.take(np.sort(pilot)), price[np.sort(pilot)])
    each = (time.perf_counter() - started) * (len(table) / len(pilot)) ** GROWTH
    # Several threads hinder each other, so two do the work of about one and a half.
    return float(each) * (1 + FOLDS) / ((1 + _threads(1 + FOLDS, table)) / 2)


def _threads(tasks: int, table: Table) -> int:
    """Return the number of threads for tasks that each take about as much memory as the table."""
    return min(tasks, usable_cpus(), max(1, ROWS_AT_ONCE // max(1, len(table))))


def _at_once(tasks: Sequence[Callable[[], Any]], table: Table, advance: Advance) -> list[Any]:
    """Return the results of tasks that each take about as much memory as the table; several threads run them."""
    pool = ThreadPoolExecutor(_threads(len(tasks), table))
    try:
        futures = [pool.submit(task) for task in tasks]
        for future in as_completed(futures):
            future.result()
            advance(1)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _make(name: str, options: dict[str, Any], state: State) -> FittedFeature:
    return FittedFeature(name, options, registry().create("feature", name, options), state)


def _plain(name: str, state: State) -> State:
    """Return the state after a round trip through JSON, so that training and prediction use the same state."""
    try:
        plain: State = json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"the fitted state of the feature '{name}' is not plain JSON: {error}; expected finite numbers, "
            "strings, lists and dicts; report it to the plugin's author"
        ) from None
    return plain


def _record(part: FittedFeature) -> dict[str, Any]:
    entry = registry().get("feature", part.name)
    owner = {"package": entry.package, "version": entry.version, "columns": list(part.plugin.names)}
    return {"name": part.name, **owner, "options": part.options, "state": part.state}


def _restore(record: Mapping[str, Any]) -> FittedFeature:
    """Restore a feature; warn if its version differs, and raise PluginError if its columns differ."""
    name, made_with = record["name"], shorten(f"{record['package']} {record['version']}")
    registry().require("feature", name, record["package"], record["version"])
    entry = registry().get("feature", name)
    here = f"{entry.package} {entry.version}"
    try:
        part = _make(name, record["options"], record["state"])
    except PricekitError as error:
        if here == made_with:
            raise
        raise PluginError(f"{error} (the model was made with {made_with}; {here} is installed)") from error
    columns = record.get("columns") or list(part.plugin.names)  # missing in older models
    if list(part.plugin.names) != columns:
        raise PluginError(
            f"the feature '{name}' of {here} has the columns {', '.join(part.plugin.names)}; the model was made with "
            f"{made_with}, which has {shorten(', '.join(columns), 300)}. Install that version, or train again"
        )
    if here != made_with and entry.package != "pricekit":
        logger.warning(
            f"the feature '{name}' comes from {here}, but the model was made with {made_with}: prices may differ."
        )
    return part


def _transformed(part: FittedFeature, table: Table) -> np.ndarray:
    with plugin_call("feature", part.name, "computing its columns"):
        block = part.plugin.transform(table, part.state)
    expected = (len(table), len(part.plugin.names))
    if (found := _described(block)) != f"float32 of shape {expected}":
        raise PluginError(
            f"the feature '{part.name}' returned {found}, expected finite float32 of shape {expected}; "
            "report it to the plugin's author"
        )
    return block


def _described(block: Any) -> str:
    if not isinstance(block, np.ndarray):
        return type(block).__name__
    finite = block.dtype.kind != "f" or np.isfinite(block).all()
    return f"{block.dtype} of shape {block.shape}{'' if finite else ' with values that are not finite'}"


def _check_rows_alone(part: FittedFeature, table: Table) -> None:
    """Reject a feature whose value for a row depends on other rows, because then the row's price would, too."""
    rows = np.arange(min(CHECKED_ROWS, len(table)))
    together = _transformed(part, table.take(rows))
    alone = [_transformed(part, table.take(rows[i : i + 1])) for i in rows]
    if len(rows) and not np.array_equal(together, np.vstack(alone)):
        raise PluginError(
            f"the feature '{part.name}' returns different values for a row alone and for the same row among others; "
            "everything learned from the training rows belongs in the state that fit returns; report it to the "
            "plugin's author"
        )
