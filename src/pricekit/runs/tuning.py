"""The search for better settings: its folder, rows, trials, the choice, and both models on the rows that no trial saw.

tune.toml, search.json   the configuration that the search starts from, and its rows
study.log                all trials
config.toml, run         the chosen configuration, and the model trained with it
default                  the model of the first configuration, if another one was chosen
trials.csv, importance.csv, final.parquet   all trials, how much each setting mattered, and the prices of both models
files.json, tune.json    size and SHA-256 of these files; the result, written at the end
pricekit.json            kind, format and state; written first and last

A trial trains a run for each fold with its settings, of which nothing stays but scores and prices. Trials are repeated
until the time is over, in this process or in several that share the study.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.config.settings import NEVER
from pricekit.core.calls import unobserved
from pricekit.errors import ConfigError, PricekitError, TrainingError
from pricekit.evaluation.comparison import BETTER, compare
from pricekit.evaluation.held_out import held_out_of, read_held_out
from pricekit.features.table_cache import trim
from pricekit.io.causes import causes, is_temporary
from pricekit.io.cpus import usable_cpus
from pricekit.io.digests import list_files, unlist_files, write_listed
from pricekit.io.files import write_atomically, write_json, write_parquet, write_text
from pricekit.io.log import logger, quiet, silence
from pricekit.io.progress import Advance, progress, use_reporter_here
from pricekit.io.record import Mode, advance_to, check_intact, clear_away, read_intact
from pricekit.metrics import Metric, metric_named
from pricekit.options import config_of
from pricekit.runs.chosen_columns import with_columns
from pricekit.runs.cross_validation import check_from_start
from pricekit.runs.folder import Folder, check_same_rows, saved_config, to_resume, writing
from pricekit.runs.load import load_model
from pricekit.runs.prepare import Trial
from pricekit.runs.split import Source, Split
from pricekit.runs.study import (
    BASE,
    ERROR,
    SECONDS,
    STATES,
    Dimension,
    SearchRows,
    ask,
    base_trial,
    best_trial,
    count_trials,
    dimensions,
    enqueue,
    falls_behind,
    finished_trials,
    importances,
    known_values,
    load_search_rows,
    open_study,
    optuna,
    progress_of,
    repair,
    report,
    trials_table,
    uncached_seconds,
    with_values,
)
from pricekit.runs.train import train, train_unless_finished
from pricekit.table import Table
from pricekit.training.checkpoint import EpochResult
from pricekit.training.parallel import Processes
from pricekit.wording import counted, duration

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial


START, ROWS, FACTS = "tune.toml", "search.json", "tune.json"
CONFIG, TRIALS, IMPORTANCE, FINAL = "config.toml", "trials.csv", "importance.csv", "final.parquet"
RUN, DEFAULT = "run", "default"

RUNS, PRICES, CACHE = "trials", "prices", "cache"
"""Folders in that of a search: runs of trials in progress; prices of finished trials; features of all trials."""

WORK = (RUNS, PRICES, CACHE)
"""Folders that a finished search no longer has."""

HOUR = 3600.0
FIRST_PASS, SECOND_PASS = 0.95, 0.65
"""The time of each pass of a model at the end for a row, as a part of that of a fold's run. The first pass trains on
fewer rows, but writes more; the second one takes over the columns that were fitted out of fold."""

CACHE_BYTES = 2_000_000_000
WATCHED_FROM = 1 / 3
"""The part of a fold's epochs after which a trial can be stopped early."""

AT_END = 0.02
"""Part of the budget for scoring and writing the result."""

MOST_FAILURES = 5
"""A process ends after this many failed trials in a row."""

_POLL_SECONDS = 0.5


class OutOfTimeError(Exception):
    """The time of the search is over; the trial does not count."""


class _StoppedError(Exception):
    """The trial is worse than others."""


@dataclass(frozen=True)
class Order:
    """What the caller of a search asks for.

    Attributes:
        folds: number of folds; None: 3, or those of the search to resume.
        trials: the most trials; None: as many as fit into the time.
        processes: that run trials.
        began: `time.perf_counter()` when the work began, from which the time counts.
    """

    folds: int | None
    trials: int | None
    processes: int
    began: float


@dataclass(frozen=True)
class Task:
    """What a process needs to run trials.

    Attributes:
        folder: of the search.
        table: the name of the table.
        config: that the search starts from.
        space: its settings that are searched.
        rows: that trials see.
        order: when the search ends, besides its time, and in how many processes.
        began: `time.time()` when the search began.
        seconds: its time budget.
        models: how long a model at the end takes, as a multiple of a trial with its settings.
    """

    folder: Path
    table: str
    config: RunConfig
    space: tuple[Dimension, ...]
    rows: SearchRows
    order: Order
    began: float
    seconds: float
    models: float

    def trial_config(self, values: Mapping[str, Any]) -> RunConfig:
        """Return the configuration of a fold's run: without a refit, which would not be scored; raises ConfigError."""
        quick = {"training.refit": False, "training.save_epochs": NEVER}
        return with_values(self.config, {**values, **quick, "speed.progress": True})  # of a silent reporter

    def ends(self, study: Study) -> float:
        """Return when trials must end, as `time.time()`, so that the models at the end fit in."""
        base = base_trial(study)
        at_end = 0.0 if base is None else base.user_attrs[SECONDS] + uncached_seconds(study)
        return self.began + self.seconds * (1 - AT_END) - self.models * at_end

    def reached(self, study: Study) -> bool:
        """Return whether no further trial begins."""
        most = self.order.trials
        return (most is not None and count_trials(study) >= most) or time.time() >= self.ends(study)

    def least_budget(self, trial: float) -> str:
        """Return, as a text, the least budget that makes sense if a trial takes this many seconds: for four trials."""
        return duration((4 * trial + 2 * self.models * trial) / (1 - AT_END))


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

    def tell(score: float | None, state: Any) -> None:
        trial.set_user_attr(SECONDS, round(time.perf_counter() - began, 1))
        study.tell(trial, score, state)

    try:
        score, prices = _score(task, study, trial, values, check)
        file = _prices_file(task.folder, trial.number)
        file.parent.mkdir(exist_ok=True)
        with write_atomically(file) as temporary, temporary.open("wb") as stream:
            np.save(stream, prices, allow_pickle=False)
    except _StoppedError:
        tell(None, states.PRUNED)
    except PricekitError as error:
        trial.set_user_attr(ERROR, str(error))
        tell(None, states.FAIL)
        if BASE in trial.user_attrs or any(map(is_temporary, causes(error))):
            raise
        logger.info(f"trial {trial.number} failed: {error}")
        return False
    except BaseException:
        tell(None, states.FAIL)
        raise
    else:
        tell(score, None)
    trim(task.folder / CACHE, CACHE_BYTES)
    return True


def read_prices(folder: Path, number: int) -> np.ndarray:
    """Return the prices that a finished trial predicted for the rows of its folds, float64 (N,)."""
    return np.asarray(np.load(_prices_file(folder, number), allow_pickle=False))


def _prices_file(folder: Path, number: int) -> Path:
    return folder / PRICES / f"{number}.npy"


def _score(
    task: Task, study: Study, trial: OptunaTrial, values: Mapping[str, Any], check: Callable[[], None]
) -> tuple[float, np.ndarray]:
    """Train all folds; return the mean of their scores, and the prices of their rows, float64 (N,)."""
    config = task.trial_config(values)
    plan, scores = task.rows.plan, list[float]()
    prices = np.full(len(plan.table), np.nan)
    for fold in range(plan.folds):
        split = task.rows.plan.split(fold)
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
    study: Study, trial: OptunaTrial, config: RunConfig, scores: list[float], rows: int
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
        with unobserved(), quiet(), use_reporter_here(_Checking(check)):
            source = Source(Path(task.table), split=split)
            facts = train(source, config, folder, trial=Trial(watch, task.folder / CACHE))
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


def run_trials(task: Task) -> None:
    """Run trials until their time or number is reached.

    The first trial, that of the configuration that the search starts from, has the machine for itself: it shows how
    long a trial takes, and caches the features that most other trials use.

    Raises:
        PricekitError: that trial failed, or a disk is full.
        KeyboardInterrupt: the search was interrupted; running trials do not count.
    """
    study = open_study(task.folder, task.config.seed)
    with progress("searching", task.seconds) as advance:
        shown = _Shown(advance, study, task)
        if base_trial(study) is None:
            _trials(task, study, shown.move, shown.log, most=1)
        if base_trial(study) is not None and not task.reached(study):
            enqueue(study, task.space, known_values(task.config, task.space))
            if task.order.processes == 1:
                _trials(task, study, shown.move, shown.log)
            else:
                _in_processes(task, shown)


def _trials(
    task: Task,
    study: Study,
    step: Callable[[], None],
    ended: Callable[[], None] = lambda: None,
    most: float = math.inf,
) -> None:
    """Run trials in this process until their time or number is reached.

    Args:
        task: the search.
        study: its trials.
        step: called at every step of a trial, where logging is quiet.
        ended: called after every trial.
        most: number of trials.
    """
    failures, done = 0, 0
    while done < most and failures < MOST_FAILURES and not task.reached(study):
        ends = task.ends(study)

        def check(ends: float = ends) -> None:
            step()
            if time.time() >= ends:
                raise OutOfTimeError

        try:
            failures = 0 if run_trial(task, study, check) else failures + 1
        except OutOfTimeError:
            return
        finally:
            ended()
        done += 1
    if failures >= MOST_FAILURES:
        logger.warning(f"the search ends early: {counted(failures, 'trial')} in a row failed")


class _Shown:
    """Shows a search: a line for each trial that ended, and a bar of the time, with the best score."""

    def __init__(self, advance: Advance, study: Study, task: Task) -> None:
        self.advance, self.study, self.began = advance, study, task.began
        self.metric = metric_named(task.config.metric)
        self.shown = {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}
        self.done, self.noted = 0.0, 0.0

    def move(self) -> None:
        """Move the bar, at most once in a while, because reading the study takes time."""
        now = time.time()
        if now - self.noted < _POLL_SECONDS:
            return
        self.noted, passed = now, now - self.began
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


def _in_processes(task: Task, shown: _Shown) -> None:
    """Run trials in several new processes, and wait for them; running ones are ended when this process is."""
    context = multiprocessing.get_context("spawn")
    errors: Any = context.Queue()
    workers = [
        context.Process(target=_work, args=(task, number, errors), name=f"trials-{number}")
        for number in range(task.order.processes)
    ]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            shown.move()
            shown.log()
            time.sleep(_POLL_SECONDS)
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
        shown.log()


def _work(task: Task, number: int, errors: Any) -> None:
    """Run trials in a worker, on its part of the CPUs, if there are enough for all and the system can restrict it."""
    import torch

    processes = task.order.processes
    silence()
    torch.set_num_threads(max(1, usable_cpus() // processes))
    if hasattr(os, "sched_setaffinity") and len(cpus := sorted(os.sched_getaffinity(0))) >= processes:
        os.sched_setaffinity(0, cpus[number::processes])
    parent = multiprocessing.parent_process()

    def check_parent() -> None:
        if parent is not None and not parent.is_alive():
            raise OutOfTimeError

    try:
        _trials(task, open_study(task.folder, task.config.seed + 1 + number), check_parent)
    except KeyboardInterrupt:
        return
    except PricekitError as error:
        errors.put(error)
    except Exception as error:
        errors.put(TrainingError(f"a trial failed: {type(error).__name__}: {error}"))


def tune(source: Source, config: RunConfig, out: Path, order: Order, mode: Mode = "new") -> dict[str, Any]:
    """Search for better settings than those of a configuration.

    Args:
        source: the table, without a validation table.
        config: that the search starts from; its time budget, by default `HOUR`, is that of the search.
        out: the folder.
        order: folds, trials, processes.
        mode: as for `pricekit.runs.train.train`; a finished search that is resumed is only read.

    Returns:
        The content of `tune.json`.

    Raises:
        ConfigError: Optuna is missing, nothing can be searched, or the time is too short.
        DataError, TrainingError, PluginError: as for `train`.
        KeyboardInterrupt: the search was interrupted; finished trials are kept.
    """
    optuna()
    if Processes().count > 1:
        raise ConfigError(
            "a search starts its own processes; start it without a launcher such as torchrun",
            parameters=("processes",),
        )
    with writing(out, "search", mode, shown=config.speed.progress) as folder:
        if folder.state.name == "finished":
            logger.info(f"the search in {out} is finished")
            check_intact(folder.path, None)
            _delete_work(folder.path)  # a killed process may have left it
            return read_intact(folder.path, FACTS)
        return _search(_begin(source, config, folder, order))


def config_to_search(out: Path, source: Source, options: Mapping[str, Any], mode: Mode) -> RunConfig:
    """Return the configuration that a new search starts from, or that the one to resume started from.

    Raises:
        TrainingError: what is to be resumed is damaged.
        ConfigError, PluginError: an option is invalid, or differs from those that it was started with.
    """
    folder = to_resume(out, mode, "search")
    if folder is None:
        config: RunConfig = config_of(with_columns(source, options))
        return config
    return saved_config(folder / START, options, "start again")


def _begin(source: Source, config: RunConfig, folder: Folder, order: Order) -> Task:
    """Read the rows, and write the folder of a new search or open that of one to resume."""
    out = folder.path
    check_from_start(config)
    start, seconds = config, config.training.time_budget or HOUR
    config = config.with_training(time_budget=None)
    space = dimensions(config)
    saved: dict[str, Any] = {}
    if folder.resumed:
        check_intact(out, [START, ROWS], "start again")
        saved = read_intact(out, ROWS)
    folds = int(saved.get("folds", order.folds or 3))
    if order.folds not in (None, folds):
        raise ConfigError(
            f"a resumed search keeps its {folds} folds; found {order.folds}", parameters=("folds",)
        )
    rows = load_search_rows(source, config, folds, allow_leak=source.allow_leak or folder.resumed)
    if folder.resumed:
        check_same_rows(out, saved["digest"] == rows.digest())
    else:
        folder.begin()
        facts = {"table": source.table_name, "digest": rows.digest(), "folds": folds}
        write_json(out / ROWS, facts)
        write_text(out / START, start.to_toml())
        list_files(out, [ROWS, START])
        advance_to(out, "unfinished")
    repair(out)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    passes = FIRST_PASS + (SECOND_PASS if config.training.refit else 0.0)
    models = passes * rows.growth() / folds
    began = time.time() - (time.perf_counter() - order.began)
    return Task(out, source.table_name, config, space, rows, order, began, seconds, models)


def _search(task: Task) -> dict[str, Any]:
    """Run the trials and finish; return the content of `tune.json`."""
    run_trials(task)
    study = open_study(task.folder, task.config.seed)
    if base_trial(study) is None or (count_trials(study) < 2 and task.order.trials != 1):
        raise _too_short(study, task)
    facts = finish(task, study)
    facts["seconds"] = round(time.time() - task.began, 1)
    write_listed(task.folder, FACTS, facts, [CONFIG, TRIALS, IMPORTANCE, FINAL])
    advance_to(task.folder, "finished")
    _delete_work(task.folder)
    return facts


def _delete_work(folder: Path) -> None:
    """Delete what only trials need."""
    for name in WORK:
        shutil.rmtree(folder / name, ignore_errors=True)


def _too_short(study: Study, task: Task) -> ConfigError:
    """Return the error for a search without a finished trial besides the first one."""
    base, budget = base_trial(study), duration(task.seconds)
    if base is not None:
        seconds = base.user_attrs[SECONDS]
        what = (
            f"the trial of the configuration itself took {duration(seconds)}, and no other one would fit in"
        )
    else:
        seconds, part = progress_of(study, task.config, task.rows)
        what = "no trial was finished"
        if part:
            seconds /= part
            what += f"; one takes about {duration(seconds)}"
    advice = f"give at least {task.least_budget(seconds)}" if seconds else "give more time"
    return ConfigError(
        f"the time budget of {budget} is too short for a search: {what}. Resume it and {advice}, or use fewer rows "
        f"or folds; {task.folder} keeps what is done",
        parameters=("time_budget", "limit", "folds", "resume"),
        seconds_of_a_trial=seconds,
    )


def finish(task: Task, study: Study) -> dict[str, Any]:
    """Choose, train both models, score them on the final rows, and write the files of the result.

    The best trial is chosen only if it is better than the base beyond chance. The best of many equally good ones looks
    better than it is, so a smaller difference is none.

    Args:
        task: the search.
        study: with the finished trial of the configuration that it started from.

    Returns:
        The content of `tune.json`, without the seconds.
    """
    metric, rows, out = metric_named(task.config.metric), task.rows, task.folder
    base, best = base_trial(study), best_trial(study)
    assert base is not None
    comparison = None if BASE in best.user_attrs else _on_folds(task, best, base, metric)
    better = comparison is not None and comparison["verdict"] == BETTER
    chosen = best if better else base
    unlist_files(out, [CONFIG, TRIALS, IMPORTANCE, FINAL, FACTS])
    start = "the settings that the search started from"
    if better:
        logger.info(f"trial {chosen.number} is better on the folds than {start}, beyond chance")
    elif comparison is None:
        logger.info(f"no trial is better on the folds than {start}: they are kept")
    else:
        logger.info(
            f"trial {best.number} has the best score on the folds, but it is not better beyond chance than {start}: "
            "they are kept"
        )
    config = with_values(task.config, chosen.params) if better else task.config
    tuned = _model(task, config, RUN)
    default = _model(task, task.config, DEFAULT) if better else tuned
    final = difference(metric, rows.final, tuned, default)
    columns = {
        "id": rows.final.ids.astype(str).to_numpy(),
        "price": rows.final.known_price,
        "default": default,
        "tuned": tuned,
    }
    write_parquet(out / FINAL, pd.DataFrame(columns))
    trials, importance = trials_table(study, task.space), importances(study)
    for name, table in ((TRIALS, trials), (IMPORTANCE, importance)):
        write_text(out / name, table.to_csv(index=False))
    write_text(out / CONFIG, config.to_toml())
    states = {name: (trials["state"] == name).sum() for name in STATES}
    return {
        "table": task.table,
        "metric": metric.name,
        "rows": {
            "search": len(rows.plan.table),
            "final": len(rows.final),
            "rejected": len(rows.plan.rejected),
        },
        "folds": rows.plan.folds,
        "trials": {name: int(count) for name, count in states.items() if count},
        "chosen": chosen.number,
        "best": best.number,
        "default_score": base.value,
        "best_score": best.value,
        "on_folds": comparison,
        "on_final_rows": final,
        "settings": {
            each.name: {"default": each.value, "tuned": chosen.params[each.name] if better else each.value}
            for each in task.space
        },
    }


def _model(task: Task, config: RunConfig, name: str) -> np.ndarray:
    """Train a model as `train` does, on all rows that trials see; return its prices of the others, float64 (N,)."""
    run, split = task.folder / name, task.rows.whole(config)
    own, earlier = config.for_rows(len(split.train)).to_toml(), run / "config.toml"
    if earlier.is_file() and earlier.read_text("utf-8") != own:
        clear_away(run)
    which = "original" if config == task.config else "chosen"
    logger.info(f"training with the {which} settings: {run}")
    train_unless_finished(Source(Path(task.table), split=split), config, run)
    return np.asarray(load_model(run).predict(task.rows.final), np.float64)


def difference(metric: Metric, table: Table, tuned: np.ndarray, default: np.ndarray) -> dict[str, Any]:
    """Return the scores of two models on the N rows of a table, with their difference as `compare` judges it.

    Args:
        metric: by which to compare.
        table: the rows.
        tuned: prices of the new model, (N,).
        default: those of the other one, (N,).
    """
    models = {"default": held_out_of(table, default), "tuned": held_out_of(table, tuned)}
    base, new = compare(models, metric).runs
    interval = None if new.interval is None else list(new.interval)
    return {"tuned": new.score, "default": base.score, "interval": interval, "verdict": new.verdict}


def _on_folds(task: Task, best: FrozenTrial, base: FrozenTrial, metric: Metric) -> dict[str, Any]:
    """Return how the best trial differs from the base on the rows of the folds, as of `difference`."""
    scored = np.flatnonzero(task.rows.plan.fold >= 0)
    tuned, default = (read_prices(task.folder, trial.number)[scored] for trial in (best, base))
    return difference(metric, task.rows.plan.table.take(scored), tuned, default)
