"""The first step of training: rows, plugins, model inputs and a model, in a new run folder or a resumed one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig
from pricekit.core.registry import Entry
from pricekit.errors import check_intact
from pricekit.features.assets import assets_in
from pricekit.runs.checks import check_rates
from pricekit.runs.folder.names import FINISHED, REFIT_FINISHED, STARTED
from pricekit.runs.folder.states import is_started, run_id
from pricekit.runs.inputs import InputFiles
from pricekit.runs.preparing.new_run import check_free, prepare_new_run
from pricekit.runs.preparing.reopen import reopen_run
from pricekit.runs.pseudo_labels import add_pseudo_labels
from pricekit.runs.refit import TAKEN_OVER, FirstPass
from pricekit.runs.setup import Setup, plugins_of
from pricekit.runs.source import Source, Split, load_split
from pricekit.runs.warm.seen import earlier_texts
from pricekit.runs.warm.start import WarmStart
from pricekit.support.digests import unlist_files
from pricekit.support.log import logger, silence
from pricekit.support.mapped import folder_for_files
from pricekit.training.checkpoint import LAST
from pricekit.training.recovery import recover_checkpoint
from pricekit.training.session import Job
from pricekit.training.time_budget import feature_seconds


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to train.

    Attributes:
        source: the source of its rows.
        split: its rows.
        entries: its plugins.
        job: the model to train, its rows and its settings.
        reopened: the run was started before.
        resumed: the run has a checkpoint to continue from.
        folder: the folder of its files.
        first: the results of the first pass, in a second one.
        seconds: how long the features, the inputs and the model took.
    """

    source: Source
    split: Split
    entries: list[Entry]
    job: Job
    reopened: bool
    resumed: bool
    folder: Path
    first: FirstPass | None = None
    seconds: float = 0.0


def prepare(
    source: Source,
    config: RunConfig,
    out: Path,
    *,
    split: Split | None = None,
    first: FirstPass | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    started: float | None = None,
    cache: Path | None = None,
) -> Prepared:
    """Read the rows, then start a new run folder or open the one to resume.

    Arguments and errors are those of `pricekit.runs.train.train`; `first` are the results of the first pass for a
    second one, which trains on all rows.
    """
    setup = Setup.create(config)
    processes = setup.processes
    if not processes.main:
        silence()
    if processes.main:  # before the table is read, which may take long
        _check_start(setup, out, refit=first is not None, resume=resume, overwrite=overwrite)
    if split is None:
        split = _read_split(source, config, out, resume=resume, allow_leak=allow_leak)
    resume = resume and is_started(out)
    if split.pseudo_labelled is None:
        split = add_pseudo_labels(source, split, config, out if resume else None)
    setup = replace(setup, config=config.for_rows(len(split.train)))
    began = time.perf_counter()
    limit = feature_seconds(config, began if started is None else started)
    if not processes.main:
        processes.wait()  # for the main process, which writes the folder
    opens = config.init is not None and not (resume and (out / LAST).exists())
    warm = WarmStart.open(Path(str(config.init))) if opens else None
    new = not resume and processes.main
    with InputFiles(out, new, processes.main, config.speed.progress, cache) as files:
        if new:
            given: dict[str, Any] = {"overwrite": overwrite, "seconds": limit}
            job = prepare_new_run(out, source, setup, split, first, warm, files, **given)
        else:
            job = reopen_run(out, setup, split, first, warm, files)
    if processes.main:
        processes.wait()
    resumed = resume and (out / LAST).exists()
    if resume and not resumed:
        logger.info(f"{out} has no checkpoint: its first epoch is repeated, with the same rows and settings")
    seconds = time.perf_counter() - began
    return Prepared(source, split, plugins_of(job.config), job, resume, resumed, out, first, seconds)


def _read_split(source: Source, config: RunConfig, out: Path, *, resume: bool, allow_leak: bool) -> Split:
    """Read the rows of a run, and split them as the run to resume did."""
    return load_split(
        source,
        config,
        allow_leak=allow_leak,
        checked=resume,
        seen=earlier_texts(config.init, *((out, out.parent) if resume else ())),
        folder=folder_for_files(out),
    )


def _check_start(setup: Setup, out: Path, *, refit: bool, resume: bool, overwrite: bool) -> None:
    """Raise TrainingError unless a run can be written to a folder, or continues there."""
    if not resume:
        check_free(out, overwrite)
        if not refit:
            check_rates(setup.config, setup.plugins.backbone)
    elif is_started(out):
        check_intact(out, (*STARTED, *(TAKEN_OVER if refit else ()), *assets_in(out)))
        recover_checkpoint(out, run_id(out))
        unlist_files(out, REFIT_FINISHED if refit else FINISHED)  # they are written again
