"""Warm start: a run that continues from a finished one, on new rows: its settings, and what it takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from pricekit.config import Choice, RunConfig, merge
from pricekit.config.layers import read_saved_config
from pricekit.config.resolve import configure, member_configs
from pricekit.core.calls import plugin_call
from pricekit.errors import ConfigError, TrainingError
from pricekit.features.fit import continue_features
from pricekit.features.preprocess import Preprocessor, without_price
from pricekit.io.log import logger
from pricekit.io.record import check_format, check_intact, read_intact, state_of
from pricekit.nets.network import ModelPlugins, PriceModel, build_model
from pricekit.options import ModelOptions, config_of, layers_of
from pricekit.runs.folder import BACKBONE, CONFIG, MEMBERS
from pricekit.runs.opened import LoadedRun, open_run
from pricekit.runs.seen import Seen, read_seen
from pricekit.table import Table
from pricekit.table.currency import require_same_currency
from pricekit.text.tokens import Tokens
from pricekit.wording import counted, shorten

EPOCHS, RATE = 0.4, 0.3
"""Of the epochs and of the learning rates of the run that is continued, unless it continued another one itself."""

_RATES = ("learning_rate", "head_learning_rate", "embedding_learning_rate")

_FIXED = ("policy", "backbone", "features", "feature_options", "loss", "head", "max_length", "facts_first")
"""Settings on which the weights, the states of features and the optimizer depend."""


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
    layer = _layer(before) | {"members": {name: _layer(member) for name, member in own.items()}}
    layers = layers_of(options)
    named: dict[str, Any] = reduce(merge, layers, dict[str, Any]())
    if not own:
        _check_fixed("features", before.features, named.get("features", before.features), init)
    folders = {"init": str(init), "members": {name: {"init": str(init / MEMBERS / name)} for name in own}}
    config = configure([layer, *layers, folders])
    config = config.model_copy(update={"members": {name: config.members[name] for name in own}})
    members = [(own[name], member) for name, member in member_configs(config).items()]
    for old, new in members or [(before, config)]:
        for name in _FIXED:
            _check_fixed(name, getattr(old, name), getattr(new, name), init)
        _check_fixed("text", old.columns.text, new.columns.text, init)
    return config


def _saved(folder: Path, name: str = "config.toml") -> RunConfig:
    """Return the configuration that a finished run or an ensemble was trained with."""
    state = state_of(folder)
    if state.name != "finished" or state.kind not in ("run", "ensemble") or not (folder / name).is_file():
        raise TrainingError(
            f"{folder} is not a finished run to continue from; expected the folder that training wrote, not a bundle "
            "or a cross-validation",
            parameters=("init",),
            path=str(folder),
        )
    check_format(state, folder)
    check_intact(folder, [name])
    return read_saved_config(folder / name)


def _members(init: Path) -> dict[str, Path]:
    """Return the folders of the members of a trained ensemble, by name; empty for a run."""
    if state_of(init).kind != "ensemble":
        return {}
    if not (init / CONFIG).is_file():
        raise TrainingError(
            f"{init} combines runs that were trained apart; continue from each of these runs, and combine the new ones",
            parameters=("init",),
            path=str(init),
        )
    folders = sorted((init / MEMBERS).glob("*"))
    return {folder.name: folder for folder in folders if state_of(folder).kind == "run"}


def _layer(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run as a layer, with those that a warm start changes."""
    training, layer = config.training, config.model_dump(exclude={"members"})
    layer["training"] |= {"time_budget": None, "refit": False}
    if config.init is None:
        rates = {name: getattr(training, name) for name in _RATES}
        layer["training"] |= {name: RATE * rate for name, rate in rates.items() if rate is not None}
        if training.epochs != "auto":
            layer["training"]["epochs"] = max(1, round(EPOCHS * training.epochs))
    return layer


def _check_fixed(name: str, old: Any, new: Any, init: Path) -> None:
    """Raise ConfigError if one of the settings that stay differs from that of the run to continue."""
    if old != new:
        if isinstance(old, Choice) and old.name != new.name:
            old, new = old.name, new.name
        raise ConfigError(
            f"{name} is {_shown(new)}, but {init} was trained with {_shown(old)}, and a warm start keeps it; "
            f"leave {name} out, or train from the start",
            parameters=(name if name in ModelOptions.__annotations__ else "settings", "init"),
            setting=name,
        )


def _shown(value: Any) -> str:
    return shorten(str(value.model_dump() if isinstance(value, BaseModel) else value), 200)


CONTAINED = 0.5
"""Share of the earlier texts that a table contains from which on features are fitted again, to all of its rows."""


@dataclass(frozen=True)
class WarmStart:
    """A finished run to continue from.

    Attributes:
        run: the run, opened.
        seen: the texts that it and those before it were trained on.
    """

    run: LoadedRun
    seen: Seen

    @classmethod
    def open(cls, folder: Path) -> WarmStart:
        """Open the run in a folder; raises TrainingError, PluginError."""
        return cls(open_run(folder), read_seen(folder))

    @property
    def architecture(self) -> dict[str, Any]:
        """The values that the backbone stores to rebuild its encoder."""
        return read_intact(self.run.path, BACKBONE)

    def fit(self, rows: Table) -> tuple[Preprocessor, dict[str, Any]]:
        """Adapt the features to the rows of the new run.

        Args:
            rows: training rows and, unless the user chose them, validation rows.

        Returns:
            The preprocessor, and facts about what was kept.
        """
        require_same_currency(self.run.facts["currency"], rows.price_style.currency, "to continue with")
        before = self.run.preprocessor
        row = self.seen.rows_of(rows.text)
        held = len(np.unique(row[row >= 0])) / max(1, len(self.seen.text))
        table = without_price(rows, before.columns)
        features, done = continue_features(before.features, table, rows.known_price, again=held >= CONTAINED)
        new = int((row < 0).sum())
        names = {state: [name for name, what in done.items() if what == state] for state in done.values()}
        kept = ", ".join(["weights", "tokenizer", *names.pop("kept", [])])
        others = "".join(f"; {state}: {', '.join(some)}" for state, some in sorted(names.items()))
        logger.info(
            f"continuing from {self.run.path}: {new:,} of {counted(len(rows), 'row')} are new; "
            f"kept: {kept}{others}. Each epoch takes the new rows and as many of the others"
        )
        share = self.run.model.estimate_share
        facts = {"run": str(self.run.path), "new_rows": new, "features": done, "estimate_share": share}
        return replace(before, features=features), facts

    def out_of_fold(self, rows: Table) -> dict[str, np.ndarray]:
        """Return the columns that learn from prices, float32 (N,) by name, as of rows that were not learned from.

        New rows have those of the earlier run, which does not know them, and earlier rows those of that time.
        """
        features, row = self.run.preprocessor.features, self.seen.rows_of(rows.text)
        table = without_price(rows, self.run.preprocessor.columns)
        names = [name for part in features.parts if part.plugin.uses_price for name in part.plugin.names]
        if not names:
            return {}
        columns = {name: self.seen.columns[name][row] for name in names}
        new = np.flatnonzero(row < 0)
        block = features.transform(table.take(new))
        for name, column in columns.items():
            column[new] = block[:, features.names.index(name)]
        return columns

    def model(
        self, plugins: ModelPlugins, config: RunConfig, preprocessor: Preprocessor, tokens: Tokens
    ) -> PriceModel:
        """Return a model with the weights of the run.

        Args:
            plugins: of the run.
            config: of the new run.
            preprocessor: of the new run.
            tokens: of the training rows, for an encoder that can learn new terms.
        """
        model = build_model(plugins, config, preprocessor, self.architecture, None)
        model.load_state_dict(self.run.model.state_dict())
        if (extend := getattr(model.encoder, "extend", None)) is not None:
            with plugin_call("backbone", config.backbone.name, "extending its encoder to more texts"):
                extend(tokens)
        return model
