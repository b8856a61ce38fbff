"""`pricekit cv`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from pricekit.cli.common import USELESS, again
from pricekit.cli.options import REQUIRED, optional_table, options_of
from pricekit.cli.project import begin_training, run_training
from pricekit.cli.terminal import show_result
from pricekit.options import CrossValidationOptions


@click.command
@optional_table
@options_of(CrossValidationOptions, out=REQUIRED)
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
    flags = begin_training(flags)
    import pricekit as pk

    cross_validation = run_training(pk.cross_validate, flags, config)
    from pricekit.cli.show import show_scores
    from pricekit.evaluation.scores import facts_of, goal_of
    from pricekit.training.parallel import Processes

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
