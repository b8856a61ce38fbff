"""What a training in progress consists of, and where it stands."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from pricekit.config import RunConfig
from pricekit.core.contracts import Policy
from pricekit.core.events import tell
from pricekit.core.guard import guarded
from pricekit.errors import ConfigError
from pricekit.model.network import PriceModel
from pricekit.optim.adamw import sparse_embeddings
from pricekit.optim.average import averaged
from pricekit.training.batches import Examples, epoch_batches, steps_of
from pricekit.training.checkpoint import LAST, load_checkpoint, save_checkpoint
from pricekit.training.loader import Loader
from pricekit.training.machine import choose_precision
from pricekit.training.monitor import Monitor
from pricekit.training.processes import Processes
from pricekit.training.step import Stepper
from pricekit.training.time_budget import TimeBudget


@dataclass
class TrainingState:
    """Where training stands: what a checkpoint holds beside tensors.

    Attributes:
        epoch: epochs that are finished.
        steps_in_epoch: optimizer steps of the epoch under way.
        step: optimizer steps in all.
        position: steps of the schedule; under a time budget more than `step`.
        best_smape: lowest validation SMAPE so far.
        best_epoch: the epoch that had it.
        seconds: that training has taken, all resumed processes together.
        loss: of the epoch under way, summed over rows.
        rows: of the epoch under way.
        parts: pieces that a micro-batch is cut into since memory ran out.
        skipped: steps in a row that loss scaling skipped.
        precision: of the matrix products.
    """

    epoch: int = 0
    steps_in_epoch: int = 0
    step: int = 0
    position: float = 0.0
    best_smape: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    rows: int = 0
    parts: int = 1
    skipped: int = 0
    precision: str = ""


@dataclass
class Session:
    """A training in progress."""

    model: PriceModel
    policy: Policy
    config: RunConfig
    folder: Path | None
    lengths: np.ndarray
    processes: Processes
    optimizer: torch.optim.Optimizer
    stepper: Stepper
    loader: Loader
    monitor: Monitor
    ema: AveragedModel | None
    time_budget: TimeBudget
    warmup_steps: int
    state: TrainingState
    began: float
    rates: list[float] = field(default_factory=list)

    def steps_left(self) -> list[tuple[np.ndarray, ...]]:
        """Return what is left of the epoch under way: optimizer steps, each as micro-batches of row numbers."""
        if self.position_ended:
            return []
        return plan_epoch(self.lengths, self.config, self.state.epoch)[self.state.steps_in_epoch :]

    @property
    def rows(self) -> int:
        """The number of training rows."""
        return len(self.lengths)

    @property
    def epochs(self) -> int:
        """How many epochs there are; `auto` has been settled by the rows."""
        return int(self.config.training.epochs)

    @property
    def scored(self) -> nn.Module:
        """The model that is validated and kept: the average of the weights where there is one."""
        return self.model if self.ema is None else self.ema.module

    @property
    def position_ended(self) -> bool:
        """Whether the schedule is done."""
        return self.state.position >= self.time_budget.total_steps

    @property
    def finished(self) -> bool:
        """Whether the epochs or the schedule are done or patience ran out, and the last epoch is validated."""
        state, training = self.state, self.config.training
        patient = training.patience is None or state.epoch - state.best_epoch < training.patience
        done = state.epoch >= self.epochs or self.position_ended or not patient
        return done and state.steps_in_epoch == 0

    def elapsed(self) -> float:
        """Return the seconds of training so far, those of the processes before this one included."""
        return self.state.seconds + time.perf_counter() - self.began

    def out_of_time(self, *, epoch_ends: bool) -> bool:
        """Say whether the time budget allows no further step; `epoch_ends`: a validation comes before it."""
        if self.time_budget.budget is None:
            return False
        seconds = self.processes.agreed(self.elapsed())
        self.time_budget.after_step(self.state.position, seconds)
        last = self.position_ended or self.state.epoch + 1 >= self.epochs
        return self.time_budget.must_stop(seconds, epoch_ends=epoch_ends and not last)

    def after_pause(self, pause_seconds: float) -> None:
        """Tell the pace how long validation and checkpoints took."""
        agreed = self.processes.agreed
        self.time_budget.after_pause(agreed(pause_seconds), agreed(self.elapsed()))

    def set_rates(self) -> None:
        """Give each parameter group its learning rate for the next step."""
        with guarded("policy", self.config.policy.name, "giving the learning rate of a step"):
            factor = self.policy.schedule(
                self.state.position, self.warmup_steps, self.time_budget.total_steps
            )
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            group["lr"] = rate * factor

    def count(self, rows: int, *, skipped: bool) -> None:
        """Count a step; one that was skipped moves neither the rows, nor the schedule, nor the average."""
        state = self.state
        state.step, state.steps_in_epoch = state.step + 1, state.steps_in_epoch + 1
        if not skipped:
            state.rows += rows
            state.position = min(self.time_budget.total_steps, state.position + self.time_budget.stride)
            if self.ema is not None:
                self.ema.update_parameters(self.model)

    def save(self, name: str) -> None:
        """Write a checkpoint: all that it takes to go on, or for the best one the scored weights alone."""
        if self.processes.main and self.folder is not None:
            record = asdict(self.state) | {"seconds": self.elapsed()} | self.stepper.state()
            if name == LAST:
                save_checkpoint(
                    self.folder / name, self.model, self.optimizer, record, self.ema, self.stepper.scaler
                )
            else:
                save_checkpoint(self.folder / name, self.scored, None, record)
            tell("checkpoint_saved", folder=self.folder, path=self.folder / name)
        self.processes.wait()


def start_session(
    model: PriceModel,
    policy: Policy,
    config: RunConfig,
    train: Examples,
    folder: Path | None,
    *,
    resume: bool = False,
    started: float | None = None,
) -> Session:
    """Put the model on its device and make what trains it; see `fit` for the arguments.

    Without a folder nothing is written and nothing can be resumed.
    """
    began = time.perf_counter() if started is None else started
    processes, training, speed = Processes(), config.training, config.speed
    precision = choose_precision(speed, processes.device)
    model.to(processes.device)
    prepare_encoder(model, config)
    if processes.count > 1 and processes.device.type == "cuda" and sparse_embeddings(model):
        raise ConfigError(
            f"the backbone '{config.backbone.name}' has embeddings with sparse gradients, which several GPUs cannot "
            "exchange; train it in one process, without accelerate launch: it is small"
        )
    optimizer = policy.optimizer(model, training, fused=speed.fused_optimizer)
    rates = [group["lr"] for group in optimizer.param_groups]
    ema = None if training.ema_decay is None else averaged(model, training.ema_decay)
    stepper = Stepper(model, optimizer, config, precision, processes.device, processes.count)
    state = TrainingState()
    if resume and folder is not None:
        state = TrainingState(**load_checkpoint(folder / LAST, model, optimizer, ema, stepper.scaler))
        stepper.restore(state.parts, state.skipped, state.precision)
    lengths = train.inputs.tokens.lengths
    first = len(plan_epoch(lengths, config, 0))
    session = Session(
        *(model, policy, config, folder, lengths, processes, optimizer, stepper),
        Loader(train, config, processes.device),
        Monitor(processes.device),
        ema,
        TimeBudget(training.time_budget, _total_steps(lengths, config, first), first),
        warmup_steps=round(training.warmup_epochs * first),
        state=state,
        began=began,
        rates=rates,
    )
    if not resume:
        session.save(LAST)
    session.after_pause(0.0)
    return session


def plan_epoch(lengths: np.ndarray, config: RunConfig, epoch: int) -> list[tuple[np.ndarray, ...]]:
    """Return the optimizer steps of an epoch, each as micro-batches of row numbers."""
    multiple = config.speed.length_multiple
    padded = -(-lengths // multiple) * multiple
    batches = epoch_batches(padded, config.training, config.speed.sort_window, config.seed, epoch)
    return steps_of(batches, config.training)


def _total_steps(lengths: np.ndarray, config: RunConfig, first: int) -> int:
    """Return the optimizer steps of all epochs; only a token budget makes their numbers differ."""
    epochs = int(config.training.epochs)
    if config.training.batch_tokens is None:
        return epochs * first
    return sum(len(plan_epoch(lengths, config, epoch)) for epoch in range(epochs))


def prepare_encoder(model: PriceModel, config: RunConfig) -> None:
    """Switch checkpointing and compilation on where they are asked for; raises ConfigError."""
    encoder = model.encoder
    if config.speed.gradient_checkpointing:
        enable = getattr(encoder, "gradient_checkpointing_enable", None)
        if enable is None:
            raise ConfigError(
                f"speed.gradient_checkpointing is true, but the backbone '{config.backbone.name}' has no layers to "
                "checkpoint; use --set speed.gradient_checkpointing=false"
            )
        enable()
    if config.speed.compile:
        encoder.compile()
