"""A training in progress, with its state and checkpoints; the loop: epochs of optimizer steps, each then validated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pricekit.config import RunConfig
from pricekit.core.calls import notify, plugin_call
from pricekit.errors import ConfigError
from pricekit.io.interrupts import defer_interrupts
from pricekit.io.log import logger
from pricekit.io.progress import Advance, progress
from pricekit.io.record import advance_to
from pricekit.metrics import metric_named
from pricekit.nets.inference import predict
from pricekit.nets.network import PriceModel
from pricekit.training.batches import Loader, PricedInputs, micro_batches, plan_epoch, steps_per_epoch
from pricekit.training.checkpoint import (
    BEST,
    LAST,
    EpochResult,
    Parts,
    TrainingState,
    load_checkpoint,
    restore_metrics,
    save_checkpoint,
    write_metrics,
)
from pricekit.training.guard import SpikeError, check_finite, spike
from pricekit.training.machine import Monitor, describe, fast_math, torch_threads
from pricekit.training.optimizers import averaged
from pricekit.training.parallel import Processes
from pricekit.training.policies import Policy, rate_factor
from pricekit.training.step import Stepper, random_seed
from pricekit.training.time_budget import TimeBudget
from pricekit.wording import counted, duration

SPIKE_FACTOR = 0.5
"""Of the learning rate after a spike."""


@dataclass(frozen=True)
class Stage:
    """The place of a training in a run of two passes; the default is that of a run of one.

    Attributes:
        run_folder: the folder that the hooks receive; None means the folder of this training.
        earlier_steps: optimizer steps of the pass before.
        earlier_seconds: training time of other processes, which is in no checkpoint of this training.
        later_steps: optimizer steps of the pass that follows, at most.
        history: the lines of `metrics.jsonl` of the pass before.
    """

    run_folder: Path | None = None
    earlier_steps: float = 0.0
    earlier_seconds: float = 0.0
    later_steps: float = 0.0
    history: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Job:
    """The model to train, its rows and its settings.

    Attributes:
        model: the model, with its constants fitted.
        policy: the policy, which provides the optimizer and the schedule.
        config: the configuration of the run; `training.epochs` is a number.
        train: rows to train on.
        valid: rows to validate on; None: epochs are not validated, and the last weights are kept.
        processes: the processes that train together.
        precision: the precision of matrix products: fp32, bf16 or fp16.
        run: the id of the run; its checkpoints store it.
        stage: the place of this training in its run.
        watch: called with the result of each epoch; an exception that it raises ends the training.
    """

    model: PriceModel
    policy: Policy
    config: RunConfig
    train: PricedInputs
    valid: PricedInputs | None
    processes: Processes
    precision: str
    run: str = ""
    stage: Stage = Stage()
    watch: Callable[[EpochResult], None] | None = None


class Session:
    """A training in progress: the model on its device, and the objects that train it.

    Args:
        job: the model to train, its rows and its settings.
        folder: the folder of the run.
        began: `time.perf_counter()` when the run began.

    Attributes:
        run_folder: the folder that the hooks receive.
        shows_progress: whether this process shows progress bars.
        epochs: the maximum number of epochs.
        optimizer: the optimizer of the model's parameters.
        stepper: takes the optimizer steps.
        loader: makes the batches.
        monitor: observes the GPU.
        ema: moving average of the weights, if the settings enable it.
        scored_model: the model to validate and keep: the moving average if there is one.
        time_budget: times the steps and moves the schedule.
        warmup_steps: warmup steps of the schedule.
        rates: peak learning rate of each parameter group.
        state: the progress of the training.
        checked: the last step after which all values were finite.

    Raises:
        ConfigError: the encoder does not support the settings.
    """

    def __init__(self, job: Job, folder: Path, began: float) -> None:
        self.job, self.folder, self.began = job, folder, began
        self.config, self.processes = job.config, job.processes
        self.run_folder = job.stage.run_folder or folder
        self.shows_progress = job.config.speed.progress and job.processes.main
        self.epochs = int(job.config.training.epochs)
        model, config = job.model, job.config
        training, device = config.training, job.processes.device
        model.to(device)
        prepare_encoder(model, config)
        with plugin_call("policy", config.policy.name, "making its optimizer"):
            self.optimizer = job.policy.optimizer(model, training, fused=True)
            self.rates: list[float] = [group["lr"] for group in self.optimizer.param_groups]
        self.stepper = Stepper(model, self.optimizer, config, job.precision, device, job.processes.count)
        self.loader = Loader(job.train, config, device, getattr(model.encoder, "prepare_batch", None))
        self.monitor = Monitor(device)
        with plugin_call("backbone", config.backbone.name, "copying its encoder for the average of weights"):
            self.ema = None if training.ema_decay is None else averaged(model, training.ema_decay)
        self.scored_model: nn.Module = model if self.ema is None else self.ema.module
        steps = steps_per_epoch(job.train, config)
        self.time_budget = TimeBudget(training.time_budget, sum(steps), steps[0])
        self.warmup_steps = round(training.warmup_epochs * steps[0])
        history = [dict(line) for line in job.stage.history]
        self.state = TrainingState(seconds=job.stage.earlier_seconds, history=history)
        self.checked = -1

    @property
    def parts(self) -> Parts:
        """What a checkpoint to resume from stores, besides the state."""
        return Parts(self.job.model, self.optimizer, self.ema, self.stepper.scaler)

    @property
    def schedule_ended(self) -> bool:
        """Whether the schedule has no steps left."""
        return self.state.position >= self.time_budget.total_steps

    @property
    def finished(self) -> bool:
        """Whether the epochs, the schedule or patience ended, and the last epoch is validated."""
        state, patience = self.state, self.config.training.patience
        impatient = patience is not None and state.epoch - state.best_epoch >= patience
        ended = state.epoch >= self.epochs or self.schedule_ended or impatient
        return ended and state.steps_in_epoch == 0

    def remaining_steps(self) -> list[tuple[np.ndarray, ...]]:
        """Return the remaining optimizer steps of this epoch, each as micro-batches of row numbers."""
        if self.schedule_ended:
            return []
        return plan_epoch(self.job.train, self.config, self.state.epoch)[self.state.steps_in_epoch :]

    def elapsed(self) -> float:
        """Return the seconds of training so far, earlier processes of a resumed run included."""
        return self.state.seconds + time.perf_counter() - self.began

    def out_of_time(self, *, epoch_ends: bool) -> bool:
        """Time the last step; return whether the time budget allows no further one.

        Args:
            epoch_ends: whether a validation comes before the next step.
        """
        limited = self.time_budget.budget is not None
        seconds = self.processes.from_main(self.elapsed()) if limited else self.elapsed()
        self.time_budget.after_step(self.state.position, seconds)
        last = self.schedule_ended or self.state.epoch + 1 >= self.epochs
        return self.time_budget.must_stop(seconds, epoch_ends=epoch_ends and not last)

    def after_pause(self, pause_seconds: float) -> None:
        """Report the duration of a validation with its checkpoints to the time budget."""
        from_main = self.processes.from_main
        self.time_budget.after_pause(from_main(pause_seconds), from_main(self.elapsed()))

    def set_rates(self) -> None:
        """Set the learning rate of each parameter group for the next step."""
        steps = self.time_budget.total_steps
        with plugin_call("policy", self.config.policy.name, "giving the learning rate of a step"):
            factor = rate_factor(self.job.policy, self.state.position, self.warmup_steps, steps)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            group["lr"] = rate * factor * self.state.rate_factor

    def count_step(self, rows: int, *, skipped: bool) -> None:
        """Count an optimizer step; a skipped one changes neither the row count, nor the schedule, nor the average."""
        state = self.state
        state.step, state.steps_in_epoch = state.step + 1, state.steps_in_epoch + 1
        if not skipped:
            state.rows += rows
            state.position = min(self.time_budget.total_steps, state.position + self.time_budget.stride)
            if self.ema is not None:
                self.ema.update_parameters(self.job.model)

    def end_epoch(self, result: EpochResult) -> None:
        """Begin the next epoch; save the weights if they are the best so far, or if the last ones are to be kept."""
        state = self.state
        state.epoch, state.steps_in_epoch, state.loss, state.rows = result.epoch, 0, 0.0, 0
        score = math.inf if result.valid_score is None else result.valid_score
        if self.job.valid is None or self.config.training.keep == "last" or score < state.best_score:
            state.best_score, state.best_epoch = score, state.epoch
            self.save(BEST)

    def save(self, name: str) -> None:
        """Write a checkpoint: LAST contains everything that a resumed run needs, BEST only the scored weights.

        Raises:
            TrainingError: the file cannot be written, or a value is not finite.
            PluginError: a checkpoint cannot store the optimizer's state.
        """
        self.check_values()
        if self.processes.main:
            path = self.folder / name
            record = asdict(self.state) | {"seconds": self.elapsed()} | self.stepper.state_dict()
            if name == LAST:
                keep = self.config.training.keep_checkpoints
                try:
                    save_checkpoint(path, self.parts, record, run=self.job.run, keep=keep)
                except (TypeError, ValueError, RuntimeError):  # of a value that no checkpoint can hold
                    with plugin_call("policy", self.config.policy.name, "saving the state of its optimizer"):
                        raise
            else:
                del record["history"]
                save_checkpoint(path, Parts(self.scored_model), record, run=self.job.run)
            notify("checkpoint_saved", folder=self.run_folder, path=path)
        self.processes.wait()

    def check_values(self) -> None:
        """Raise SpikeError if a gradient, a weight, an average or the optimizer's state is not finite."""
        self.stepper.guard.read()
        if self.checked != self.state.step:
            check_finite(self.state.step, self.job.model, self.ema, self.optimizer, self.config)
            self.checked = self.state.step

    def load(self, path: Path) -> None:
        """Continue from a checkpoint; raises TrainingError."""
        record = load_checkpoint(path, self.parts, run=self.job.run)
        for field in fields(TrainingState):
            setattr(self.state, field.name, record[field.name])
        self.stepper.load_state_dict(record)

    def retry(self, error: SpikeError) -> None:
        """Return to the last checkpoint at half the learning rate, once; otherwise raise `error`."""
        if not self.config.training.retry_after_spike or self.state.rate_factor != 1.0:
            raise error
        self.state.seconds, self.began = self.elapsed(), time.perf_counter()
        seconds, best, best_score = self.state.seconds, self.state.best_epoch, self.state.best_score
        self.stepper.guard.unread.clear()
        self.optimizer.zero_grad(set_to_none=True)
        self.load(self.folder / LAST)
        self.state.seconds, self.state.rate_factor = seconds, SPIKE_FACTOR
        self.state.best_epoch, self.state.best_score = best, best_score  # as in best.safetensors
        logger.warning(
            f"{str(error).partition('. Train again')[0]}. Training returns to step {self.state.step}, once, at half "
            "the learning rate"
        )
        self.save(LAST)


def start_session(job: Job, folder: Path, *, resume: bool, started: float) -> Session:
    """Start a training, or continue it from the last checkpoint.

    Args:
        job: the model to train, its rows and its settings.
        folder: the folder of the run.
        resume: continue from the folder's last checkpoint.
        started: `time.perf_counter()` when the run began.

    Raises:
        ConfigError: the encoder does not support the settings.
        TrainingError: the checkpoint cannot be read or written.
    """
    session = Session(job, folder, started)
    if resume:
        session.load(folder / LAST)
        state = session.state
        best_ended = state.best_epoch == state.epoch > 0 and state.steps_in_epoch == 0
        if best_ended and not (folder / BEST).exists():
            session.save(BEST)
        if job.processes.main:
            restore_metrics(folder, state)
    else:
        session.save(LAST)
    session.after_pause(0.0)
    return session


def prepare_encoder(model: PriceModel, config: RunConfig) -> None:
    """Enable gradient checkpointing and compilation if the settings say so; raises ConfigError."""
    encoder = model.encoder
    if config.speed.gradient_checkpointing:
        enable = getattr(encoder, "gradient_checkpointing_enable", None)
        if enable is None:
            raise ConfigError(
                f"speed.gradient_checkpointing is true, but the backbone '{config.backbone.name}' has no layers to "
                "checkpoint; set it to false",
                parameters=("settings",),
                setting="speed.gradient_checkpointing",
            )
        enable()
    if config.speed.compile:
        encoder.compile()


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
    job.processes.wait()  # the first one may move the files next
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
