"""The time of a search: how much of the budget is left for trials, and what the models at the end will take."""

from __future__ import annotations

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
        models: how long a model at the end takes, as a multiple of a trial with its settings.
    """

    began: float
    budget: float
    models: float

    def ends(self, trials: float) -> float:
        """Return when trials must end, as `time.time()`.

        Args:
            trials: seconds of the two trials whose models are trained at the end; 0 if they are not known yet.
        """
        return self.began + self.budget * (1 - AT_END) - self.models * trials

    def least_budget(self, trial: float) -> str:
        """Return, as a text, the least budget that makes sense if a trial takes this many seconds: for four trials."""
        return duration((4 * trial + 2 * self.models * trial) / (1 - AT_END))
