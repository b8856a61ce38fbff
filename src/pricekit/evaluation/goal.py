"""The goal of a training: its metric, the value that its model reached, and that of the best constant price."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.errors import ConfigError
from pricekit.evaluation.held_out import HeldOut
from pricekit.metrics import METRICS, Metric, best_constant, metric_named
from pricekit.support.text import did_you_mean
from pricekit.table import Table

DEFAULT = "smape"


@dataclass(frozen=True)
class Goal:
    """What a model was trained to minimise, and what it reached.

    Attributes:
        metric: the metric.
        score: its value on the held-out rows.
        constant: the value of the best constant price on the same rows.
    """

    metric: Metric
    score: float
    constant: float

    @property
    def missed(self) -> bool:
        """Whether the model is no better than a constant price; never if all prices are equal."""
        return 0 < self.constant <= self.score

    def __str__(self) -> str:
        return f"{self.metric.title} {self.metric.write(self.score)}"


def goal_of(facts: Mapping[str, Any]) -> Goal:
    """Return the goal of a run, an ensemble or a cross-validation from its facts.

    Args:
        facts: the content of `run.json` or `cv.json`.
    """
    metric = metric_named(facts["metric"])
    values = facts["metrics"] if "metrics" in facts else facts["scores"]
    return Goal(metric, values[metric.name], facts["constant_score"])


def constant_score(rows: Table | HeldOut, known: Table | HeldOut, metric: Metric) -> float:
    """Return the score on the prices of `rows` of the constant price that is best for those of `known`."""
    actual, prices = (np.asarray(each.price, np.float64) for each in (rows, known))
    constant = best_constant(prices, metric.name, known.weight)
    return metric(np.full(len(actual), constant), actual, rows.weight)


def metric_of(folders: Iterable[Path], given: str | None = None) -> Metric:
    """Return the metric to judge models by: the one that is given, or that of the first model.

    Args:
        folders: of runs, ensembles, cross-validations or bundles.
        given: the name of a metric.

    Raises:
        ConfigError: there is no metric of that name.
    """
    if given is not None and given not in METRICS:
        raise ConfigError(
            f"there is no metric '{given}'; expected {', '.join(METRICS)}.{did_you_mean(given, METRICS)}",
            parameters=("metric",),
        )
    return metric_named(given or next(map(_metric_in, folders), DEFAULT))


def _metric_in(folder: Path) -> str:
    """Return the name of a model's metric; whoever opens the model reports a damaged file."""
    for name in ("run.json", "cv.json", "manifest.json"):
        try:
            found = json.loads((folder / name).read_text("utf-8")).get("metric", DEFAULT)
        except (OSError, ValueError, AttributeError):
            continue
        return found if found in METRICS else DEFAULT
    return DEFAULT
