"""The inputs of the trees that are learned from prices: a linear model's, and the prices of similar training rows.

For the training rows, each input comes from rows of other folds. Otherwise the trees would trust it too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.features.fit.folds import folds_of
from pricekit.features.neighbours.feature import Neighbours
from pricekit.features.trees.linear import Linear, count_terms, linear_out_of_fold
from pricekit.features.words import words_of
from pricekit.support.locks import renewed_in_child
from pricekit.table import Table

Block = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


@renewed_in_child
@dataclass(frozen=True)
class Learned:
    """What yields these inputs.

    Attributes:
        linear: a linear model of words and word pairs, one input.
        neighbours: the state of the feature `neighbours`, three inputs; None without them.
    """

    linear: Linear
    neighbours: dict[str, Any] | None

    @classmethod
    def fit(cls, table: Table, price: Floats, *, neighbours: bool) -> Learned:
        """Learn from N training rows with prices, float64 (N,)."""
        linear = Linear.fit(count_terms(words_of(table.text)), np.log(price), table.weight)
        return cls(linear, _neighbours().fit(table, price) if neighbours else None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"linear": self.linear.to_json(), "neighbours": self.neighbours}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Learned:
        """Return what `to_json` described."""
        return cls(Linear.from_json(state["linear"]), state["neighbours"])

    def columns(self, table: Table) -> Block:
        """Return the inputs, float32 (N, 1) or (N, 4)."""
        block = self.linear.predict(words_of(table.text))[:, None].astype(np.float32)
        if self.neighbours is None:
            return block
        return np.hstack([block, self._plugin.transform(table, self.neighbours)])

    def out_of_fold(self, table: Table, price: Floats) -> Block:
        """Return the inputs of the training rows, each learned from the rows of other folds."""
        fold = folds_of(table)
        linear = linear_out_of_fold(words_of(table.text), np.log(price), fold, table.weight)
        block = linear[:, None].astype(np.float32)
        if self.neighbours is None:
            return block
        near = np.empty((len(table), len(Neighbours.names)), np.float32)
        for number in np.unique(fold):
            rows, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            plugin = _neighbours()
            near[rows] = plugin.transform(table.take(rows), plugin.fit(table.take(others), price[others]))
        return np.hstack([block, near])

    @cached_property
    def _plugin(self) -> Neighbours:
        return _neighbours()


def _neighbours() -> Neighbours:
    return Neighbours(Neighbours.Options())
