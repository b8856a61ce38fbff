"""Which of several models is better, on the rows that none of them was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.bootstrap import MIN_ROWS, mean_interval
from pricekit.evaluation.held_out import HeldOut
from pricekit.evaluation.scores import fold_metrics, mean_and_sd
from pricekit.metrics import smape_terms

BETTER, WORSE, UNKNOWN = "better", "worse", "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """One model beside the first, on the rows that all hold out.

    Attributes:
        name: what the model is called.
        smape: in percent.
        folds: mean and sd of SMAPE over its folds; None where there is one.
        difference: its SMAPE minus the first one's, below 0 where it is better; None for the first.
        interval: the 95% interval of the difference by the paired bootstrap; None for the first or of too few rows.
        verdict: "better" or "worse" where the interval leaves 0 out, else "cannot tell"; "" for the first.
    """

    name: str
    smape: float
    folds: tuple[float, float] | None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        folds = None if self.folds is None else {"mean": self.folds[0], "sd": self.folds[1]}
        found = {"run": self.name, "smape": self.smape, "folds": folds, "difference": self.difference}
        interval = None if self.interval is None else list(self.interval)
        return {**found, "interval": interval, "verdict": self.verdict or None}


def common_rows(models: Mapping[str, HeldOut]) -> dict[str, HeldOut]:
    """Return of each model the rows that all hold out, in the same order: equal by row, id and price.

    Raises:
        DataError: there are none, and why.
    """
    keys = {name: _keys(held_out) for name, held_out in models.items()}
    common = reduce(lambda a, b: a.intersection(b, sort=False), keys.values()).sort_values()
    if not len(common):
        raise DataError(_nothing_common(models))
    return {name: held_out.take(keys[name].get_indexer(common)) for name, held_out in models.items()}


def compare(models: Mapping[str, HeldOut]) -> list[Comparison]:
    """Compare each model with the first.

    The same rows are drawn for both (paired bootstrap), so that what makes a row hard for either cancels out.

    Args:
        models: at least two by name, of the same rows in the same order, as `common_rows` returns them.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    terms = {name: smape_terms(rows.predicted, rows.price) for name, rows in models.items()}
    first, *others = models
    found = [Comparison(first, float(terms[first].mean()), _folds(models[first]))]
    for name in others:
        gain = terms[name] - terms[first]
        interval = mean_interval(gain)
        verdict, smape = verdict_of(interval), float(terms[name].mean())
        found.append(Comparison(name, smape, _folds(models[name]), float(gain.mean()), interval, verdict))
    return found


def verdict_of(interval: tuple[float, float] | None) -> str:
    """Say what the interval of a difference in SMAPE means for the second model."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return UNKNOWN
    return BETTER if interval[1] < 0 else WORSE


def _folds(rows: HeldOut) -> tuple[float, float] | None:
    folds = fold_metrics(rows)
    if len(folds) < 2:
        return None
    mean, sd = mean_and_sd(folds)
    return mean["smape"], sd["smape"]


def _keys(held_out: HeldOut) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([held_out.rows, held_out.ids, held_out.price])


def _nothing_common(models: Mapping[str, HeldOut]) -> str:
    counts = ", ".join(f"{name}: {len(held_out):,}" for name, held_out in models.items())
    numbers = reduce(set.intersection, (set(held_out.rows.tolist()) for held_out in models.values()))
    if len(numbers) >= MIN_ROWS:
        why = (
            f"{len(numbers):,} row numbers are held out by all, but their ids or prices differ, so the tables, or what "
            "was read as id and price, are not the same. Train them on one table"
        )
    else:
        why = (
            "they were trained on other tables or with other seeds, which hold out other rows. Train them on one table "
            "with one --seed, or let pricekit cv hold out every row"
        )
    return f"No row is held out by all of them ({counts}): {why}."
