"""`pricekit explain`."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from pricekit.cli.options import json_option, model_and_table
from pricekit.cli.show import fit_width, show_rows
from pricekit.options import ExplainOptions
from pricekit.wording import printable

if TYPE_CHECKING:
    from pricekit.insight.explanations import Explanation, Factor


@click.command
@model_and_table(ExplainOptions)
@json_option("Print one JSON object per row on stdout.")
def explain(**flags: Any) -> None:
    """Decompose the prices that MODEL predicts for rows of TABLE into factors.

    \b
    pricekit explain bundle new.csv --row 4711
    pricekit explain run new.csv --limit 100 --json > reasons.jsonl

    price = base × all factors. The base is the price of a row without any text. A factor above 1 belongs to a part
    that raises the price: a phrase, such as "Pack of 6", a line, or a cell of a column. To find the factors, the
    command prices the row without some of its parts. So the factors say what the model has learned, not what causes a
    price.

    Without --row, --limit and --json, the command explains the first 5 rows.
    """
    show_rows("explain", flags, _lines)


def _lines(explanation: Explanation, width: int) -> Iterator[Text]:
    """Yield the factors of one row, the largest effect first."""
    from pricekit.insight.explanations import SHOWN

    several = len(explanation.cells) > 1
    unit = f" {explanation.currency}" if explanation.currency else ""
    price = f"{explanation.price:,.2f}{unit} = {explanation.base:,.2f} × the factors of"
    yield Text.assemble((printable(f"{explanation.id}"), "bold"), f"  {price}")
    yield Text(fit_width(next(iter(explanation.cells.values())), width), style="dim")
    phrases = explanation.phrases()
    for factor in phrases[:SHOWN]:
        yield _line(factor, width, with_column=several)
    if others := phrases[SHOWN:]:
        rest = prod(factor.factor for factor in others)
        yield Text(f"  × {rest:5.2f}   {len(others)} other parts")


def _line(factor: Factor, width: int, *, with_column: bool) -> Text:
    from pricekit.insight.explanations import name_of

    sign, style = ("▲", "blue") if factor.factor > 1 else ("▼", "dark_orange")
    column = f"{factor.column}: " if with_column and factor.kind != "column" else ""
    name = fit_width(column + name_of(factor), width - 14)
    return Text.assemble("  × ", (f"{factor.factor:5.2f} {sign}", style), f" {name}")
