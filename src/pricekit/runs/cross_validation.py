"""Cross-validation: every row is predicted once, by weights that were not trained on it or on a duplicate of it.

cv.toml              the configuration of each fold
folds.parquet        row numbers, folds, and groups of duplicates
plan.json            a digest of the rows, columns that leak, the teachers
fold-0, fold-1, …    ordinary runs
held_out.parquet     every row with its prediction; written at the end, like cv.json
files.json           size and SHA-256 of these files; a run has its own
pricekit.json        kind, format and state; written first and last
cv.json              metrics of each fold, their mean and standard deviation, and scores by group

Folds are stratified by price, and each group of duplicates is in one fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.core.calls import observed
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.evaluation.held_out import HELD_OUT, held_out_of, write_held_out
from pricekit.evaluation.scores import Goal, Scores, goal_of, scores_of
from pricekit.io.digests import list_files, unlist_files, write_listed
from pricekit.io.files import read_json, write_json, write_parquet, write_text
from pricekit.io.log import logger
from pricekit.io.mapped import folder_for_files
from pricekit.io.progress import tracked
from pricekit.io.record import Mode, advance_to, check_intact, state_of
from pricekit.io.storage import Address
from pricekit.metrics import metric_named
from pricekit.options import config_of
from pricekit.runs.chosen_columns import with_columns
from pricekit.runs.ensemble import train_model
from pricekit.runs.folder import Folder, check_same_rows, check_tables, saved_config, to_resume, writing
from pricekit.runs.load import load_model
from pricekit.runs.split import (
    Source,
    Split,
    check_leaks,
    check_weights,
    digest_of,
    duplicates_in,
    load_rows,
    log_duplicates,
    split_table,
    stratified_folds,
)
from pricekit.runs.train import train_unless_finished, warn_if_useless
from pricekit.table import Table, source_name
from pricekit.training.parallel import Processes

CONFIG, FOLDS, PLAN, FACTS = "cv.toml", "folds.parquet", "plan.json", "cv.json"


@dataclass(frozen=True)
class FoldPlan:
    """The rows of a cross-validation and their folds.

    Attributes:
        table: the usable rows; duplicates, which are in one `cluster`, share a fold.
        rejected: the other rows, with the reason.
        fold: the fold that holds out each row, int64 (N,); -1 for the earliest rows of folds by time.
        leaks: columns that no feature may read.

    By time, the folds follow each other, and each trains on the rows before it.
    """

    table: Table
    rejected: pd.DataFrame
    fold: np.ndarray
    leaks: tuple[str, ...]

    @property
    def folds(self) -> int:
        """The number of folds."""
        return int(self.fold.max()) + 1

    def held_out(self, fold: int) -> Table:
        """Return the rows that a fold holds out."""
        return self.table.take(np.flatnonzero(self.fold == fold))

    def split(self, fold: int, config: RunConfig | None = None) -> Split:
        """Return the training and validation rows while a fold is held out.

        Without a configuration, and for runs that keep their last weights, the validation rows are the held-out ones,
        which select nothing. Runs that keep their best weights validate on a part of the other rows, which selects the
        epoch; a refit then trains on it, too. The weights of an ensemble's members are fitted on such a part.
        """
        others = np.flatnonzero(self.fold != fold if self.table.time is None else self.fold < fold)
        parts = self.table.take(others), self.held_out(fold)
        if config is not None and (config.training.keep == "best" or config.members):
            parts = split_table(parts[0], config)
        return Split(*parts, [self.rejected], self.leaks, own=True)


def make_plan(
    table: Table, rejected: pd.DataFrame, config: RunConfig, folds: int, *, allow_leak: bool
) -> FoldPlan:
    """Check rows for leaks and assign them to folds; those of one `cluster` stay together, which is found if unknown.

    Raises:
        ConfigError: there are more folds than rows.
        DataError: the price leaks, or there are too few groups of rows.
    """
    if folds > len(table):
        raise ConfigError(
            f"{len(table):,} rows cannot be divided into {folds:,} folds; use fewer folds",
            parameters=("folds",),
            folds=folds,
            rows=len(table),
        )
    check_weights(table)
    leaks = check_leaks(table, config, allow_leak=allow_leak)
    if table.time is not None:
        fold, groups = folds_by_time(table.time, folds), np.arange(len(table))
        logger.info(f"each of the {folds} folds is scored by a model of the rows before it")
    else:
        groups = duplicates_in(table)[0] if table.cluster is None else table.cluster
        sizes = [rows for rows in np.bincount(groups) if rows > 1]
        if sizes:
            alike = (
                "have the same group"
                if table.group is not None
                else "are near-duplicates or variants of a product"
            )
            logger.info(f"{sum(sizes):,} rows {alike}; each of their {len(sizes):,} groups is in one fold")
        fold = assign_folds(table.known_price, groups, folds, config.seed)
    log_duplicates(table)
    check_weights(*(table.take(np.flatnonzero(fold == held)) for held in np.unique(fold)))
    return FoldPlan(replace(table, cluster=groups), rejected, fold, leaks)


def folds_by_time(time: np.ndarray, folds: int) -> np.ndarray:
    """Return the fold of each row, int64 (N,): consecutive parts of about equal size, the earliest of which is -1.

    Rows of equal time are in one part.

    Args:
        time: float64 (N,).
        folds: the number of parts after the earliest.

    Raises:
        DataError: there are too few different times.

    Example:
        >>> import numpy as np
        >>> folds_by_time(np.array([5.0, 1.0, 2.0, 4.0, 3.0, 6.0]), 2).tolist()
        [1, -1, -1, 0, 0, 1]
    """
    times, place, rows = np.unique(time, return_inverse=True, return_counts=True)
    middle = np.cumsum(rows) - rows / 2
    parts = np.unique((middle * (folds + 1) / len(time)).astype(np.int64), return_inverse=True)[1]
    if parts[-1] < folds:
        raise DataError(
            f"{len(times):,} different times are too few for {folds} folds, each of which follows earlier rows; use "
            f"fewer folds{f', at most {parts[-1]}' if parts[-1] > 1 else ''}",
            parameters=("folds", "time"),
            times=len(times),
        )
    return np.asarray(parts[place] - 1, np.int64)


def assign_folds(price: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row, int64 (N,), from 0, as of `stratified_folds`.

    Args:
        price: (N,).
        groups: of duplicate rows, int64 (N,).
        folds: the number of folds, at least 2.
        seed: the seed of the random assignment.

    Raises:
        DataError: there are fewer groups than folds, or the groups are so large that a fold would be empty.
    """
    distinct = len(np.unique(groups))
    if distinct < folds:
        raise DataError(
            f"{len(price):,} rows form {distinct:,} groups of different texts, too few for {folds} folds; use fewer "
            "folds or more rows",
            parameters=("folds",),
            groups=distinct,
        )
    fold = stratified_folds(price, groups, folds, seed)
    if len(np.unique(fold)) < folds:
        raise DataError(
            f"the groups of equal texts are so large that they fill fewer than {folds} folds; use fewer folds",
            parameters=("folds",),
        )
    return fold


def write_plan(out: Path, source: Source, plan: FoldPlan) -> None:
    """Write `plan.json` and `folds.parquet`, from which a cross-validation is resumed."""
    paths = {
        "unpriced": [
            str(table.absolute() if isinstance(table, Path) else table)
            if isinstance(table, Path | Address)
            else source_name(table)
            for table in source.unpriced
        ],
        "teachers": [str(path.absolute()) for path in source.teachers],
    }
    facts = {"table": source.table_name, "digest": digest_of(plan.table), "leaks": plan.leaks, **paths}
    write_json(out / PLAN, facts)
    columns = {"row": plan.table.row_numbers, "fold": plan.fold, "together": plan.table.cluster}
    write_parquet(out / FOLDS, pd.DataFrame(columns))


def read_plan(out: Path, table: Table, rejected: pd.DataFrame) -> tuple[FoldPlan, dict[str, Any]]:
    """Return the plan of a cross-validation, and its unpriced tables and teachers.

    Raises:
        TrainingError: a file is damaged, or the rows differ from those of the plan.
    """
    check_intact(out, [FOLDS, PLAN], "cross-validate again")
    try:
        frame = pd.read_parquet(out / FOLDS)
        facts = read_json(out / PLAN)
        paths = {name: tuple(map(Path, facts[name])) for name in ("unpriced", "teachers")}
        plan = FoldPlan(
            replace(table, cluster=frame["together"].to_numpy(np.int64)),
            rejected,
            frame["fold"].to_numpy(np.int64),
            tuple(facts["leaks"]),
        )
        same = facts["digest"] == digest_of(table) and np.array_equal(frame["row"], plan.table.row_numbers)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(
            f"the cross-validation {out} is damaged ({error}); start it again and overwrite it",
            parameters=("overwrite",),
            path=str(out),
        ) from None
    check_same_rows(out, same)
    return plan, paths


def check_from_start(config: RunConfig) -> None:
    """Raise ConfigError if the runs of folds would continue another run."""
    if config.init is not None:
        raise ConfigError(
            f"{config.init} has been trained on rows that the folds hold out, so their runs cannot continue from it; "
            "leave init out",
            parameters=("settings",),
            setting="init",
        )


def check_teachers(source: Source, plan: FoldPlan) -> None:
    """Raise TrainingError for a teacher that may have been trained on the rows that a fold holds out.

    A teacher must be a cross-validation with the same rows and folds: each fold uses its run of the same fold.
    """
    for teacher in source.teachers:
        if not (teacher / FOLDS).is_file():
            raise _wrong_teacher(
                f"the teacher {teacher} is not a cross-validation, so it may have been trained on held-out rows; use a "
                "cross-validation of the same table with the same folds and seed",
                teacher,
            )
        check_intact(teacher, [FOLDS], "cross-validate it again")
        frame = pd.read_parquet(teacher / FOLDS)
        if not (
            np.array_equal(frame["row"], plan.table.row_numbers) and np.array_equal(frame["fold"], plan.fold)
        ):
            raise _wrong_teacher(
                f"the teacher {teacher} has different rows or folds, so it was trained on held-out rows; "
                "cross-validate it on the same table with the same folds and seed",
                teacher,
            )
        for fold in range(plan.folds):
            if state_of(teacher / f"fold-{fold}").name != "finished":
                raise _wrong_teacher(
                    f"the teacher {teacher / f'fold-{fold}'} is not a finished run; resume that cross-validation",
                    teacher,
                )


def _wrong_teacher(message: str, teacher: Path) -> TrainingError:
    return TrainingError(message, parameters=("teacher",), path=str(teacher))


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
        runs, predicted, spread = [], np.empty(len(plan.table)), np.empty(len(plan.table))
        with tracked("cross-validation", range(plan.folds)) as folds:
            for fold in folds:
                held = plan.fold == fold
                run, predicted[held], spread[held] = _run_fold(source, config, plan, out, fold)
                runs.append(run)
        scored = np.flatnonzero(plan.fold >= 0)
        rows = plan.table.take(scored)
        held_out = held_out_of(rows, predicted[scored], plan.fold[scored], spread=spread[scored])
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
        return config_of_folds(with_columns(source, options))
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
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Train the run of a fold unless it is finished; return its facts, and prices and spreads of the held-out rows."""
    folder = out / f"fold-{fold}"
    teachers = tuple(path / folder.name for path in source.teachers)  # that were not trained on these rows
    source = replace(source, teachers=teachers, split=plan.split(fold, config))
    logger.info(f"{folder.name}: fold {fold + 1} of {plan.folds}")
    if config.members:
        facts = train_model(source, config, folder, "resume")
    else:
        facts = train_unless_finished(source, config, folder)
    rows = plan.held_out(fold)
    predictor = load_model(folder)
    inputs = predictor.prepare(rows)
    prices, spread = predictor.price(inputs), predictor.spread(inputs)
    metric = metric_named(config.metric)
    score = metric.write(metric(prices, rows.known_price, rows.weight))
    logger.info(f"{folder.name}: {metric.title} {score} on {len(rows):,} held-out rows")
    return facts, prices, spread


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
