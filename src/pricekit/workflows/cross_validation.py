"""Cross-validation: every row is priced once, by weights that never saw it or a row like it.

config of each fold      cv.toml
the folds                folds.parquet: row, fold, and which rows were kept together
what it is made of       plan.json: a digest of the rows, columns that leak, what teaches
fold-0, fold-1, …        ordinary runs
held_out.parquet         every row with its prediction; written at the end, as is
cv.json                  metrics of each fold, their mean and sd, and of groups of rows
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import TrainingError
from pricekit.evaluation.duplicates import split_groups_of
from pricekit.evaluation.held_out import FILE as HELD_OUT
from pricekit.evaluation.held_out import held_out_of, write_held_out
from pricekit.evaluation.scores import Scores, scores_of
from pricekit.files import is_free, leftovers, write_atomically, write_text
from pricekit.log import logger, silence
from pricekit.metrics import smape
from pricekit.runs.folder import clear_run, is_run, names_rows, open_run
from pricekit.runs.leak_checks import check_leaks
from pricekit.runs.prepare import check_same_rows
from pricekit.runs.pseudo_labels import add_pseudo_labels
from pricekit.runs.source import Source, Split, digest_of, load_rows, split_table
from pricekit.runs.train import train
from pricekit.table import Table, source_name
from pricekit.training.processes import Processes
from pricekit.workflows.folds import assign_folds, check_folds

CONFIG, FOLDS, PLAN, FACTS = "cv.toml", "folds.parquet", "plan.json", "cv.json"


@dataclass(frozen=True)
class Plan:
    """The rows, and what is held out when.

    Attributes:
        table: the usable rows.
        rejected: the others.
        fold: in which each row is held out, int64 (N,).
        together: which rows are in one fold because their texts are alike, int64 (N,).
        leaks: columns that no feature may read.
    """

    table: Table
    rejected: pd.DataFrame
    fold: np.ndarray
    together: np.ndarray
    leaks: tuple[str, ...]

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return int(self.fold.max()) + 1

    def split(self, held: int, config: RunConfig) -> Split:
        """Return what is trained on, and validated on, while a fold is held out.

        The held-out rows themselves where the last weights are kept, since they choose nothing then; a part of the
        others where they would choose the epoch.
        """
        others, rows = np.flatnonzero(self.fold != held), np.flatnonzero(self.fold == held)
        parts = self.table.take(others), self.table.take(rows)
        if config.training.keep == "best":
            parts = split_table(parts[0], self.together[others], config)
        return Split(*parts, [self.rejected], self.leaks)


def cross_validate(
    source: Source,
    config: RunConfig,
    out: Path,
    folds: int = 5,
    *,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
) -> Scores:
    """Train a run for each fold on the rows of the others and score it on its own.

    Args:
        source: one table.
        config: of each run.
        out: a new or empty folder.
        folds: how many; those that `out` was started with where it is resumed.
        resume: go on with what is in `out`.
        overwrite: delete the cross-validation in `out` first.
        allow_leak: train on what gives the price away, too.

    Raises:
        DataError, ConfigError, TrainingError, PluginError: as of `train`; or there are too few rows for the folds.
    """
    processes = Processes()
    if not processes.main:
        silence()
    table, rejected = load_rows(source, config)
    if resume:
        plan, source = _read_plan(out, table, rejected, source)
        _check_teachers(source, plan)
    else:
        _check_free(out, overwrite)
        plan = _new_plan(table, rejected, config, folds, allow_leak)
        _check_teachers(source, plan)
        processes.wait()
        if processes.main:
            _start(out, source, config, plan)
        processes.wait()
    runs, predicted = [], np.empty(len(table))
    for held in range(plan.folds):
        facts, predicted[plan.fold == held] = _run_fold(out, source, config, plan, held, resume=resume)
        runs.append(facts)
    held_out = held_out_of(table, predicted, plan.fold)
    scores = scores_of(held_out)
    if processes.main:
        write_held_out(out, held_out)
        write_text(out / FACTS, json.dumps(_facts(source, config, runs, scores), indent=2) + "\n")
    processes.wait()
    return scores


def is_cv(path: Path) -> bool:
    """Say whether a folder looks like that of a cross-validation."""
    return (path / CONFIG).is_file() and (path / FOLDS).is_file()


def _is_cut_off(path: Path) -> bool:
    """Say whether a cross-validation was cut off while it was begun, or while it was deleted."""
    trained = any(is_run(folder) for folder in path.glob("fold-*"))  # which are deleted first
    return names_rows(path / PLAN) and not is_cv(path) and not trained


def _new_plan(table: Table, rejected: pd.DataFrame, config: RunConfig, folds: int, allow_leak: bool) -> Plan:
    price = table.known_price
    check_folds(folds, len(price))
    leaks = check_leaks(table, config, allow_leak=allow_leak)
    together = split_groups_of(table.text, price, near=True, shown=config.speed.progress)
    alike = [rows for rows in np.bincount(together) if rows > 1]
    if alike:
        logger.info(
            f"{sum(alike):,} rows have nearly equal texts; each of their {len(alike):,} groups is in one fold"
        )
    return Plan(table, rejected, assign_folds(price, together, folds, config.seed), together, leaks)


def _read_plan(out: Path, table: Table, rejected: pd.DataFrame, source: Source) -> tuple[Plan, Source]:
    """Return the folds, and the source with the teachers, that a cross-validation was started with."""
    try:
        frame = pd.read_parquet(out / FOLDS)
        kept = json.loads((out / PLAN).read_text("utf-8"))
        digest, leaks = kept["digest"], tuple(kept["leaks"])
        unpriced, teachers = (tuple(map(Path, kept[name])) for name in ("unpriced", "teachers"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(out, error) from None
    if digest != digest_of(table) or not np.array_equal(frame["row"], _row_numbers(table)):
        raise TrainingError(
            f"the rows are not those that {out} was started with; give the same TABLE and reading options, or "
            "cross-validate into a new folder"
        )
    fold, together = (frame[name].to_numpy(np.int64) for name in ("fold", "together"))
    plan = Plan(table, rejected, fold, together, leaks)
    return plan, replace(source, unpriced=source.unpriced or unpriced, teachers=teachers)


def _row_numbers(table: Table) -> np.ndarray:
    return np.arange(len(table)) if table.rows is None else table.rows


def _check_teachers(source: Source, plan: Plan) -> None:
    """Refuse teachers that may have seen the rows that a fold is scored by."""
    for path in source.teachers:
        if not is_cv(path):
            raise TrainingError(
                f"the teacher {path} is no folder of pricekit cv; what teaches a fold must not have seen its rows, so "
                "give one of the same table, --folds and --seed"
            )
        frame = pd.read_parquet(path / FOLDS)
        same = np.array_equal(frame["row"], _row_numbers(plan.table)) and np.array_equal(
            frame["fold"], plan.fold
        )
        if not same:
            raise TrainingError(
                f"the teacher {path} has other rows or folds, so it has seen rows that it would teach to predict; "
                "make it of the same table with the same --folds and --seed"
            )
        for held in range(plan.folds):
            if not (path / f"fold-{held}" / "run.json").is_file():
                raise TrainingError(
                    f"the teacher {path / f'fold-{held}'} is no finished run; go on with it with pricekit cv --resume"
                )


def _damaged(out: Path, error: Exception) -> TrainingError:
    return TrainingError(f"the cross-validation {out} is damaged ({error}); start it anew with --overwrite")


def _of_fold(source: Source, held: int) -> Source:
    """Return the source with what teaches one fold: the run of the same fold, which has not seen its rows."""
    return replace(source, teachers=tuple(path / f"fold-{held}" for path in source.teachers))


def _start(out: Path, source: Source, config: RunConfig, plan: Plan) -> None:
    _clear(out)
    out.mkdir(parents=True, exist_ok=True)
    folds = {"row": _row_numbers(plan.table), "fold": plan.fold, "together": plan.together}
    paths = {
        "unpriced": [
            str(Path(table).absolute()) if isinstance(table, str | Path) else source_name(table)
            for table in source.unpriced
        ],
        "teachers": [str(path.absolute()) for path in source.teachers],
    }
    kept = {"table": source.table_name, "digest": digest_of(plan.table), "leaks": plan.leaks, **paths}
    write_text(out / PLAN, json.dumps(kept, indent=2) + "\n")
    with write_atomically(out / FOLDS) as temporary:
        pd.DataFrame(folds).to_parquet(temporary, index=False)
    write_text(out / CONFIG, config.to_toml())


def _check_free(out: Path, overwrite: bool) -> None:
    if is_free(out) or _is_cut_off(out):
        return
    if not is_cv(out):
        raise TrainingError(
            f"{out} exists already and is no cross-validation, so it is not overwritten; name another folder"
        )
    if not overwrite:
        raise TrainingError(
            f"{out} exists already; go on with it with --resume, start it anew with --overwrite, or name another folder"
        )


def _clear(out: Path) -> None:
    """Delete the files of a cross-validation and of its runs, and nothing else."""
    for folder in out.glob("fold-*"):
        if is_run(folder):
            clear_run(folder)
            if not any(folder.iterdir()):
                folder.rmdir()
    files = [out / name for name in (FACTS, HELD_OUT, CONFIG, FOLDS, PLAN)]
    for file in [*(leftovers(out) if out.is_dir() else ()), *files]:
        file.unlink(missing_ok=True)


def _run_fold(
    out: Path, source: Source, config: RunConfig, plan: Plan, held: int, *, resume: bool
) -> tuple[dict[str, Any], np.ndarray]:
    """Return what the run of a fold says of itself, and its prices of the rows held out."""
    folder, split = out / f"fold-{held}", plan.split(held, config)
    if resume and (folder / "run.json").is_file():
        check_same_rows(folder, add_pseudo_labels(source, split, config, folder))
        facts = dict(json.loads((folder / "run.json").read_text("utf-8")))
    else:
        logger.info(f"fold-{held}, one of {plan.folds}")
        facts = train(_of_fold(source, held), config, folder, split=split, resume=resume)
    rows = plan.table.take(np.flatnonzero(plan.fold == held))
    prices = open_run(folder).predictor().predict(rows)
    logger.info(f"fold-{held}: SMAPE {smape(prices, rows.known_price):.2f} on {len(rows):,} held-out rows")
    return facts, prices


def _facts(source: Source, config: RunConfig, runs: list[dict[str, Any]], scores: Scores) -> dict[str, Any]:
    """Return what `cv.json` says, and say the gist of it."""
    folds = [
        {"fold": int(str(fold)), "seconds": run["seconds"], "best_epoch": run["best_epoch"], **metrics}
        for run, (fold, metrics) in zip(runs, scores.folds.to_dict("index").items(), strict=True)
    ]
    constant, seconds = np.mean([run["constant_smape"] for run in runs]), sum(run["seconds"] for run in runs)
    logger.info(f"{seconds:,.0f} s of training; SMAPE of a constant price {constant:.2f}")
    return {
        "table": source.table_name,
        "folds": folds,
        "constant_smape": float(constant),
        "seconds": round(seconds, 1),
        "scores": scores.to_dict(),
        "plugins": runs[0]["plugins"],
        "config": config.model_dump(mode="json", exclude_none=True),
    }
