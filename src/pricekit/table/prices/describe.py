"""Describe in words how prices were read."""

from __future__ import annotations

import numpy as np

from pricekit.table.prices.currency import label, may_mean
from pricekit.table.prices.parse import read_as
from pricekit.table.prices.price_format import PriceFormat
from pricekit.text import shorten


def describe_prices(form: PriceFormat) -> str:
    """Return what the user should know about how prices were read, "" where all cells are unambiguous plain numbers."""
    if not form.formatted and not form.others and not form.guessed:
        return ""
    parts = [f"decimal mark '{form.decimal}'"]
    if form.currency:
        parts.insert(0, f"currency {label(form.currency)}")
    if form.examples:
        parts.insert(0, examples(form))
    sentences = [f"prices read: {'; '.join(parts)}. Set decimal and currency to override this."]
    if form.guessed:
        sentences.append(_describe_guess(form))
    if form.contradicting:
        sentences.append(
            f"Cells that show the other decimal mark, each read by its own: {form.contradicting:,}."
        )
    if form.several:
        sentences.append(
            "Cells with several prices, of which the first one is used, or the one after a word such as 'now': "
            f"{form.several:,}."
        )
    if form.others:
        sentences.append(
            f"Set aside because of another currency: {form.others:,} ({count_currencies(form, others=True)})."
        )
    return " ".join(sentences)


def _describe_guess(form: PriceFormat) -> str:
    thousands = "." if form.decimal == "," else ","
    return (
        f"{form.ambiguous:,} cells have a '.' or ',' before three digits, and hardly any other cell shows what it is: "
        f"'{form.decimal}' is taken as the decimal mark and '{thousands}' as the separator of thousands. If that is "
        f"wrong, set decimal to '{thousands}'."
    )


def examples(form: PriceFormat) -> str:
    """Return some cells with the numbers that they are read as."""
    return ", ".join(f"'{shorten(text)}' as {_number(read_as(text, form))}" for text in form.examples)


def count_currencies(form: PriceFormat, *, others: bool = False) -> str:
    """Return how many cells show each currency, most frequent first; with `others` without the column's currency."""
    main = form.currency if others else None
    shown = {name: count for name, count in form.currencies.items() if not main or not may_mean(name, main)}
    return ", ".join(f"{label(name)}: {count:,}" for name, count in shown.items())


def _number(value: float) -> str:
    return "no price" if np.isnan(value) else np.format_float_positional(float(f"{value:.12g}"), trim="-")
