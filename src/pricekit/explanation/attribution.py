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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from pricekit.explanation.parts import Part

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


class Attribution:
    """The contributions of the parts of one row, found in rounds: each asks for prices of the row without some parts.

    The first round asks for the row itself, for the row without any part, and without each of its lines.

    Args:
        row: the parts of the row.
        evaluations: the number of prices that may be asked for, if the first round needs no more.

    Attributes:
        root: the row with the contributions of its parts; None before the first round.
        full: the log price of the row.
    """

    def __init__(self, row: Part, evaluations: int) -> None:
        self.root: Node | None = None
        self.full = 0.0
        self._row, self._left, self._rounds = row, evaluations, 0
        self._dividing: list[Node] = []

    def ask(self) -> list[tuple[Part, ...]]:
        """Return the parts to leave out, for each price of the next round; [] at the end."""
        self._rounds += 1
        if self.root is None:
            asked = [(), self._row.parts, *_removals(self._row)]
        else:
            self._dividing = self._choose() if self._rounds <= MOST_ROUNDS else []
            asked = [removed for node in self._dividing for removed in _removals(node.part)]
        self._left -= len(asked)
        return asked

    def tell(self, log_prices: Sequence[float]) -> None:
        """Use the log prices that `ask` asked for, in its order."""
        if self.root is None:
            self.full, without, *lines = log_prices
            self.root = Node(self._row, self.full - without, without)
            _divide(self.root, self.full, lines)
            return
        start = 0
        for node in self._dividing:
            count = _cost(node.part)
            _divide(node, self.full, log_prices[start : start + count])
            start += count

    def _choose(self) -> list[Node]:
        """Return the nodes to divide in this round: the largest contributions that the evaluations suffice for."""
        assert self.root is not None
        open_nodes = sorted(_undivided(self.root), key=lambda node: -abs(node.value))
        largest = max((abs(node.value) for node in _leaves(self.root)), default=0.0)
        chosen, left = [], self._left
        for node in open_nodes:
            cost = _cost(node.part)
            if cost <= left and abs(node.value) >= LEAST * largest:
                chosen.append(node)
                left -= cost
        return chosen


def _leaves(node: Node) -> Iterator[Node]:
    if not node.nodes:
        yield node
    for inner in node.nodes:
        yield from _leaves(inner)


def _undivided(root: Node) -> list[Node]:
    return [node for node in _leaves(root) if node.part.parts]


def _cost(part: Part) -> int:
    return len(_removals(part))


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
    node.nodes = [Node(*found) for found in zip(parts, values.tolist(), without.tolist(), strict=True)]
