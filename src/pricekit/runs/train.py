"""Training: from a table to a finished run, in three steps: prepare, fit, finish. A refit repeats them on all rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig
from pricekit.core.calls import observed
from pricekit.errors import TrainingError, check_intact
from pricekit.features.assets import assets_in
from pricekit.runs.finish import complete_run, finish, measure, renew_sketch
from pricekit.runs.folder.names import FILES, FINISHED, REFIT, REFIT_FINISHED, is_own
from pricekit.runs.folder.overwrite import clear_refit
from pricekit.runs.folder.states import is_started, was_started
from pricekit.runs.inputs import delete_inputs
from pricekit.runs.preparing.prepare import Prepared, prepare
from pricekit.runs.preparing.reopen import check_same_rows
from pricekit.runs.pseudo_labels import add_pseudo_labels
from pricekit.runs.refit import (
    FirstPass,
    first_job,
    first_pass_of,
    job_until,
    open_pass,
    publish_refit,
    refit_job,
    refits,
    settle_refit,
    share_of_first,
)
from pricekit.runs.resume import working_folder
from pricekit.runs.source import Source, Split
from pricekit.support.locks import owned
from pricekit.support.log import logger
from pricekit.support.staging import keep_others, replacing
from pricekit.support.text import counted
from pricekit.training.checkpoint import EpochResult
from pricekit.training.loop import fit
from pricekit.training.parallel.processes import Processes
from pricekit.training.session import Job
from pricekit.training.time_budget import first_pass_ends, training_ends


def train(
    source: Source,
    config: RunConfig,
    out: Path,
    *,
    split: Split | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    started: float | None = None,
    watch: Callable[[EpochResult], None] | None = None,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Train a model into the folder `out`.

    Args:
        source: the tables.
        config: from `pricekit.config.resolve.configure`, which also resolves the options of plugins.
        out: a new or empty folder.
        split: the rows of `source`, if they have already been read, checked and split.
        resume: continue the run in `out` from its last checkpoint, or from its beginning if it has none.
        overwrite: replace the run in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.
        started: `time.perf_counter()` when the work began, from which a time budget counts; None: now.
        watch: called with the result of each epoch of the first pass; an exception that it raises ends the training.
        cache: a folder in which several runs on the same rows share tokens and features; None: no cache.

    Returns:
        The content of `run.json`: table, currency, rows, best epoch, seconds, metrics and plugins.

    Raises:
        DataError: the table cannot be used, or the price leaks.
        TrainingError: `out` is not empty or is being written, training failed, or the rows differ from those of
            the run to resume.
        ConfigError, PluginError: a setting or a plugin is invalid.
        KeyboardInterrupt: training was interrupted; a checkpoint was written.
    """
    started, processes = time.perf_counter() if started is None else started, Processes()
    given = {"resume": resume, "overwrite": overwrite}
    with owned(out, "run", TrainingError, enabled=processes.main):
        processes.wait()
        folder = working_folder(out, is_started if resume else was_started, "run.json", **given)
        if processes.main:
            for each in {out, folder}:
                settle_refit(each)
        processes.wait()
        with replacing(out, folder, is_own, enabled=processes.main):
            part, first = open_pass(folder, resume=resume)
            prepared = prepare(
                source,
                config,
                part,
                split=split,
                first=first,
                allow_leak=allow_leak,
                started=started,
                cache=cache,
                **given,
            )
            if folder != out and processes.main:
                keep_others(out, folder, is_own)
            prepared = replace(prepared, job=replace(prepared.job, watch=watch))
            facts = _train(prepared, folder, started)
        processes.wait()
        return facts


def train_unless_finished(
    source: Source, config: RunConfig, folder: Path, split: Split, *, resume: bool
) -> dict[str, Any]:
    """Train a run that is a part of something larger, or continue it; return its facts.

    Args:
        source: the tables.
        config: of the run.
        folder: of the run.
        split: its rows.
        resume: continue it, if it has begun; a finished one is only checked.

    Raises:
        PricekitError: as `train`; or a finished run is damaged or has other rows.
    """
    if not (resume and (folder / "run.json").is_file()):
        return train(source, config, folder, split=split, resume=resume)
    main = Processes().main
    with owned(folder, "run", TrainingError, enabled=main):  # deletes the lock of a killed process
        if main:
            settle_refit(folder)
        check_intact(folder, (*FILES, *assets_in(folder)))
        check_same_rows(folder, add_pseudo_labels(source, split, config, folder))
        return dict(json.loads((folder / "run.json").read_text("utf-8")))


def _train(prepared: Prepared, out: Path, started: float) -> dict[str, Any]:
    """Fit a prepared run and finish it; return its facts."""
    job = prepared.job
    settings = job.config.model_dump(mode="json", exclude_none=True)
    rows = {"train": len(prepared.split.train), "valid": len(prepared.split.valid)}
    with observed(
        "run", out, enabled=job.processes.main, config=settings, rows=rows, resumed=prepared.reopened
    ) as facts:
        facts |= _run_passes(prepared, out, started)
    job.processes.wait()
    return facts


def _run_passes(prepared: Prepared, out: Path, started: float) -> dict[str, Any]:
    """Train the only pass of a run, or both, or the second one of a run that is resumed in it."""
    job, budget = prepared.job, prepared.job.config.training.time_budget
    if not refits(job.config, prepared.source):
        return _only_pass(prepared, out, started)
    if prepared.first is None:
        share = share_of_first(prepared.split)
        ends, fits = first_pass_ends(budget, started, prepared.seconds, share)
        if not job.processes.from_main(float(fits)):
            return _only_pass(prepared, out, started)
        first = _first_pass(prepared, out, started, _of_main(ends, job))
        if job.processes.main:
            delete_inputs(out)  # the second pass has others
        job.processes.wait()
        prepared = prepare(
            prepared.source,
            job.config,
            out / REFIT,
            split=prepared.split,
            first=first,
            started=started,
        )
        started = time.perf_counter() - prepared.seconds
    return _refit(prepared, out, started)


def _only_pass(prepared: Prepared, out: Path, started: float) -> dict[str, Any]:
    """Train the only pass of a run."""
    job = prepared.job
    ends = _of_main(training_ends(job.config.training.time_budget, prepared.seconds), job)
    state = fit(job_until(job, ends), out, resume=prepared.resumed, started=started)
    return finish(prepared, state, out, started)


def _of_main(ends: float | None, job: Job) -> float | None:
    """Return the main process's end of a training in every process."""
    return None if ends is None else job.processes.from_main(ends)


def _first_pass(prepared: Prepared, out: Path, started: float, ends: float | None) -> FirstPass:
    """Train the first pass of two: it chooses the epoch, and measures on the validation rows."""
    job = first_job(prepared.job, prepared.split, ends)
    state = fit(job, out, resume=prepared.resumed, started=started)
    facts = measure(prepared, state, out, started)
    return first_pass_of(facts, state, out)


def _refit(prepared: Prepared, out: Path, started: float) -> dict[str, Any]:
    """Train the second pass of two, on all rows, and finish the run with its weights.

    If the time budget leaves it fewer steps than the first pass took, the weights of that pass are kept.
    """
    first = prepared.first
    assert first is not None
    before = 0.0 if prepared.resumed else first.facts["seconds"]  # a checkpoint contains them
    ends = _of_main(training_ends(prepared.job.config.training.time_budget, prepared.seconds), prepared.job)
    job, part = refit_job(prepared.job, first, out, ends), prepared.folder
    state = fit(job, part, resume=prepared.resumed, started=started - before)
    seconds = round(state.seconds + time.perf_counter() - started + before, 1)
    complete = job.config.training.time_budget is None or state.step >= first.best_steps
    done = {"refit": {"rows": len(job.train.price), "epochs": state.epoch}} if complete else {}
    facts = first.facts | done | {"seconds": seconds}
    if not complete:
        logger.warning(
            f"the time budget leaves {counted(state.step, 'step')} for the refit, and the first pass took "
            f"{first.best_steps:,} until its best epoch: its weights are kept, and no row of the validation is trained "
            "on. Give more time, or train without the refit"
        )
    if job.processes.main:
        job.model.cpu()
        job.model.estimate_share = facts["estimate_share"]
        if complete:
            renew_sketch(prepared, out)
            complete_run(part, facts, job.model, REFIT_FINISHED)
            if part != out:
                publish_refit(out)
        else:
            complete_run(out, facts, None, FINISHED)
            clear_refit(out)
    return facts
