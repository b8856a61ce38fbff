"""The second pass of a run: it trains once more on all rows, for as many epochs as the first pass found best.

With few rows, the first pass is repeated on other folds of the rows, so that each row is held out once.

The first pass is an ordinary training in the folder of the run. It chooses the epoch, and provides metrics, intervals
and held-out rows. The second one trains in the folder `refit` inside of it, which is a complete run of its own: it can
be resumed, opened and checked like any other. When it is finished, its files take the places of those of the first
pass, and the folder `refit` disappears.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.errors import TrainingError
from pricekit.features.preprocess import without_price
from pricekit.io.files import write_atomically
from pricekit.io.record import REFIT, check_intact, state_of
from pricekit.runs.folder import (
    SOURCE,
    TAKEN_OVER,
    Folder,
    read_out_of_fold,
    read_preprocessor,
    read_source,
)
from pricekit.runs.seen import read_seen
from pricekit.runs.split import Source, Split, stratified_folds
from pricekit.table import Table, concat_tables
from pricekit.training.batches import steps_per_epoch
from pricekit.training.checkpoint import write_metrics
from pricekit.training.loop import Job, Stage

_KEY = "first_pass"


@dataclass(frozen=True)
class FirstPass:
    """The results of the first pass, which the `source.json` of the second one contains.

    Attributes:
        facts: as in a `run.json`: metrics, best epoch, seconds and others.
        history: the lines of its `metrics.jsonl`.
        position: steps of its schedule when it ended.
        best_steps: optimizer steps until its best epoch ended.
    """

    facts: dict[str, Any]
    history: Sequence[Mapping[str, Any]]
    position: float
    best_steps: int

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `source.json`."""
        return {_KEY: asdict(self)}


def open_pass(folder: Folder) -> tuple[Path, FirstPass | None]:
    """Return the folder of the pass to train, and the results of the first pass if that is the second one.

    Raises:
        TrainingError: `source.json` is damaged.
    """
    if not folder.resumed or folder.state.phase == "first":
        return folder.path, None
    path = folder.path / REFIT
    path = path if state_of(path).begun else folder.path
    check_intact(path, [SOURCE])
    try:
        first = read_source(path)[_KEY]
        return path, FirstPass(first["facts"], first["history"], first["position"], first["best_steps"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path / SOURCE} is damaged ({error}); train again", path=str(path)) from None


def refits(config: RunConfig, source: Source) -> bool:
    """Return whether a run has a second pass; with a table of its own to validate on, all others are trained on."""
    return config.training.refit and source.valid is None


def other_folds(split: Split, config: RunConfig) -> list[Split]:
    """Return the splits that hold out the training rows in turn, as many as the settings say besides this one.

    There are none for rows with times, for a run that continues another one or has a teacher, under a time budget, and
    if one of them would hold out only rows of weight 0.
    """
    train, groups, count = split.train, split.train.cluster, int(config.training.folds) - 1
    limited = config.training.time_budget is not None
    taught = split.pseudo_labelled is not None or config.init is not None
    if groups is None or train.time is not None or taught or limited or not count:
        return []
    fold = stratified_folds(train.known_price, groups, min(count, len(np.unique(groups))), config.seed)
    place = np.concatenate([np.full(len(split.valid), -1), fold])
    rows = all_rows(split)
    numbers = np.unique(fold)
    if train.weight is not None and not np.bincount(fold, train.weight)[numbers].all():
        return []
    parts = ((np.flatnonzero(place != held), np.flatnonzero(place == held)) for held in numbers)
    return [replace(split, train=rows.take(others), valid=rows.take(held)) for others, held in parts]


def all_rows(split: Split) -> Table:
    """Return validation and training rows; pseudo-labelled ones stay the last, without those whose price is known."""
    valid, train = split.valid, split.train.take(_kept(split))
    ids = valid.ids.astype(train.ids.dtype)
    ids.name = train.ids.name
    return concat_tables([replace(valid, frame=valid.frame[list(train.frame.columns)], ids=ids), train])


def _kept(split: Split) -> np.ndarray:
    """Return the positions of the training rows that a second pass uses."""
    if split.pseudo_labelled is None:
        return np.arange(len(split.train))
    pseudo_labelled = np.arange(len(split.train)) >= len(split.train) - len(split.pseudo_labelled)
    return np.flatnonzero(~(pseudo_labelled & split.train.text.isin(set(split.valid.text)).to_numpy()))


def known_columns(folder: Path, split: Split) -> dict[str, np.ndarray]:
    """Return the columns of features that use the price for `all_rows`, float32 (N,) each, by name.

    The first pass has learned none of these values from the price of the same row: it predicted the training rows out
    of fold, and the validation rows from the training rows, or from those of the run that it continues.

    Args:
        folder: of the first pass.
        split: its rows.
    """
    train = read_out_of_fold(folder)
    if not train:
        return {}
    kept = _kept(split)
    if "init" in read_source(folder):  # its features have learned from the validation rows, too
        valid = read_seen(folder).columns_of(split.valid.text)
    else:
        preprocessor = read_preprocessor(folder)
        features = preprocessor.features
        block = features.transform(without_price(split.valid, preprocessor.columns))
        valid = {name: block[:, features.names.index(name)] for name in train}
    return {name: np.concatenate([valid[name], column[kept]]) for name, column in train.items()}


def share_of_first(split: Split) -> float:
    """Return the part of the training time that the first of two passes has.

    The second pass has more rows. It gets as much more time, so that it can take as many epochs even if the last one
    is the best.
    """
    rows = len(split.train)
    return rows / (2 * rows + len(split.valid))


def job_until(job: Job, ends: float | None) -> Job:
    """Return a job that ends a number of seconds after the run began; None: when the training is finished."""
    ends = None if ends is None else job.processes.from_main(ends)
    return replace(job, config=job.config.with_training(time_budget=ends))


def first_job(job: Job, split: Split, ends: float | None) -> Job:
    """Return the job of a first pass, with the optimizer steps, at most, of the pass that follows it."""
    later = sum(steps_per_epoch(job.train, job.config)) * (len(split.train) + len(split.valid))
    return replace(job_until(job, ends), stage=Stage(later_steps=later / len(split.train)))


def refit_job(job: Job, first: FirstPass, ends: float | None) -> Job:
    """Return the job of a second pass: a whole schedule over as many epochs as were best.

    Args:
        job: with all rows.
        first: the results of the first pass.
        ends: as of `job_until`.
    """
    best = first.facts.get("best_epochs", [first.facts["best_epoch"]])
    config = job.config.with_training(epochs=round(float(np.median(best))), keep="last", patience=None)
    return job_until(replace(job, config=config), ends)


def take_over(folder: Path, first: FirstPass) -> None:
    """Write the results of the first pass into the folder of the second one, which is inside of its folder."""
    for name in TAKEN_OVER:
        with write_atomically(folder / name) as temporary:
            shutil.copyfile(folder.parent / name, temporary)
    write_metrics(folder, [dict(line) for line in first.history])
