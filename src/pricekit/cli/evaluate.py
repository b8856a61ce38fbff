"""`pricekit evaluate`."""

from __future__ import annotations

from typing import Any

import click

from pricekit.cli.common import as_arguments
from pricekit.cli.options import json_option, metric_option, scored_rows, trust_option
from pricekit.cli.terminal import begin


@click.command(short_help="Score a model on a table with prices, or on the rows held out of its training.")
@scored_rows
@trust_option
@metric_option("Metric that counts.  [default: that of the model]")
@json_option("Print all scores as JSON on stdout.")
def evaluate(as_json: bool, **flags: Any) -> None:
    """Score MODEL, the folder of a run or a bundle, on the rows of TABLE that have a price.

    \b
    pricekit evaluate bundle other.csv    on a table
    pricekit evaluate run                 on the held-out rows of a run or a cross-validation

    The first metric is the one that the model was trained to minimise, by default SMAPE in percent, from 0 to 200,
    with its 95% bootstrap interval. The others are SMAPE; the median absolute percentage error; the mean absolute
    error in the table's currency; the root mean square error of log(1 + price); R² of the log price; and the share of
    prices inside the 90% interval of predict --interval 0.9. The command also prints the first metric by price, by
    text length, and by the columns of the table with few values (by unit if there are none).

    Scores on rows that the model was trained on are too optimistic. Use other rows.
    """
    begin(f"opening {flags['model']}", "pricekit.workflows.evaluate")
    import pricekit as pk
    from pricekit.cli.show import show_scores

    scores = pk.evaluate(**as_arguments(flags))
    if as_json:
        click.echo(scores.to_json())
    else:
        show_scores(scores)
