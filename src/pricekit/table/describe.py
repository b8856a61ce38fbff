"""How prices were read, in words."""

from __future__ import annotations

import numpy as np

from pricekit.table.currency import label
from pricekit.table.price_format import PriceFormat
from pricekit.table.prices import read_as

_SHOWN_CHARS = 40


def describe_prices(form: PriceFormat) -> str:
    """Return what the user should know of a price column's reading, "" where all cells are plain numbers and clear."""
    if not form.written and not form.others and not form.guessed:
        return ""
    parts = [f"prices read: {examples(form)}", f"decimal mark '{form.decimal}'"]
    if form.currency:
        parts.insert(1, f"currency {label(form.currency)}")
    said = ["; ".join(parts) + ". Overrule it with --decimal and --currency."]
    if form.guessed:
        thousands = "." if form.decimal == "," else ","
        said.append(
            f"{form.open:,} have a '.' or ',' before three digits, and hardly another says what it is: "
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
        said.append(f"Set aside for another currency: {form.others:,} ({count_currencies(form)}).")
    return " ".join(said)


def examples(form: PriceFormat) -> str:
    """Return some cells and what they are read as."""
    return ", ".join(f"'{_short(text)}' as {_number(read_as(text, form))}" for text in form.examples)


def count_currencies(form: PriceFormat) -> str:
    """Return how many cells show each currency, most frequent first."""
    return ", ".join(f"{label(name)}: {count:,}" for name, count in form.currencies.items())


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def _number(value: float) -> str:
    return "no price" if np.isnan(value) else np.format_float_positional(float(f"{value:.12g}"), trim="-")
