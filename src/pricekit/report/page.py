"""The page of a report: what its sections consist of, pictures as SVG, and one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pricekit.errors import ConfigError, DataError
from pricekit.io.storage import Address, Location, check_bucket, location_of, write_text
from pricekit.options import PathLike
from pricekit.wording import is_number

MOST_LINES = 100
"""Rows of a table of the page."""

MOST_CHARACTERS = 1_500
"""Characters of a row's text that are shown."""

MOST_POINTS = 200
"""More points of a picture become pixels: the page stays small."""

DPI = 150

TEMPLATE = Path(__file__).parent / "template"


@dataclass(frozen=True)
class Paragraph:
    """A sentence or several; `kind` "warning" is highlighted, and "code" keeps spaces and lines."""

    text: str
    kind: Literal["text", "warning", "code"] = "text"
    block: str = "paragraph"


@dataclass(frozen=True)
class Figure:
    """A key figure: its name, its value, and what it means."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Figures:
    """Key figures beside each other."""

    figures: Sequence[Figure]
    block: str = "figures"


@dataclass(frozen=True)
class Summary:
    """A few sentences that sum up a page, each with its topic, and the rules behind them."""

    sentences: Sequence[tuple[str, str]]
    rules: str
    block: str = "summary"


@dataclass(frozen=True)
class TableBlock:
    """A table that readers can sort and search; the page begins with 15 rows of a long table.

    Attributes:
        caption: its title.
        headers: one for each column.
        rows: the cells as text.
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    block: str = "table"

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns are aligned to the right and sorted as numbers: those whose cells are numbers or empty."""
        columns = [[row[place] for row in self.rows if row[place]] for place in range(len(self.headers))]
        return [bool(cells) and all(map(is_number, cells)) for cells in columns]


@dataclass(frozen=True)
class Picture:
    """A picture: a data URI of an SVG, what it shows, for readers who cannot see it, and its caption."""

    source: str
    description: str
    caption: str
    block: str = "picture"


@dataclass(frozen=True)
class Piece:
    """A piece of a text; `effect` is the contribution to the log price, 0 if it is not highlighted."""

    text: str
    effect: float = 0.0

    @property
    def strength(self) -> float:
        """How strongly it is coloured, from 0 to 1."""
        return min(1.0, abs(self.effect) / 0.7)


@dataclass(frozen=True)
class Product:
    """A row with its prices, its text, what explains them, its factors or words, and similar products."""

    title: str
    facts: Sequence[str]
    pieces: Sequence[Piece]
    why: str = ""
    factors: Sequence[str] = ()
    similar: Sequence[str] = ()


@dataclass(frozen=True)
class ProductList:
    """Rows below each other."""

    products: Sequence[Product]
    block: str = "products"


Block = Summary | Paragraph | Figures | TableBlock | Picture | ProductList


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    title: str
    blocks: list[Block]

    @property
    def anchor(self) -> str:
        """Its name in links."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def sections_from(blocks: Mapping[str, Iterable[Block]]) -> list[Section]:
    """Return sections from their titles and blocks, in order; those without blocks are left out."""
    sections = [Section(title, list(contents)) for title, contents in blocks.items()]
    return [section for section in sections if section.blocks]


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


def _uri(figure: Any) -> str:
    import matplotlib as mpl

    for points in (each for axes in figure.axes for each in axes.collections):
        points.set_rasterized(len(points.get_offsets()) > MOST_POINTS)
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "pricekit", "savefig.dpi": DPI}):
        figure.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def require_libraries() -> None:
    """Raise ConfigError if a library of the extra `report` is not installed."""
    missing = [name for name in ("jinja2", "matplotlib", "py3langid") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a report needs {' and '.join(missing)}, which is not installed: pip install 'pricekit[report]'"
        )


def page_at(out: PathLike) -> Location:
    """Return where to write a page, before the work; raises ConfigError, DataError."""
    require_libraries()
    page = location_of(out, "out")
    if isinstance(page, Address):
        check_bucket(page)
    return page


def write_page(out: Location, title: str, sections: Sequence[Section]) -> None:
    """Write the page, which appears as a whole."""
    write_text(out, render(title, sections))


def render(title: str, sections: Sequence[Section]) -> str:
    """Return the page.

    The policy in its head allows no request, and no script but that of the tables, by its hash. jinja2 escapes
    every text of the table.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((TEMPLATE / name).read_text("utf-8") for name in ("report.css", "tables.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html")
    return str(page.render(title=title, sections=sections, style=style, script=script, digest=digest))
