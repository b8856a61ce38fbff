"""The fitted feature plugins of a run: stored as JSON, applied in training and prediction."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.calls import plugin_call, repair
from pricekit.core.contracts import State
from pricekit.core.loader import registry
from pricekit.errors import BundleError, ConfigError, PluginError, PricekitError
from pricekit.features.assets import check_assets, file_of, read_assets, split_state
from pricekit.features.fitted_feature import (
    FittedFeature,
    check_declared,
    check_state,
    guard_of,
    transformed,
)
from pricekit.io.log import logger
from pricekit.table import Table
from pricekit.table.table import parts_of
from pricekit.wording import shorten

_LONGEST_REASON = 1_000
"""Characters of an error about options, which may quote a stranger's text."""

LOCAL = "local"
"""In the `json_schema_extra` of an option: a path that only `fit` reads, of which a bundle contains the file name."""


@dataclass(frozen=True)
class FittedFeatures:
    """The feature plugins of a run, in order."""

    parts: tuple[FittedFeature, ...]

    @property
    def names(self) -> list[str]:
        """The names of the K columns."""
        return [column for part in self.parts for column in part.plugin.names]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that the features declare."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.plugin.columns))

    @property
    def vectors(self) -> dict[str, int]:
        """The length of the vectors in each column that the feature `vectors` reads."""
        own: list[Any] = [part for part in self.parts if part.name == "vectors" and part.guard is None]
        return {name: width for part in own for name, width in part.plugin.widths(part.state).items()}

    @property
    def words(self) -> dict[str, str]:
        """Words for columns whose names do not say what they are; raises PluginError if a plugin fails."""
        words: dict[str, str] = {}
        for part in self.parts:
            with plugin_call("feature", part.name, "describing its columns"):
                described = part.plugin.describe(part.state)
                words |= {name: str(described[name]) for name in part.plugin.names if name in described}
        return words

    @property
    def wholes(self) -> dict[str, str]:
        """By name, what each column is a part of: the words that it shares with others, or its own name."""
        words = self.words
        shared = Counter(words.values())
        return {name: words[name] if shared[words.get(name, "")] > 1 else name for name in self.names}

    def third_party(self) -> FittedFeatures:
        """Return the features that are not built in."""
        return FittedFeatures(tuple(part for part in self.parts if part.guard is not None))

    @property
    def log_price(self) -> int | None:
        """The first column that is a complete estimate of the log price; None if there is none.

        Raises:
            PluginError: a feature names a column that it does not have.
        """
        for part in self.parts:
            name = part.plugin.log_price
            if name is not None and name not in part.plugin.names:
                raise PluginError(
                    f"the feature '{part.name}' sets log_price to {shorten(repr(name))}, which is not one of its "
                    f"columns {', '.join(part.plugin.names)}; {repair('feature', part.name)}"
                )
            if name is not None:
                return self.names.index(name)
        return None

    @property
    def holding_training_rows(self) -> list[str]:
        """The names of the features whose state contains training rows."""
        return [part.name for part in self.parts if part.plugin.holds_training_rows]

    def transform(self, table: Table) -> np.ndarray:
        """Return the feature columns, float32 (N, K); raise PluginError if a plugin breaks its contract."""
        parts = []
        for rows in parts_of(table):
            blocks = [transformed(part, rows) for part in self.parts]
            parts.append(np.hstack(blocks) if blocks else np.zeros((len(rows), 0), np.float32))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def to_json(self, *, portable: bool = False) -> list[dict[str, Any]]:
        """Return names, packages, versions, options and states as plain JSON values.

        `portable` leaves the folders out of paths that only a fit reads: options whose field has the extra `LOCAL`.
        """
        return [record_of(part) | (_portable(part) if portable else {}) for part in self.parts]

    @classmethod
    def from_json(cls, parts: Sequence[Mapping[str, Any]], files: Mapping[str, bytes] = {}) -> FittedFeatures:
        """Return the features that `to_json` described.

        Args:
            parts: what `to_json` returned.
            files: contents by name, among them those of `assets`.

        Raises:
            PluginError: a plugin is not installed.
            BundleError: an asset is missing.
        """
        return cls(tuple(_restore(part, files) for part in parts))

    def assets(self) -> dict[str, bytes]:
        """Return the contents of the files that `to_json` names."""
        assets = [split_state(part.state)[1] for part in self.parts]
        return {file_of(key, content): content for one in assets for key, content in one.items()}


def make(name: str, options: dict[str, Any], state: State) -> FittedFeature:
    """Return a feature with its options and state; raise ConfigError or PluginError if that is impossible."""
    part = FittedFeature(name, options, registry().create("feature", name, options), state, guard_of(name))
    check_declared(part)
    return part


def plain_state(name: str, state: State) -> State:
    """Return the state after a round trip through JSON, so that training and prediction use the same state."""
    values, assets = split_state(state) if isinstance(state, dict) else (state, {})
    check_assets(name, assets)
    try:
        plain: State = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"the fitted state of the feature '{name}' is not plain JSON{key_of(values)}: {error}; expected finite "
            f"numbers, strings, lists and dicts; {repair('feature', name)}"
        ) from None
    return plain | assets if assets else plain


def key_of(state: Any) -> str:
    """Return where in a state a value is not JSON, for a sentence: its first such key, or ""."""
    for key, value in state.items() if isinstance(state, dict) else ():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            return f" in its key {shorten(repr(key))}"
    return ""


def record_of(part: FittedFeature) -> dict[str, Any]:
    """Return what `FittedFeatures.to_json` stores of one feature."""
    entry = registry().get("feature", part.name)
    owner = {"package": entry.package, "version": entry.version, "columns": list(part.plugin.names)}
    state, assets = split_state(part.state)
    named = {"assets": {key: file_of(key, content) for key, content in assets.items()}} if assets else {}
    return {"name": part.name, **owner, "options": part.options, "state": state, **named}


def local_options(part: FittedFeature) -> list[str]:
    """Return the options of a feature that are paths of files which only its fit reads."""
    fields = getattr(getattr(part.plugin, "Options", None), "model_fields", {})
    return [name for name, field in fields.items() if LOCAL in (field.json_schema_extra or {})]


def _portable(part: FittedFeature) -> dict[str, Any]:
    """Return the options with the names of files and folders instead of their paths; {} without such options."""
    local = {name: part.options.get(name) for name in local_options(part)}
    # `abspath` keeps the name of a link, where `resolve` would name what it points to.
    paths = {name: Path(os.path.abspath(path)).name or name for name, path in local.items() if path}  # noqa: PTH100
    return {"options": part.options | paths} if paths else {}


def _restore(record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedFeature:
    """Restore a feature; warn if its version differs.

    Raises:
        BundleError: the record of a built-in feature has options, a state or columns that do not fit it.
        PluginError: that of a plugin does not fit the installed plugin, or the plugin is missing.
    """
    name, made_with = record["name"], shorten(f"{record['package']} {record['version']}")
    registry().require("feature", name, record["package"], record["version"])
    entry = registry().get("feature", name)
    here = f"{entry.package} {entry.version}"
    assets = read_assets(name, record.get("assets") or {}, files)
    mismatch: type[PricekitError] = BundleError if entry.package == "pricekit" else PluginError
    try:
        part = make(name, record["options"], record["state"] | assets)
        check_state(part)
    except PricekitError as error:
        reason = shorten(str(error), _LONGEST_REASON)
        if here != made_with:
            raise mismatch(f"{reason} (the model was made with {made_with}; {here} is installed)") from error
        if isinstance(error, ConfigError):
            raise BundleError(f"the model is damaged, its features cannot be restored: {reason}") from error
        raise
    columns = record["columns"]
    if list(part.plugin.names) != columns:
        raise mismatch(
            f"the feature '{name}' of {here} has the columns {', '.join(part.plugin.names)}; the model was made with "
            f"{made_with}, which has {shorten(', '.join(columns), 300)}. Install that version, or train again"
        )
    if here != made_with and entry.package != "pricekit":
        logger.warning(
            f"the feature '{name}' comes from {here}, but the model was made with {made_with}: prices may differ."
        )
    return part
