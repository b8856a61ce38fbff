"""A training in progress: its job, its state and its checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pricekit.config import RunConfig
from pricekit.core.calls import notify, plugin_call
from pricekit.core.contracts import Policy
from pricekit.errors import ConfigError
from pricekit.io.log import logger
from pricekit.nets.network import PriceModel
from pricekit.training.batches import Loader, PricedInputs, plan_epoch, steps_per_epoch
from pricekit.training.checkpoint import (
    BEST,
    LAST,
    EpochResult,
    Parts,
    TrainingState,
    load_checkpoint,
    restore_metrics,
    save_checkpoint,
)
from pricekit.training.guard import SpikeError, check_finite
from pricekit.training.machine import Monitor
from pricekit.training.optimizers import averaged
from pricekit.training.parallel import Processes
from pricekit.training.step import Stepper
from pricekit.training.time_budget import TimeBudget

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
        self.optimizer = job.policy.optimizer(model, training, fused=True)
        self.stepper = Stepper(model, self.optimizer, config, job.precision, device, job.processes.count)
        self.loader = Loader(job.train, config, device, getattr(model.encoder, "prepare_batch", None))
        self.monitor = Monitor(device)
        self.ema = None if training.ema_decay is None else averaged(model, training.ema_decay)
        self.scored_model: nn.Module = model if self.ema is None else self.ema.module
        steps = steps_per_epoch(job.train, config)
        self.time_budget = TimeBudget(training.time_budget, sum(steps), steps[0])
        self.warmup_steps = round(training.warmup_epochs * steps[0])
        self.rates: list[float] = [group["lr"] for group in self.optimizer.param_groups]
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
            factor = self.job.policy.schedule(self.state.position, self.warmup_steps, steps)
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
        """
        self.check_values()
        if self.processes.main:
            path = self.folder / name
            record = asdict(self.state) | {"seconds": self.elapsed()} | self.stepper.state_dict()
            if name == LAST:
                keep = self.config.training.keep_checkpoints
                save_checkpoint(path, self.parts, record, run=self.job.run, keep=keep)
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
