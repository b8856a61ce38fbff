"""Feature plugins together: fitted once on the training rows, stored as JSON, applied anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pricekit.core.contracts import Feature, State
from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PluginError, PricekitError
from pricekit.log import logger
from pricekit.table import Table
from pricekit.table.columns import equal_texts

ALONE = 8
"""Rows on which a fitted feature is tried one by one."""

FOLDS = 5
"""Parts of the training rows, for features that use the price."""

LABELS = 0.2
"""Share of different texts among all, under which they are labels of many products each."""


@dataclass(frozen=True)
class FittedFeature:
    """One feature plugin with its options and its fitted state."""

    name: str
    options: dict[str, Any]
    plugin: Feature
    state: State


@dataclass(frozen=True)
class FittedFeatures:
    """All feature plugins of a run, in order."""

    parts: tuple[FittedFeature, ...]

    @property
    def names(self) -> list[str]:
        """The names of the K columns."""
        return [column for part in self.parts for column in part.plugin.names]

    def transform(self, table: Table) -> np.ndarray:
        """Return the columns, float32 (N, K); raises PluginError for a plugin that breaks its contract."""
        blocks = [_transformed(part, table) for part in self.parts]
        return np.hstack(blocks) if blocks else np.zeros((len(table), 0), np.float32)

    def to_json(self) -> list[dict[str, Any]]:
        """Return names, packages, options and states as plain JSON values."""
        return [_record(part) for part in self.parts]

    @classmethod
    def from_json(cls, parts: Sequence[Mapping[str, Any]]) -> FittedFeatures:
        """Return what `to_json` described; raises PluginError where a plugin is not installed."""
        return cls(tuple(_restore(part) for part in parts))


def fit_features(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    price: np.ndarray | None = None,
) -> tuple[FittedFeatures, dict[str, np.ndarray]]:
    """Fit feature plugins on the training rows.

    Args:
        names: of the plugins, in order.
        options: by plugin.
        table: the training rows as features see them.
        price: of the training rows, float64 (N,), for features that use it.

    Returns:
        The fitted features, and by name the columns, float32 (N,), that must stand in for those of `transform`
        on the training rows: each row's was computed by what other rows taught.

    Raises:
        ConfigError, PluginError: an option or a plugin is wrong.
        DataError: a feature uses the price, and none is given.
    """
    if unused := set(options) - set(names):
        raise ConfigError(
            f"feature_options names {', '.join(sorted(unused))}, not among features {', '.join(names)}"
        )
    parts = []
    out_of_fold: dict[str, np.ndarray] = {}
    for name in names:
        part = _make(name, options.get(name, {}), {})
        parts.append(_fit(part, table, price))
        if uses_price(part.plugin):
            block = _out_of_fold(part, table, price)
            out_of_fold |= dict(zip(part.plugin.names, block.T, strict=True))
        _check_rows_alone(parts[-1], table)
    fitted = FittedFeatures(tuple(parts))
    if twice := sorted({c for c in fitted.names if fitted.names.count(c) > 1}):
        raise ConfigError(f"the features {', '.join(names)} give the same columns twice: {', '.join(twice)}")
    return fitted, out_of_fold


def uses_price(plugin: Feature) -> bool:
    """Say whether a feature learns from prices."""
    return bool(getattr(plugin, "uses_price", False))


def _fit(part: FittedFeature, table: Table, price: np.ndarray | None) -> FittedFeature:
    fit: Any = part.plugin.fit
    with guarded("feature", part.name, "fitting to the training rows"):
        state = fit(table, _needed(part.name, price).copy()) if uses_price(part.plugin) else fit(table)
    return replace(part, state=_plain(part.name, state))


def _needed(name: str, price: np.ndarray | None) -> np.ndarray:
    if price is None:
        raise DataError(f"the feature '{name}' learns from prices, which are not read here; leave it out")
    return price


def _out_of_fold(part: FittedFeature, table: Table, price: np.ndarray | None) -> np.ndarray:
    price = _needed(part.name, price)
    fold = _folds(table)
    block = np.zeros((len(table), len(part.plugin.names)), np.float32)
    for held in range(FOLDS):
        learned, rows = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
        fitted = _fit(part, table.take(learned), price[learned])
        block[rows] = _transformed(fitted, table.take(rows))
    return block


def _folds(table: Table) -> np.ndarray:
    """Return the fold of each row, int64 (N,), those of equal texts in one, since they would teach each other.

    Where few texts differ they are labels, which will be met again, and each row is dealt by itself.
    """
    same = equal_texts(table.text)
    if same.max() + 1 < LABELS * len(same):
        same = np.arange(len(same))
    folds: np.ndarray = (np.random.default_rng(0).permutation(same.max() + 1) % FOLDS)[same]
    return folds


def _make(name: str, options: dict[str, Any], state: State) -> FittedFeature:
    return FittedFeature(name, options, registry().create("feature", name, options), state)


def _plain(name: str, state: State) -> State:
    """Return the state as JSON gives it back, so that training uses what prediction will read."""
    try:
        plain: State = json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"the state that the feature '{name}' fitted is not plain JSON: {error}; expected finite numbers, "
            "strings, lists and dicts; report it to the plugin's author"
        ) from None
    return plain


def _record(part: FittedFeature) -> dict[str, Any]:
    entry = registry().get("feature", part.name)
    owner = {"package": entry.package, "version": entry.version, "columns": list(part.plugin.names)}
    return {"name": part.name, **owner, "options": part.options, "state": part.state}


def _restore(record: Mapping[str, Any]) -> FittedFeature:
    """Make a feature again; that it is of another version is said, and other columns are refused."""
    name, made_with = record["name"], f"{record['package']} {record['version']}"
    registry().require("feature", name, record["package"], record["version"])
    entry = registry().get("feature", name)
    here = f"{entry.package} {entry.version}"
    try:
        part = _make(name, record["options"], record["state"])
    except PricekitError as error:
        if here == made_with:
            raise
        raise PluginError(f"{error} (the model was made with {made_with}, and here is {here})") from error
    columns = record.get("columns") or list(part.plugin.names)  # older models do not say
    if list(part.plugin.names) != columns:
        raise PluginError(
            f"the feature '{name}' of {here} gives the columns {', '.join(part.plugin.names)}; the model was made with "
            f"{made_with} and {', '.join(columns)}. Install that version, or train again"
        )
    if here != made_with and entry.package != "pricekit":
        logger.warning(
            f"the feature '{name}' is of {here}, and the model was made with {made_with}: prices may differ."
        )
    return part


def _transformed(part: FittedFeature, table: Table) -> np.ndarray:
    with guarded("feature", part.name, "computing its columns"):
        block = part.plugin.transform(table, part.state)
    expected = (len(table), len(part.plugin.names))
    array = isinstance(block, np.ndarray)
    if not (array and block.shape == expected and block.dtype == np.float32 and np.isfinite(block).all()):
        found = f"{block.dtype} of shape {block.shape}" if array else type(block).__name__
        finite = (
            ""
            if not array or block.dtype.kind != "f" or np.isfinite(block).all()
            else " with values not finite"
        )
        raise PluginError(
            f"the feature '{part.name}' gave {found}{finite}, expected finite float32 of shape {expected}; "
            "report it to the plugin's author"
        )
    return block


def _check_rows_alone(part: FittedFeature, table: Table) -> None:
    """Refuse a feature whose value of a row depends on the rows beside it: a price would, too."""
    rows = np.arange(min(ALONE, len(table)))
    together = _transformed(part, table.take(rows))
    alone = [_transformed(part, table.take(rows[i : i + 1])) for i in rows]
    if len(rows) and not np.array_equal(together, np.vstack(alone)):
        raise PluginError(
            f"the feature '{part.name}' gives a row other values alone than among other rows; what it learns from "
            "the training rows belongs into the state that fit returns; report it to the plugin's author"
        )
