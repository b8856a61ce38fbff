"""How prices were read, in words."""

from __future__ import annotations

import numpy as np

from pricekit.table.prices.currency import label, may_mean
from pricekit.table.prices.parse import read_as
from pricekit.table.prices.price_format import PriceFormat
from pricekit.text import shorten


def describe_prices(form: PriceFormat) -> str:
    """Return what the user should know of a price column's reading, "" where all cells are plain numbers and clear."""
    if not form.written and not form.others and not form.guessed:
        return ""
    parts = [f"decimal mark '{form.decimal}'"]
    if form.currency:
        parts.insert(0, f"currency {label(form.currency)}")
    if form.examples:
        parts.insert(0, examples(form))
    said = [f"prices read: {'; '.join(parts)}. Overrule it with --decimal and --currency."]
    if form.guessed:
        thousands = "." if form.decimal == "," else ","
        said.append(
            f"{form.open:,} cells have a '.' or ',' before three digits, and hardly any other cell tells what it is: "
            f"'{form.decimal}' is taken for the decimal mark, '{thousands}' to part thousands. If it is the other way "
            f"round, --decimal {thousands} says so."
        )
    if form.against:
        said.append(f"Cells that show the other decimal mark, each read by its own: {form.against:,}.")
    if form.several:
        said.append(
            "Cells with several prices, of which the first counts, or the one that follows a word like 'now': "
            f"{form.several:,}."
        )
    if form.others:
        said.append(
            f"Set aside for another currency: {form.others:,} ({count_currencies(form, others=True)})."
        )
    return " ".join(said)


def examples(form: PriceFormat) -> str:
    """Return some cells and what they are read as."""
    return ", ".join(f"'{shorten(text)}' as {_number(read_as(text, form))}" for text in form.examples)


def count_currencies(form: PriceFormat, *, others: bool = False) -> str:
    """Return how many cells show each currency, most frequent first, or each other one than the column's."""
    main = form.currency if others else None
    shown = {name: count for name, count in form.currencies.items() if not main or not may_mean(name, main)}
    return ", ".join(f"{label(name)}: {count:,}" for name, count in shown.items())


def _number(value: float) -> str:
    return "no price" if np.isnan(value) else np.format_float_positional(float(f"{value:.12g}"), trim="-")
