"""Cross-validation folds: the assignment of rows to folds, and the files that record it.

Folds are stratified by price, and each group of duplicates is in one fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.io.files import read_json, write_json, write_parquet
from pricekit.io.log import logger
from pricekit.io.record import check_intact, state_of
from pricekit.io.storage import Address
from pricekit.runs.folder import check_same_rows
from pricekit.runs.split import (
    Source,
    Split,
    check_leaks,
    check_weights,
    digest_of,
    duplicates_in,
    split_table,
    stratified_folds,
)
from pricekit.table import Table, source_name

FOLDS, PLAN = "folds.parquet", "plan.json"


@dataclass(frozen=True)
class FoldPlan:
    """The rows of a cross-validation and their folds.

    Attributes:
        table: the usable rows; duplicates, which stay `together`, share a fold.
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
    """Check rows for leaks and assign them to folds.

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
        fold, together = folds_by_time(table.time, folds), np.arange(len(table))
        logger.info(f"each of the {folds} folds is scored by a model of the rows before it")
    else:
        together = duplicates_in(table)
        sizes = [rows for rows in np.bincount(together) if rows > 1]
        if sizes:
            alike = "nearly equal texts" if table.group is None else "nearly equal texts or the same group"
            logger.info(
                f"{sum(sizes):,} rows have {alike}; each of their {len(sizes):,} groups is in one fold"
            )
        fold = assign_folds(table.known_price, together, folds, config.seed)
    check_weights(*(table.take(np.flatnonzero(fold == held)) for held in np.unique(fold)))
    return FoldPlan(replace(table, together=together), rejected, fold, leaks)


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
    columns = {"row": plan.table.row_numbers, "fold": plan.fold, "together": plan.table.together}
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
            replace(table, together=frame["together"].to_numpy(np.int64)),
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
