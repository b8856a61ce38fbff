"""The settings of a run that continues another one: those of that run, trained more briefly and gently."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pricekit.config import Choice, RunConfig, merge
from pricekit.config.layers import read_saved_config
from pricekit.config.resolve import configure, member_configs
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.options import config_of, layers_of
from pricekit.runs.ensemble import CONFIG, MEMBERS, is_ensemble
from pricekit.runs.folder.states import is_run
from pricekit.support.text import shorten

EPOCHS, RATE = 0.4, 0.3
"""Of the epochs and of the learning rates of the run that is continued, unless it continued another one itself."""

_RATES = ("learning_rate", "head_learning_rate", "embedding_learning_rate")

_FIXED = ("policy", "backbone", "features", "feature_options", "loss", "head", "max_length", "facts_first")
"""Settings on which the weights, the states of features and the optimizer depend."""

_OPTIONS = ("policy", "backbone", "features", "loss", "max_length", "text")
"""Those that are options, too."""


def new_config(options: Mapping[str, Any], init: Path | None = None) -> RunConfig:
    """Return the configuration of a run or an ensemble, which may continue another one.

    Args:
        options: as of `pricekit.options.config_of`; they override the settings of that other one.
        init: the folder of the run or the ensemble to continue from; None: what the setting `init` says.

    Raises:
        TrainingError: the folder is neither a finished run nor a trained ensemble.
        ConfigError: an option changes a setting on which the weights depend, or is invalid.
        PluginError: a plugin is not loaded.
    """
    if init is None:
        config: RunConfig = config_of(options)
        return config if config.init is None else new_config(options, Path(config.init))
    init = init.absolute()
    own = {name: _saved(folder) for name, folder in _members(init).items()}
    before = _saved(init, CONFIG if own else "config.toml")
    layer = _layer(before, init)
    layer["members"] = {name: _layer(member, init / MEMBERS / name) for name, member in own.items()}
    given = layers_of(options)
    asked: dict[str, Any] = reduce(merge, given, dict[str, Any]())
    if not own:
        _check_fixed("features", before.features, asked.get("features", before.features), init)
    folders = {"init": layer["init"], "members": {name: {"init": str(init / MEMBERS / name)} for name in own}}
    config = configure([layer, *given, folders])
    config = config.model_copy(update={"members": {name: config.members[name] for name in own}})
    for name, member in member_configs(config).items():
        _check_same(own[name], member, init)
    if not own:
        _check_same(before, config, init)
    return config


def _saved(folder: Path, name: str = "config.toml") -> RunConfig:
    """Return the configuration that a finished run or an ensemble was trained with."""
    if not (folder / "run.json").is_file() or not (folder / name).is_file():
        raise TrainingError(
            f"{folder} is not a finished run to continue from; expected the folder that training wrote, not a bundle "
            "or a cross-validation",
            parameters=("init",),
            path=str(folder),
        )
    check_intact(folder, [name])
    return read_saved_config(folder / name)


def _members(init: Path) -> dict[str, Path]:
    """Return the folders of the members of a trained ensemble, by name; empty for a run."""
    if is_ensemble(init) and not (init / CONFIG).is_file():
        raise TrainingError(
            f"{init} combines runs that were trained apart; continue from each of these runs, and combine the new ones",
            parameters=("init",),
            path=str(init),
        )
    folders = sorted((init / MEMBERS).glob("*")) if is_ensemble(init) else []
    return {folder.name: folder for folder in folders if is_run(folder)}


def _layer(config: RunConfig, init: Path) -> dict[str, Any]:
    """Return the settings of a run as a layer, with those that a warm start changes."""
    training, given = config.training, config.model_dump(exclude={"members"})
    given["init"] = str(init)
    given["training"] |= {"time_budget": None, "refit": False}
    if config.init is None:
        rates = {name: getattr(training, name) for name in _RATES}
        given["training"] |= {name: RATE * rate for name, rate in rates.items() if rate is not None}
    if config.init is None and training.epochs != "auto":
        given["training"]["epochs"] = max(1, round(EPOCHS * training.epochs))
    return given


def _check_same(before: RunConfig, config: RunConfig, init: Path) -> None:
    """Raise ConfigError if one of the settings that stay differs from that of the run to continue."""
    pairs = [(name, getattr(before, name), getattr(config, name)) for name in _FIXED]
    pairs.append(("text", before.columns.text, config.columns.text))
    for name, old, new in pairs:
        _check_fixed(name, old, new, init)


def _check_fixed(name: str, old: Any, new: Any, init: Path) -> None:
    if old != new:
        if isinstance(old, Choice) and old.name != new.name:
            old, new = old.name, new.name
        raise ConfigError(
            f"{name} is {_shown(new)}, but {init} was trained with {_shown(old)}, and a warm start keeps it; "
            f"leave {name} out, or train from the start",
            parameters=(name if name in _OPTIONS else "settings", "init"),
            setting=name,
        )


def _shown(value: Any) -> str:
    return shorten(str(value.model_dump() if isinstance(value, BaseModel) else value), 200)
