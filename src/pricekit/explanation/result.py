"""What users see of an explanation: factors of a price, as text, HTML and JSON."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pricekit.explanation.attribution import Node
from pricekit.explanation.parts import Kind
from pricekit.support.text import shorten

SHOWN = 8
"""Factors that are shown on their own; the others are shown as one."""

LONGEST = 60
"""Characters of a part that is shown."""

STRONGEST = math.log(2)
"""The contribution that is shown in the strongest colour."""

RAISES, LOWERS = "42,111,176", "213,94,0"
"""Blue and vermilion as red, green and blue, which colour-blind readers can tell apart."""


@dataclass(frozen=True)
class Factor:
    """What a part of a row multiplies the price by.

    Attributes:
        kind: "line", "group" of phrases, "phrase" or "word"; "column" for a cell that is not divided.
        column: the column of the part.
        text: what the part says.
        start: its first character in the cell of the column.
        end: behind its last character.
        factor: what it multiplies the price by, above 0.
        parts: the factors of its own parts, whose product is `factor`; () if it was not divided.
    """

    kind: Kind
    column: str
    text: str
    start: int
    end: int
    factor: float
    parts: tuple[Factor, ...] = ()

    @property
    def log(self) -> float:
        """The natural logarithm of the factor."""
        return math.log(self.factor)

    def smallest(self) -> Iterator[Factor]:
        """Yield the smallest parts that have a factor of their own, in order: words, as far as it was divided."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.smallest()

    def phrases(self) -> Iterator[Factor]:
        """Yield the parts that make sense on their own, in order: those whose parts are words, or not divided."""
        if not self.parts or self.parts[0].kind == "word":
            yield self
            return
        for part in self.parts:
            yield from part.phrases()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found = {
            "kind": self.kind,
            "column": self.column,
            "text": self.text,
            "start": self.start,
            "end": self.end,
        }
        parts = {"parts": [part.to_dict() for part in self.parts]} if self.parts else {}
        return {**found, "factor": self.factor, **parts}


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a row has its price: price = base × the product of all factors.

    Attributes:
        id: of the row.
        price: the predicted price, in the currency of the training table.
        base: the price of a row without any text and columns.
        factors: one for each line or cell, in the order of the row.
        cells: the texts of the columns, in which the parts are places.
        currency: of the prices; None if it is unknown.
    """

    id: Any
    price: float
    base: float
    factors: tuple[Factor, ...]
    cells: Mapping[str, str]
    currency: str | None = None

    def phrases(self) -> list[Factor]:
        """Return the parts that make sense on their own, such as "Pack of 6", the largest effect first."""
        found = [phrase for factor in self.factors for phrase in factor.phrases()]
        return sorted(found, key=lambda each: -abs(each.log))

    def words(self) -> list[Factor]:
        """Return the smallest parts that have a factor of their own, the largest effect first."""
        found = [word for factor in self.factors for word in factor.smallest()]
        return sorted(found, key=lambda each: -abs(each.log))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        factors = [factor.to_dict() for factor in self.factors]
        return {
            "id": self.id,
            "price": self.price,
            "base": self.base,
            "currency": self.currency,
            "factors": factors,
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def __repr__(self) -> str:
        phrases = self.phrases()
        factors = "".join(f" × {each.factor:.2f} ({name_of(each)})" for each in phrases[:SHOWN])
        more = " × …" * (len(phrases) > SHOWN)
        return f"Explanation({self.id!r}: {self.price:.2f} = {self.base:.2f}{factors}{more})"

    def _repr_html_(self) -> str:
        unit = f" {html.escape(self.currency)}" if self.currency else ""
        price = f"{self.price:,.2f}{unit} = {self.base:,.2f} × the factors of"
        title = f"<p><b>{html.escape(str(self.id))}</b>: {price}</p>"
        several = len(self.cells) > 1
        cells = "".join(
            _marked(name, cell, self.factors, labelled=several) for name, cell in self.cells.items()
        )
        rest = [each for each in self.factors if each.column not in self.cells]
        others = "".join(f"<div>{html.escape(name_of(each))} × {each.factor:.3g}</div>" for each in rest)
        return f"<div>{title}{cells}{others}</div>"


def name_of(factor: Factor) -> str:
    """Return what a factor is called: its text on one line, with the name of a column that is not divided."""
    text = shorten(" ".join(factor.text.split()), LONGEST)
    return f"{factor.column}: {text}" if factor.kind == "column" else text


def _marked(name: str, cell: str, factors: Sequence[Factor], *, labelled: bool) -> str:
    """Return a cell as HTML whose parts are coloured by their contributions."""
    parts = [word for factor in factors if factor.column == name for word in factor.smallest()]
    found, start = [], 0
    for part in sorted(parts, key=lambda part: part.start):
        colour, strength = (RAISES if part.log > 0 else LOWERS), min(1.0, abs(part.log) / STRONGEST)
        found.append(html.escape(cell[start : part.start]))
        found.append(
            f'<span style="background:rgba({colour},{strength:.2f})" title="× {part.factor:.3g}">'
            f"{html.escape(cell[part.start : part.end])}</span>"
        )
        start = part.end
    label = f"<b>{html.escape(name)}</b>: " * labelled
    text = "".join([*found, html.escape(cell[start:])])
    return f'<div style="white-space:pre-wrap">{label}{text}</div>'


def explanation_of(
    root: Node, full: float, row_id: Any, cells: Mapping[str, str], currency: str | None
) -> Explanation:
    """Return the explanation of a row whose parts have contributions.

    Args:
        root: the row.
        full: the log price of the row.
        row_id: of the row.
        cells: the texts of its columns.
        currency: of the prices.
    """
    factors = tuple(_factor(node) for node in root.nodes)
    return Explanation(row_id, math.exp(full), math.exp(root.without), factors, cells, currency)


def _factor(node: Node) -> Factor:
    kind, column, start, end, text, _ = node.part
    parts = tuple(_factor(inner) for inner in node.nodes)
    return Factor(kind, column, text, start, end, math.exp(node.value), parts)
