"""The page about drift: its sections and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.insight.alarms import ALARMS, LEAST_ROWS, MEASURES
from pricekit.insight.drift import Drift
from pricekit.plots.drawing import (
    DASHES,
    SIZE,
    Display,
    axes_for,
    clear_legend,
    inks,
    label_axis,
    legend_below,
    number,
    plain,
    show_as_is,
)
from pricekit.report.page import (
    MOST_CHARACTERS,
    MOST_LINES,
    Block,
    Figure,
    Figures,
    Paragraph,
    Piece,
    Product,
    ProductList,
    Section,
    Summary,
    TableBlock,
    picture,
    sections_from,
)
from pricekit.wording import counted, printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN, FEWEST = 15, 5
"""The maximum and the minimum number of features in the picture, which shows those that differ most."""


LEAST_LISTED = 0.005
"""Smaller differences and shares of rows are not listed."""

SHARES = {
    "unknown_words": "words that training rows hardly had, of all words",
    "unknown_tokens": "parts of words that the model does not know",
    "unknown_brands": "rows without a frequent brand",
}
"""The measures that compare two shares, with what the shares count."""


def drift_sections(drift: Drift) -> list[Section]:
    """Return all sections of the page."""
    return sections_from(
        {
            "In short": _verdict(drift),
            "Columns and prices": _features(drift),
            "Values, words and missing cells": _values(drift),
            "Rows least like the training rows": _outliers(drift),
            "How to read this": _reading(),
        }
    )


def _verdict(drift: Drift) -> Iterator[Block]:
    yield Summary(
        [
            ("Whether the table has drifted", drift.verdict),
            ("What has changed most", printable(_largest_change(drift))),
            ("What to do next", _what_next(drift)),
        ],
        f"{counted(drift.rows, 'row')} against {drift.trained_on:,} training rows. Alarms are differences that are "
        "large and beyond chance; the limits are at the end of the page.",
    )
    yield from (Paragraph(sentence, "warning") for sentence in (*drift.alarms, *drift.failures))
    yield from (Paragraph(sentence) for sentence in drift.notes)
    yield Figures(list(_figures(drift)))


def _largest_change(drift: Drift) -> str:
    if (missing := drift.measures["missing_columns"]).value:
        return f"The table lacks {shorten(missing.where, 200)}, which the model reads."
    changed = drift.values[drift.values["change"] != ""]
    if len(changed):
        value = changed.iloc[0]
        shares = f"{_of_100(value['then'])} of 100 rows then, {_of_100(value['now'])} now"
        return (
            f"{shorten(str(value['field']))} {shorten(str(value['value']))!r} is {value['change']}: {shares}."
        )
    shifted = drift.features[drift.features["psi"] >= LEAST_LISTED]
    if not len(shifted):
        return "Nothing that is beyond chance."
    first = shifted.iloc[0]
    return f"The {shorten(str(first['words']), 80)}: {_of_100(first['distance'])} of 100 rows differ."


def _what_next(drift: Drift) -> str:
    if drift.measures["missing_columns"].value:
        return "Add the missing columns to the table: prices without them are guesses."
    if min(drift.rows, drift.trained_on) < LEAST_ROWS:
        return f"Compare at least {LEAST_ROWS} rows: fewer raise no alarm."
    if drift.measures["smape"].exceeds(ALARMS["smape"]):
        return "Train again with these rows, whose prices the model no longer predicts as well."
    if drift.alarms:
        return (
            "Find out whether the source of the table, such as an export or a unit, has changed. If the products "
            "themselves have, train again with rows like these."
        )
    return "Nothing: the model may price this table."


def _figures(drift: Drift) -> Iterator[Figure]:
    """Yield the measures that were computed, in words and numbers of 100 rows."""
    for name, each in drift.measures.items():
        if (value := each.value) is None:
            continue
        limit = ALARMS.get(name)
        over = "" if limit is None else f"alarm above {limit:g}"
        if name == "psi":
            yield Figure(
                "largest change of a distribution", f"PSI {value:.2f}", f"{shorten(each.where, 60)}; {over}"
            )
        elif name == "distance":
            yield Figure(
                "rows that differ most",
                f"{_of_100(value)} of 100",
                f"more or fewer than then: {shorten(each.where, 60)}",
            )
        elif name == "auc":
            note = f"from training rows by a classifier; 50 is chance, alarm above {100 * ALARMS[name]:g}"
            yield Figure("told apart", f"{_of_100(value)} of 100", note)
        elif name in SHARES:
            then = f"{_of_100(each.then or 0.0)} then; alarm if {100 * (limit or 0.0):g} more"
            yield Figure(SHARES[name], f"{_of_100(each.now or 0.0)} of 100", then)
        elif name == "missing_columns":
            yield Figure("missing columns", f"{value:.0f}", shorten(each.where, 60) or "the table has all")
        else:
            both = f"from {each.then:.1f} to {each.now:.1f}; {over}"
            yield Figure("SMAPE", f"{value:+.1f} points", both)


def _of_100(share: float) -> str:
    """Return a share as a number out of 100, with one decimal below 10."""
    return f"{100 * share:.0f}" if share >= 0.095 or not share else f"{100 * share:.1f}"


def _features(drift: Drift) -> Iterator[Block]:
    yield from picture(
        lambda: _shifts(
            drift.features.head(min(DRAWN, max(FEWEST, (drift.features["psi"] >= LEAST_LISTED).sum())))
        ),
        "The PSI of what differs most, less what chance gives. The dashed line is the limit of an alarm.",
    )
    yield from picture(
        lambda: _prices(drift.price_bins),
        "Predicted prices: the shares of rows in each tenth of the predictions for held-out rows, then and now.",
    )
    features = drift.features
    differ = (features["psi"] >= LEAST_LISTED) | (features["distance"] >= LEAST_LISTED)
    rows = [
        [
            str(words),
            str(kind),
            f"{psi:.2f}",
            f"{100 * distance:.1f}",
            "" if rank != rank else f"{100 * rank:.0f}",
        ]
        for words, kind, psi, distance, rank in features.loc[
            differ, ["words", "kind", "psi", "distance", "rank"]
        ].itertuples(index=False)
    ]
    heads = ["what", "kind", "PSI", "rows that differ, of 100", "mean rank, of 100 training rows"]
    yield from _table("What differs", heads, rows)
    if alike := len(features) - len(rows):
        yield Paragraph(f"{alike:,} more do not differ.")


def _values(drift: Drift) -> Iterator[Block]:
    then, now = "then, of 100 rows", "now, of 100 rows"
    missing = drift.missing[(drift.missing["then"] >= LEAST_LISTED) | (drift.missing["now"] >= LEAST_LISTED)]
    for caption, heads, frame in (
        ("Values whose shares have changed", ["column", "value", then, now, "change"], drift.values),
        ("Words whose shares have changed most", ["word", then, now], drift.words),
        ("Rows without a cell", ["column", then, now], missing),
    ):
        rows = [
            [
                shorten(cell, 80) if isinstance(cell, str) else "" if cell != cell else f"{100 * cell:.1f}"
                for cell in row
            ]
            for row in frame.itertuples(index=False)
        ]
        yield from _table(caption, heads, rows)


def _table(caption: str, heads: list[str], rows: list[list[str]]) -> Iterator[Block]:
    """Yield a table, or a sentence if there are no rows."""
    yield TableBlock(caption, heads, rows[:MOST_LINES]) if rows else Paragraph(f"{caption}: none.")


def _outliers(drift: Drift) -> Iterator[Block]:
    if not len(drift.outliers):
        yield Paragraph("Not shown: the rows cannot be compared with the training rows.")
        return
    yield Paragraph("These rows need not be wrong, but their prices are the least certain.")
    products = []
    for row in drift.outliers.to_dict("records"):
        facts = [f"{row['distance']:.1f} times as far from the training rows as an average training row"]
        text, words = Piece(str(row["text"])[:MOST_CHARACTERS]), str(row["new_words"])
        why = f"Words that training rows hardly had: {words}" if words else ""
        products.append(Product(f"row {row['row']} (id {row['id']})", facts, [text], why))
    yield ProductList(products)


def _reading() -> Iterator[Block]:
    rows = [[name, what, f"{ALARMS[name]:g}" if name in ALARMS else ""] for name, what in MEASURES.items()]
    yield TableBlock(
        "Measures, as --fail-over and fail_over name them", ["measure", "meaning", "alarm above"], rows
    )
    yield Paragraph(
        "PSI, the population stability index, is the size of the difference between two distributions: 0 is none, and "
        f"above {ALARMS['psi']:g} is large. PSI and the number of rows that differ exclude what chance alone gives for "
        "tables of these sizes. A small difference on a large table is significant, but it does not raise an alarm. "
        "The training rows are known only by a sketch of their shares."
    )


class _Drawn(Display):
    """A drawn picture with its description."""

    def __init__(self, ax: Axes, title: str, description: str) -> None:
        self._drawn_on(ax, title)
        self._description = description

    def __repr__(self) -> str:
        return self._description


def _shifts(features: pd.DataFrame) -> _Drawn:
    """Draw the PSI of features, as of `Drift.features`."""
    if not len(features):
        raise DataError("no feature could be compared")
    names = [shorten(str(each), 40) for each in features["words"]]
    psi, places = features["psi"], np.arange(len(features))
    ax, ink = axes_for(None, (SIZE[0], 1.6 + 0.28 * len(places))), inks()
    ax.barh(places, psi, color=ink.main)
    ax.axvline(ALARMS["psi"], linestyle=DASHES, color=ink.text, linewidth=1, label="alarm")
    ax.set_yticks(places, labels=list(map(plain, names)))
    show_as_is(ax.get_yticklabels())
    ax.set_ylim(len(places) - 0.4, -0.6)
    label_axis(ax, "x", "PSI")
    legend_below(ax, 1)
    first = (f"{shorten(printable(name))} {size:.2f}" for name, size in zip(names[:3], psi, strict=False))
    return _Drawn(ax, "features and fields", f"PSI: {', '.join(first)}")


def _prices(bins: pd.DataFrame) -> _Drawn:
    """Draw predicted prices then and now, as of `Drift.price_bins`."""
    if not len(bins):
        raise DataError("no prices could be compared")
    ax, ink, places = axes_for(None), inks(), np.arange(len(bins))
    for shift, name, colour in ((-0.2, "then", ink.several[0]), (0.2, "now", ink.several[1])):
        ax.bar(places + shift, bins[name], 0.4, color=colour, label=name)
    cuts = [number(float(f"{value:.3g}")) for value in bins["up_to"][:-1]]
    labels = [*(f"to {cut}" for cut in cuts), f"above {cuts[-1]}" if cuts else "all"]
    ax.set_xticks(places, labels=labels, rotation=45, ha="right")
    label_axis(ax, "x", "predicted price")
    label_axis(ax, "y", "share of rows")
    clear_legend(ax.legend(frameon=False))
    last = bins["now"].iloc[-1]
    return _Drawn(ax, "", f"shares of rows by predicted price; {last:.0%} are now above the highest cut")
