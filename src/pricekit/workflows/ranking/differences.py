"""The settings in which models differ."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pricekit.workflows.ranking.contenders import Settings

_PLUGINS = ("policy", "backbone", "loss")
"""Sections of a configuration with the name of a plugin and its options."""

_Key = tuple[str, str]
"""The name of a setting, and the plugin whose option it is, or ""."""


def differences(models: Sequence[Sequence[Settings]]) -> list[dict[str, Any]]:
    """Return for each model the settings whose values differ between the models.

    Options of a plugin are compared between the models that use it. A setting in which the members of one ensemble
    differ is left out for this ensemble.

    Args:
        models: for each model, the settings of its run, or of each of its members.

    Example:
        >>> differences([[{"seed": 0, "loss.name": "smape"}], [{"seed": 1, "loss.name": "smape"}]])
        [{'seed': 0}, {'seed': 1}]
    """
    tables = [_values(runs) for runs in models]
    cells: defaultdict[_Key, set[tuple[str, ...]]] = defaultdict(set)
    for table in tables:
        for key, values in table.items():
            cells[key].add(tuple(sorted(values)))
    differ = [key for key, found in cells.items() if len(found) > 1]
    return [
        {
            key[0].removesuffix(".name"): next(iter(table[key].values()))
            for key in differ
            if len(table.get(key, ())) == 1
        }
        for table in tables
    ]


def _values(runs: Sequence[Settings]) -> dict[_Key, dict[str, Any]]:
    """Return the different values of each setting of a model, by their JSON."""
    found: defaultdict[_Key, dict[str, Any]] = defaultdict(dict)
    for settings in runs:
        for name, value in settings.items():
            section, _, option = name.partition(".")
            plugin = settings[f"{section}.name"] if section in _PLUGINS and option != "name" else ""
            found[name, plugin][json.dumps(value, sort_keys=True)] = value
    return dict(found)
