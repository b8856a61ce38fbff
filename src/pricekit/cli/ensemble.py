"""`pricekit ensemble`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any

import click

from pricekit.cli.options import FOLDER, again
from pricekit.cli.terminal import begin, show_result, show_table
from pricekit.support.text import counted


@click.command(short_help="Combine several runs into one model.")
@click.argument("runs", type=FOLDER, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder for the ensemble.")
@click.option("--overwrite", is_flag=True, help="Replace the ensemble in --out when the new one is complete.")
def ensemble(runs: tuple[str, ...], out: str, overwrite: bool) -> None:
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
    begin(f"reading {counted(len(runs), 'model')}", "pricekit.workflows.ensemble")
    from pricekit import api

    found = api.ensemble(runs, out=out, overwrite=overwrite)
    best = show_members(found.path)
    score = found.metrics["smape"]
    verdict = f"{abs(best - score):.2f} points {'better' if score < best else 'worse'} than"
    if f"{score:.2f}" == f"{best:.2f}":
        verdict = "as good as"
    show_result(f"SMAPE {score:.2f}, {verdict} the best member", smape=score)
    show_result(
        f"the ensemble is in {out}; next: pricekit export {quote(out)} --out BUNDLE{again()}", ensemble=out
    )


def show_members(path: Path) -> float:
    """Print the models of an ensemble with their weights and what each is worth; return the best one's SMAPE."""
    record = json.loads((path / "ensemble.json").read_text("utf-8"))
    rows = [_row(model) for model in record["candidates"]]
    score = json.loads((path / "run.json").read_text("utf-8"))["metrics"]["smape"]
    title = f"{record['rows']:,} rows that no member was trained on"
    names = ["model", "weight", "SMAPE", "ensemble without it"]
    show_table(title, names, [*rows, ["ensemble", "", f"{score:.2f}", ""]])
    return float(min(model["smape"] for model in record["candidates"]))


def _row(model: dict[str, Any]) -> list[str]:
    weight = f"{model['weight']:.3f}" if model["weight"] else "left out"
    without = model.get("without")
    return [model["path"], weight, f"{model['smape']:.2f}", "" if without is None else f"{without:.2f}"]
