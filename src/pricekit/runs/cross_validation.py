"""Cross-validation: every row is predicted once, by weights that were not trained on it or on a duplicate of it.

cv.toml              the configuration of each fold
folds.parquet        row numbers, folds, and groups of duplicates
plan.json            a digest of the rows, columns that leak, the teachers
fold-0, fold-1, …    ordinary runs
held_out.parquet     every row with its prediction; written at the end, like cv.json
files.json           size and SHA-256 of these files; a run has its own
pricekit.json        kind, format and state; written first and last
cv.json              metrics of each fold, their mean and standard deviation, and scores by group
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.core.calls import observed
from pricekit.errors import ConfigError
from pricekit.evaluation.held_out import HELD_OUT, held_out_of, write_held_out
from pricekit.evaluation.scores import Goal, Scores, goal_of, scores_of
from pricekit.io.digests import list_files, unlist_files, write_listed
from pricekit.io.files import read_json, write_text
from pricekit.io.log import logger
from pricekit.io.mapped import folder_for_files
from pricekit.io.progress import tracked
from pricekit.io.record import Mode, advance_to, check_intact, state_of
from pricekit.metrics import metric_named
from pricekit.options import config_of
from pricekit.runs.ensemble import train_model
from pricekit.runs.folder import Folder, writing
from pricekit.runs.folds import (
    FOLDS,
    PLAN,
    FoldPlan,
    check_from_start,
    check_teachers,
    make_plan,
    read_plan,
    write_plan,
)
from pricekit.runs.load import load_model
from pricekit.runs.resume import check_tables, saved_config, to_resume
from pricekit.runs.split import Source, load_rows
from pricekit.runs.train import train_unless_finished, warn_if_useless
from pricekit.training.parallel import Processes

CONFIG, FACTS = "cv.toml", "cv.json"


def cross_validate(
    source: Source, config: RunConfig, out: Path, folds: int | None = None, mode: Mode = "new"
) -> Scores:
    """For each fold, train a run on the rows of the other folds and score it on that fold.

    Args:
        source: the table, without a validation table.
        config: of each run.
        out: the folder.
        folds: the number of folds; None: 5, or those of the cross-validation to resume.
        mode: as for `pricekit.runs.train.train`.

    Returns:
        The scores of all rows, of each fold and by group.

    Raises:
        DataError, ConfigError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.
    """
    with writing(out, "cross-validation", mode, shown=config.speed.progress) as folder:
        plan, source = _begin(source, config, folder, folds)
        return _run_folds(source, config, plan, folder)


def _run_folds(source: Source, config: RunConfig, plan: FoldPlan, folder: Folder) -> Scores:
    """Train and score the runs of all folds, and notify observers; return the scores of all rows."""
    out, processes = folder.path, Processes()
    settings = config.model_dump(mode="json", exclude_none=True)
    facts = {"config": settings, "folds": plan.folds, "resumed": folder.resumed}
    with observed("cross_validation", out, facts, enabled=processes.main) as ended:
        runs, predicted = [], np.empty(len(plan.table))
        with tracked("cross-validation", range(plan.folds)) as folds:
            for fold in folds:
                run, predicted[plan.fold == fold] = _run_fold(source, config, plan, out, fold)
                runs.append(run)
        scored = np.flatnonzero(plan.fold >= 0)
        held_out = held_out_of(plan.table.take(scored), predicted[scored], plan.fold[scored])
        scores = scores_of(held_out, metric_named(config.metric))
        if processes.main:
            write_held_out(out, held_out)
            write_listed(out, FACTS, _facts(source, settings, runs, scores), [HELD_OUT])
            advance_to(out, "finished")
        processes.wait()
        if processes.main:
            ended |= read_json(out / FACTS)
    return scores


def config_of_folds(options: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of the run of each fold; raises ConfigError, PluginError.

    With a refit, a fold does what `train` does: a part of the other folds chooses the epoch, and then all of their rows
    are trained on. Otherwise the last weights are kept, and all rows of the other folds are trained on at once; a refit
    for all epochs would repeat just that. The folds of an ensemble do what `train` does in either case, because the
    weights of its members need rows.

    Args:
        options: as of `pricekit.options.config_of`.
    """
    config: RunConfig = config_of(options)
    check_from_start(config)
    if config.members or (config.training.refit and config.training.keep == "best"):
        return config
    config = config_of(options, {"training": {"keep": "last"}})
    return config.with_training(refit=False)


def config_to_validate(out: Path, source: Source, options: Mapping[str, Any], mode: Mode) -> RunConfig:
    """Return the configuration of the runs of a new cross-validation, or of the one to resume.

    Raises:
        TrainingError: what is to be resumed is damaged.
        ConfigError, PluginError: an option is invalid, or differs from those that it was started with.
    """
    folder = to_resume(out, mode, "cross-validation")
    if folder is None:
        return config_of_folds(options)
    config = saved_config(folder / CONFIG, options, "cross-validate again")
    check_intact(folder, [PLAN], "cross-validate again")
    check_tables(source, folder / PLAN)
    return config


def _begin(source: Source, config: RunConfig, folder: Folder, folds: int | None) -> tuple[FoldPlan, Source]:
    """Return the plan of a new or resumed cross-validation, and its source with the teachers."""
    out, processes = folder.path, Processes()
    if source.valid is not None:
        raise ConfigError("cross-validation holds out rows of the table itself", parameters=("valid",))
    table, rejected = load_rows(source, config, folder_for_files(out))
    if folder.resumed:
        plan, paths = read_plan(out, table, rejected)
        if folds not in (None, plan.folds):
            raise ConfigError(
                f"a resumed cross-validation keeps its {plan.folds} folds; found {folds}. Leave the number out, or "
                "cross-validate into a new folder",
                parameters=("folds",),
            )
        source = replace(source, unpriced=source.unpriced or paths["unpriced"], teachers=paths["teachers"])
        check_teachers(source, plan)
        if processes.main:
            if any(state_of(out / f"fold-{fold}").name != "finished" for fold in range(plan.folds)):
                advance_to(out, "unfinished")
            unlist_files(out, [FACTS, HELD_OUT])
        return plan, source
    plan = make_plan(table, rejected, config, 5 if folds is None else folds, allow_leak=source.allow_leak)
    check_teachers(source, plan)
    processes.wait()
    if processes.main:
        folder.begin()
        write_plan(out, source, plan)
        write_text(out / CONFIG, config.to_toml())
        list_files(out, [PLAN, FOLDS, CONFIG])
        advance_to(out, "unfinished")
    processes.wait()
    return plan, source


def _run_fold(
    source: Source, config: RunConfig, plan: FoldPlan, out: Path, fold: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Train the run of a fold unless it is finished; return its facts and its prices of the held-out rows."""
    folder = out / f"fold-{fold}"
    teachers = tuple(path / folder.name for path in source.teachers)  # that were not trained on these rows
    source = replace(source, teachers=teachers, split=plan.split(fold, config))
    logger.info(f"{folder.name}: fold {fold + 1} of {plan.folds}")
    if config.members:
        facts = train_model(source, config, folder, "resume")
    else:
        facts = train_unless_finished(source, config, folder)
    rows = plan.held_out(fold)
    prices = load_model(folder).predict(rows)
    metric = metric_named(config.metric)
    score = metric.write(metric(prices, rows.known_price, rows.weight))
    logger.info(f"{folder.name}: {metric.title} {score} on {len(rows):,} held-out rows")
    return facts, prices


def _facts(
    source: Source, settings: dict[str, Any], runs: list[dict[str, Any]], scores: Scores
) -> dict[str, Any]:
    """Return the content of `cv.json`, and log its summary."""
    folds = [
        {"fold": int(str(fold)), "seconds": run["seconds"], "best_epoch": run.get("best_epoch"), **metrics}
        for run, (fold, metrics) in zip(runs, scores.folds.to_dict("index").items(), strict=True)
    ]
    metric, seconds = scores.metric, sum(run["seconds"] for run in runs)
    constant = float(np.mean([goal_of(run).constant for run in runs]))
    logger.info(f"{seconds:,.0f} s of training; {metric.title} of a constant price {metric.write(constant)}")
    warn_if_useless(Goal(metric, scores.metrics[metric.name], constant))
    return {
        "table": source.table_name,
        "metric": metric.name,
        "folds": folds,
        "constant_score": constant,
        "seconds": round(seconds, 1),
        "scores": scores.to_dict(),
        "plugins": runs[0]["plugins"],
        "config": settings,
    }
