"""The training rows that features are fitted to: folds for features that learn from prices, a sample of many rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pricekit.likeness import equal_texts, few_distinct
from pricekit.support.log import logger
from pricekit.table import Table

FOLDS = 5
"""Number of folds of the training rows for features that use the price."""

FEW_FOLDS = 2
"""Number of folds of a sample that is less than half of the training rows: most rows are out of fold anyway."""

MOST_ROWS = 100_000
"""Of more training rows, a sample of so many fits the tokenizer and the features. docs/scale.md has measurements."""

LARGEST_GROUP = 0.05
"""Rows of the same product, as a share of a sample, that may be part of it: all others would be too few."""


def some_rows(count: int) -> np.ndarray:
    """Return the numbers of all rows, or of `MOST_ROWS` that were drawn by chance, int64, ascending."""
    if count <= MOST_ROWS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, MOST_ROWS, replace=False))


def sample_of(table: Table) -> np.ndarray:
    """Return the numbers of the rows that features are fitted to, int64, ascending: all, or about `MOST_ROWS`.

    Duplicates are drawn together, so that a row outside of the sample has none in it. What features learn from the
    prices of the sample is then out of fold for all other rows. If few texts are distinct, they are labels, and each
    row is drawn separately.
    """
    if len(table) <= MOST_ROWS:
        return np.arange(len(table))
    same = equal_texts(table.text) if table.together is None else table.together
    _, group, rows = np.unique(same, return_inverse=True, return_counts=True)
    if table.together is None and table.group is None and few_distinct(group):
        return some_rows(len(table))
    order = np.random.default_rng(0).permutation(len(rows))
    order = order[rows[order] <= LARGEST_GROUP * MOST_ROWS]
    drawn = np.zeros(len(rows), bool)
    drawn[order[np.cumsum(rows[order]) <= MOST_ROWS]] = True
    return np.flatnonzero(drawn[group])


@dataclass(frozen=True)
class Sample:
    """The training rows that the tokenizer and the features are fitted to: all of them, or a part of many.

    Attributes:
        rows: their numbers, int64 (M,), ascending.
        table: these rows.
        count: the number of all training rows.
    """

    rows: np.ndarray
    table: Table
    count: int

    @classmethod
    def of(cls, train: Table) -> Sample:
        """Choose the rows; say so if they are not all."""
        rows = sample_of(train)
        if len(rows) == len(train):
            return cls(rows, train, len(train))
        logger.info(f"tokenizer and features are fitted to a sample of {len(rows):,} of {len(train):,} rows")
        return cls(rows, train.take(rows), len(train))

    @property
    def folds(self) -> int:
        """The number of folds from which the rows of the sample get their values out of fold."""
        return FEW_FOLDS if 2 * len(self.rows) < self.count else FOLDS

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of the sample, float32 (M,), at the places of its rows, float32 (N,); NaN elsewhere."""
        if len(self.rows) == self.count:
            return values
        found = np.full(self.count, np.nan, np.float32)
        found[self.rows] = values
        return found


def folds_of(table: Table, count: int = FOLDS) -> np.ndarray:
    """Return the fold of each row, int64 (N,); duplicates share a fold, because one reveals the other's price.

    Duplicates are the rows with equal `Table.together`, otherwise equal texts. If few texts are distinct, they are
    labels, which recur in new rows; then each row is assigned separately. With times, the folds are consecutive parts.
    There are `count` folds, numbered from 0.
    """
    same = equal_texts(table.text)
    if (parts := _parts_by_time(table, count)) is not None:
        return parts
    if few_distinct(same) and table.group is None:
        same = np.arange(len(same))
    elif table.together is not None:
        same = np.unique(table.together, return_inverse=True)[1]
    folds: np.ndarray = (np.random.default_rng(0).permutation(same.max(initial=-1) + 1) % count)[same]
    return folds


def _parts_by_time(table: Table, count: int) -> np.ndarray | None:
    """Return the place of each row among `count` consecutive parts, int64 (N,); None with too few different times.

    So each part is predicted from rows of other times, as new rows will be.
    """
    if table.time is None:
        return None
    _, row, rows = np.unique(table.time, return_inverse=True, return_counts=True)
    part = ((np.cumsum(rows) - rows / 2) * count / len(table)).astype(np.int64)
    return part[row] if len(np.unique(part)) == count else None
