"""The choice between the best trial and the configuration that the search started from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.evaluation.comparison import BETTER, verdict_of
from pricekit.evaluation.scores import score_interval
from pricekit.metrics import Metric
from pricekit.table import Table
from pricekit.workflows.tuning.study import BASE, base_trial, best_trial
from pricekit.workflows.tuning.trial import Task, read_prices

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class Difference:
    """The difference of two models on the same rows.

    Attributes:
        score: of the new model.
        base: of the other one.
        interval: 95% interval of the difference by the paired bootstrap; None with too few rows.
        verdict: "better", "worse" or "cannot tell".
    """

    score: float
    base: float
    interval: tuple[float, float] | None
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        interval = None if self.interval is None else list(self.interval)
        return {"tuned": self.score, "default": self.base, "interval": interval, "verdict": self.verdict}


def difference(metric: Metric, table: Table, prices: np.ndarray, base: np.ndarray) -> Difference:
    """Compare the prices of two models for the same rows.

    Args:
        metric: by which to compare.
        table: the N rows.
        prices: of the new model, (N,).
        base: of the other one, (N,).
    """
    weights = metric.weights(table.known_price, table.weight)
    terms, minus = (metric.terms(each, table.known_price) for each in (prices, base))
    interval = score_interval(metric, weights, terms, minus)
    score, other = (float(metric.combine(each, weights)) for each in (terms, minus))
    return Difference(score, other, interval, verdict_of(interval))


def choose(task: Task, study: Study, metric: Metric) -> tuple[FrozenTrial, Difference | None]:
    """Return the chosen trial, and how the best one differs from the base on the rows of the folds.

    The best trial is chosen only if it is better than the base beyond chance. The best of many equally good ones looks
    better than it is, so a smaller difference is none.

    Args:
        task: the search.
        study: with the finished trial of the base.
        metric: of the search.
    """
    base, best = base_trial(study), best_trial(study)
    assert base is not None
    if BASE in best.user_attrs:
        return base, None
    scored = np.flatnonzero(task.rows.plan.fold >= 0)
    found, other = (read_prices(task.folder, trial.number)[scored] for trial in (best, base))
    result = difference(metric, task.rows.plan.table.take(scored), found, other)
    return (best if result.verdict == BETTER else base), result
