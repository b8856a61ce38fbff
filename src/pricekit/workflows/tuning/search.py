"""Trials until the time is over, in this process or in several that share the study."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING, Any

from pricekit.errors import PricekitError, TrainingError
from pricekit.metrics import metric_named
from pricekit.support.cpus import usable_cpus
from pricekit.support.log import logger, silence
from pricekit.support.progress import Advance, progress
from pricekit.support.text import counted, duration
from pricekit.workflows.tuning.space import known_values
from pricekit.workflows.tuning.study import (
    SECONDS,
    base_trial,
    count_trials,
    enqueue,
    finished_trials,
    open_study,
    repair,
    uncached_seconds,
)
from pricekit.workflows.tuning.trial import RUNS, OutOfTimeError, Task, run_trial

if TYPE_CHECKING:
    from optuna.study import Study

AT_END = 0.02
"""Part of the budget for scoring and writing the result."""

MOST_FAILURES = 5
"""A process ends after as many failed trials in a row."""

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Limits:
    """When a search ends: by its time, or after a number of trials, if one is given.

    Attributes:
        began: `time.time()` when the search began, which several processes share.
        budget: its seconds.
        models: how long a model at the end takes, as a multiple of a trial with its settings.
        trials: the most trials; None: as many as fit into the time.
    """

    began: float
    budget: float
    models: float
    trials: int | None

    def ends(self, study: Study) -> float:
        """Return when trials must end, as `time.time()`, so that the models at the end fit in."""
        base = base_trial(study)
        at_end = 0.0 if base is None else base.user_attrs[SECONDS] + uncached_seconds(study)
        return self.began + self.budget * (1 - AT_END) - self.models * at_end

    def reached(self, study: Study) -> bool:
        """Return whether no further trial begins."""
        enough = self.trials is not None and count_trials(study) >= self.trials
        return enough or time.time() >= self.ends(study)

    def least_budget(self, trial: float) -> str:
        """Return, as a text, the least budget that makes sense if a trial takes this many seconds: for four trials."""
        return duration((4 * trial + 2 * self.models * trial) / (1 - AT_END))


def search(task: Task, limits: Limits, processes: int) -> None:
    """Run trials until the limits are reached.

    The first trial, that of the configuration that the search starts from, has the machine for itself: it shows how
    long a trial takes, and caches the features that most other trials use.

    Raises:
        PricekitError: that trial failed, or a disk is full.
        KeyboardInterrupt: the search was interrupted; running trials do not count.
    """
    study = open_study(task.folder, task.config.seed)
    with progress("searching", limits.budget) as advance:
        shown = _Shown(advance, study, task, limits)
        if base_trial(study) is None:
            _trials(task, study, limits, shown.move, shown.log, most=1)
        if base_trial(study) is not None and not limits.reached(study):
            enqueue(study, task.space, known_values(task.config, task.space))
            if processes == 1:
                _trials(task, study, limits, shown.move, shown.log)
            else:
                _in_processes(task, limits, processes, shown)


def _trials(
    task: Task,
    study: Study,
    limits: Limits,
    step: Callable[[], None],
    ended: Callable[[], None] = lambda: None,
    most: float = math.inf,
) -> None:
    """Run trials in this process until the limits are reached, at most `most`.

    Args:
        task: the search.
        study: its trials.
        limits: of the search.
        step: called at every step of a trial.
        ended: called after every trial.
        most: number of trials.
    """
    failures, done = 0, 0
    while done < most and failures < MOST_FAILURES and not limits.reached(study):
        ends = limits.ends(study)

        def check(ends: float = ends) -> None:
            step()
            if time.time() >= ends:
                raise OutOfTimeError

        try:
            failures = 0 if run_trial(task, study, check) else failures + 1
        except OutOfTimeError:
            return
        ended()
        done += 1
    if failures >= MOST_FAILURES:
        logger.warning(f"the search ends early: {counted(failures, 'trial')} in a row failed")


class _Shown:
    """Shows a search: a line for each trial that ended, and a bar of the time, with the best score."""

    def __init__(self, advance: Advance, study: Study, task: Task, limits: Limits) -> None:
        self.advance, self.study, self.limits = advance, study, limits
        self.metric = metric_named(task.config.metric)
        self.shown = {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}
        self.done, self.noted = 0.0, 0.0

    def move(self) -> None:
        """Move the bar, at most once in a while, because reading the study takes time."""
        now = time.time()
        if now - self.noted < _POLL_SECONDS:
            return
        self.noted, passed = now, now - self.limits.began
        note = counted(count_trials(self.study), "trial")
        if finished := finished_trials(self.study):
            note += f", {self.metric.title} {self.metric.write(finished[0].value or 0.0)}"
        self.advance(passed - self.done, note)
        self.done = passed

    def log(self) -> None:
        """Log a line for each trial that ended since the last call."""
        for trial in self.study.get_trials(deepcopy=False):
            if trial.number in self.shown or not trial.state.is_finished():
                continue
            self.shown.add(trial.number)
            if trial.value is not None:
                best = trial.number == finished_trials(self.study)[0].number
                score = f"{self.metric.title} {self.metric.write(trial.value)}{', the best so far' * best}"
                logger.info(f"trial {trial.number}: {score}, {trial.user_attrs[SECONDS]:.0f} s")
            elif trial.state.name == "PRUNED":
                logger.info(f"trial {trial.number}: stopped early, {trial.user_attrs[SECONDS]:.0f} s")


def _in_processes(task: Task, limits: Limits, processes: int, shown: _Shown) -> None:
    """Run trials in several new processes, and wait for them; running ones are ended when this process is."""
    context = multiprocessing.get_context("spawn")
    errors: Any = context.Queue()
    workers = [
        context.Process(target=_work, args=(task, limits, number, processes, errors), name=f"trials-{number}")
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            shown.move()
            shown.log()
            time.sleep(_POLL_SECONDS)
        shown.log()
        with suppress(Empty):
            raise errors.get(timeout=0.1)
        for worker in workers:
            if worker.exitcode:
                logger.warning(f"the process {worker.name} ended early, with the code {worker.exitcode}")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        shutil.rmtree(task.folder / RUNS, ignore_errors=True)
        repair(task.folder)


def _work(task: Task, limits: Limits, number: int, processes: int, errors: Any) -> None:
    """Run trials in a worker, on its part of the CPUs, if there are enough for all and the system can restrict it."""
    import torch

    silence()
    torch.set_num_threads(max(1, usable_cpus() // processes))
    if hasattr(os, "sched_setaffinity") and len(cpus := sorted(os.sched_getaffinity(0))) >= processes:
        os.sched_setaffinity(0, cpus[number::processes])
    parent = multiprocessing.parent_process()

    def check_parent() -> None:
        if parent is not None and not parent.is_alive():
            raise OutOfTimeError

    try:
        _trials(task, open_study(task.folder, task.config.seed + 1 + number), limits, check_parent)
    except KeyboardInterrupt:
        return
    except PricekitError as error:
        errors.put(error)
    except Exception as error:
        errors.put(TrainingError(f"a trial failed: {type(error).__name__}: {error}"))
