"""One trial: a run for each fold with the trial's settings. Nothing of it stays but its scores and its prices."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.core.calls import unobserved
from pricekit.errors import PricekitError
from pricekit.evaluation.held_out import read_held_out
from pricekit.features.table_cache import trim
from pricekit.runs.split import Source, Split
from pricekit.runs.train import train
from pricekit.support.causes import causes, is_temporary
from pricekit.support.files import write_atomically
from pricekit.support.log import logger, quiet
from pricekit.support.progress import Advance, use_reporter
from pricekit.training.checkpoint import EpochResult
from pricekit.workflows.tuning.space import Dimension, with_values
from pricekit.workflows.tuning.study import (
    BASE,
    ERROR,
    SECONDS,
    SearchRows,
    ask,
    falls_behind,
    optuna,
    report,
)

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial

RUNS, PRICES, CACHE = "trials", "prices", "cache"
"""Folders in that of a search: runs of trials in progress; prices of finished trials; features of all trials."""

CACHE_BYTES = 2_000_000_000
WATCHED_FROM = 1 / 3
"""The part of a fold's epochs after which a trial can be stopped early."""


class OutOfTimeError(Exception):
    """The time of the search is over; the trial does not count."""


class _StoppedError(Exception):
    """The trial is worse than others."""


@dataclass(frozen=True)
class Task:
    """What a process needs to run trials.

    Attributes:
        folder: of the search.
        table: the name of the table.
        config: that the search starts from.
        space: its settings that are searched.
        rows: that trials see.
    """

    folder: Path
    table: str
    config: RunConfig
    space: tuple[Dimension, ...]
    rows: SearchRows

    def trial_config(self, values: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a fold's run: without a refit, which would not be scored; raises ConfigError."""
        quick = {"training.refit": False, "training.save_epochs": 1_000_000}
        shown = {"speed.progress": True}  # of a reporter that shows nothing
        return with_values(self.config, {**values, **quick, **shown})


def run_trial(task: Task, study: Study, check: Callable[[], None]) -> bool:
    """Run the next trial of a study; return whether it was finished or stopped early, and did not fail.

    Args:
        task: the search.
        study: the trials.
        check: called at every step; raises OutOfTimeError to end the trial, which then does not count.

    Raises:
        OutOfTimeError: from `check`.
        PricekitError: the trial of the configuration that the search starts from failed, or a disk is full.
        KeyboardInterrupt: the search was interrupted; the trial does not count.
    """
    trial, values = ask(study, task.space)
    states, began = optuna().trial.TrialState, time.perf_counter()

    def tell(**result: Any) -> None:
        trial.set_user_attr(SECONDS, round(time.perf_counter() - began, 1))
        study.tell(trial, **result)

    try:
        score, prices = _score(task, study, trial, values, check)
        file = _prices_file(task.folder, trial.number)
        file.parent.mkdir(exist_ok=True)
        with write_atomically(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, prices, allow_pickle=False)
    except _StoppedError:
        tell(state=states.PRUNED)
    except PricekitError as error:
        trial.set_user_attr(ERROR, str(error))
        tell(state=states.FAIL)
        if BASE in trial.user_attrs or any(map(is_temporary, causes(error))):
            raise
        logger.info(f"trial {trial.number} failed: {error}")
        return False
    except BaseException:
        tell(state=states.FAIL)
        raise
    else:
        tell(values=score)
    trim(task.folder / CACHE, CACHE_BYTES)
    return True


def read_prices(folder: Path, number: int) -> np.ndarray:
    """Return the prices that a finished trial predicted for the rows of its folds, float64 (N,)."""
    return np.asarray(np.load(_prices_file(folder, number), allow_pickle=False))


def _prices_file(folder: Path, number: int) -> Path:
    return folder / PRICES / f"{number}.npy"


def _score(
    task: Task, study: Study, trial: Trial, values: Mapping[str, Any], check: Callable[[], None]
) -> tuple[float, np.ndarray]:
    """Train all folds; return the mean of their scores, and the prices of their rows, float64 (N,)."""
    config = task.trial_config(values)
    plan, scores = task.rows.plan, list[float]()
    prices = np.full(len(plan.table), np.nan)
    for fold in range(plan.folds):
        split = task.rows.fold(fold)
        own = config.for_rows(len(split.train))
        rows = int(np.isin(plan.fold, range(fold + 1)).sum())
        watch = _watch(study, trial, own, scores, rows)
        folder = task.folder / RUNS / f"{trial.number}-{fold}"
        facts, prices[plan.fold == fold] = _run_fold(task, split, own, folder, watch, check)
        scores.append(float(facts["metrics"][config.metric]))
        mean = float(np.mean(scores))
        report(trial, fold, None, mean)
        last = fold + 1 == plan.folds
        if not last and BASE not in trial.user_attrs and falls_behind(study, fold, None, mean, rows):
            raise _StoppedError
    return mean, prices


def _watch(
    study: Study, trial: Trial, config: RunConfig, scores: list[float], rows: int
) -> Callable[[EpochResult], None]:
    """Return what is called after each epoch of a fold: it reports the score so far, and stops a bad trial.

    Args:
        study: with the other trials.
        trial: that runs.
        config: of the fold's run.
        scores: of the folds before.
        rows: of all of these folds.
    """
    best, earlier, fold = np.inf, tuple(scores), len(scores)

    def watch(result: EpochResult) -> None:
        nonlocal best
        assert result.valid_score is not None
        best = min(best, result.valid_score)
        mean = float(np.mean([*earlier, best]))
        report(trial, fold, result.epoch, mean)
        epochs = config.training.epochs
        early = isinstance(epochs, int) and result.epoch < WATCHED_FROM * epochs
        if not early and BASE not in trial.user_attrs and falls_behind(study, fold, result.epoch, mean, rows):
            raise _StoppedError

    return watch


def _run_fold(
    task: Task,
    split: Split,
    config: RunConfig,
    folder: Path,
    watch: Callable[[EpochResult], None],
    check: Callable[[], None],
) -> tuple[dict[str, Any], np.ndarray]:
    """Train the run of a fold; return its facts and its prices of the held-out rows, and delete it."""
    try:
        with unobserved(), quiet(), use_reporter(_Checking(check)):
            source, cache = Source(Path(task.table)), task.folder / CACHE
            facts = train(source, config, folder, split=split, watch=watch, cache=cache)
        return facts, read_held_out(folder).predicted
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Checking:
    """A reporter that shows nothing, and calls a function whenever work progresses."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    @contextmanager
    def bar(self, title: str, total: float, done: float) -> Iterator[Advance]:
        """Call the function at every step of the block."""
        del title, total, done

        def advance(units: float, note: str = "") -> None:
            del units, note
            self.check()

        yield advance
