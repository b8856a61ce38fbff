"""`pricekit ensemble`."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import again
from pricekit.cli.options import FOLDER, REQUIRED, options_of
from pricekit.cli.terminal import begin, show_result, show_table
from pricekit.options import EnsembleOptions
from pricekit.wording import counted, milliseconds

if TYPE_CHECKING:
    from pricekit.metrics import Metric
    from pricekit.model import Model


@click.command
@click.argument("runs", type=FOLDER, nargs=-1, required=True)
@options_of(EnsembleOptions, out=REQUIRED)
def ensemble(runs: tuple[str, ...], out: str, metric: str | None, overwrite: bool) -> None:
    """Combine RUNS into one model: a weighted average of their log prices.

    \b
    pricekit ensemble bag minilm --out both
    pricekit export both --out bundle

    The weights minimise the error on rows that none of the RUNS was trained on. All RUNS must hold out the same
    rows (same table, same --seed) or be folders of pricekit cv. The models of a cross-validation share its weight,
    and the model that did not see a row scores it. Models of different kinds gain most. A model with a weight below
    2% is left out.

    To score a row, the command uses weights that were fitted without it. The ensemble works like any other model
    with pricekit evaluate, predict and export.
    """
    begin(f"reading {counted(len(runs), 'model')}", "pricekit.runs.ensemble")
    import pricekit as pk
    from pricekit.evaluation.scores import facts_of, goal_of

    trained = pk.ensemble(runs, out=out, overwrite=overwrite, metric=metric)
    best = show_members(trained)
    goal = goal_of(facts_of(trained.path))
    name, score, write = goal.metric.name, goal.score, goal.metric.write
    points = " points" if goal.metric.unit == "%" else ""
    verdict = f"{write(abs(best - score), score)}{points} {'better' if score < best else 'worse'} than"
    if write(score) == write(best, score):
        verdict = "as good as"
    show_result(f"{goal}, {verdict} the best member", **{name: score})
    show_result(
        f"the ensemble is in {out}; next: pricekit export {quote(out)} --out BUNDLE{again()}", ensemble=out
    )


def show_members(model: Model) -> float:
    """Print the models of an ensemble with their weights and what each is worth; return the best one's score."""
    from pricekit.evaluation.scores import facts_of, goal_of

    record = json.loads((model.path / "ensemble.json").read_text("utf-8"))
    goal = goal_of(facts_of(model.path))
    rows = [_row(one, goal.metric) for one in record["candidates"]]
    title = f"{record['rows']:,} rows that no member was trained on"
    names = ["model", "weight", goal.metric.title, "ensemble without it"]
    total = ["ensemble", "", goal.metric.write(goal.score), ""]
    if timed := [one for one in record["candidates"] if "seconds_per_row" in one]:
        names.append("time for a row")
        rows = [[*row, milliseconds(one["seconds_per_row"])] for row, one in zip(rows, timed, strict=True)]
        total.append(milliseconds(sum(one["seconds_per_row"] for one in timed if one["weight"])))
    show_table(title, names, [*rows, total])
    for name, reason in record.get("left_out", {}).items():
        show_result(f"{name} was left out: {reason}", left_out=name)
    return float(min(one[goal.metric.name] for one in record["candidates"]))


def _row(model: dict[str, Any], metric: Metric) -> list[str]:
    weight = f"{model['weight']:.3f}" if model["weight"] else "left out"
    without = model.get("without")
    score = model[metric.name]
    return [
        model["path"],
        weight,
        metric.write(score),
        "" if without is None else metric.write(without, score),
    ]
