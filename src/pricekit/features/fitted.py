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
from pricekit.errors import ConfigError, PluginError
from pricekit.table import Table

ALONE = 8
"""Rows on which a fitted feature is tried one by one."""


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


def fit_features(names: Sequence[str], options: Mapping[str, dict[str, Any]], table: Table) -> FittedFeatures:
    """Fit feature plugins on the training rows; raises ConfigError, PluginError."""
    if unused := set(options) - set(names):
        raise ConfigError(
            f"feature_options names {', '.join(sorted(unused))}, not among features {', '.join(names)}"
        )
    parts = []
    for name in names:
        part = _make(name, options.get(name, {}), {})
        with guarded("feature", name, "fitting to the training rows"):
            parts.append(replace(part, state=_plain(name, part.plugin.fit(table))))
        _check_rows_alone(parts[-1], table)
    fitted = FittedFeatures(tuple(parts))
    if twice := sorted({c for c in fitted.names if fitted.names.count(c) > 1}):
        raise ConfigError(f"the features {', '.join(names)} give the same columns twice: {', '.join(twice)}")
    return fitted


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
    owner = {"package": entry.package, "version": entry.version}
    return {"name": part.name, **owner, "options": part.options, "state": part.state}


def _restore(record: Mapping[str, Any]) -> FittedFeature:
    if ("feature", record["name"]) not in registry().entries:
        raise PluginError(
            f"the model needs the feature '{record['name']}' of the package {record['package']} "
            f"{record['version']}, which is not installed or failed to load: pip install {record['package']}"
        )
    return _make(record["name"], record["options"], record["state"])


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
