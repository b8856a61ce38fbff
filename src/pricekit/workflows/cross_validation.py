"""Cross-validation: every row is predicted once, by weights that were not trained on it or on a duplicate of it.

cv.toml              the configuration of each fold
folds.parquet        row numbers, folds, and groups of duplicates
plan.json            a digest of the rows, columns that leak, the teachers
fold-0, fold-1, …    ordinary runs
held_out.parquet     every row with its prediction; written at the end, like cv.json
files.json           size and SHA-256 of these files; a run has its own
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
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.evaluation.held_out import HELD_OUT, held_out_of, write_held_out
from pricekit.evaluation.scores import Goal, Scores, goal_of, scores_of
from pricekit.formats import FORMAT
from pricekit.metrics import metric_named
from pricekit.options import config_of
from pricekit.runs.folder import (
    check_replaceable,
    clear_ensemble,
    clear_run,
    is_own,
    is_own_of_ensemble,
    is_replaceable,
    is_run,
    names_rows,
    writing,
)
from pricekit.runs.load import load_model
from pricekit.runs.resume import in_budget
from pricekit.runs.split import Source, load_rows
from pricekit.runs.train import train_unless_finished, warn_if_useless
from pricekit.support.digests import LISTING, list_files, unlist_files, write_listed
from pricekit.support.files import is_free, leftovers, read_json, write_text
from pricekit.support.log import logger
from pricekit.support.mapped import folder_for_files
from pricekit.support.progress import tracked
from pricekit.training.parallel import Processes
from pricekit.workflows.ensemble import has_members, train_model
from pricekit.workflows.folds import (
    FOLDS,
    PLAN,
    FoldPlan,
    check_from_start,
    check_teachers,
    make_plan,
    read_plan,
    write_plan,
)

CONFIG, FACTS = "cv.toml", "cv.json"
_FILES = (FACTS, LISTING, HELD_OUT, CONFIG, FOLDS, PLAN)  # in the order of deletion


def cross_validate(
    source: Source,
    config: RunConfig,
    out: Path,
    folds: int | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
) -> Scores:
    """For each fold, train a run on the rows of the other folds and score it on that fold.

    Args:
        source: the table, without a validation table.
        config: of each run.
        out: a new or empty folder.
        folds: the number of folds; None: 5, or those of the cross-validation to resume.
        resume: continue the cross-validation in `out`.
        overwrite: replace the cross-validation in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.

    Returns:
        The scores of all rows, of each fold and by group.

    Raises:
        DataError, ConfigError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.
    """
    given, shown = {"resume": resume, "overwrite": overwrite}, config.speed.progress
    with writing(out, "cross-validation", is_cv, FACTS, _is_own, **given, shown=shown) as folder:
        plan, source = _begin(source, config, folder, folds, **given, allow_leak=allow_leak)
        return _run_folds(source, config, plan, folder, resume=resume)


def _run_folds(source: Source, config: RunConfig, plan: FoldPlan, out: Path, *, resume: bool) -> Scores:
    """Train and score the runs of all folds, and notify observers; return the scores of all rows."""
    processes, settings = Processes(), config.model_dump(mode="json", exclude_none=True)
    facts = {"config": settings, "folds": plan.folds, "resumed": resume}
    with observed("cross_validation", out, enabled=processes.main, **facts) as ended:
        runs, predicted = [], np.empty(len(plan.table))
        with tracked("cross-validation", range(plan.folds)) as folds:
            for fold in folds:
                run, predicted[plan.fold == fold] = _run_fold(out, source, config, plan, fold, resume=resume)
                runs.append(run)
        scored = np.flatnonzero(plan.fold >= 0)
        held_out = held_out_of(plan.table.take(scored), predicted[scored], plan.fold[scored])
        scores = scores_of(held_out, metric_named(config.metric))
        if processes.main:
            write_held_out(out, held_out)
            write_listed(out, FACTS, _facts(source, settings, runs, scores), [HELD_OUT])
        processes.wait()
        if processes.main:
            ended |= read_json(out / FACTS)
    return scores


def is_cv(path: Path) -> bool:
    """Return whether a folder looks like a cross-validation."""
    return (path / CONFIG).is_file() and (path / FOLDS).is_file()


def _is_own(file: Path) -> bool:
    """Return whether a path relative to a cross-validation's folder is one of its files."""
    fold, _, name = file.as_posix().partition("/")
    if not name:
        return fold in _FILES
    return fold.startswith("fold-") and (is_own(Path(name)) or is_own_of_ensemble(Path(name)))


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


def resumed_config(folder: Path, time_budget: float | str | None) -> RunConfig:
    """Return the configuration of the cross-validation in a folder, with a new time budget if one is given.

    Raises:
        TrainingError: there is no cross-validation to resume.
    """
    if not is_cv(folder):
        raise TrainingError(
            f"there is no cross-validation in {folder} to resume; start it without resume",
            parameters=("resume",),
        )
    check_intact(folder, [CONFIG], "cross-validate again")
    return in_budget(folder / CONFIG, time_budget)


def _begin(
    source: Source,
    config: RunConfig,
    out: Path,
    folds: int | None,
    *,
    resume: bool,
    overwrite: bool,
    allow_leak: bool,
) -> tuple[FoldPlan, Source]:
    """Return the plan of a new or resumed cross-validation, and its source with the teachers."""
    if source.valid is not None:
        raise ConfigError("cross-validation holds out rows of the table itself", parameters=("valid",))
    table, rejected = load_rows(source, config, folder_for_files(out))
    if resume:
        plan, paths = read_plan(out, table, rejected)
        if Processes().main:
            unlist_files(out, [FACTS, HELD_OUT])
        if folds not in (None, plan.folds):
            raise ConfigError(
                f"a resumed cross-validation keeps its {plan.folds} folds; found {folds}. Leave the number out, or "
                "cross-validate into a new folder",
                parameters=("folds",),
            )
        source = replace(source, unpriced=source.unpriced or paths["unpriced"], teachers=paths["teachers"])
        check_teachers(source, plan)
        return plan, source
    if not is_free(out) and not _is_incomplete(out):
        check_replaceable(out, "cross-validation", own=is_cv(out), overwrite=overwrite, resumable=True)
    plan = make_plan(table, rejected, config, 5 if folds is None else folds, allow_leak=allow_leak)
    check_teachers(source, plan)
    processes = Processes()
    processes.wait()
    if processes.main:
        _clear(out)
        out.mkdir(parents=True, exist_ok=True)
        write_plan(out, source, plan)
        write_text(out / CONFIG, config.to_toml())
        list_files(out, [PLAN, FOLDS, CONFIG])
    processes.wait()
    return plan, source


def _is_incomplete(path: Path) -> bool:
    """Return whether a cross-validation was interrupted while its folder was created or deleted."""
    if is_cv(path) or not names_rows(path / PLAN):
        return False
    return not any(is_run(folder) or has_members(folder) for folder in path.glob("fold-*"))  # deleted first


def _clear(out: Path) -> None:
    """Delete the files of a cross-validation and of its runs, and nothing else."""
    for folder in list(out.glob("fold-*")):
        if has_members(folder):
            clear_ensemble(folder)
        elif is_replaceable(folder):
            clear_run(folder)
        else:
            continue
        if not any(folder.iterdir()):
            folder.rmdir()
    for file in [*(leftovers(out) if out.is_dir() else ()), *(out / name for name in _FILES)]:
        file.unlink(missing_ok=True)


def _run_fold(
    out: Path, source: Source, config: RunConfig, plan: FoldPlan, fold: int, *, resume: bool
) -> tuple[dict[str, Any], np.ndarray]:
    """Train the run of a fold unless it is finished; return its facts and its prices of the held-out rows."""
    folder, split = out / f"fold-{fold}", plan.split(fold, config)
    logger.info(f"{folder.name}: fold {fold + 1} of {plan.folds}")
    # These teachers were not trained on the fold's rows.
    source = replace(source, teachers=tuple(path / folder.name for path in source.teachers))
    if config.members:
        facts = train_model(source, config, folder, split=split, resume=resume)
    else:
        facts = train_unless_finished(source, config, folder, split, resume=resume)
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
        "format": FORMAT,
        "table": source.table_name,
        "metric": metric.name,
        "folds": folds,
        "constant_score": constant,
        "seconds": round(seconds, 1),
        "scores": scores.to_dict(),
        "plugins": runs[0]["plugins"],
        "config": settings,
    }
