"""The training loop: flat, one optimizer step after the other."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pricekit.config import RunConfig
from pricekit.core.contracts import Policy
from pricekit.core.events import tell
from pricekit.errors import TrainingError
from pricekit.files import write_text
from pricekit.log import logger
from pricekit.metrics import smape
from pricekit.model.inference import predict
from pricekit.model.network import PriceModel
from pricekit.progress import progress
from pricekit.training.batches import Examples, dealt
from pricekit.training.checkpoint import BEST, LAST, load_checkpoint
from pricekit.training.interrupt import noted_interrupts
from pricekit.training.machine import describe, fast_math
from pricekit.training.session import Session, TrainingState, start_session

SHOW_SECONDS = 0.5
"""The loss is fetched from the device this often, no more: fetching waits for it."""

_DIVERGED = (
    "the loss or a predicted price is not finite; lower training.learning_rate, or set "
    "training.max_grad_norm=1.0. The checkpoints of the earlier epochs are kept"
)


def fit(
    model: PriceModel,
    policy: Policy,
    config: RunConfig,
    train: Examples,
    valid: Examples,
    folder: Path,
    *,
    resume: bool = False,
    started: float | None = None,
) -> TrainingState:
    """Train until the last epoch, or until patience or the time budget runs out.

    Leaves the best weights in the model, on its device: those with the lowest validation SMAPE or, where
    `training.keep` says so, the last ones. `folder` holds `last.safetensors` (to resume from: written after each
    epoch, every `save_steps`, and when the run is interrupted), `best.safetensors` and one line an epoch in
    `metrics.jsonl`. A resumed run takes the same steps as one that was never stopped.

    Args:
        model: with its constants fitted.
        policy: gives optimizer and schedule.
        config: the run's.
        train: rows to train on.
        valid: rows to validate on.
        folder: of the run.
        resume: go on from `last.safetensors`.
        started: `time.perf_counter()` when the command began, from which a time budget counts.

    Raises:
        TrainingError: the loss is not finite, memory ran out, or there is nothing to resume from.
        KeyboardInterrupt: the run was interrupted; a checkpoint was written.
    """
    session = start_session(model, policy, config, train, folder, resume=resume, started=started)
    state, processes = session.state, session.processes
    logger.info(
        describe(processes.device, session.stepper.objective.precision, config.speed, processes.count)
    )
    with noted_interrupts(enabled=processes.count == 1) as interrupted, fast_math(config.speed):
        while not session.finished:
            began, rows_before = time.perf_counter(), state.rows
            out_of_time = train_epoch(session, interrupted)
            trained = time.perf_counter()
            record = validate(session, valid)
            record["rows_per_second"] = (record.pop("rows") - rows_before) / (trained - began)
            finish_epoch(session, record, folder, out_of_time=out_of_time)
            if interrupted.is_set():  # while it was validated
                session.save(LAST)
                raise KeyboardInterrupt
            if out_of_time:
                logger.info(
                    f"the time budget is used up; the {config.training.keep} weights so far are kept."
                )
                break
            session.after_pause(time.perf_counter() - trained)
    if advice := session.monitor.advice():
        logger.info(advice)
    load_checkpoint(folder / BEST, model)
    return state


def train_epoch(session: Session, interrupted: threading.Event) -> bool:
    """Take the optimizer steps of an epoch that are left; return whether the time budget ended it."""
    state, config, processes = session.state, session.config, session.processes
    steps = session.steps_left()
    mine = [dealt(step, processes.rank, processes.count) for step in steps]
    batches = session.loader([rows for step in mine for _, rows, _ in step])
    total = torch.zeros((), device=processes.device)  # of the loss; on the device until it is shown
    began, shown_at, rows_before = time.perf_counter(), 0.0, state.rows
    out_of_time = False
    session.model.train()
    title = f"epoch {state.epoch + 1}/{config.training.epochs}"
    with progress(title, session.rows, state.rows, shown=config.speed.progress) as advance:
        for step, part in zip(steps, mine, strict=True):
            session.set_rates()
            loss = session.stepper.take(
                [(number, next(batches), share) for number, _, share in part], f"{config.seed}/{state.step}"
            )
            rows = sum(map(len, step))
            session.count(rows, skipped=loss is None)
            if loss is not None:
                total += loss * rows
            out_of_time = session.out_of_time(epoch_ends=step is steps[-1])
            now, note = time.perf_counter(), ""
            if now - shown_at > SHOW_SECONDS:
                speed, shown_at = (state.rows - rows_before) / (now - began), now
                mean = _finite(state.loss + float(total) * processes.count) / max(1, state.rows)
                note = f"loss {mean:.4f}  {speed:,.0f} rows/s{session.monitor.note()}"
            advance(rows, note)
            save_now = config.training.save_steps and state.step % config.training.save_steps == 0
            if interrupted.is_set() or save_now:
                state.loss = _finite(state.loss + float(processes.sum(total)))
                total.zero_()
                session.save(LAST)
            if interrupted.is_set():
                raise KeyboardInterrupt
            if out_of_time or session.position_ended:
                break
    state.loss = _finite(state.loss + float(processes.sum(total)))
    return out_of_time


def validate(session: Session, valid: Examples) -> dict[str, Any]:
    """Score the weights, keep them where they are the best so far, and return the epoch's record."""
    state, processes = session.state, session.processes
    processes.share(session.scored.buffers())
    prices = predict(
        session.scored,
        valid.inputs,
        session.config.training.eval_batch_size,
        autocast=session.stepper.objective.autocast,
        processes=processes,
    )
    if not np.isfinite(prices).all():
        raise TrainingError(_DIVERGED)
    found = smape(prices, valid.price)
    record = {
        "epoch": state.epoch + 1,
        "step": state.step,
        "loss": state.loss / max(1, state.rows),
        "valid_smape": found,
    }
    rows = state.rows
    state.epoch, state.steps_in_epoch, state.loss, state.rows = state.epoch + 1, 0, 0.0, 0
    if session.config.training.keep == "last" or found < state.best_smape:
        state.best_smape, state.best_epoch = found, state.epoch
        session.save(BEST)
    return record | {"rows": rows}


def finish_epoch(session: Session, record: dict[str, Any], folder: Path, *, out_of_time: bool) -> None:
    """Write the epoch's line in `metrics.jsonl`, say it, and write the checkpoint to resume from."""
    state, training = session.state, session.config.training
    record["learning_rate"] = session.optimizer.param_groups[0]["lr"]
    record["seconds"] = session.elapsed()
    record |= session.monitor.record()
    if session.processes.main:
        _append_line(folder / "metrics.jsonl", record, first=state.epoch == 1)
        tell("epoch_ended", folder=folder, record=record)
    best = "  best" if training.keep == "best" and state.best_epoch == state.epoch else ""
    logger.info(
        f"epoch {state.epoch:>3}  loss {record['loss']:.4f}  validation SMAPE {record['valid_smape']:.2f}{best}"
        f"  {record['rows_per_second']:,.0f} rows/s"
    )
    # Last: a run killed before this repeats what came after the checkpoint, and overwrites its lines.
    if out_of_time or session.finished or state.epoch % training.save_epochs == 0:
        session.save(LAST)


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise TrainingError(_DIVERGED)
    return loss


def _append_line(path: Path, record: dict[str, Any], *, first: bool) -> None:
    """Add one JSON line; lines of an epoch that is being repeated after a kill are dropped."""
    kept = []
    if path.exists() and not first:
        lines = path.read_text("utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["epoch"] < record["epoch"]]
    write_text(path, "\n".join([*kept, json.dumps(record)]) + "\n")
