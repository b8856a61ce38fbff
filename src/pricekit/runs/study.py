"""The study of a search: the settings that declare a range, the rows that trials see, and all trials.

`study.log`, to which several processes append, is a file of Optuna, one JSON object per line, which survives a kill.
Optuna is imported on first use.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from pricekit.config import RunConfig, Search, build_config
from pricekit.config.resolve import CHOICES
from pricekit.config.settings import searched
from pricekit.core.loader import registry
from pricekit.core.registry import options_model
from pricekit.errors import ConfigError
from pricekit.io.files import write_text
from pricekit.io.log import logger
from pricekit.options import settings_layers
from pricekit.runs.cross_validation import FoldPlan, make_plan
from pricekit.runs.split import (
    Source,
    Split,
    check_weights,
    digest_of,
    duplicates_in,
    load_rows,
    split_table,
)
from pricekit.table import Table

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


JOURNAL = "study.log"
BASE, SECONDS, ERROR = "base", "seconds", "error"
"""Attributes of a trial: it is the configuration that the search starts from; its duration; why it failed."""

STARTUP = 8
"""The first trials are random within their part of the model; later ones follow the earlier results."""

LEAST_PEERS = 4
"""A trial is stopped early only if at least as many are finished."""

NOISE = 0.3
"""About twice the standard deviation of a row's difference between two trials, as a part of the score: a rough estimate
from the trials of one search, with SMAPE."""

STATES = ("finished", "stopped early", "failed", "unfinished")
"""How a trial ended; an unfinished one was stopped by the time or a kill."""

_EPOCHS = 1_000_000
"""More than the epochs of a fold: a report of a trial is numbered by fold and epoch."""

_SECTIONS = ("head", "training")


@dataclass(frozen=True)
class Dimension:
    """A setting that a search changes.

    Attributes:
        name: its dotted name, such as `training.learning_rate`.
        search: its range.
        value: its value in the configuration that the search starts from.
    """

    name: str
    search: Search
    value: Any

    @property
    def block(self) -> str:
        """The part of the model that it belongs to: one feature, the backbone, or the training."""
        first, _, rest = self.name.partition(".")
        if first == "feature_options":
            return rest.partition(".")[0]
        return first if first == "backbone" else "training"


def dimensions(config: RunConfig) -> tuple[Dimension, ...]:
    """Return the settings of a complete configuration that can be searched.

    Raises:
        ConfigError: there are none, or the configuration is that of an ensemble.
        PluginError: a plugin cannot be imported.
    """
    if config.members:
        raise ConfigError(
            f"a search changes the settings of a single model, and the policy '{config.policy.name}' trains an "
            f"ensemble of {', '.join(config.members)}; choose a policy of one model, such as quick",
            parameters=("policy", "config"),
        )
    space = tuple(
        Dimension(name, search, value) for name, search, value in _declared(config) if search.fits(value)
    )
    if not space:
        raise ConfigError(
            "none of the settings of this configuration declares a range to search in; choose other plugins",
            parameters=("policy", "backbone", "features"),
        )
    return space


def known_values(config: RunConfig, space: Sequence[Dimension]) -> list[dict[str, Any]]:
    """Return settings that are known to be good on some tables, by dotted name: the examples of plugins' options.

    Options declare them as pydantic does for a JSON schema: `ConfigDict(json_schema_extra={"examples": [...]})`.
    """
    known, names = [], {each.name for each in space}
    for model, prefix, _ in _plugins(config):
        extra: Any = model.model_config.get("json_schema_extra")
        for example in extra.get("examples", []) if isinstance(extra, Mapping) else []:
            values = {f"{prefix}.{option}": value for option, value in example.items()}
            known.append({option: value for option, value in values.items() if option in names})
    return [values for values in known if values]


def blocks(space: Sequence[Dimension]) -> list[list[str]]:
    """Return the names of the dimensions of each part of the model."""
    names: dict[str, list[str]] = {}
    for dimension in space:
        names.setdefault(dimension.block, []).append(dimension.name)
    return list(names.values())


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return a configuration with other values of some settings, by dotted name; raises ConfigError."""
    return build_config([config.model_dump(), *settings_layers(dict(values))])


def _declared(config: RunConfig) -> Iterator[tuple[str, Search, Any]]:
    """Yield the name, the range and the value of each setting that declares one."""
    for model, prefix, options in _plugins(config):
        for option, search in searched(model).items():
            yield f"{prefix}.{option}", search, options.get(option)
    for section in _SECTIONS:
        settings = getattr(config, section)
        for name, search in searched(type(settings)).items():
            yield f"{section}.{name}", search, getattr(settings, name)


def _plugins(config: RunConfig) -> Iterator[tuple[type[BaseModel], str, Mapping[str, Any]]]:
    """Yield the plugins of a configuration that have options: the model of these, where they are, and their values."""
    choices = {kind: getattr(config, kind) for kind in CHOICES}
    plugins = [(kind, choice.name, kind, choice.options) for kind, choice in choices.items()]
    for name in config.features:
        plugins.append(("feature", name, f"feature_options.{name}", config.feature_options.get(name, {})))
    for kind, name, prefix, options in plugins:
        model = options_model(registry().get(kind, name).load())
        if model is not None:
            yield model, prefix, options


@dataclass(frozen=True)
class SearchRows:
    """The rows of a search.

    Attributes:
        plan: the rows that trials see, with their folds.
        final: the rows that no trial sees, on which the choice is scored once, at the end.
    """

    plan: FoldPlan
    final: Table

    def whole(self, config: RunConfig) -> Split:
        """Return all rows that trials see, in the parts that `train` makes of a table."""
        plan = self.plan
        parts = split_table(plan.table, config)
        return Split(*parts, [plan.rejected], plan.leaks, own=True)

    def growth(self) -> float:
        """Return how many times as many rows `whole` has as a fold trains on, in the mean."""
        sizes = [len(self.plan.split(number).train) for number in range(self.plan.folds)]
        return len(self.plan.table) / float(np.mean(sizes))

    def digest(self) -> str:
        """Return a hash of the rows and of the part and fold of each."""
        digest = hashlib.sha256(digest_of(self.plan.table, self.final).encode())
        digest.update(self.plan.fold.astype("<i8").tobytes())
        return digest.hexdigest()


def load_search_rows(source: Source, config: RunConfig, folds: int, *, allow_leak: bool) -> SearchRows:
    """Read a table and divide its rows: by time, by group, or with duplicates in one part.

    The share of the final rows is `validation_fraction`; the seed is that of the configuration.

    Raises:
        DataError: the table cannot be used, the price leaks, or there are too few rows.
        ConfigError: the number of folds is invalid.
    """
    table, rejected = load_rows(source, config)
    table = replace(table, cluster=duplicates_in(table)[0])
    seen, final = split_table(table, config)
    check_weights(seen, final)
    which = "latest " if table.time is not None else ""
    logger.info(f"no trial sees the {len(final):,} {which}of {len(table):,} rows that score the result")
    return SearchRows(make_plan(seen, rejected, config, folds, allow_leak=allow_leak), final)


@cache
def optuna() -> ModuleType:
    """Import Optuna, which then logs nothing; raises ConfigError if it is not installed."""
    try:
        import optuna as module
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a search needs the package {error.name}, which is not installed: pip install 'pricekit[tune]'"
        ) from None
    module.logging.disable_default_handler()
    module.logging.set_verbosity(logging.CRITICAL)
    return module


def open_study(folder: Path, seed: int) -> Study:
    """Open the study in a folder, or begin it.

    Args:
        folder: of the search.
        seed: of the settings that this process proposes.
    """
    module = optuna()
    backend = module.storages.journal.JournalFileBackend(str(folder / JOURNAL))
    study: Study = module.create_study(
        study_name="pricekit",
        storage=module.storages.JournalStorage(backend),
        sampler=module.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP),
        pruner=module.pruners.NopPruner(),
        load_if_exists=True,
    )
    return study


def repair(folder: Path) -> None:
    """Make the study of a killed search usable: drop the line that it was writing, and end its running trials.

    Call it while no other process uses the study. A trial that was running counts as failed.
    """
    path = folder / JOURNAL
    if not path.is_file():
        return
    for lock in folder.glob(f"{JOURNAL}.lock*"):
        lock.unlink(missing_ok=True)
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if _is_whole(line)]
    if len(whole) < len(lines):
        write_text(path, b"".join(whole).decode())
    study, states = open_study(folder, 0), optuna().trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=[states.RUNNING]):
        study.tell(trial.number, state=states.FAIL)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n")


def enqueue(study: Study, space: Sequence[Dimension], known: Sequence[Mapping[str, Any]]) -> None:
    """Let the next trials be those with settings that are known to be good, each with some settings by dotted name."""
    for values in known:
        study.enqueue_trial({each.name: each.value for each in space} | dict(values), skip_if_exists=True)


def ask(study: Study, space: Sequence[Dimension]) -> tuple[Trial, dict[str, Any]]:
    """Return the next trial and its settings, by dotted name.

    The first one has those that the search starts from; then come those of `enqueue`. Each later one changes one part
    of the model, in turn: a feature, the backbone or the training; its other settings are those of the best trial so
    far. So most trials are near something good, and those that leave a feature alone need not fit it again.
    """
    waiting = optuna().trial.TrialState.WAITING
    if base_trial(study) is None:
        study.enqueue_trial({each.name: each.value for each in space}, {BASE: True})
    elif not study.get_trials(deepcopy=False, states=[waiting]):
        parts, best = blocks(space), best_trial(study)
        changed = parts[len(study.get_trials(deepcopy=False)) % len(parts)]
        study.enqueue_trial({each.name: best.params[each.name] for each in space if each.name not in changed})
    trial = study.ask()
    return trial, {each.name: _suggested(trial, each) for each in space}


def _suggested(trial: Trial, dimension: Dimension) -> Any:
    search, value = dimension.search, dimension.value
    if search.choices:
        return trial.suggest_categorical(dimension.name, search.ends(value))
    low, high = search.ends(value)
    if isinstance(value, int):
        return trial.suggest_int(dimension.name, int(low), int(high), log=search.logarithmic)
    return trial.suggest_float(dimension.name, low, high, log=search.logarithmic)


def report(trial: Trial, fold: int, epoch: int | None, score: float) -> None:
    """Store the score of a trial so far: the mean over its folds, of the last one the best epoch so far.

    Args:
        trial: that runs.
        fold: that it trains.
        epoch: that has ended; None: the fold has ended.
        score: the mean.
    """
    trial.report(score, _step(fold, epoch))


def _step(fold: int, epoch: int | None) -> int:
    return fold * _EPOCHS + (_EPOCHS - 1 if epoch is None else epoch)


def falls_behind(study: Study, fold: int, epoch: int | None, score: float, rows: int) -> bool:
    """Return whether a trial is worse than the median of the finished ones after the same epoch of the same fold.

    This is the rule of Optuna's MedianPruner, with two exceptions. A trial's own earlier folds, which may be easier, do
    not count, and the difference must be larger than chance. An early end of a fold counts for all later epochs.

    Args:
        study: with the finished trials.
        fold: that the trial trains.
        epoch: that has ended; None: the fold has ended.
        score: the mean over its folds so far.
        rows: that were scored in these folds.
    """
    last, end = _step(fold, epoch), _step(fold, None)
    peers = []
    for trial in finished_trials(study):
        # The end of a fold counts only for itself.
        steps = [
            step
            for step in trial.intermediate_values
            if _step(fold, 0) <= step <= last and (step < end or last == end)
        ]
        if steps:
            peers.append(trial.intermediate_values[max(steps)])
    if len(peers) < LEAST_PEERS:
        return False
    return score > float(pd.Series(peers).median()) * (1 + NOISE / math.sqrt(rows))


def finished_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials that trained all folds, the best first."""
    state = optuna().trial.TrialState.COMPLETE
    return sorted(
        study.get_trials(deepcopy=False, states=[state]), key=lambda trial: (trial.value, trial.number)
    )


def best_trial(study: Study) -> FrozenTrial:
    """Return the finished trial with the lowest score."""
    return finished_trials(study)[0]


def uncached_seconds(study: Study) -> float:
    """Return about how long the best trial takes if no feature is in the cache: as the slowest with its features."""
    best = _features_of(best_trial(study))
    alike = [trial for trial in finished_trials(study) if _features_of(trial) == best]
    return max(float(trial.user_attrs[SECONDS]) for trial in alike)


def _features_of(trial: FrozenTrial) -> dict[str, Any]:
    return {name: value for name, value in trial.params.items() if name.startswith("feature_options.")}


def base_trial(study: Study) -> FrozenTrial | None:
    """Return the finished trial of the configuration that the search starts from; None if there is none yet."""
    return next((trial for trial in finished_trials(study) if BASE in trial.user_attrs), None)


def count_trials(study: Study) -> int:
    """Return the number of trials that count: finished, stopped early, or running."""
    states = optuna().trial.TrialState
    kinds = [states.COMPLETE, states.PRUNED, states.RUNNING]
    return len(study.get_trials(deepcopy=False, states=kinds))


def progress_of(study: Study, config: RunConfig, rows: SearchRows) -> tuple[float, float]:
    """Return the seconds of the latest trial that was stopped by time, and the part of it that was done, 0 to 1."""
    state = optuna().trial.TrialState.FAIL
    trials = [
        trial for trial in study.get_trials(deepcopy=False, states=[state]) if SECONDS in trial.user_attrs
    ]
    if not trials:
        return 0.0, 0.0
    last = trials[-1]
    if not last.intermediate_values:
        return float(last.user_attrs[SECONDS]), 0.0
    fold, epoch = divmod(max(last.intermediate_values), _EPOCHS)
    epochs = config.for_rows(len(rows.plan.split(fold).train)).training.epochs
    done = fold + min(1.0, epoch / int(epochs))
    return float(last.user_attrs[SECONDS]), done / rows.plan.folds


def trials_table(study: Study, space: Sequence[Dimension]) -> pd.DataFrame:
    """Return one row for each trial that began: number, state, score, seconds, error, and its settings."""
    names = {"COMPLETE": "finished", "PRUNED": "stopped early", "FAIL": "unfinished", "RUNNING": "unfinished"}
    rows = [
        {
            "trial": trial.number,
            "state": "failed" if ERROR in trial.user_attrs else names[trial.state.name],
            "score": _score(trial),
            "seconds": trial.user_attrs.get(SECONDS),
            "error": trial.user_attrs.get(ERROR, ""),
            **{each.name: trial.params.get(each.name) for each in space},
        }
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name in names
    ]
    columns = ["trial", "state", "score", "seconds", "error", *(each.name for each in space)]
    return pd.DataFrame(rows, columns=columns)


def _score(trial: FrozenTrial) -> float | None:
    """Return the score, or what was known of it when the trial was stopped."""
    values = trial.intermediate_values
    return trial.value if trial.value is not None or not values else values[max(values)]


def importances(study: Study) -> pd.DataFrame:
    """Return how much each setting mattered: setting, importance (float, sum 1), the most important first.

    It is the PED-ANOVA of Watanabe et al. 2023, arXiv:2304.10255, as Optuna computes it. With fewer than two finished
    trials, or if all have one score, the table is empty.
    """
    finished = finished_trials(study)
    shares: Mapping[str, float] = {}
    if len({trial.value for trial in finished}) > 1:
        shares = optuna().importance.get_param_importances(study)
    return pd.DataFrame({"setting": list(shares), "importance": [float(value) for value in shares.values()]})
