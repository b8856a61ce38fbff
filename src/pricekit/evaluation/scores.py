"""Scores of predicted prices: metrics, an interval, the spread over folds, by group; and the goal of a training."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError
from pricekit.evaluation.groups import Grouping, group_scores, groupings_of
from pricekit.evaluation.held_out import HeldOut
from pricekit.io.files import read_json
from pricekit.io.log import logger
from pricekit.io.progress import progress, tracked, use_reporter_here
from pricekit.io.record import FACTS, state_of
from pricekit.metrics import METRICS, SMAPE, Metric, best_constant, metric_named, price_metrics
from pricekit.table import Table
from pricekit.wording import counted, did_you_mean

RESAMPLES = 2000
LEVEL = 0.95
MIN_ROWS = 10
"""With fewer rows, the interval is omitted: resamples vary too little, so it would be too narrow."""

_DRAWS_PER_BATCH = 4_000_000  # 64 MB


def score_interval(
    metric: Metric, weights: np.ndarray, terms: np.ndarray, minus: np.ndarray | None = None
) -> tuple[float, float] | None:
    """Return the 95% interval of a metric over some rows, or of its difference between two models.

    Percentile bootstrap: the 2.5% and 97.5% quantiles over resamples, each as large as the rows and drawn
    from them with replacement (Efron 1979; `scipy.stats.bootstrap`). Both models have the same rows of a resample. The
    draws are deterministic, and the order of the rows does not matter.

    Args:
        metric: the metric.
        weights: of each row, as `Metric.weights` returns them, (N,).
        terms: of each row, as `Metric.terms` returns them, (N,); or several, (R, N), whose metrics are averaged.
        minus: the terms of the other model, (N,).

    Returns:
        The bounds; None for fewer than `MIN_ROWS` rows.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """
    from scipy.stats import bootstrap

    if len(weights) < MIN_ROWS:
        return None
    several = np.atleast_2d(terms)
    rows = [weights, *several] if minus is None else [weights, *several, minus]
    order = np.lexsort(rows)

    def score(weights: np.ndarray, *terms: np.ndarray, axis: int) -> np.ndarray:
        values = [metric.combine(each, weights) for each in terms]
        mean = np.mean(values[: len(several)], axis=0)
        return np.asarray(mean if minus is None else mean - values[-1])

    with progress("bootstrapping the interval", 1) as advance:
        bounds = bootstrap(
            [row[order] for row in rows],
            score,
            paired=True,
            n_resamples=RESAMPLES,
            batch=max(1, _DRAWS_PER_BATCH // (len(rows) * len(weights))),
            vectorized=True,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        advance(1)
    return float(bounds.low), float(bounds.high)


@dataclass(frozen=True, repr=False)
class Scores:
    """Scores of the predictions for some rows.

    Attributes:
        rows: the number of rows.
        metric: what the model was trained to minimise, or what the user asked for.
        metrics: over all rows, as `pricekit.metrics.price_metrics` returns them: first that of `metric`, then smape,
            mdape, mae, rmsle, r2_log.
        interval: 95% bootstrap interval of `metric`; None without scipy or with too few rows.
        folds: metrics of each fold, (F, metrics), ordered by fold.
        groups: scores by price, text length and category; for worst rows by unit, quantity, price and category; or only
            by the column that the user named. See `pricekit.evaluation.groups.group_scores`.
        worst: the rows with the largest errors, largest first; None if they are not wanted. See
            `pricekit.evaluation.groups.error_table` for the columns.
        share_of_worst: the percentage of the total error in these rows; None without them.

        surest: the metric of the surest rows, as of `surest_scores`; None if all rows are equally sure.
        released: the share of rows that may go out within some factors, as of
            `pricekit.answers.evaluate.released_shares`; None without price intervals.

    Example:
        >>> import numpy as np, pandas as pd
        >>> from pricekit.evaluation.held_out import held_out_of
        >>> from pricekit.table import read_frame, Columns
        >>> frame = pd.DataFrame({"title": ["green tea", "black tea"], "price": [2.0, 4.0]})
        >>> table = read_frame(frame, Columns(("title",), "price", None))
        >>> scores_of(held_out_of(table, np.array([2.0, 4.0]))).metrics["smape"]
        0.0
    """

    rows: int
    metric: Metric
    metrics: dict[str, float]
    interval: tuple[float, float] | None
    folds: pd.DataFrame
    groups: pd.DataFrame
    worst: pd.DataFrame | None = None
    share_of_worst: float | None = None
    surest: pd.DataFrame | None = None
    released: pd.DataFrame | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit evaluate --json` prints them; mean and sd with two folds or more."""
        content: dict[str, Any] = {"rows": self.rows, "metric": self.metric.name, **self.metrics}
        if self.interval is not None:
            content[f"{self.metric.name}_interval"] = list(self.interval)
        if len(self.folds) > 1:
            mean, sd = mean_and_sd(self.folds)
            content |= {"folds": len(self.folds), "mean": mean, "sd": sd}
        content["groups"] = self.groups.to_dict("records")
        for name in ("surest", "released"):
            if (frame := getattr(self, name)) is not None:
                content[name] = frame.astype(object).where(frame.notna(), None).to_dict("records")
        if self.worst is not None:
            rows = self.worst.astype(object).where(self.worst.notna(), None)
            content |= {"worst": rows.to_dict("records"), "share_of_worst": self.share_of_worst}
        return content

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def __repr__(self) -> str:
        write = self.metric.write
        interval = "" if self.interval is None else f" [{write(self.interval[0])}, {write(self.interval[1])}]"
        folds = f", {len(self.folds)} folds" * (len(self.folds) > 1)
        rows, median = counted(self.rows, "row"), self.metrics["mdape"]
        score = f"{self.metric.title} {write(self.metrics[self.metric.name])}"
        worst = (
            ""
            if self.worst is None
            else f", {self.share_of_worst:.1f}% of the error in the worst {len(self.worst)}"
        )
        return f"Scores({rows}{folds}: {score}{interval}, median error {median:.1f}%{worst})"

    def _repr_html_(self) -> str:
        frame = pd.DataFrame({"value": self.metrics})
        if len(self.folds) > 1:
            mean, sd = mean_and_sd(self.folds)
            frame = frame.assign(mean=pd.Series(mean), sd=pd.Series(sd))
        tables = [frame] + [self.groups.set_index(["by", "group"])] * bool(len(self.groups))
        tables += [] if self.surest is None else [self.surest.set_index("share")]
        tables += [] if self.released is None else [self.released.set_index(["within", "confidence"])]
        tables += [] if self.worst is None else [self.worst.set_index("row")]
        shown = (
            table.to_html(float_format="{:.2f}".format, na_rep="", max_cols=20, border=0) for table in tables
        )
        return f"<p>{counted(self.rows, 'row')}</p>" + "".join(map(str, shown))


def scores_of(held_out: HeldOut, metric: Metric = SMAPE) -> Scores:
    """Score the predictions for held-out rows; at least one row."""
    return Scores(
        rows=len(held_out),
        metric=metric,
        metrics=price_metrics(held_out.predicted, held_out.price, metric.name, held_out.weight),
        interval=held_out_interval(held_out, metric),
        folds=fold_metrics(held_out, metric),
        groups=group_scores(groupings_of(held_out), held_out, metric),
        surest=surest_scores(held_out, metric),
    )


SHARES = np.arange(1, 21) / 20
"""Shares of the rows, surest first."""


def surest_scores(rows: HeldOut, metric: Metric) -> pd.DataFrame | None:
    """Return the metric over the surest rows, by their spread; None if all are equally sure, or fewer than 20.

    Columns: the `share` of all rows, in steps of 5%, the number of `rows`, and the metric by its name.
    """
    order = np.argsort(rows.spread, kind="stable")
    if rows.weight is not None:
        order = order[rows.weight[order] > 0]
    if len(order) < len(SHARES) or rows.spread[order[0]] == rows.spread[order[-1]]:
        return None
    counts = np.ceil(SHARES * len(order) - 1e-9).astype(int)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    values = [
        metric(rows.predicted[surest], rows.price[surest], weight[surest])
        for surest in (order[:count] for count in counts)
    ]
    return pd.DataFrame({"share": SHARES, "rows": counts, metric.name: values})


def released_cells(released: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows of a table of what `Scores.released` says."""
    rows = [
        [
            f"within a factor of {within:g}",
            f"{confidence:.0%}",
            "too few rows" if np.isnan(share) else f"{share:.1%}" if share else "none",
            "" if np.isnan(held) else f"{held:.1%}",
        ]
        for within, confidence, share, held in released.itertuples(index=False)
    ]
    heads = ["tolerance", "confidence", "may go out"]
    return (
        ([*heads, "of these within"], rows)
        if released["held"].notna().any()
        else (heads, [row[:3] for row in rows])
    )


def overall(rows: HeldOut, metric: Metric) -> float:
    """Return a metric over all rows."""
    return metric(rows.predicted, rows.price, rows.weight)


def fold_metrics(held_out: HeldOut, metric: Metric = SMAPE) -> pd.DataFrame:
    """Return the metrics of each fold, (F, metrics), ordered by fold."""
    rows = {}
    for fold in np.unique(held_out.fold):
        part = held_out.take(np.flatnonzero(held_out.fold == fold))
        rows[int(fold)] = price_metrics(part.predicted, part.price, metric.name, part.weight)
    return pd.DataFrame.from_dict(rows, orient="index")


def mean_and_sd(folds: pd.DataFrame) -> tuple[dict[Any, float], dict[Any, float]]:
    """Return the mean and the sample standard deviation (F - 1) of each metric over at least two folds.

    A metric that is undefined in some fold is omitted.
    """
    defined = folds.dropna(axis="columns")
    return defined.mean().to_dict(), defined.std(ddof=1).to_dict()


def held_out_interval(held_out: HeldOut, metric: Metric) -> tuple[float, float] | None:
    """Return the 95% bootstrap interval of a metric; None without scipy or with too few rows."""
    with suppress(ModuleNotFoundError):
        return score_interval(metric, *_weights_and_terms(held_out, metric))
    return None


def _weights_and_terms(rows: HeldOut, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    return metric.weights(rows.price, rows.weight), metric.terms(rows.predicted, rows.price)


def scores_with_intervals(grouping: Grouping, rows: HeldOut, metric: Metric) -> pd.DataFrame:
    """Return the metric of each group with its 95% bootstrap interval; arguments as of `group_scores`.

    Columns: `group`, `rows`, the metric as `value`, and its interval `low` and `high`: NaN without scipy or with too
    few rows whose weight is above 0. The index is the group's number in the grouping.
    """
    scores = group_scores([grouping], rows, metric)
    weights, terms = _weights_and_terms(rows, metric)
    kept = np.flatnonzero(np.bincount(grouping.codes, weights, len(grouping.labels)) > 0)
    bounds = np.full((len(kept), 2), np.nan)
    try:
        with tracked("bootstrapping the intervals", kept) as codes, use_reporter_here(None):
            for place, code in enumerate(codes):
                inside = (grouping.codes == code) & (weights > 0)
                bounds[place] = score_interval(metric, weights[inside], terms[inside]) or np.nan
    except ModuleNotFoundError:
        logger.warning(f"the intervals of {metric.title} are omitted: they need scipy (pip install scipy)")
    low, high = bounds.T
    columns = scores[["group", "rows"]].set_axis(kept, axis="index")
    return columns.assign(value=scores[metric.name].to_numpy(float), low=low, high=high)


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
    constant = best_constant(prices, metric, known.weight)
    return metric(np.full(len(actual), constant), actual, rows.weight)


def metric_of(folders: Iterable[Path], name: str | None = None) -> Metric:
    """Return the metric to judge models by: the one that is named, or that of the first model.

    Args:
        folders: of runs, ensembles, cross-validations or bundles.
        name: of a metric; None: that of the first model.

    Raises:
        ConfigError: there is no metric of that name.
    """
    if name is not None and name not in METRICS:
        raise ConfigError(
            f"there is no metric '{name}'; expected {', '.join(METRICS)}.{did_you_mean(name, METRICS)}",
            parameters=("metric",),
        )
    used = (str(facts_of(folder).get("metric")) for folder in folders)
    return METRICS.get(name or next(used, ""), SMAPE)


def facts_of(folder: Path) -> dict[str, Any]:
    """Return the content of the manifest, `run.json` or `cv.json` of a model; {} without any.

    Whoever opens the model reports a damaged file.
    """
    with suppress(OSError, ValueError, TypeError, KeyError):
        return dict(read_json(folder / FACTS[state_of(folder).kind]))
    return {}
