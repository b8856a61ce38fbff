"""The page about drift: its sections and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    heading,
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

DRAWN = 15
"""Features in the picture, those with the highest PSI."""


def drift_sections(found: Drift) -> list[Section]:
    """Return all sections of the page."""
    return sections_from(
        {
            "Whether the table has drifted": _verdict(found),
            "Features and prices": _features(found),
            "Values, words and missing fields": _values(found),
            "Rows least like the training rows": _outliers(found),
            "How to read this": _reading(),
        }
    )


def _verdict(found: Drift) -> Iterator[Block]:
    yield Paragraph(found.verdict, "warning" if found.alarms else "text")
    yield from (Paragraph(sentence, "warning") for sentence in (*found.alarms, *found.failures))
    yield from (Paragraph(sentence) for sentence in found.notes)
    figures = [Figure("rows", f"{found.rows:,}", f"against {found.trained_on:,} training rows")]
    for each in found.measures.values():
        if each.value is not None:
            both = "" if each.then is None else f"from {each.then:.3g} to {each.now:.3g}"
            figures.append(
                Figure(each.name.replace("_", " "), f"{each.value:.3g}", both or shorten(each.where, 60))
            )
    yield Figures(figures)


def _features(found: Drift) -> Iterator[Block]:
    yield from picture(
        lambda: _Shifts(found.features.head(DRAWN)).plot(),
        "The PSI of the features that differ most, less what chance gives. The dashed line is the limit of an alarm.",
    )
    yield from picture(
        lambda: _Prices(found.price_bins).plot(),
        "Predicted prices: the shares of rows in each tenth of the predictions for held-out rows, then and now.",
    )
    columns = ["name", "kind", "psi", "distance", "rank"]
    yield _table("Features, fields and predicted prices", found.features[columns], texts=2)


def _values(found: Drift) -> Iterator[Block]:
    for caption, frame, texts in (
        ("Values whose shares have changed", found.values, 2),
        ("Words whose shares have changed most", found.words, 1),
        ("Shares of rows without a field", found.missing, 1),
    ):
        if len(frame):
            yield _table(caption, frame, texts=texts)
        else:
            yield Paragraph(f"{caption}: none.")


def _outliers(found: Drift) -> Iterator[Block]:
    if not len(found.outliers):
        yield Paragraph("Not shown: the rows cannot be compared with the training rows.")
        return
    yield Paragraph(
        "The distance of a training row is about 1. These rows need not be wrong, but their prices are the least "
        "certain."
    )
    products = []
    for row in found.outliers.to_dict("records"):
        words = str(row["new_words"])
        factors = [f"words that training rows hardly had: {words}"] if words else []
        text, facts = Piece(str(row["text"])[:MOST_CHARACTERS]), [f"distance {row['distance']:.1f}"]
        products.append(Product(f"row {row['row']}, {row['id']}", facts, [text], factors))
    yield ProductList(products)


def _reading() -> Iterator[Block]:
    rows = [[name, what, f"{ALARMS[name]:g}" if name in ALARMS else ""] for name, what in MEASURES.items()]
    yield TableBlock("Measures", ["measure", "meaning", "alarm above"], rows, [False, False, True])
    yield Paragraph(
        "All measures are sizes of differences. From PSI and distance, what chance alone gives for tables of these "
        "sizes is subtracted. A small difference on a large table is significant, but no alarm. The model holds no "
        "training rows, but a sketch of their shares."
    )


def _table(caption: str, frame: pd.DataFrame, *, texts: int) -> TableBlock:
    """Return a frame as a table; `texts` is the number of its first columns that are text."""
    numeric = [place >= texts and name != "change" for place, name in enumerate(frame)]
    rows = [
        [
            shorten(str(cell), 80) if not is_number else "" if cell != cell else f"{cell:.3f}"
            for cell, is_number in zip(row, numeric, strict=True)
        ]
        for row in frame.head(MOST_LINES).itertuples(index=False)
    ]
    return TableBlock(caption, [str(name) for name in frame], rows, numeric)


@dataclass(repr=False, eq=False)
class _Shifts(Display):
    """The PSI of features; arguments as of `Drift.features`."""

    features: pd.DataFrame

    def plot(self) -> _Shifts:
        if not len(self.features):
            raise DataError("no feature could be compared")
        places = np.arange(len(self.features))
        ax, ink = axes_for(None, (SIZE[0], 1.6 + 0.28 * len(places))), inks()
        ax.barh(places, self.features["psi"], color=ink.main)
        ax.axvline(ALARMS["psi"], linestyle=DASHES, color=ink.text, linewidth=1, label="alarm")
        ax.set_yticks(places, labels=[plain(name) for name in self.features["name"]])
        show_as_is(ax.get_yticklabels())
        ax.set_ylim(len(self.features) - 0.4, -0.6)
        label_axis(ax, "x", "PSI")
        heading(ax, "features and fields")
        legend_below(ax, 1)
        return self._drawn_on(ax)

    def __repr__(self) -> str:
        pairs = zip(self.features["name"][:3], self.features["psi"], strict=False)
        return f"PSI: {', '.join(f'{shorten(printable(str(name)))} {psi:.2f}' for name, psi in pairs)}"


@dataclass(repr=False, eq=False)
class _Prices(Display):
    """Predicted prices then and now; arguments as of `Drift.price_bins`."""

    bins: pd.DataFrame

    def plot(self) -> _Prices:
        if not len(self.bins):
            raise DataError("no prices could be compared")
        ax, ink = axes_for(None), inks()
        places = np.arange(len(self.bins))
        for shift, name, colour in ((-0.2, "then", ink.several[0]), (0.2, "now", ink.several[1])):
            ax.bar(places + shift, self.bins[name], 0.4, color=colour, label=name)
        cuts = [number(float(f"{value:.3g}")) for value in self.bins["up_to"][:-1]]
        labels = [*(f"to {cut}" for cut in cuts), f"above {cuts[-1]}" if cuts else "all"]
        ax.set_xticks(places, labels=labels, rotation=45, ha="right")
        label_axis(ax, "x", "predicted price")
        label_axis(ax, "y", "share of rows")
        clear_legend(ax.legend(frameon=False))
        return self._drawn_on(ax)

    def __repr__(self) -> str:
        last = self.bins["now"].iloc[-1]
        return f"shares of rows by predicted price; {last:.0%} are now above the highest cut"
