"""Fit the features of a run, and continue them with more rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.calls import plugin_call
from pricekit.errors import ConfigError, DataError, PluginError
from pricekit.features.fit.folds import FOLDS, sample_of
from pricekit.features.fit.out_of_fold import fit_cached, fit_one, fit_out_of_fold, uses_price
from pricekit.features.fitted import FittedFeature, FittedFeatures, make, plain_state, transformed
from pricekit.table import Table

CHECKED_ROWS = 8
"""Number of rows on which a fitted feature is checked row by row."""


def fit_features(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    price: np.ndarray | None = None,
    known: Mapping[str, np.ndarray] | None = None,
    *,
    folds: int = FOLDS,
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
        folds: the number of folds from which features that learn from prices find the columns of the training rows.
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
    parts = [make(name, options.get(name, {}), {}) for name in names]
    out_of_fold: dict[str, np.ndarray] = {}
    for place, part in enumerate(parts):
        if uses_price(part.plugin):
            prices = _required(part.name, price)
            fit = partial(fit_out_of_fold, part, table, prices, known or {}, folds=folds, shown=show_progress)
            part, columns = (
                fit() if cache is None else fit_cached(cache, part, table, prices, known or {}, folds, fit)
            )
            out_of_fold |= columns
        else:
            part = fit_one(part, table, None)
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
            done[part.name], part = "fitted again", fit_one(part, table, price)
        elif uses_price(part.plugin) and hasattr(part.plugin, "update"):
            with plugin_call("feature", part.name, "continuing with more rows"):
                state = part.plugin.update(table, price.copy(), part.state)
            done[part.name], part = "continued", replace(part, state=plain_state(part.name, state))
        parts.append(part)
    return FittedFeatures(tuple(parts)), done


def _required(name: str, price: np.ndarray | None) -> np.ndarray:
    if price is None:
        raise DataError(
            f"the feature '{name}' learns from prices, which are not read here; leave it out",
            parameters=("features",),
            feature=name,
        )
    return price


def _check_rows_alone(part: FittedFeature, table: Table) -> None:
    """Reject a feature whose value for a row depends on other rows, because then the row's price would, too."""
    rows = np.arange(min(CHECKED_ROWS, len(table)))
    together = transformed(part, table.take(rows))
    alone = [transformed(part, table.take(rows[i : i + 1])) for i in rows]
    if len(rows) and not np.array_equal(together, np.vstack(alone)):
        raise PluginError(
            f"the feature '{part.name}' returns different values for a row alone and for the same row among others; "
            "everything learned from the training rows belongs in the state that fit returns; report it to the "
            "plugin's author"
        )
