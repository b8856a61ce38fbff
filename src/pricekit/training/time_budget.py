"""The time budget, which moves the schedule with each optimizer step so that a run ends in time."""

from __future__ import annotations

import math
from dataclasses import dataclass

WARM, CALIBRATED = 2, 12
"""The first WARM steps are slow and not timed; the schedule is fitted from step CALIBRATED on."""

MARGIN = 0.05
"""Share of the budget reserved for unforeseen delays."""

GUESSED_PAUSE = 0.1
"""Assumed duration of a validation with its checkpoints, as a share of an epoch's steps, until one is timed."""


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
