"""The pace: how far each optimizer step moves the schedule, so that a run fits its time budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

WARM, CALIBRATED = 2, 12
"""The first steps warm the machine up; the time of those from WARM to CALIBRATED sets the first pace."""

MARGIN = 0.05
"""Share of the budget kept back for what cannot be foreseen."""


@dataclass
class Pace:
    """Steps of the schedule that each optimizer step counts for: 1 without a budget, else 1 or more.

    Attributes:
        budget: seconds of the whole run; None: no budget.
        total_steps: of the schedule.
        steps_per_epoch: optimizer steps between two validations.
        stride: steps of the schedule for one of the optimizer.
        step_seconds: measured, of one optimizer step.
        pause_seconds: of one validation with its checkpoints; guessed until it was measured.
    """

    budget: float | None
    total_steps: int
    steps_per_epoch: int
    stride: float = 1.0
    step_seconds: float = 0.0
    pause_seconds: float = 0.0
    _warm_at: float = 0.0

    def after_step(self, taken: int, position: float, seconds: float) -> None:
        """Calibrate after the first steps of the process.

        Args:
            taken: optimizer steps that this process has taken.
            position: steps of the schedule that are done.
            seconds: of the budget that are used up.
        """
        if self.budget is None or taken not in (WARM, CALIBRATED):
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if taken == WARM:
            self._warm_at = seconds
            return
        self.step_seconds = (seconds - self._warm_at) / (CALIBRATED - WARM)
        self.pause_seconds = self.pause_seconds or 0.1 * self.step_seconds * self.steps_per_epoch
        self.fit(position, seconds)

    def fit(self, position: float, seconds: float) -> None:
        """Spread what is left of the schedule over the steps that the rest of the budget has room for."""
        if self.budget is None or not self.step_seconds:
            return
        left = self.budget * (1 - MARGIN) - seconds - self.pause_seconds
        steps = math.floor(left / (self.step_seconds + self.pause_seconds / self.steps_per_epoch))
        self.stride = max(1.0, (self.total_steps - position) / max(1, steps))

    def must_stop(self, seconds: float) -> bool:
        """Say whether one more step would leave too little of the budget to validate and save."""
        return (
            self.budget is not None and seconds + self.step_seconds + 1.5 * self.pause_seconds > self.budget
        )
