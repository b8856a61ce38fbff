"""Plain text for labels: names of metrics and prices, and texts of a table, which may contain anything."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from pricekit.metrics import Metric
from pricekit.support.text import printable, shorten

WIDTH = 28
"""The most characters of a text that a label shows."""
MISSING = "\N{WHITE SQUARE}"
"""Stands for a character that the font does not have."""
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of a matplotlib text that is shown as it is, without mathtext and TeX."""

_MANY_MARKS = re.compile("([\u0300-\u036f]{3})[\u0300-\u036f]+")
"""More accents on one letter than any language has; they would cover other labels."""
_MARKS = ("Cf", "Mn", "Me", "Mc")
"""Categories of characters that are drawn over another one or not at all."""


def plain(text: object, width: int = WIDTH) -> str:
    """Return a text for a label: on one line, shortened, with only characters that the current font has.

    A character that is missing in the fonts of `rcParams["font.family"]` becomes a square. Marks that no font shows
    disappear.

    Args:
        text: any text, such as the name of a group.
        width: the most characters of the label.
    """
    short = _MANY_MARKS.sub(r"\1", shorten(printable(shorten(str(text), width)), width))
    fonts = _fonts()
    return "".join(_shown(character, fonts) for character in short)


def metric_label(metric: Metric, currency: str | None) -> str:
    """Return the name of a metric with its unit, such as "SMAPE (%)" or "MAE (USD)"."""
    unit = plain(currency or "currency of the table") if metric.unit == "price" else metric.unit
    return f"{metric.title} ({unit})" if unit else metric.title


def price_label(name: str, currency: str | None) -> str:
    """Return the name of a price with its currency, such as "true price (USD)"; without one, the name alone."""
    return f"{name} ({plain(currency)})" if currency else name


def number(value: float) -> str:
    """Return a number for an axis: 0.05, 2.5, 1,000, 1e+09."""
    whole = float(value).is_integer() and abs(value) < 1e8
    return f"{value:,.0f}" if whole else f"{value:g}"


def _shown(character: str, fonts: list[Any]) -> str:
    if any(font.get_char_index(ord(character)) for font in fonts):
        return character
    return "" if unicodedata.category(character) in _MARKS else MISSING


def _fonts() -> list[Any]:
    """Return the fonts in which matplotlib looks for a character, as it would find them."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    found = []
    for family in FontProperties().get_family():
        try:
            found.append(findfont(FontProperties(family=family), fallback_to_default=False))
        except ValueError:  # not installed
            continue
    return [get_font(path) for path in found or [findfont(FontProperties())]]
