"""`pricekit cv`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from pricekit.cli.common import USELESS, again
from pricekit.cli.options import (
    FOLDER,
    allow_leak_option,
    epochs_option,
    flag,
    model_options,
    optional_table,
    resume_hint,
    table_options,
    teacher_options,
)
from pricekit.cli.project import begin_training, keep_settings
from pricekit.cli.terminal import show_result


@click.command
@optional_table
@click.option("--out", type=FOLDER, required=True, help="Folder for the cross-validation.")
@click.option("--folds", type=int, metavar="N", help="Number of folds.  [default: 5]")
@model_options
@table_options(price=True)
@epochs_option
@click.option(
    "--time-budget",
    metavar="TIME",
    help="Time limit of each fold, such as 2h or 90m. The schedule fits into it.",
)
@flag("--resume", "Continue the cross-validation in --out, or start it.")
@flag("--overwrite", "Replace the cross-validation in --out.")
@teacher_options
@allow_leak_option
def cv(**flags: Any) -> None:
    """Cross-validate: predict each row of TABLE with a model that was trained on other rows.

    \b
    pricekit cv products.csv --out cv
    pricekit evaluate cv --worst 20

    The folds have similar price distributions, and rows with nearly equal texts share a fold. For each fold, a run
    trains on the other folds, as train does: a part of their rows chooses the epoch, then all of them are trained on.
    With --no-refit, it keeps its last weights instead. So no choice depends on the fold that scores it. The command
    prints the mean and standard deviation over the folds, then the errors by price, text length and category.
    A --teacher must be a cross-validation with the same folds: each fold learns from the run that has not seen its
    rows.
    """
    config = flags["config"]
    flags = begin_training(flags, "pricekit.workflows.cross_validation")
    import pricekit as pk
    from pricekit.cli.show import show_scores
    from pricekit.evaluation.scores import facts_of, goal_of
    from pricekit.training.parallel import Processes

    keep_settings(flags, config)
    with resume_hint("cv", flags):
        cross_validation = pk.cross_validate(**flags)
    show_scores(cross_validation.scores)
    Processes().end()
    folder = str(flags["out"])
    show_result(
        f"the rows with their predictions are in {folder}; next: "
        f"pricekit evaluate {shlex.quote(folder)} --worst 20{again()}",
        out=folder,
    )
    if goal_of(facts_of(cross_validation.path)).missed:
        raise click.exceptions.Exit(USELESS)
