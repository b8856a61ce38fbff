"""The inputs of the trees: what is learned from prices, numbers and categories of cells, catalogue features, words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.features.catalog import Optimized22
from pricekit.features.cells.profile import (
    PLACES,
    Categories,
    Column,
    Values,
    columns_of,
    from_json,
    to_json,
    values_of,
)
from pricekit.features.cells.units import KINDS
from pricekit.features.labelled_lines import Ints
from pricekit.features.trees.learned import Learned
from pricekit.features.trees.vocabulary import WordTable, common_words, find_words
from pricekit.features.words import words_of
from pricekit.support.locks import renewed_in_child
from pricekit.table import Table

CATALOG = Optimized22()

MISSING = -1e30
"""Stands for a missing number: below all others, so that one split separates it."""

PRIOR_ROWS = 10.0
"""A category's mean log price is drawn to that of all rows as if these many rows had it."""

Block = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


@renewed_in_child
@dataclass(frozen=True)
class Inputs:
    """What turns texts into the inputs of trees.

    Attributes:
        columns: what each label yields.
        catalog: the state of `optimized22`.
        ranks: for each category input, the ranks of its codes by mean log price.
        learned: inputs that are learned from prices.
        words: the words that are counted.
    """

    columns: list[Column]
    catalog: dict[str, Any]
    ranks: list[list[int]]
    learned: Learned
    words: list[str]

    @classmethod
    def fit(
        cls, table: Table, price: Floats, words: int, least_rows: int, *, neighbours: bool = False
    ) -> Inputs:
        """Learn from N training rows with prices, float64 (N,)."""
        columns = columns_of(table.text)
        ranks = [
            _ranks(codes, np.log(price), count, table.weight)
            for codes, count in inputs_of(values_of(table.text, columns), columns)
            if count
        ]
        learned = Learned.fit(table, price, neighbours=neighbours)
        return cls(
            columns, CATALOG.fit(table), ranks, learned, common_words(words_of(table.text), words, least_rows)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        own = {"catalog": self.catalog, "ranks": self.ranks, "words": self.words}
        return {"columns": to_json(self.columns), "learned": self.learned.to_json()} | own

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Inputs:
        """Return what `to_json` described."""
        learned = Learned.from_json(state["learned"])
        return cls(from_json(state["columns"]), state["catalog"], state["ranks"], learned, state["words"])

    def dense(self, table: Table) -> Block:
        """Return learned inputs, numbers, ranks of categories and catalogue features, float32 (N, D), finite."""
        return self._dense(table, self.learned.columns(table))

    def dense_for_training(self, table: Table, price: Floats) -> Block:
        """Return `dense` of the training rows, with inputs that were learned from rows of other folds."""
        return self._dense(table, self.learned.out_of_fold(table, price))

    def _dense(self, table: Table, learned: Block) -> Block:
        ranks, values = iter(self._rank_of_code), values_of(table.text, self.columns)
        found = [
            next(ranks)[each] if count else each
            for each, count in inputs_of(values, self.columns, self._known)
        ]
        block = np.zeros((len(table), len(found)))
        for place, each in enumerate(found):
            block[:, place] = each
        block = np.clip(np.nan_to_num(block, nan=MISSING), MISSING, -MISSING)
        catalog = CATALOG.transform(table, self.catalog)
        return np.column_stack([learned, block, catalog]).astype(np.float32)

    @cached_property
    def _known(self) -> Categories:
        return Categories(self.columns)

    @cached_property
    def _rank_of_code(self) -> list[Block]:
        return [np.array(ranks, np.float32) for ranks in self.ranks]

    def word_counts(self, table: Table) -> tuple[Ints, Ints]:
        """Return the row and the word of each occurrence of a known word, int64 (K,) each."""
        return find_words(words_of(table.text), self._table)

    @cached_property
    def _table(self) -> WordTable:
        return WordTable(self.words)


def _ranks(
    codes: Ints, log_price: npt.NDArray[np.float64], count: int, weight: Floats | None = None
) -> list[int]:
    """Return the rank of each code by its smoothed mean log price (Micci-Barreca 2001); rows count by their weights."""
    counted = np.ones(len(codes)) if weight is None else weight / weight.mean()
    rows = np.bincount(codes, counted, minlength=count)
    total = np.bincount(codes, counted * log_price, minlength=count)
    mean = (total + PRIOR_ROWS * np.average(log_price, weights=counted)) / (rows + PRIOR_ROWS)
    ranks: list[int] = np.argsort(np.argsort(mean, kind="stable"), kind="stable").tolist()
    return ranks


def inputs_of(
    values: Values, columns: Sequence[Column], known: Categories | None = None
) -> Iterator[tuple[npt.NDArray[Any], int]]:
    """Yield the values of each input, (N,), and its number of categories, 0 for numbers.

    Args:
        values: of N texts.
        columns: of the texts.
        known: the categories of the columns; None: they are made here.
    """
    labels, total = len(columns), values.total
    known = known or Categories(columns)
    codes = known.codes(values.cells)
    for place, column in enumerate(columns):
        for nth in range(min(column.places, PLACES)):
            yield values.number[:, place, nth], 0
            yield values.unit[:, place, nth], len(KINDS)
        if column.measured:
            yield total.amount[place::labels], 0
            yield total.pack[place::labels], 0
            yield total.kind[place::labels], len(KINDS)
        for position in (2 * place, 2 * place + 1):  # whole cells, and first words
            if known.counts[position]:
                yield codes[position], known.counts[position] + 2
        if column.long:
            yield values.cells.end[:, place] - values.cells.start[:, place], 0
