"""What `evaluate` and `cv` say of predicted prices: metrics, their spread over folds, an interval, groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pricekit.evaluation.bootstrap import mean_interval
from pricekit.evaluation.groups import group_scores, groupings_of
from pricekit.evaluation.held_out import HeldOut
from pricekit.metrics import price_metrics, smape_terms


@dataclass(frozen=True)
class Scores:
    """How good the predictions of some rows are.

    Attributes:
        rows: how many.
        metrics: over all rows, see `price_metrics`.
        interval: of SMAPE, the 95% bootstrap interval; None without scipy or of too few rows.
        folds: metrics of each fold, (F, metrics), ordered by fold.
        groups: see `group_scores`.
    """

    rows: int
    metrics: dict[str, float]
    interval: tuple[float, float] | None
    folds: pd.DataFrame
    groups: pd.DataFrame

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain numbers; mean and sd only where there is more than one fold."""
        found: dict[str, Any] = {"rows": self.rows, **self.metrics}
        if self.interval is not None:
            found["smape_interval"] = list(self.interval)
        if len(self.folds) > 1:
            mean, sd = mean_and_sd(self.folds)
            found |= {"folds": len(self.folds), "mean": mean, "sd": sd}
        return {**found, "groups": self.groups.to_dict("records")}


def scores_of(held_out: HeldOut) -> Scores:
    """Score the predictions of held-out rows, at least one."""
    return Scores(
        rows=len(held_out),
        metrics=price_metrics(held_out.predicted, held_out.price),
        interval=smape_interval(held_out),
        folds=fold_metrics(held_out),
        groups=group_scores(groupings_of(held_out), held_out.predicted, held_out.price),
    )


def fold_metrics(held_out: HeldOut) -> pd.DataFrame:
    """Return the metrics of each fold, (F, metrics), ordered by fold."""
    rows = {}
    for fold in np.unique(held_out.fold):
        inside = held_out.fold == fold
        rows[int(fold)] = price_metrics(held_out.predicted[inside], held_out.price[inside])
    return pd.DataFrame.from_dict(rows, orient="index")


def mean_and_sd(folds: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """Return the mean and the standard deviation (of F - 1) over at least two folds, by metric.

    A metric that is not defined in some fold is left out.
    """
    defined = folds.dropna(axis="columns")
    return _floats(defined.mean()), _floats(defined.std(ddof=1))


def smape_interval(held_out: HeldOut) -> tuple[float, float] | None:
    """Return the 95% bootstrap interval of SMAPE; None where scipy is absent, or of too few rows."""
    try:
        return mean_interval(smape_terms(held_out.predicted, held_out.price))
    except ModuleNotFoundError:
        return None


def _floats(values: pd.Series) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}
