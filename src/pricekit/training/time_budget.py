"""The time budget: how a run divides it, and how the schedule moves with each step so that a run ends in time.

It counts from the call of a function, or in a command from the start of the process.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pricekit.io.log import logger

if TYPE_CHECKING:
    from pricekit.config import RunConfig

WARM, CALIBRATED = 2, 12
"""The first WARM steps are slow and not timed; the schedule is fitted from step CALIBRATED on."""

MARGIN = 0.05
"""Share of the budget reserved for unforeseen delays."""

GUESSED_PAUSE = 0.1
"""Assumed duration of a validation with its checkpoints, as a share of an epoch's steps, until one is timed."""

FEATURES = 0.5
"""Part of the time that is left for features that learn from prices, in the first pass."""

AFTERWARDS, AFTERWARDS_OF_PREPARATION = 0.05, 0.15
"""Parts of the budget, and of the time of the preparation, for what comes after the last validation: measuring, writing
and opening the run again. The preparation shows how busy the machine is."""

SECOND_PREPARATION = 0.45
"""The preparation of a second pass as a part of that of the first one, whose out-of-fold columns it takes over."""

LEAST_TRAINING = 0.15
"""A refit is left out if less than this part of the budget is left for both trainings."""

_IMPORTED = time.perf_counter()
_of_process = False


@dataclass
class TimeBudget:
    """Times the optimizer steps, and spreads the schedule over those that fit into the budget.

    Attributes:
        budget: seconds of the whole run; None: no budget.
        total_steps: of the schedule.
        steps_per_epoch: optimizer steps between two validations.
        stride: steps of the schedule per optimizer step: 1 without a budget, else 1 or more.
        step_seconds: mean of the timed optimizer steps.
        pause_seconds: of the last validation with its checkpoints; 0 before the first.
    """

    budget: float | None
    total_steps: int
    steps_per_epoch: int
    stride: float = 1.0
    step_seconds: float = 0.0
    pause_seconds: float = 0.0
    _taken: int = 0
    _last: float | None = None

    def after_step(self, position: float, seconds: float) -> None:
        """Time a step, and spread the rest of the schedule over the steps that still fit.

        Args:
            position: finished steps of the schedule.
            seconds: since the run began.
        """
        if self._last is not None:
            self._taken += 1
            timed = self._taken - WARM if self._taken > WARM else 1
            self.step_seconds += (seconds - self._last - self.step_seconds) / timed
        self._last = seconds
        if self.budget is not None and self._taken >= CALIBRATED:
            left = self.budget * (1 - MARGIN) - seconds - self._ending
            steps = math.floor(left / self._seconds_per_step)
            self.stride = max(1.0, (self.total_steps - position) / max(1, steps))

    def after_pause(self, pause_seconds: float, seconds: float) -> None:
        """Record the duration of a validation with its checkpoints, and the seconds since the run began."""
        self.pause_seconds, self._last = pause_seconds, seconds

    def must_stop(self, seconds: float, *, epoch_ends: bool = False) -> bool:
        """Return whether one more step would leave too little of the budget to validate and save.

        Args:
            seconds: since the run began.
            epoch_ends: whether a validation comes before that step.
        """
        between = self.pause if epoch_ends else 0.0
        return self.budget is not None and seconds + between + self.step_seconds + self._ending > self.budget

    def remaining_seconds(self, position: float, later_steps: float = 0.0) -> float:
        """Return the estimated seconds of the rest of the schedule, validations included.

        Args:
            position: finished steps of the schedule.
            later_steps: of a second pass.
        """
        steps = (self.total_steps - position + later_steps) / self.stride
        return steps * self._seconds_per_step + self._ending

    @property
    def just_calibrated(self) -> bool:
        """Whether the last step is the first after which the estimates can be relied on."""
        return self._taken == CALIBRATED

    @property
    def pause(self) -> float:
        """The seconds of a validation with its checkpoints: of the last one, or guessed before the first."""
        return self.pause_seconds or GUESSED_PAUSE * self.step_seconds * self.steps_per_epoch

    @property
    def _seconds_per_step(self) -> float:
        return self.step_seconds + self.pause / self.steps_per_epoch

    @property
    def _ending(self) -> float:
        """The last validation, and scoring the best weights, which takes about as long."""
        return 2 * self.pause


def feature_seconds(config: RunConfig, started: float) -> float | None:
    """Return how long features that learn from prices may take; None without a time budget.

    Args:
        config: of the run.
        started: `time.perf_counter()` when the run began.
    """
    budget = config.training.time_budget
    if budget is None:
        return None
    return FEATURES * max(0.0, budget - (time.perf_counter() - started))


def training_ends(budget: float | None, preparation: float) -> float | None:
    """Return the seconds after which the last validation must be over; None without a time budget.

    Args:
        budget: seconds of the whole run.
        preparation: seconds of the preparation.
    """
    if budget is None:
        return None
    return max(0.0, budget * (1 - AFTERWARDS) - AFTERWARDS_OF_PREPARATION * preparation)


def first_pass_ends(
    budget: float | None, started: float, preparation: float, share: float
) -> tuple[float | None, bool]:
    """Return the seconds after which the first of two passes must be over, and whether a second one fits.

    Args:
        budget: seconds of the whole run; None: no budget.
        started: `time.perf_counter()` when the run began.
        preparation: seconds of the preparation of the first pass.
        share: the part of the training time of both passes that the first one has.
    """
    end = training_ends(budget, preparation)
    if budget is None or end is None:
        return None, True
    elapsed = time.perf_counter() - started
    # Between the passes the first one is measured, too.
    between = (SECOND_PREPARATION + AFTERWARDS_OF_PREPARATION) * preparation
    room = end - elapsed - between
    if room >= LEAST_TRAINING * budget:
        return elapsed + share * room, True
    logger.warning(
        "the time budget is too short for a refit: the preparation alone takes a large part of it; the model is "
        "trained on the training rows only. Give more time, or train without the refit"
    )
    return end, False


def count_from_process_start() -> None:
    """Let time budgets count from the start of this process, as the user of a command expects."""
    global _of_process
    _of_process = True


def began() -> float:
    """Return when the work began, in seconds of `time.perf_counter()`: now, or the start of a command."""
    now = time.perf_counter()
    return now - process_age() if _of_process else now


def process_age() -> float:
    """Return the seconds since this process started, or where the system does not tell, since pricekit was imported.

    Source: proc(5), the fields `starttime` of /proc/self/stat and `uptime` of /proc/uptime.
    """
    try:
        fields = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, float(Path("/proc/uptime").read_text("utf-8").split()[0]) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.perf_counter() - _IMPORTED
