"""How long models take to price one row, and which of them an ensemble may have."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pricekit.evaluation.held_out import HeldOut
from pricekit.metrics import Metric
from pricekit.runs.opened import open_run, read_sample
from pricekit.support.log import logger
from pricekit.support.text import milliseconds
from pricekit.workflows.weights import choose_weights

CALLS, WARM_UP = 30, 5
"""Rows of the sample that are priced one by one, and those before them that are not timed."""


def seconds_per_row(run: Path) -> float:
    """Return the median time that a run needs to price one row alone, in seconds, in torch on this machine.

    A bundle of the same model is usually faster.

    Args:
        run: the folder of a finished run.
    """
    opened = open_run(run)
    rows, predictor = read_sample(opened), opened.predictor()
    seconds = []
    for number in range(WARM_UP + CALLS):
        row = rows.take(np.array([number % len(rows)]))
        began = time.perf_counter()
        predictor.predict(row)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[WARM_UP:]))


def warn_if_slow(run: Path, limit: float | None) -> None:
    """Warn if a run needs longer for one row than it may."""
    if limit is None:
        return
    seconds = seconds_per_row(run)
    if seconds > limit:
        logger.warning(
            f"a row may take {milliseconds(limit)}, and the model needs {milliseconds(seconds)} in torch on this "
            "machine; leave features out, or choose a smaller encoder"
        )


def choose_within(
    predicted: np.ndarray, rows: HeldOut, metric: Metric, seconds: Sequence[float], limit: float
) -> list[int]:
    """Return the positions of models that together price a row within a limit, ascending.

    Models are added one by one, each time the one with which the ensemble has the lowest metric (Caruana et al. 2004,
    Ensemble selection from libraries of models), while it becomes lower. If no model is quick enough, the quickest one
    is chosen, with a warning.

    Args:
        predicted: prices of each model for held-out rows, float64 (N, M).
        rows: with the true prices and the folds.
        metric: to minimise.
        seconds: of each model for one row, M of them.
        limit: in seconds.

    Example:
        >>> from pricekit.metrics import SMAPE
        >>> choose_within(np.ones((2, 2)), None, SMAPE, [0.01, 0.02], 0.001)
        [0]
    """
    if min(seconds) > limit:
        quickest = int(np.argmin(seconds))
        needed = milliseconds(min(seconds))
        logger.warning(
            f"a row may take {milliseconds(limit)}, and the quickest model needs {needed} for it: the ensemble is this "
            "model alone. Allow more time, leave features out, or choose a smaller encoder"
        )
        return [quickest]
    chosen: list[int] = []
    best = np.inf
    while True:
        left = limit - sum(seconds[model] for model in chosen)
        scores = {
            model: _score(predicted[:, [*chosen, model]], rows, metric)
            for model in range(len(seconds))
            if model not in chosen and seconds[model] <= left
        }
        if not scores or min(scores.values()) >= best:
            return sorted(chosen)
        model = min(scores, key=lambda each: scores[each])
        best = scores[model]
        chosen.append(model)


def _score(predicted: np.ndarray, rows: HeldOut, metric: Metric) -> float:
    return metric(choose_weights(predicted, rows, metric)[1], rows.price, rows.weight)
