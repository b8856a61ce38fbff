"""`pricekit evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.common import ask_model
from pricekit.cli.options import json_option, model_and_table
from pricekit.cli.terminal import begin, show_data, show_result
from pricekit.options import TableEvaluateOptions
from pricekit.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.cli.show import Columns


@click.command
@model_and_table(TableEvaluateOptions, required=False)
@json_option("Print all scores as JSON on stdout.")
def evaluate(as_json: bool, **flags: Any) -> None:
    """Score MODEL, the folder of a run or a bundle, on the rows of TABLE that have a price.

    \b
    pricekit evaluate bundle other.csv            on a table
    pricekit evaluate run                         on the held-out rows of a run or a cross-validation
    pricekit evaluate run --worst 20              also the rows with the largest errors
    pricekit evaluate run --by brand --out errors.csv

    The first metric is the one that the model was trained to minimise, by default SMAPE in percent, from 0 to 200,
    with its 95% bootstrap interval. The others are SMAPE; the median absolute percentage error; the mean absolute
    error in the table's currency; the root mean square error of log(1 + price); R² of the log price; and the share of
    prices inside the 90% interval of predict --interval 0.9. The command also prints the first metric by price, by
    text length, and by the columns of the table with few values (by unit if there are none); that of the surest rows,
    from the surest tenth to all; and the share of the prices that may go out without a person, see predict --within.

    The error of a row is its part of the metric: for SMAPE, from 0 to 200. The quantity is the one that the built-in
    features find in the text. "! price" and "! predicted" mark prices that are far from those of similar products, see
    `pricekit comparables`. With --worst or --by, each group has its share of the total error.

    Scores on rows that the model was trained on are too optimistic. Use other rows.
    """
    begin(f"opening {flags['model']}", "pricekit.answers.evaluate")
    from pricekit.cli.show import show_scores

    worst, out = flags["worst"], flags["out"]
    with_errors = worst is not None or flags["by"] is not None
    scores = ask_model("evaluate", flags)
    if as_json:
        show_data(scores.to_json())
    else:
        if worst:
            _show_worst(scores.worst)
            show_result(
                f"{scores.share_of_worst:.1f}% of all error in the worst {counted(len(scores.worst), 'row')}"
            )
        show_scores(scores, errors=with_errors)
    if out:
        show_result(f"all rows, worst first, are in {out}", out=out)


def _show_worst(rows: pd.DataFrame) -> None:
    """Print rows of an error table, each on one line of the terminal."""
    from pricekit.cli.show import fit_width, room_for_text, show_columns
    from pricekit.evaluation.groups import amount
    from pricekit.text.labelled_lines import as_strings, join_texts, split_lines

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
