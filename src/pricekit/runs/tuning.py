"""The search for better settings: its folder, rows, trials, the choice, and both models on the rows that no trial saw.

tune.toml, search.json   the configuration that the search starts from, and its rows
study.log                all trials
config.toml, run         the chosen configuration, and the model trained with it
default                  the model of the first configuration, if another one was chosen
trials.csv, importance.csv, final.parquet   all trials, how much each setting mattered, and the prices of both models
files.json, tune.json    size and SHA-256 of these files; the result, written at the end
pricekit.json            kind, format and state; written first and last
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.errors import ConfigError
from pricekit.evaluation.comparison import BETTER, compare
from pricekit.evaluation.held_out import held_out_of
from pricekit.io.digests import list_files, unlist_files, write_listed
from pricekit.io.files import write_json, write_parquet, write_text
from pricekit.io.log import logger
from pricekit.io.record import Mode, advance_to, check_intact, clear_away, read_intact
from pricekit.metrics import Metric, metric_named
from pricekit.options import config_of
from pricekit.runs.folder import Folder, check_same_rows, writing
from pricekit.runs.folds import check_from_start
from pricekit.runs.load import load_model
from pricekit.runs.resume import saved_config, to_resume
from pricekit.runs.split import Source
from pricekit.runs.study import (
    BASE,
    SECONDS,
    STATES,
    base_trial,
    best_trial,
    count_trials,
    dimensions,
    importances,
    load_search_rows,
    open_study,
    optuna,
    progress_of,
    repair,
    trials_table,
    with_values,
)
from pricekit.runs.train import train_unless_finished
from pricekit.runs.trials import CACHE, PRICES, RUNS, Order, Task, read_prices, search
from pricekit.table import Table
from pricekit.training.parallel import Processes
from pricekit.wording import duration

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


START, ROWS, FACTS = "tune.toml", "search.json", "tune.json"
CONFIG, TRIALS, IMPORTANCE, FINAL = "config.toml", "trials.csv", "importance.csv", "final.parquet"
RUN, DEFAULT = "run", "default"

WORK = (RUNS, PRICES, CACHE)
"""Folders that a finished search no longer has."""

HOUR = 3600.0
FIRST_PASS, SECOND_PASS = 0.95, 0.65
"""The time of each pass of a model at the end for a row, as a part of that of a fold's run. The first pass trains on
fewer rows, but writes more; the second one takes over the columns that were fitted out of fold."""


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


def config_to_search(out: Path, options: Mapping[str, Any], mode: Mode) -> RunConfig:
    """Return the configuration that a new search starts from, or that the one to resume started from.

    Raises:
        TrainingError: what is to be resumed is damaged.
        ConfigError, PluginError: an option is invalid, or differs from those that it was started with.
    """
    folder = to_resume(out, mode, "search")
    if folder is None:
        config: RunConfig = config_of(options)
        return config
    return saved_config(folder / START, options, "start again")


def _begin(source: Source, config: RunConfig, folder: Folder, order: Order) -> Task:
    """Read the rows, and write the folder of a new search or open that of one to resume."""
    out = folder.path
    check_from_start(config)
    seconds = config.training.time_budget or HOUR
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
        write_text(out / START, config.to_toml())
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
    search(task)
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
