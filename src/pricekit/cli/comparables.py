"""`pricekit comparables`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from pricekit.cli.options import json_option, model_and_table
from pricekit.cli.show import fit_width, show_rows
from pricekit.options import ComparablesOptions
from pricekit.wording import printable

if TYPE_CHECKING:
    from pricekit.insight.comparables import Comparable, Comparables


@click.command
@model_and_table(ComparablesOptions)
@json_option("Print one JSON object per row on stdout.")
def comparables(**flags: Any) -> None:
    """Show the products with known prices that are most similar to rows of TABLE, beside the price that MODEL predicts.

    \b
    pricekit comparables bundle new.csv --row 4711
    pricekit comparables run new.csv --among products.csv --same brand --same unit
    pricekit comparables bundle new.csv --json > comparables.jsonl

    A bundle contains products if it was exported with --with-comparables. Similarity is that of the words and word
    pairs of the texts, from 0 to 1; rare ones count more, and below 0.15 a product says nothing about a price. A
    predicted price is far from its comparables if it is outside of the range of at least three similar ones, and over
    twice or under half of their median.

    Without --row, --limit and --json, the command shows the first 5 rows.
    """
    show_rows("comparables", flags, _lines)


def _lines(similar: Comparables, width: int) -> Iterator[Text]:
    """Yield a row and its products."""
    unit = f" {similar.currency}" if similar.currency else ""
    price = f"  predicted {similar.price:,.2f}{unit}; "
    price += (
        "no product is similar"
        if similar.median is None
        else f"median of similar products {similar.median:,.2f}"
    )
    far = Text("  far from them", style="bold dark_orange") if similar.far else Text("")
    yield Text.assemble((printable(f"{similar.id}"), "bold"), price, far)
    yield Text(fit_width(similar.name, width), style="dim")
    if not similar.products:
        yield Text("  no product shares a word with it, or has what it must have in common")
    for product in similar.products:
        yield _line(product, width)


def _line(product: Comparable, width: int) -> Text:
    by_size = product.unit_price
    amount = f"{by_size[0]:,.2f} / {by_size[1]}" if by_size else ""
    head = f"  {product.price:>10,.2f}  {amount:>16}  {product.similarity:4.2f}  "
    name = fit_width(f"{product.name}  ({product.id})", max(width - len(head), 20))
    return Text.assemble((head, "blue"), name)
