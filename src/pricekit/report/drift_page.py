"""The page about drift: its sections and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.insight.alarms import ALARMS, MEASURES
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
    TableBlock,
    picture,
    sections_from,
)
from pricekit.wording import printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = 15
"""Features in the picture, those with the highest PSI."""


def drift_sections(drift: Drift) -> list[Section]:
    """Return all sections of the page."""
    return sections_from(
        {
            "Whether the table has drifted": _verdict(drift),
            "Features and prices": _features(drift),
            "Values, words and missing fields": _values(drift),
            "Rows least like the training rows": _outliers(drift),
            "How to read this": _reading(),
        }
    )


def _verdict(drift: Drift) -> Iterator[Block]:
    yield Paragraph(drift.verdict, "warning" if drift.alarms else "text")
    yield from (Paragraph(sentence, "warning") for sentence in (*drift.alarms, *drift.failures))
    yield from (Paragraph(sentence) for sentence in drift.notes)
    figures = [Figure("rows", f"{drift.rows:,}", f"against {drift.trained_on:,} training rows")]
    for each in drift.measures.values():
        if each.value is not None:
            both = "" if each.then is None else f"from {each.then:.3g} to {each.now:.3g}"
            figures.append(
                Figure(each.name.replace("_", " "), f"{each.value:.3g}", both or shorten(each.where, 60))
            )
    yield Figures(figures)


def _features(drift: Drift) -> Iterator[Block]:
    yield from picture(
        lambda: _shifts(drift.features.head(DRAWN)),
        "The PSI of the features that differ most, less what chance gives. The dashed line is the limit of an alarm.",
    )
    yield from picture(
        lambda: _prices(drift.price_bins),
        "Predicted prices: the shares of rows in each tenth of the predictions for held-out rows, then and now.",
    )
    columns = ["name", "kind", "psi", "distance", "rank"]
    yield _table("Features, fields and predicted prices", drift.features[columns])


def _values(drift: Drift) -> Iterator[Block]:
    for caption, frame in (
        ("Values whose shares have changed", drift.values),
        ("Words whose shares have changed most", drift.words),
        ("Shares of rows without a field", drift.missing),
    ):
        if len(frame):
            yield _table(caption, frame)
        else:
            yield Paragraph(f"{caption}: none.")


def _outliers(drift: Drift) -> Iterator[Block]:
    if not len(drift.outliers):
        yield Paragraph("Not shown: the rows cannot be compared with the training rows.")
        return
    yield Paragraph(
        "The distance of a training row is about 1. These rows need not be wrong, but their prices are the least "
        "certain."
    )
    products = []
    for row in drift.outliers.to_dict("records"):
        words = str(row["new_words"])
        factors = [f"words that training rows hardly had: {words}"] if words else []
        text, facts = Piece(str(row["text"])[:MOST_CHARACTERS]), [f"distance {row['distance']:.1f}"]
        products.append(Product(f"row {row['row']}, {row['id']}", facts, [text], factors=factors))
    yield ProductList(products)


def _reading() -> Iterator[Block]:
    rows = [[name, what, f"{ALARMS[name]:g}" if name in ALARMS else ""] for name, what in MEASURES.items()]
    yield TableBlock("Measures", ["measure", "meaning", "alarm above"], rows)
    yield Paragraph(
        "All measures are sizes of differences. From PSI and distance, what chance alone gives for tables of these "
        "sizes is subtracted. A small difference on a large table is significant, but no alarm. The model holds no "
        "training rows, but a sketch of their shares."
    )


def _table(caption: str, frame: pd.DataFrame) -> TableBlock:
    rows = [
        [
            shorten(cell, 80) if isinstance(cell, str) else "" if cell != cell else f"{cell:.3f}"
            for cell in row
        ]
        for row in frame.head(MOST_LINES).itertuples(index=False)
    ]
    return TableBlock(caption, list(map(str, frame)), rows)


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
    names, psi, places = list(map(str, features["name"])), features["psi"], np.arange(len(features))
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
