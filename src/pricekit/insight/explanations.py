"""The contributions of a row's parts to its log price.

The price of a row is compared with the prices of the row without some of its parts (Covert et al. 2021, Explaining by
removing, arXiv:2011.14878). Let v(S) be the log price of the row with the parts S alone. Of a set N of parts, i gets

    φᵢ = ½ (v(N) - v(N without i)) + ½ (v(i alone) - v(none)),

the mean of what it adds as the last part and as the first one. This is its Shapley value if there are two parts or if
effects add up. Words that repeat each other share their effect through the second term. Then the contributions are
adjusted, in proportion to their size, so that their sum is exactly v(N) - v(none).

A row is divided into lines. The parts of a line are compared in the same way while the other lines stay, and their sum
is the contribution of the line. It is the same for phrases and words (Owen 1977, Values of games with a priori unions).
Compared without the other lines, the words with the largest contributions would matter less (docs/benchmarks.md).
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from pricekit.errors import PluginError
from pricekit.insight import EVALUATIONS
from pricekit.insight.parts import Cells, Kind, Part, other_columns
from pricekit.io.log import logger
from pricekit.io.progress import tracked
from pricekit.table import Columns, Table
from pricekit.wording import shorten

LEAST = 0.05
"""A part is divided if its contribution has at least this share of the largest one."""

MOST_ROUNDS = 4
"""Each round is a call of the model, whose fixed cost is that of some ten rows."""


@dataclass
class Node:
    """A part with its contribution.

    Attributes:
        part: the part; that of the root is the whole row.
        value: its contribution to the log price.
        without: the log price of the row without it.
        nodes: the parts that it was divided into; [] if it was not.
    """

    part: Part
    value: float
    without: float
    nodes: list[Node] = field(default_factory=list)


Rounds: TypeAlias = Generator[list[tuple[Part, ...]], list[float], tuple[float, Node]]
"""Yields the parts to leave out for each price of a round, is sent the log prices, and returns what was found."""


def attribution(row: Part, evaluations: int) -> Rounds:
    """Find the contributions of the parts of a row, in rounds: each asks for prices of the row without some parts.

    The first round asks for the row itself, for the row without any part, and without each of its lines.

    Args:
        row: the row with its parts.
        evaluations: the maximum number of prices, if the first round needs no more.

    Returns:
        The log price of the row, and the row with the contributions of its parts.
    """
    full, without, *lines = yield [(), row.parts, *_removals(row)]
    root, left = Node(row, full - without, without), evaluations - 2 - len(lines)
    _divide(root, full, lines)
    for _ in range(1, MOST_ROUNDS):
        dividing = _worth_dividing(root, left)
        if not dividing:
            break
        log_prices = iter((yield [removed for node in dividing for removed in _removals(node.part)]))
        for node in dividing:
            own = list(itertools.islice(log_prices, len(_removals(node.part))))
            _divide(node, full, own)
            left -= len(own)
    return full, root


def _worth_dividing(root: Node, left: int) -> list[Node]:
    """Return the nodes to divide in a round: the largest contributions that `left` prices suffice for."""
    leaves = list(_leaves(root))
    largest = max((abs(node.value) for node in leaves), default=0.0)
    chosen = []
    for node in sorted(leaves, key=lambda node: -abs(node.value)):
        cost = len(_removals(node.part))
        if 0 < cost <= left and abs(node.value) >= LEAST * largest:
            chosen.append(node)
            left -= cost
    return chosen


def _leaves(node: Node) -> Iterator[Node]:
    if not node.nodes:
        yield node
    for inner in node.nodes:
        yield from _leaves(inner)


def _removals(part: Part) -> list[tuple[Part, ...]]:
    """Return what to leave out to divide a part: each of its parts, then all but one; for two parts these are equal."""
    parts = part.parts
    if len(parts) < 2:  # only of a row
        return []
    alone = [tuple(other for other in parts if other is not one) for one in parts] if len(parts) > 2 else []
    return [*((one,) for one in parts), *alone]


def _divide(node: Node, full: float, log_prices: Sequence[float]) -> None:
    """Add the nodes of a node's parts, from the prices without its `_removals`."""
    parts = node.part.parts
    if len(parts) < 2:
        node.nodes = [Node(part, node.value, node.without) for part in parts]
        return
    without = np.array(log_prices[: len(parts)])
    alone = np.array(log_prices[len(parts) :]) if len(parts) > 2 else without[::-1]
    values = ((full - without) + (alone - node.without)) / 2
    size = np.abs(values)
    share = size / size.sum() if size.sum() else np.full(len(parts), 1 / len(parts))
    values += (node.value - values.sum()) * share
    node.nodes = [Node(*part) for part in zip(parts, values.tolist(), without.tolist(), strict=True)]


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
        kind: "line", "group" of phrases or lines, "phrase" or "word"; "column" for a cell that is not divided.
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
        facts = {
            "kind": self.kind,
            "column": self.column,
            "text": self.text,
            "start": self.start,
            "end": self.end,
        }
        parts = {"parts": [part.to_dict() for part in self.parts]} if self.parts else {}
        return {**facts, "factor": self.factor, **parts}


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a row has its price: price = base × the product of all factors.

    Attributes:
        id: of the row.
        price: the predicted price, in the currency of the training table.
        base: the price of a row without any text and columns.
        factors: one for each line or cell, in the order of the row; in a cell with over 60 lines, one for each
            group of lines.
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
        phrases = [phrase for factor in self.factors for phrase in factor.phrases()]
        return sorted(phrases, key=lambda each: -abs(each.log))

    def words(self) -> list[Factor]:
        """Return the smallest parts that have a factor of their own, the largest effect first."""
        words = [word for factor in self.factors for word in factor.smallest()]
        return sorted(words, key=lambda each: -abs(each.log))

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
    pieces, start = [], 0
    for part in sorted(parts, key=lambda part: part.start):
        colour, strength = (RAISES if part.log > 0 else LOWERS), min(1.0, abs(part.log) / STRONGEST)
        pieces.append(html.escape(cell[start : part.start]))
        pieces.append(
            f'<span style="background:rgba({colour},{strength:.2f})" title="× {part.factor:.3g}">'
            f"{html.escape(cell[part.start : part.end])}</span>"
        )
        start = part.end
    label = f"<b>{html.escape(name)}</b>: " * labelled
    text = "".join([*pieces, html.escape(cell[start:])])
    return f'<div style="white-space:pre-wrap">{label}{text}</div>'


def _factor(node: Node) -> Factor:
    kind, column, start, end, text, _ = node.part
    parts = tuple(_factor(inner) for inner in node.nodes)
    return Factor(kind, column, text, start, end, math.exp(node.value), parts)


ROWS_AT_A_TIME = 64


def explain_rows(
    table: Table,
    columns: Columns,
    price: Callable[[Table], np.ndarray],
    evaluations: int = EVALUATIONS,
    currency: str | None = None,
) -> list[Explanation]:
    """Return one explanation per row.

    Args:
        table: the rows, without prices.
        columns: the columns of the model.
        price: returns the price of each row of a table, (N,).
        evaluations: the number of prices for each row; more if two for each line are more.
        currency: of all prices.
    """
    explanations: list[Explanation] = []
    try:
        others = others_read(table, columns, price)
    except PluginError as error:
        logger.info(f"other columns than texts are not explained, because prices without them fail: {error}")
        others = ()
    with tracked("explaining", list(table.windows(ROWS_AT_A_TIME)), len) as windows:
        for window in windows:
            explanations += _explain(window, columns, price, others, evaluations, currency)
    return explanations


def others_read(table: Table, columns: Columns, price: Callable[[Table], np.ndarray]) -> tuple[str, ...]:
    """Return the other columns of a table if features read any of them: a price changes when all are missing.

    Raises:
        PluginError: a feature cannot do without these columns.
    """
    others = other_columns(table, columns)
    some = table.slice(0, ROWS_AT_A_TIME)
    if not others or not len(some):
        return ()
    cells = Cells(some, columns, others)
    rows = list(range(len(some)))
    missing: list[list[Part]] = [
        [part for part in cells.row(row).parts if part.column in others] for row in rows
    ]
    kept, changed = np.split(price(cells.without(rows * 2, [*((),) * len(rows), *missing])), 2)
    return others if (kept != changed).any() else ()


def _explain(
    table: Table,
    columns: Columns,
    price: Callable[[Table], np.ndarray],
    others: tuple[str, ...],
    evaluations: int,
    currency: str | None,
) -> list[Explanation]:
    cells = Cells(table, columns, others)
    rows = [attribution(cells.row(number), evaluations) for number in range(len(table))]
    removals = {number: next(row) for number, row in enumerate(rows)}
    results: dict[int, tuple[float, Node]] = {}
    while removals:
        numbers, parts = zip(*((row, parts) for row, each in removals.items() for parts in each), strict=True)
        log_prices = iter(np.log(price(cells.without(numbers, parts)).astype(np.float64)).tolist())
        priced, removals = removals, {}
        for number, each in priced.items():
            try:
                removals[number] = rows[number].send(list(itertools.islice(log_prices, len(each))))
            except StopIteration as end:
                results[number] = end.value
    explanations = []
    for number, id_ in enumerate(table.ids.tolist()):
        full, root = results[number]
        factors = tuple(_factor(node) for node in root.nodes)
        prices = math.exp(full), math.exp(root.without)
        explanations.append(Explanation(id_, *prices, factors, cells.texts(number), currency))
    return explanations
