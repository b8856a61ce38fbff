"""Comparison of models on rows that none of them was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.held_out import HeldOut, read_held_out, report_refit
from pricekit.evaluation.scores import MIN_ROWS, fold_metrics, mean_and_sd, metric_of, score_interval
from pricekit.io.log import logger
from pricekit.metrics import SMAPE, Metric
from pricekit.wording import counted

BETTER, WORSE, UNKNOWN = "better", "worse", "cannot tell"


@dataclass(frozen=True)
class ComparedRun:
    """One model of a comparison.

    Attributes:
        name: the name of the model.
        score: the metric on the common rows.
        folds: mean and standard deviation of the metric over the folds; None with fewer than two folds.
        difference: the score minus that of the first model, below 0 if this one is better; None for the first.
        interval: 95% interval of the difference by the paired bootstrap; None for the first or with too few rows.
        verdict: "better" or "worse" if the interval excludes 0, else "cannot tell"; "" for the first.
    """

    name: str
    score: float
    folds: tuple[float, float] | None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        folds = None if self.folds is None else {"mean": self.folds[0], "sd": self.folds[1]}
        interval = None if self.interval is None else list(self.interval)
        return {
            "run": self.name,
            "score": self.score,
            "folds": folds,
            "difference": self.difference,
            "interval": interval,
            "verdict": self.verdict or None,
        }


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several models on the same held-out rows, each compared with the first.

    Attributes:
        rows: the number of rows that all models hold out.
        runs: the models, in the order given.
        metric: by which they are compared.
    """

    rows: int
    runs: tuple[ComparedRun, ...]
    metric: Metric = SMAPE

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each model but the first, by name: "better", "worse" or "cannot tell"."""
        return {run.name: run.verdict for run in self.runs[1:]}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit compare --json` prints them."""
        return {"rows": self.rows, "metric": self.metric.name, "runs": [run.to_dict() for run in self.runs]}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each model: score, folds_mean, folds_sd, difference, low, high, verdict."""
        unknown = None, None
        rows = [
            (run.score, *(run.folds or unknown), run.difference, *(run.interval or unknown), run.verdict)
            for run in self.runs
        ]
        columns = ["score", "folds_mean", "folds_sd", "difference", "low", "high", "verdict"]
        return pd.DataFrame(rows, pd.Index([run.name for run in self.runs], name="run"), columns)

    def __repr__(self) -> str:
        runs = ", ".join(
            f"{run.name}: {self.metric.title} {self.metric.write(run.score)}"
            + f" ({run.verdict})" * bool(run.verdict)
            for run in self.runs
        )
        return f"Comparison({counted(self.rows, 'row')}; {runs})"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(float_format="{:.2f}".format, na_rep="", border=0))


def compare_folders(paths: Sequence[str | Path], metric: str | None = None) -> Comparison:
    """Compare runs or cross-validations with the first one.

    Args:
        paths: at least two folders of runs or cross-validations. A folder that is given twice gets a number.
        metric: by which to compare; None: that of the first model.

    Raises:
        ConfigError: an unknown metric.
        DataError: a folder has no held-out rows, or they have none in common.
        ModuleNotFoundError: scipy is not installed.
    """
    names = _unique(list(map(str, paths)))
    models = {name: read_held_out(Path(path)) for name, path in zip(names, paths, strict=True)}
    report_refit(map(Path, paths))
    return compare(models, metric_of(map(Path, paths), metric))


def compare(models: Mapping[str, HeldOut], metric: Metric = SMAPE) -> Comparison:
    """Compare each model with the first on the rows that all of them hold out.

    The paired bootstrap draws the same rows for both models, so rows that are hard for both cancel out.

    Args:
        models: at least two, by name.
        metric: by which to compare.

    Raises:
        DataError: no row is held out by all of them.
        ModuleNotFoundError: scipy is not installed.
    """
    rows = common_rows(models)
    judged = next(iter(rows.values()))
    count, weights = len(judged), metric.weights(judged.price, judged.weight)
    if any(len(model) > count for model in models.values()):
        logger.warning(f"only the {count:,} rows that all of them hold out are compared ({_counts(models)})")
    terms = {name: metric.terms(model.predicted, model.price) for name, model in rows.items()}
    scores = {name: float(metric.combine(each, weights)) for name, each in terms.items()}
    first, *others = rows
    runs = [ComparedRun(first, scores[first], _folds(rows[first], metric))]
    for name in others:
        interval = score_interval(metric, weights, terms[name], terms[first])
        difference, folds = scores[name] - scores[first], _folds(rows[name], metric)
        runs.append(ComparedRun(name, scores[name], folds, difference, interval, verdict_of(interval)))
    return Comparison(count, tuple(runs), metric)


def common_rows(models: Mapping[str, HeldOut]) -> dict[str, HeldOut]:
    """Return the rows that all models hold out, in one order: those with equal row number, id and price.

    Raises:
        DataError: there are none; the message explains why.
    """
    rows = shared_rows(list(models.values()))
    if not len(rows[0]):
        raise _nothing_common(models)
    return dict(zip(models, rows, strict=True))


def shared_rows(models: Sequence[HeldOut]) -> list[HeldOut]:
    """Return the rows of `common_rows`, none if there are none."""
    keys = list(map(row_keys, models))
    common = reduce(lambda a, b: a.intersection(b, sort=False), keys).sort_values()
    return [one.take(key.get_indexer(common)) for one, key in zip(models, keys, strict=True)]


def row_keys(held_out: HeldOut) -> pd.MultiIndex:
    """Return the identity of a row across runs on one table: row number, id and price."""
    return pd.MultiIndex.from_arrays(
        [held_out.rows, held_out.ids, held_out.price], names=["row", "id", "price"]
    )


def verdict_of(interval: tuple[float, float] | None) -> str:
    """Return the verdict on the second model from the interval of a difference; lower is better."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return UNKNOWN
    return BETTER if interval[1] < 0 else WORSE


def _folds(rows: HeldOut, metric: Metric) -> tuple[float, float] | None:
    folds = fold_metrics(rows, metric)
    if len(folds) < 2:
        return None
    mean, sd = mean_and_sd(folds)
    return mean[metric.name], sd[metric.name]


def _nothing_common(models: Mapping[str, HeldOut]) -> DataError:
    numbers = reduce(set.intersection, (set(held_out.rows.tolist()) for held_out in models.values()))
    if len(numbers) >= MIN_ROWS:
        why = (
            f"{len(numbers):,} row numbers are held out by all of them, but their ids or prices differ. Either the "
            "tables differ, or their id and price columns do. Train them on one table"
        )
    else:
        why = (
            "they were trained on different tables or with different seeds, which hold out different rows. Train them "
            "on one table with one seed, or cross-validate them, which holds out every row"
        )
    return DataError(
        f"No row is held out by all of them ({_counts(models)}): {why}.",
        parameters=("seed",),
        held_out={name: len(held_out) for name, held_out in models.items()},
    )


def _counts(models: Mapping[str, HeldOut]) -> str:
    return ", ".join(f"{name}: {len(held_out):,}" for name, held_out in models.items())


def _unique(names: list[str]) -> list[str]:
    return [
        name if name not in names[:place] else f"{name} ({names[:place].count(name) + 1})"
        for place, name in enumerate(names)
    ]
