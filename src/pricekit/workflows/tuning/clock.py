"""The time of a search: how much of the budget is left for trials, and what the models at the end will take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pricekit.support.text import duration

AT_END = 0.02
"""Part of the budget for scoring and writing the result."""


@dataclass(frozen=True)
class Clock:
    """The time of a search.

    Attributes:
        began: `time.time()` when the search began, which several processes share.
        budget: its seconds.
        models: how long the two models at the end take, as a multiple of the folds of a trial with their settings.
    """

    began: float
    budget: float
    models: float

    def left(self) -> float:
        """Return the seconds of the budget that are left."""
        return self.began + self.budget - time.time()

    def ends(self, base: float | None, slowest: float) -> float:
        """Return when trials must end, as `time.time()`.

        Args:
            base: seconds of the trial of the configuration that the search starts from; None: it is not finished.
            slowest: seconds of the slowest finished trial.
        """
        reserved = AT_END * self.budget + (0.0 if base is None else self.models * (base + slowest))
        return self.began + self.budget - reserved

    def least_budget(self, trial: float) -> str:
        """Return, as a text, the least budget that makes sense if a trial takes this many seconds: for four trials."""
        return duration((4 * trial + 2 * self.models * trial) / (1 - AT_END))
