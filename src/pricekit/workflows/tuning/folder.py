"""The folder of a search.

tune.toml        the configuration that the search starts from
search.json      a digest of the rows and folds, the table
study.log        all trials, a journal of Optuna
trials, prices, cache    of trials, while the search runs
run, default     the model with the chosen settings, and that of the configuration that the search started from
config.toml      the chosen configuration
trials.csv       every trial: state, score, seconds, settings
importance.csv   how much each setting mattered
final.parquet    the rows that no trial saw, with the prices of both models
files.json       size and SHA-256 of these files; a run has its own
tune.json        the result; written last
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pricekit.runs.folder import check_replaceable, clear_run, is_replaceable, is_run, names_rows
from pricekit.runs.folder import is_own as is_own_of_run
from pricekit.support.digests import LISTING
from pricekit.support.files import is_free, leftovers
from pricekit.workflows.tuning.study import JOURNAL
from pricekit.workflows.tuning.trial import CACHE, PRICES, RUNS

START, ROWS, FACTS = "tune.toml", "search.json", "tune.json"
CONFIG, TRIALS, IMPORTANCE, FINAL = "config.toml", "trials.csv", "importance.csv", "final.parquet"
RUN, DEFAULT = "run", "default"

_FILES = (FACTS, LISTING, CONFIG, TRIALS, IMPORTANCE, FINAL, JOURNAL, START, ROWS)  # in the order of deletion
WORK = (RUNS, PRICES, CACHE)
"""Folders that a finished search no longer has."""


def is_search(path: Path) -> bool:
    """Return whether a folder is a search that has begun, and may be finished."""
    return (path / START).is_file() and (path / ROWS).is_file()


def is_own(file: Path) -> bool:
    """Return whether a path relative to a search's folder is one of its files."""
    first, *rest = file.parts
    if not rest:
        return first in _FILES or first.startswith(f"{JOURNAL}.lock")
    return first in WORK or (first in (RUN, DEFAULT) and is_own_of_run(Path(*rest)))


def check_free(out: Path, overwrite: bool) -> None:
    """Raise TrainingError unless a search can be written to a folder."""
    begun = is_search(out)
    if not (
        is_free(out) or (not begun and names_rows(out / ROWS))
    ):  # interrupted while it was created or deleted
        check_replaceable(out, "search", own=begun, overwrite=overwrite, resumable=True)


def clear(out: Path) -> None:
    """Delete the files of a search and nothing else."""
    if not out.is_dir():
        return
    clear_work(out)
    for name in (RUN, DEFAULT):
        clear_model(out / name)
    for file in [*leftovers(out), *out.glob(f"{JOURNAL}.lock*"), *(out / name for name in _FILES)]:
        file.unlink(missing_ok=True)


def clear_work(out: Path) -> None:
    """Delete what only trials need."""
    for name in WORK:
        shutil.rmtree(out / name, ignore_errors=True)


def clear_model(run: Path) -> None:
    """Delete the run of a model, if there is one."""
    if run.is_dir() and (is_run(run) or is_replaceable(run)):
        clear_run(run)
        if not any(run.iterdir()):
            run.rmdir()
