"""What a section of the report consists of. Texts are plain: the page escapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


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
class TableBlock:
    """A table that readers can sort.

    Attributes:
        caption: its title.
        headers: one for each column.
        rows: the cells as text.
        numeric: which columns are aligned to the right and sorted as numbers.
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    block: str = "table"


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
    """A row with its prices, its text, the factors of its price, and similar products."""

    title: str
    facts: Sequence[str]
    pieces: Sequence[Piece]
    factors: Sequence[str] = ()
    similar: Sequence[str] = ()


@dataclass(frozen=True)
class Products:
    """Rows below each other."""

    products: Sequence[Product]
    block: str = "products"


Block = Paragraph | Figures | TableBlock | Picture | Products


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Its name in links."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())
