"""`pricekit errors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import as_arguments
from pricekit.cli.options import TABLE, metric_option, scored_rows
from pricekit.cli.terminal import begin, show_result
from pricekit.support.text import counted

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.cli.show import Columns


@click.command
@scored_rows
@metric_option("Metric that counts.  [default: that of the model]")
@click.option(
    "--worst", type=click.IntRange(min=0), default=20, show_default=True, help="Number of rows to list."
)
@click.option(
    "--by",
    metavar="COL",
    help="Group only by this column of the table, up to 50 values. Values with fewer than ten rows are merged.",
)
@click.option(
    "--among",
    type=TABLE,
    help="Table of products with prices: mark prices that are far from those of similar products.  [default: the "
    "products that the bundle contains, if any]",
)
@click.option(
    "--out", type=TABLE, help="Also write all rows, worst first, as CSV, TSV, Parquet or JSON lines."
)
def errors(worst: int, **flags: Any) -> None:
    """List the rows with the largest errors of MODEL, and show which groups of rows have large errors.

    \b
    pricekit errors run                         the held-out rows of a run or a cross-validation
    pricekit errors bundle other.csv            the rows of a table
    pricekit errors run --by brand --out errors.csv
    pricekit errors run --among products.csv    with the prices of similar products

    The error of a row is its part of the metric: for SMAPE, from 0 to 200. The quantity is the one that the built-in
    features find in the text. The groups are by unit, by whether a quantity was found, by price, and by the
    columns of the table with few values. "! price" and "! predicted" mark prices that are far from those of similar
    products, see `pricekit comparables`. Each group has its metric, its share of the total error, and whether
    predictions are typically too high or too low.
    """
    begin(f"opening {flags['model']}", "pricekit.workflows.evaluate")
    import pricekit as pk
    from pricekit.cli.show import show_groups

    report = pk.worst_rows(**as_arguments(flags))
    rows = len(report.rows)
    if worst:
        _show_worst(report.worst(worst))
    share = (
        f", {report.share_of_worst(worst):.1f}% of all error in the worst {counted(min(worst, rows), 'row')}"
    )
    show_result(
        f"{counted(rows, 'row')}, {report.metric.title} {report.metric.write(report.score)}{share if worst else ''}"
    )
    show_groups(report.groups, report.metric, errors=True)
    if flags["out"]:
        show_result(f"all rows, worst first, are in {flags['out']}", out=flags["out"])


def _show_worst(rows: pd.DataFrame) -> None:
    """Print rows of an error table, each on one line of the terminal."""
    from pricekit.cli.show import fit_width, room_for_text, show_columns
    from pricekit.evaluation.groups import amount
    from pricekit.features.labelled_lines import as_strings, join_texts, split_lines

    columns = {
        **_names(rows),
        "error": [f"{error:,.0f}" if error >= 10 else f"{error:.3g}" for error in rows["error"]],
        "price": list(map(amount, rows["price"])),
        "predicted": list(map(amount, rows["predicted"])),
        "quantity": list(map(_quantity, rows["value"], rows["total"], rows["measure"])),
    }
    if "far" in rows:
        columns["comparables"] = list(map(_comparable, rows["comparable_price"], rows["far"]))
    room = room_for_text(columns)
    names = split_lines(join_texts(as_strings(rows["text"]))).titles("").to_pylist()
    columns["text"] = [
        fit_width(name if name.strip() else text, room)
        for name, text in zip(names, rows["text"], strict=True)
    ]
    show_columns("", columns)


def _names(rows: pd.DataFrame) -> Columns:
    """Return the column of the ids of rows; rows without ids have their row numbers in the file."""
    from pricekit.cli.show import fit_width

    numbers = [f"{row}" for row in rows["row"]]
    named = any(id_ not in ("", number) for id_, number in zip(rows["id"], numbers, strict=True))
    return {"id": [fit_width(id_, 12) for id_ in rows["id"]]} if named else {"row": numbers}


def _comparable(price: float, far: str) -> str:
    """Return the median price of similar products, with ! if the true or the predicted price is far from them."""
    from pricekit.evaluation.groups import amount

    return "" if price != price else amount(price) + (f" ! {far}" if far else "")


def _quantity(value: float, total: float, measure: str) -> str:
    """Return a quantity as text: "340 g"; "12" without a unit; "none" if there is no quantity."""
    if not value:
        return "none"
    return f"{total:,.4g} {measure}".strip() if total < 1000 else f"{total:,.0f} {measure}".strip()
