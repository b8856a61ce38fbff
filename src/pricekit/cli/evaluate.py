"""`pricekit evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pricekit.cli.options import FOLDER, TABLE, named_columns, table_options

LEVEL = 0.9
"""Of the interval whose coverage is shown."""


@click.command(short_help="Score a run or a bundle on a table with prices.")
@click.argument("model", type=FOLDER)
@click.argument("table", type=TABLE)
@table_options(price=True)
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON on stdout.")
def evaluate(
    model: Path,
    table: Path,
    text: str | None,
    price: str | None,
    id_: str | None,
    encoding: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Score MODEL, the folder of a run or of a bundle, on the rows of TABLE that have a price.

    \b
    pricekit evaluate bundle holdout.csv

    SMAPE in percent, 0 to 200; the median absolute percentage error; the mean absolute error in the
    table's currency; the root mean square error of log(1 + price); the share of prices inside the 90%
    interval of predict --interval 0.9. Rows that the model was trained on
    flatter it: use others.
    """
    from pricekit.cli.models import open_predictor
    from pricekit.metrics import price_metrics
    from pricekit.screen import notice, show_table
    from pricekit.table import read_usable

    predictor = open_predictor(model)
    columns = named_columns(predictor.preprocessor.columns, text, price, id_)
    rows, _ = read_usable(table, columns, limit=limit, encoding=encoding, notices=notice)
    prices = predictor.predict(rows)
    metrics = {"rows": len(rows), **price_metrics(prices, rows.known_price)}
    if predictor.intervals is not None and predictor.intervals.levels[-1] >= LEVEL:
        low, high = predictor.interval(prices, LEVEL)
        inside = (rows.known_price >= low) & (rows.known_price <= high)
        metrics["interval_90_coverage"] = 100 * float(inside.mean())
    if as_json:
        click.echo(json.dumps(metrics))
    else:
        show_table("", ["metric", "value"], [[name, f"{value:,.2f}"] for name, value in metrics.items()])
