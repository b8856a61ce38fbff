"""Training of an ensemble: the runs of all members on the same rows, and their weights.

members.toml      the configuration, with the settings of each member
members/NAME      the run of each member; those of weight 0 are deleted at the end
…                 the other files of an ensemble (`pricekit.runs.opened`), written at the end
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.config.resolve import member_configs
from pricekit.errors import ConfigError, check_intact, read_intact
from pricekit.evaluation.scores import goal_of, metric_of
from pricekit.runs.folder import (
    CONFIG,
    ENSEMBLE_FINISHED,
    MEMBERS,
    SOURCE,
    check_replaceable,
    clear_ensemble,
    clear_run,
    has_begun,
    is_ensemble,
    is_own_of_ensemble,
    is_started,
    writing,
)
from pricekit.runs.resume import check_agreement, check_tables, in_budget, resumed_config
from pricekit.runs.seen import earlier_texts
from pricekit.runs.split import Source, Split, load_split
from pricekit.runs.train import train, train_unless_finished, warn_if_useless
from pricekit.runs.warm_start import new_config
from pricekit.support.digests import list_files, unlist_files
from pricekit.support.files import is_free, write_text
from pricekit.support.log import logger, silence
from pricekit.support.mapped import folder_for_files
from pricekit.support.progress import progress
from pricekit.support.staging import continued
from pricekit.support.text import duration
from pricekit.training.parallel import Processes
from pricekit.workflows.ensemble import combine, warn_if_slow, write_ensemble

_SHARED = ("columns", "limit", "validation_fraction", "metric")
"""Settings that are the same for all members: which rows are read and held out, and what weighs the members."""


def train_model(
    source: Source,
    config: RunConfig,
    out: Path,
    *,
    split: Split | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    started: float | None = None,
) -> dict[str, Any]:
    """Train a run, or an ensemble if the configuration names members.

    Arguments and errors are those of `pricekit.runs.train.train`.

    Returns:
        The content of `run.json`.
    """
    given: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "allow_leak": allow_leak}
    if not config.members:
        facts = train(source, config, out, split=split, started=started, **given)
        if Processes().main:
            warn_if_slow(out, config.max_latency)
        return facts
    processes = Processes()
    if not processes.main:
        silence()
    own, more = is_own_of_ensemble, {"resume": resume, "overwrite": overwrite, "shown": config.speed.progress}
    with writing(out, "ensemble", has_members, "run.json", own, **more) as folder:
        return _train(source, config, folder, split, processes, **given, started=started)


def has_members(path: Path) -> bool:
    """Return whether a folder is an ensemble whose members pricekit trained, or began to train, in it."""
    return (path / CONFIG).is_file()


def is_begun(path: Path) -> bool:
    """Return whether a folder contains a run or an ensemble that training began, and may have finished."""
    return has_members(path) or is_started(path)


def config_to_train(
    out: Path, source: Source, options: Mapping[str, Any], init: Path | None, *, resume: bool
) -> tuple[RunConfig, bool]:
    """Return the configuration of a run or an ensemble to train, and whether it is resumed.

    Args:
        out: its folder.
        source: the tables.
        options: as of `pricekit.options.config_of`.
        init: the folder to continue from.
        resume: continue what is in `out`, if there is something.

    Raises:
        ConfigError, TrainingError, PluginError: as of `resumed_model` and `new_config`.
    """
    begun = continued(out, is_begun) if resume else out
    if resume and has_begun(out, is_begun(begun), "run"):
        return resumed_model(begun, source, options, init), True
    return new_config(options, init), False


def resumed_model(
    folder: Path, source: Source, options: Mapping[str, Any], init: Path | None = None
) -> RunConfig:
    """Return the configuration of the run or the ensemble to resume, with a new time budget if one is given.

    Args:
        folder: of the run or the ensemble.
        source: the tables that are given now.
        options: that are given now, as of `pricekit.options.config_of`.
        init: the folder to continue from that is given now.

    Raises:
        ConfigError: an option, a table or a folder differs from those that it was started with.
        TrainingError: a file is damaged.
        PluginError: a plugin is not loaded.
    """
    budget = options.get("time_budget")
    if not has_members(folder):
        config, saved, runs = resumed_config(folder, budget), "config.toml", [folder]
    else:
        check_intact(folder, [CONFIG])
        config, saved = in_budget(folder / CONFIG, budget), CONFIG
        runs = [run for run in (folder / MEMBERS).glob("*") if is_started(run)]
    check_agreement(folder / saved, options)
    if init is not None and str(init.absolute()) != config.init:
        raise ConfigError(
            f"a resumed run continues from the run with which it was started, {config.init or 'none'}, not from "
            f"{init}; leave it out, or train into a new folder",
            parameters=("init",),
        )
    for run in runs:
        check_tables(source, run / SOURCE)
    return config


def _train(
    source: Source,
    config: RunConfig,
    out: Path,
    split: Split | None,
    processes: Processes,
    *,
    resume: bool,
    overwrite: bool,
    allow_leak: bool,
    started: float | None,
) -> dict[str, Any]:
    """Train the runs of all members in turn and combine them; return the content of `run.json`.

    A member may take the time that is left of the budget. So the first ones, which are worth most, are complete.
    """
    started = time.perf_counter() if started is None else started
    configs = _member_configs(config)
    resume = resume and has_members(out)
    finished = _finished_facts(out) if resume else None
    if processes.main and not resume and not is_free(out):
        begun = has_members(out)
        own = begun or is_ensemble(out)
        check_replaceable(out, "ensemble", own=own, overwrite=overwrite, resumable=begun)
    if split is None:
        seen = earlier_texts(config.init, *(sorted((out / MEMBERS).glob("*")) if resume else ()))
        disk = folder_for_files(out)
        split = load_split(source, config, allow_leak=allow_leak, checked=resume, seen=seen, folder=disk)
    if processes.main and not resume:
        clear_ensemble(out)
        (out / MEMBERS).mkdir(parents=True, exist_ok=True)
        write_text(out / CONFIG, config.to_toml())
        list_files(out, [CONFIG])
    processes.wait()
    if finished is not None:
        configs = {name: member for name, member in configs.items() if (out / MEMBERS / name).is_dir()}
    budget = None if finished is not None else config.training.time_budget
    left_out, longest = dict[str, str](), 0.0
    with progress("members", len(configs)) as advance:
        for number, (name, member) in enumerate(configs.items()):
            left = processes.from_main(_seconds_left(budget, started))
            if left < longest:
                left_out[name] = (
                    f"{duration(left)} of the time budget are left, and the longest training of a member took "
                    f"{duration(longest)}"
                )
                logger.info(f"the member {name} is left out: {left_out[name]}")
            else:
                logger.info(f"member {name}: {number + 1} of {len(configs)}")
                if left < np.inf:
                    training = member.training.model_copy(update={"time_budget": left})
                    member = member.model_copy(update={"training": training})
                facts = train_unless_finished(source, member, out / MEMBERS / name, split, resume=resume)
                longest = max(longest, processes.from_main(float(facts["seconds"])))
            advance(1)
    if finished is None and processes.main:
        names = [name for name in configs if name not in left_out]
        return _combine(out, names, left_out, config.max_latency, started)
    return finished or {}


def _finished_facts(out: Path) -> dict[str, Any] | None:
    """Return the content of `run.json` of a finished ensemble, None for others."""
    if not (out / "run.json").is_file():
        if Processes().main:
            unlist_files(out, ENSEMBLE_FINISHED)  # they are written again
        return None
    check_intact(out, None)
    return read_intact(out, "run.json")


def _combine(
    out: Path, names: list[str], left_out: dict[str, str], max_latency: float | None, started: float
) -> dict[str, Any]:
    """Fit the weights, write the files of the ensemble, and delete the runs of members without a weight."""
    runs = [out / MEMBERS / name for name in names]
    combined = combine(runs, metric_of(runs), max_latency)
    combined.record["left_out"] = left_out
    combined.facts["seconds"] = round(time.perf_counter() - started, 1)
    kept = [run.name for run in combined.runs]
    write_ensemble(out, combined, kept)
    for name in set(names) - set(kept):
        clear_run(out / MEMBERS / name)
        (out / MEMBERS / name).rmdir()
    warn_if_useless(goal_of(combined.facts))
    return combined.facts


def _member_configs(config: RunConfig) -> dict[str, RunConfig]:
    """Return the configuration of each member, without those with the settings of an earlier one.

    A user who names the features of all members makes some of them equal.

    Raises:
        ConfigError: a member differs from the ensemble in a setting that all share.
    """
    found: dict[str, RunConfig] = {}
    for name, member in member_configs(config).items():
        if same := [other for other, kept in found.items() if kept == member]:
            logger.info(f"the member {name} has the same settings as {same[0]}, so it is left out")
        else:
            found[name] = member
    for name, member in found.items():
        for setting in _SHARED:
            if getattr(member, setting) != getattr(config, setting):
                raise ConfigError(
                    f"the member {name} has a {setting} of its own; all members share it, so set {setting} for the "
                    "whole ensemble",
                    parameters=("settings",),
                    setting=f"members.{name}.{setting}",
                )
    return found


def _seconds_left(budget: float | None, started: float) -> float:
    """Return the seconds of a time budget that are left; infinite without one."""
    return np.inf if budget is None else max(1.0, budget - (time.perf_counter() - started))
