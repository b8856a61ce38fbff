"""Rank models on the rows that all of them hold out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pricekit.errors import ConfigError
from pricekit.evaluation.comparison import common_rows, compare
from pricekit.evaluation.held_out import report_refit
from pricekit.evaluation.scores import metric_of
from pricekit.metrics import Metric
from pricekit.support.progress import progress
from pricekit.workflows.ranking.contenders import Contender, find_contenders
from pricekit.workflows.ranking.differences import differences
from pricekit.workflows.ranking.leaderboard import Entry, Leaderboard
from pricekit.workflows.ranking.shared import keep_sharing


def rank_models(paths: Sequence[Path], metric: str | None = None, *, latency: bool = False) -> Leaderboard:
    """Rank models of one table.

    Args:
        paths: folders of runs, ensembles and cross-validations, or folders that contain them.
        metric: by which to rank; None: that which most of the models were trained to minimise.
        latency: also measure the time that a prediction of one row takes, which opens each model in torch.

    Raises:
        ConfigError: there is no path, or an unknown metric, or the saved settings of a model are damaged.
        DataError: a path is no model, or no two models hold out the same rows.
        TrainingError: a model is unfinished or damaged.
        ModuleNotFoundError: scipy is not installed.
    """
    if not paths:
        raise ConfigError("a leaderboard needs at least one model or folder of models", parameters=("runs",))
    metric_of([], metric)  # for its error, before files are read
    found = keep_sharing(find_contenders(paths))
    report_refit(one.path for one in found)
    return _rank(found, metric_of([_typical(found).path], metric), latency=latency)


def _typical(found: Sequence[Contender]) -> Contender:
    """Return a model that was trained to minimise the most common metric."""
    ((name, _),) = Counter(one.metric for one in found).most_common(1)
    return next(one for one in found if one.metric == name)


def _rank(found: Sequence[Contender], metric: Metric, *, latency: bool) -> Leaderboard:
    by_name = dict(zip(_names(found), found, strict=True))
    rows = common_rows({name: one.held_out for name, one in by_name.items()})
    weight = next(iter(rows.values())).weight
    scores = {name: metric(each.predicted, each.price, weight) for name, each in rows.items()}
    names = sorted(scores, key=lambda name: scores[name])
    compared = compare({name: rows[name] for name in names}, metric)
    ranked = [by_name[name] for name in names]
    seconds = _latencies(ranked) if latency else [None] * len(ranked)
    settings = differences([one.settings for one in ranked])
    entries = [
        Entry(
            rank=place + 1,
            compared=compared.runs[place],
            path=one.path,
            kind=one.kind,
            parts=one.parts,
            seconds=one.seconds,
            seconds_per_row=seconds[place],
            bytes=one.bytes,
            settings=settings[place],
        )
        for place, one in enumerate(ranked)
    ]
    return Leaderboard(compared.rows, metric, tuple(entries))


def _names(found: Sequence[Contender]) -> list[str]:
    """Return the names of folders that are all in one folder, and paths for others."""
    if len({one.path.resolve().parent for one in found}) == 1:
        return [one.path.resolve().name for one in found]
    return [str(one.path) for one in found]


def _latencies(found: Sequence[Contender]) -> list[float | None]:
    """Return the seconds that each model needs to price one row alone."""
    from pricekit.workflows.latency import seconds_per_row  # imports torch

    seconds: list[float | None] = []
    with progress("measuring predictions of one row", len(found)) as advance:
        for one in found:
            seconds.append(sum(map(seconds_per_row, one.runs)))
            advance(1)
    return seconds
