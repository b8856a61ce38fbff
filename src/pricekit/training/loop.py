"""The training loop: epochs of optimizer steps, each followed by a validation."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pricekit.core.calls import notify
from pricekit.io.interrupts import defer_interrupts
from pricekit.io.log import logger
from pricekit.io.progress import Advance, progress
from pricekit.io.record import advance_to
from pricekit.metrics import metric_named
from pricekit.nets.inference import predict
from pricekit.training.batches import PricedInputs, micro_batches
from pricekit.training.checkpoint import (
    BEST,
    LAST,
    EpochResult,
    Parts,
    TrainingState,
    load_checkpoint,
    write_metrics,
)
from pricekit.training.guard import SpikeError, spike
from pricekit.training.machine import describe, fast_math, torch_threads
from pricekit.training.session import Job, Session, start_session
from pricekit.training.step import random_seed
from pricekit.wording import counted, duration

NOTE_SECONDS = 0.5
"""The loss is read from the device at most this often: reading waits for the device."""

BAR_SECONDS = 1.0
"""A validation that takes longer than this has a separate progress bar."""


class _StopError(Exception):
    """A signal came during the validation."""


def fit(
    job: Job,
    folder: Path,
    *,
    resume: bool,
    started: float,
) -> TrainingState:
    """Train until the last epoch, or until patience or the time budget runs out.

    Afterwards the model has the best weights, on its device: those with the best validation score, or the last
    ones with `training.keep` "last". `folder` contains `last.safetensors` (to resume from; written after each epoch,
    every `save_steps`, and on an interrupt), `best.safetensors`, and one line per epoch in `metrics.jsonl`. A resumed
    run takes the same steps as an uninterrupted one.

    Args:
        job: the model to train, its rows and its settings.
        folder: of the run.
        resume: continue from `last.safetensors`.
        started: `time.perf_counter()` when the run began, from which a time budget counts.

    Raises:
        TrainingError: a loss, gradient or weight is not finite, memory ran out, or the checkpoint to resume from is
            unusable.
        Exception: what `job.watch` raises after an epoch.
        KeyboardInterrupt: the run was interrupted; a checkpoint was written.
    """
    session = start_session(job, folder, resume=resume, started=started)
    log_plan(session)
    if job.processes.main and not session.finished:
        advance_to(session.run_folder, "unfinished")  # a finished run that is trained further
    with (
        defer_interrupts(alone=job.processes.count == 1) as interrupted,
        fast_math(job.config.speed),
        torch_threads(session.loader.torch_threads),
        _progress(session) as advance,
    ):
        while not session.finished:
            try:
                out_of_time = run_epoch(session, interrupted, advance)
            except SpikeError as error:
                before = session.state.position
                session.retry(error)
                advance(session.state.position - before)
                continue
            if job.processes.any(interrupted.is_set()):  # at the end of the validation
                session.save(LAST)
                raise KeyboardInterrupt
            if out_of_time:
                logger.info(f"the time budget is used up; the {job.config.training.keep} weights are kept")
                break
    taken, needed = session.state.step, session.time_budget.steps_per_epoch
    if session.time_budget.budget is not None and taken < needed:
        logger.warning(
            f"the time budget allowed {counted(taken, 'step')} of the {needed:,} of one epoch, so most rows have not "
            "been trained on; give more time, read fewer rows, or choose a smaller model"
        )
    advice = session.monitor.advice()
    if advice and job.valid is not None:  # once, and not again by the second pass
        logger.info(advice)
    load_checkpoint(folder / BEST, Parts(job.model), run=job.run)
    return session.state


def log_plan(session: Session) -> None:
    """Log the plan of the training: rows, model, epochs, steps, device and precision."""
    job, config = session.job, session.config
    length = (
        f"{counted(session.epochs, 'epoch')}, {counted(session.time_budget.total_steps, 'optimizer step')}"
    )
    if job.valid is None:
        logger.info(f"refit: the second pass, on all {counted(len(job.train.price), 'row')}; {length}")
        return
    parameters = sum(parameter.numel() for parameter in job.model.parameters())
    second = (
        "; then a second pass on all rows, for as many epochs as are best" if job.stage.later_steps else ""
    )
    logger.info(
        f"plan: {counted(len(job.train.price), 'training row')}, {len(job.valid.price):,} for validation; backbone "
        f"{config.backbone.name}, {parameters / 1e6:.3g}M parameters; {length}{second}"
    )
    logger.info(describe(job.processes.device, session.stepper.precision, config.speed, job.processes.count))


def run_epoch(session: Session, interrupted: Event, advance: Advance) -> bool:
    """Train, validate and report one epoch; return whether the time budget ended it."""
    state, rows_before, began = session.state, session.state.rows, time.perf_counter()
    out_of_time = train_epoch(session, interrupted, advance)
    trained = time.perf_counter()
    rows_per_second = (state.rows - rows_before) / (trained - began)
    result = validate(session, interrupted)
    session.end_epoch(result)
    report_epoch(session, result, rows_per_second)
    if session.job.watch is not None:
        session.job.watch(result)
    # The checkpoint comes last: if the run is killed before it, a resumed run overwrites the epoch's line.
    if out_of_time or session.finished or state.epoch % session.config.training.save_epochs == 0:
        session.save(LAST)
    session.after_pause(time.perf_counter() - trained)
    return out_of_time


def train_epoch(session: Session, interrupted: Event, advance: Advance) -> bool:
    """Take the remaining optimizer steps of an epoch; return whether the time budget ended it.

    Args:
        session: the training in progress.
        interrupted: ends the epoch with a checkpoint and KeyboardInterrupt, if it is set in any process.
        advance: moves a progress bar whose unit is a step of the schedule.
    """
    state, processes = session.state, session.processes
    steps = session.remaining_steps()
    parts = [micro_batches(step, processes.rank, processes.count) for step in steps]
    seeds = [
        random_seed(session.config.seed, number, batch)
        for number, part in enumerate(parts, state.step)
        for batch, _, _ in part
    ]
    batches = session.loader([rows for part in parts for _, rows, _ in part], seeds)
    total = EpochLoss(session)
    out_of_time = False
    session.job.model.train()
    for step, part in zip(steps, parts, strict=True):
        before, rows = state.position, sum(map(len, step))
        session.set_rates()
        micro = [(number, next(batches), share) for number, _, share in part]
        loss = session.stepper.take(micro, state.step)
        session.count_step(rows, skipped=loss is None)
        total.add(loss, rows)
        out_of_time = session.out_of_time(epoch_ends=step is steps[-1])
        if session.time_budget.just_calibrated:
            later = session.job.stage.later_steps
            seconds = session.time_budget.remaining_seconds(state.position, later)
            logger.info(f"estimated time left: at most {duration(seconds)}")
        advance(state.position - before, total.note())
        stop, every = processes.any(interrupted.is_set()), session.config.training.save_steps
        if stop or (every and state.step % every == 0):
            total.store()
            session.save(LAST)
        if stop:
            raise KeyboardInterrupt
        if out_of_time or session.schedule_ended:
            break
    total.store()
    return out_of_time


class EpochLoss:
    """The loss of the current epoch, summed on the device until it is read."""

    def __init__(self, session: Session) -> None:
        self.session = session
        device = session.processes.device
        # In float64 the sum of float32 losses is exact, so it does not depend on when it is stored.
        self.total = torch.zeros(
            (), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device
        )
        self.began, self.noted_at = time.perf_counter(), 0.0
        self.rows_before = session.state.rows

    def add(self, loss: Tensor | None, rows: int) -> None:
        """Add the mean loss of a step, a scalar, over its rows; None is a skipped step."""
        if loss is not None:
            self.total += loss.to(self.total.dtype) * rows

    def store(self) -> None:
        """Move the sum, over all processes, to the training state; raises SpikeError if it is not finite."""
        session = self.session
        session.stepper.guard.read()
        session.state.loss = self._finite(session.state.loss + float(session.processes.sum(self.total)))
        self.total.zero_()

    def note(self) -> str:
        """Return epoch, mean loss and rows per second; "" within half a second of the last note."""
        now, session = time.perf_counter(), self.session
        if now - self.noted_at <= NOTE_SECONDS:
            return ""
        state, self.noted_at = session.state, now
        if session.processes.count == 1:  # several would read at different steps
            session.stepper.guard.read()
        mean = self._finite(state.loss + float(self.total) * session.processes.count) / max(1, state.rows)
        speed = (state.rows - self.rows_before) / (now - self.began)
        epoch = f"epoch {state.epoch + 1}/{session.epochs}"
        return f"{epoch}  loss {mean:.4f}  {speed:,.0f} rows/s{session.monitor.note()}"

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            config = self.session.config
            raise spike(
                f"the loss is not finite at step {self.session.state.step}. It comes from the loss "
                f"'{config.loss.name}' or the backbone '{config.backbone.name}'"
            )
        return loss


def validate(session: Session, interrupted: Event) -> EpochResult:
    """Return the result of the current epoch: the score of the scored weights on the validation rows, if there are any.

    Args:
        session: the training in progress.
        interrupted: ends the validation, which resuming repeats, with a checkpoint and KeyboardInterrupt, if it is set
            in any process.

    Raises:
        SpikeError: a weight or a price is not finite.
    """
    state, valid = session.state, session.job.valid
    session.check_values()
    session.processes.broadcast(session.scored_model.buffers())
    metric = metric_named(session.config.metric)
    return EpochResult(
        epoch=state.epoch + 1,
        step=state.step,
        loss=state.loss / max(1, state.rows),
        valid_score=None
        if valid is None
        else metric(_prices(session, valid, interrupted), valid.price, valid.weight),
    )


def _prices(session: Session, valid: PricedInputs, interrupted: Event) -> np.ndarray:
    """Return the prices of the scored weights for the validation rows, float32 (N,)."""
    shown = session.shows_progress and session.time_budget.pause > BAR_SECONDS
    own = np.zeros(len(valid.price), np.float32)
    with progress("validation", len(valid.price), shown=shown) as advance, suppress(_StopError):

        def advance_or_stop(units: float, note: str = "") -> None:
            advance(units, note)
            if interrupted.is_set():
                raise _StopError

        own = predict(
            session.scored_model,
            valid.inputs,
            session.config.training.eval_batch_size,
            autocast=session.stepper.objective.autocast,
            part=session.processes.part,
            advance=advance_or_stop,
        )
    if session.processes.any(interrupted.is_set()):  # before the others wait for this process's prices
        session.save(LAST)
        raise KeyboardInterrupt
    prices = session.processes.sum(torch.from_numpy(own)).numpy()
    if not np.isfinite(prices).all():
        session.check_values()  # names a more precise cause
        config = session.config
        raise spike(
            f"after step {session.state.step}, a price of a validation row is not finite. It comes from the backbone "
            f"'{config.backbone.name}' or the loss '{config.loss.name}'"
        )
    return prices


def report_epoch(session: Session, result: EpochResult, rows_per_second: float) -> None:
    """Write the epoch's line to `metrics.jsonl`, pass it to observers, and log it; only log it without a validation."""
    if result.valid_score is None:
        logger.info(
            f"refit, epoch {result.epoch:>3} of {session.epochs}  loss {result.loss:.4f}  {rows_per_second:,.0f} rows/s"
        )
        return
    metric = metric_named(session.config.metric)
    record: dict[str, Any] = {
        "epoch": result.epoch,
        "step": result.step,
        "loss": result.loss,
        f"valid_{metric.name}": result.valid_score,
        "rows_per_second": rows_per_second,
        "learning_rate": session.optimizer.param_groups[0]["lr"],
        "seconds": session.elapsed(),
    }
    record |= session.monitor.record()
    session.state.history.append(record)
    if session.processes.main:
        write_metrics(session.folder, session.state.history)
        notify("epoch_ended", folder=session.run_folder, record=dict(record))
    improved = session.config.training.keep == "best" and session.state.best_epoch == result.epoch
    logger.info(
        f"epoch {result.epoch:>3}  loss {result.loss:.4f}  "
        f"validation {metric.title} {metric.write(result.valid_score)}"
        f"{'  best' if improved else ''}  {rows_per_second:,.0f} rows/s"
    )


def _progress(session: Session) -> Any:
    """Return a progress bar over all epochs of both passes; its unit is a step of the schedule."""
    stage = session.job.stage
    total = stage.earlier_steps + session.time_budget.total_steps + stage.later_steps
    title = "training" if session.job.valid is not None else "training on all rows"
    return progress(title, total, stage.earlier_steps + session.state.position, shown=session.shows_progress)
