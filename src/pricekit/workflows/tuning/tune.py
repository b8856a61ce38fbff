"""The whole search: rows, trials, the choice, and both models on the rows that no trial saw."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.config import RunConfig, parse_duration
from pricekit.config.layers import read_saved_config
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.runs.resume import check_agreement, working_folder
from pricekit.runs.split import Source
from pricekit.support.digests import list_files
from pricekit.support.files import write_text
from pricekit.support.locks import owned
from pricekit.support.log import logger
from pricekit.support.staging import replacing
from pricekit.support.text import duration
from pricekit.training.parallel import Processes
from pricekit.workflows.folds import check_from_start
from pricekit.workflows.tuning import folder as files
from pricekit.workflows.tuning.clock import Clock
from pricekit.workflows.tuning.result import finish
from pricekit.workflows.tuning.rows import load_search_rows
from pricekit.workflows.tuning.search import Limits, search
from pricekit.workflows.tuning.space import dimensions, with_values
from pricekit.workflows.tuning.study import (
    SECONDS,
    base_trial,
    count_trials,
    open_study,
    optuna,
    progress_of,
    repair,
)
from pricekit.workflows.tuning.trial import RUNS, Task

if TYPE_CHECKING:
    from optuna.study import Study

HOUR = 3600.0
FIRST_PASS, SECOND_PASS = 0.95, 0.65
"""The time of each pass of a model at the end for a row, as a part of that of a fold's run. The first pass trains on
fewer rows, but writes more; the second one takes over the columns that were fitted out of fold."""


@dataclass(frozen=True)
class Order:
    """What the caller of a search asks for.

    Attributes:
        folds: number of folds; None: 3, or those of the search to resume.
        seconds: the time budget.
        trials: the most trials; None: as many as fit into the time.
        processes: that run trials.
        began: `time.perf_counter()` when the work began, from which the time counts.
    """

    folds: int | None
    seconds: float
    trials: int | None
    processes: int
    began: float

    @classmethod
    def checked(
        cls, time: float | str | None, began: float, folds: int | None, trials: int | None, processes: int
    ) -> Order:
        """Return an order; raises ConfigError for values that make no sense. The default of the time is `HOUR`."""
        for name, value in (("trials", trials), ("processes", processes)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(
                    f"{name} is {value!r}; expected a whole number, at least 1", parameters=(name,)
                )
        try:
            seconds = parse_duration(HOUR if time is None else time)
            if (
                isinstance(seconds, bool)
                or not isinstance(seconds, int | float)
                or not 0 < seconds < math.inf
            ):
                raise ValueError("expected a time above 0, such as 2h, 90m or a number of seconds")
        except ValueError as error:
            raise ConfigError(f"time_budget is {time!r}; {error}", parameters=("time_budget",)) from None
        return cls(folds, float(seconds), trials, processes, began)


def tune(
    source: Source,
    config: RunConfig,
    out: Path,
    order: Order,
    *,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
) -> dict[str, Any]:
    """Search for better settings than those of a configuration.

    Args:
        source: the table, without a validation table.
        config: that the search starts from.
        out: a new or empty folder.
        order: folds, time, trials, processes.
        resume: continue the search in `out`; a finished one is only read.
        overwrite: replace the search in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.

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
    with owned(out, "search", TrainingError):
        folder = working_folder(out, files.is_search, files.FACTS, resume=resume, overwrite=overwrite)
        with replacing(out, folder, files.is_own):
            if resume and (folder / files.FACTS).is_file():
                logger.info(f"the search in {out} is finished")
                check_intact(folder, None)
                return dict(json.loads((folder / files.FACTS).read_text("utf-8")))
            task = _begin(
                source, config, folder, order, resume=resume, overwrite=overwrite, allow_leak=allow_leak
            )
            return _search(task, order)


def resumed_config(folder: Path, options: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of the search in a folder.

    Raises:
        ConfigError: an option differs from it.
        TrainingError: it is damaged.
    """
    check_intact(folder, [files.START], "start again")
    check_agreement(folder / files.START, options)
    return read_saved_config(folder / files.START)


def _begin(
    source: Source,
    config: RunConfig,
    out: Path,
    order: Order,
    *,
    resume: bool,
    overwrite: bool,
    allow_leak: bool,
) -> Task:
    """Read the rows, and write the folder of a new search or open that of one to resume."""
    check_from_start(config)
    config = with_values(config, {"training.time_budget": None})
    space = dimensions(config)
    if not resume:
        files.check_free(out, overwrite)
    saved = _read_rows(out) if resume else {}
    folds = int(saved.get("folds", order.folds or 3))
    if order.folds not in (None, folds):
        raise ConfigError(
            f"a resumed search keeps its {folds} folds; found {order.folds}", parameters=("folds",)
        )
    rows = load_search_rows(source, config, folds, allow_leak=allow_leak or resume)
    if resume and saved["digest"] != rows.digest():
        raise TrainingError(
            f"the rows differ from those that {out} was started with; use the same table, read in the same way, or "
            "search into a new folder",
            parameters=("table", "out"),
            path=str(out),
        )
    if not resume:
        files.clear(out)
        out.mkdir(parents=True, exist_ok=True)
        facts = {"table": source.table_name, "digest": rows.digest(), "folds": folds}
        write_text(out / files.ROWS, json.dumps(facts, indent=2) + "\n")
        write_text(out / files.START, config.to_toml())
        list_files(out, [files.ROWS, files.START])
    repair(out)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    return Task(out, source.table_name, config, space, rows)


def _read_rows(out: Path) -> dict[str, Any]:
    check_intact(out, [files.ROWS, files.START], "start again")
    try:
        return dict(json.loads((out / files.ROWS).read_text("utf-8")))
    except ValueError as error:
        raise TrainingError(f"{out / files.ROWS} is damaged ({error}); start again", path=str(out)) from None


def _search(task: Task, order: Order) -> dict[str, Any]:
    """Run the trials and finish; return the content of `tune.json`."""
    began = time.time() - (time.perf_counter() - order.began)
    passes = FIRST_PASS + (SECOND_PASS if task.config.training.refit else 0.0)
    clock = Clock(began, order.seconds, passes * task.rows.growth() / task.rows.plan.folds)
    search(task, Limits(clock, order.trials), order.processes)
    study = open_study(task.folder, task.config.seed)
    if base_trial(study) is None or (count_trials(study) < 2 and order.trials != 1):
        raise _too_short(study, task, clock)
    facts = finish(task, study)
    facts["seconds"] = round(time.perf_counter() - order.began, 1)
    record = json.dumps(facts, indent=2) + "\n"
    written = [files.CONFIG, files.TRIALS, files.IMPORTANCE, files.FINAL]
    list_files(task.folder, written, {files.FACTS: record})
    write_text(task.folder / files.FACTS, record)
    files.clear_work(task.folder)
    return facts


def _too_short(study: Study, task: Task, clock: Clock) -> ConfigError:
    """Return the error for a search without a finished trial besides the first one."""
    base, budget = base_trial(study), duration(clock.budget)
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
    advice = f"give at least {clock.least_budget(seconds)}" if seconds else "give more time"
    return ConfigError(
        f"the time budget of {budget} is too short for a search: {what}. Resume it and {advice}, or use fewer rows "
        f"or folds; {task.folder} keeps what is done",
        parameters=("time_budget", "limit", "folds", "resume"),
        seconds_of_a_trial=seconds,
    )
