"""`pricekit train`."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import USELESS, again
from pricekit.cli.ensemble import show_members
from pricekit.cli.options import flag, optional_table, options_of
from pricekit.cli.project import begin_training, interrupted_run, next_run, run_training
from pricekit.cli.terminal import show_data, show_result
from pricekit.io.log import logger
from pricekit.io.record import continued, state_of
from pricekit.options import TrainOptions
from pricekit.wording import counted


@click.command
@optional_table
@options_of(TrainOptions, out="runs/POLICY-NUMBER")
@flag("--dry-run", "Read the table, print the configuration and the split, and stop.")
def train(dry_run: bool, **flags: Any) -> None:
    """Train a model on TABLE: a CSV, TSV, Parquet or JSON lines file.

    \b
    pricekit train products.csv --out run
    pricekit train shop.parquet --text title,description --price eur --id sku --out run
    pricekit train products.csv --out run --set training.epochs=20 --set backbone.members=5
    pricekit train products.csv --out student --unpriced new.csv --teacher run
    pricekit train products-of-today.csv --out today --init yesterday

    --policy best trains an ensemble, which takes longer and is more accurate.

    Without TABLE, the command reads the table that pricekit.toml in the current folder names. Each epoch prints the
    validation metric, by default SMAPE, from 0 to 200 percent; lower is better. With a refit, which is the default of
    the policy quick, a second pass then trains on all rows, for as many epochs as were best; the metrics are
    those of the first pass. The run folder contains the configuration, the split, the metrics, the checkpoints and
    the rejected rows.
    """
    config = flags["config"]
    flags = begin_training(flags)
    if dry_run:
        _dry_run(flags)
        return
    import pricekit as pk

    flags["out"] = flags["out"] or (flags["resume"] and interrupted_run()) or next_run(flags)
    model = run_training(pk.train, flags, config)
    from pricekit.evaluation.scores import facts_of, goal_of
    from pricekit.training.parallel import Processes

    Processes().end()
    facts, metrics = facts_of(model.path), model.metrics
    goal = goal_of(facts)
    if model.members:
        show_members(model)
    epoch = "" if model.members else f"best epoch {facts['best_epoch']}, "
    show_result(
        f"validation {goal} (a constant price: {goal.metric.write(goal.constant)}), median error "
        f"{metrics['mdape']:.1f}%, {epoch}{facts['seconds']:.0f} s",
        metrics=metrics,
        best_epoch=facts.get("best_epoch"),
        seconds=facts["seconds"],
    )
    if refit := facts.get("refit"):
        show_result(
            f"these metrics are of the first pass; the model was then trained again on all {refit['rows']:,} rows",
            refit=refit,
        )
    folder = str(flags["out"])
    show_result(
        f"the run is in {folder}; next: pricekit export {shlex.quote(folder)} --out BUNDLE{again()}",
        run=folder,
    )
    if goal.missed:
        raise click.exceptions.Exit(USELESS)


def _dry_run(flags: dict[str, Any]) -> None:
    """Print the configuration and the number of rows that training would use."""
    from pricekit.api import source_of
    from pricekit.io.progress import use_reporter_here
    from pricekit.options import model_path
    from pricekit.runs.ensemble import config_to_train
    from pricekit.runs.pseudo_labels import add_pseudo_labels
    from pricekit.runs.refit import refits
    from pricekit.runs.split import load_split

    source = source_of(flags["table"], flags)
    init = model_path(flags["init"], "init") if flags["init"] else None
    out = Path(flags["out"] or interrupted_run()) if flags["resume"] else Path()
    config = config_to_train(out, source, flags, init, "resume" if flags["resume"] else "new")
    out = continued(out)
    resumed = [out, *out.glob("members/*")] if flags["resume"] and state_of(out).begun else []
    run = out if resumed and not config.members else None
    with nullcontext() if config.speed.progress else use_reporter_here(None):
        split = load_split(source, config, resumed)
    split = add_pseudo_labels(source, split, config, run)
    second = "; then a second pass on all of them" if refits(config, source) else ""
    members = f" {counted(len(config.members), 'model')}" if config.members else ""
    logger.info(
        f"{len(split.train):,} rows to train{members} on, {len(split.valid):,} to validate on{second}; nothing was "
        "trained"
    )
    show_data(config.for_rows(len(split.train)).to_toml(), nl=False)
