"""`pricekit evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.options import FOLDER, READ_OPTIONS, TABLE, named_columns, read_options_of, table_options
from pricekit.cli.terminal import begin

if TYPE_CHECKING:
    from pricekit.evaluation.held_out import HeldOut
    from pricekit.prediction.predictor import Predictor

LEVEL = 0.9
"""Of the interval whose coverage is shown."""
TRAINED_ON = 0.1
"""Share of a run's held-out rows in a table, from which it is told; equal products of two tables are fewer."""


@click.command(short_help="Score a model on a table with prices, or on the rows held out of its training.")
@click.argument("model", type=FOLDER)
@click.argument("table", type=TABLE, required=False)
@table_options(price=True)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON on stdout.")
def evaluate(model: Path, table: Path | None, as_json: bool, **flags: Any) -> None:
    """Score MODEL, the folder of a run or of a bundle, on the rows of TABLE that have a price.

    \b
    pricekit evaluate bundle other.csv    on a table
    pricekit evaluate run                 on the rows held out of a run, or of a folder of pricekit cv

    SMAPE in percent, 0 to 200, with its 95% bootstrap interval; the median absolute percentage error; the mean
    absolute error in the table's currency; the root mean square error of log(1 + price); R² of the log price; the
    share of prices inside the 90% interval of predict --interval 0.9. Then SMAPE by price, by length of the text, and
    by the columns of the table with few values, or by unit where there are none.

    Rows that the model was trained on flatter it: use others.
    """
    begin(f"opening {model}", "pricekit.evaluation.scores")
    from pricekit.cli.show_scores import show_scores
    from pricekit.evaluation.bootstrap import MIN_ROWS
    from pricekit.evaluation.scores import scores_of
    from pricekit.log import logger

    rows, predictor = judged_rows(model, table, flags)
    scores = scores_of(rows)
    if predictor is not None:
        scores = replace(scores, metrics=scores.metrics | _coverage(predictor, rows))
    if scores.interval is None and len(rows) >= MIN_ROWS:
        logger.warning("the interval of SMAPE is left out, as it needs scipy: pip install scipy")
    if as_json:
        click.echo(scores.to_json())
    else:
        show_scores(scores)


def judged_rows(model: Path, table: Path | None, flags: dict[str, Any]) -> tuple[HeldOut, Predictor | None]:
    """Return the rows of a table with the model's prices for them, or without a table the rows that it held out.

    Args:
        model: a run or a bundle; without a table a run or a folder of `pricekit cv`.
        table: rows with prices.
        flags: those of `table_options`.

    Raises:
        click.UsageError: a flag of `table_options` without a table.
        PricekitError: the model or the table cannot be read.
    """
    from pricekit.evaluation.held_out import FILE, held_out_of, read_held_out
    from pricekit.log import logger
    from pricekit.table import read_usable
    from pricekit.table.prices.currency import require_same_currency

    if table is None:
        _refuse_flags()
        return read_held_out(model), None
    from pricekit.runs.load import load_model

    predictor = load_model(model)
    columns = named_columns(predictor.columns, flags)
    rows, _ = read_usable(
        table, columns, limit=flags["limit"], read_options=read_options_of(flags), notices=logger.warning
    )
    require_same_currency(predictor.currency, rows.currency)
    judged = held_out_of(rows, predictor.predict(rows))
    if (model / FILE).is_file():
        _warn_of_training_rows(model, table, judged)
    return judged, predictor


def _warn_of_training_rows(model: Path, table: Path, rows: HeldOut) -> None:
    """Say that a table seems to be the one that a run was trained on: where it has the rows that the run held out."""
    from pricekit.evaluation.held_out import count_shared_rows, read_held_out
    from pricekit.log import logger

    held_out = read_held_out(model)
    found = count_shared_rows(held_out, rows)
    if found >= TRAINED_ON * len(held_out):
        logger.warning(
            f"{table} has {found:,} of the {len(held_out):,} rows that were held out of the training of {model}, so "
            f"most likely rows that it was trained on as well, which flatter. Without them: pricekit evaluate {model}"
        )


def _refuse_flags() -> None:
    """Raise UsageError for flags that say how to read a table, where there is none."""
    context = click.get_current_context()
    of_table = {"text", "price", "id", "limit", *READ_OPTIONS}
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if name in of_table and given:
            raise click.UsageError(f"{parameter.opts[0]} says how to read TABLE, and none is given")


def _coverage(predictor: Predictor, rows: HeldOut) -> dict[str, float]:
    """Return the percentage of prices inside the 90% interval; nothing for a model without such intervals."""
    if predictor.intervals is None or predictor.intervals.levels[-1] < LEVEL:
        return {}
    low, high = predictor.interval(rows.predicted, LEVEL)
    inside = (rows.price >= low) & (rows.price <= high)
    return {"interval_90_coverage": 100 * float(inside.mean())}
