"""Plots as pictures of the page: an SVG in a data URI, so that its names do not clash with those of others."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

from pricekit.errors import DataError
from pricekit.reporting.blocks import Block, Paragraph, Picture


def picture(draw: Callable[[], Any], caption: str) -> Iterator[Block]:
    """Yield the picture that a function draws; if the rows do not suffice for it, a sentence that says so.

    Args:
        draw: returns a display of `pricekit.plots` that has been drawn.
        caption: what the picture shows, and how to read it.
    """
    from pricekit.plots import style

    try:
        with style():
            display = draw()
    except DataError as error:
        yield Paragraph(f"Not shown: {error}")
        return
    yield Picture(_uri(display.figure_), repr(display), caption)


MOST_POINTS = 200
"""More points of a picture become pixels: the page stays small."""

DPI = 150


def _uri(figure: Any) -> str:
    import matplotlib as mpl

    for points in (each for axes in figure.axes for each in axes.collections):
        points.set_rasterized(len(points.get_offsets()) > MOST_POINTS)
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "pricekit", "savefig.dpi": DPI}):
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
