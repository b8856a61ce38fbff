"""The folds of training rows out of which features that learn from prices are fitted."""

from __future__ import annotations

import numpy as np

from pricekit.likeness.equal import equal_texts, few_distinct
from pricekit.table import Table

FOLDS = 5
"""Number of folds of the training rows for features that use the price."""


def folds_of(table: Table) -> np.ndarray:
    """Return the fold of each row, int64 (N,); duplicates share a fold, because one reveals the other's price.

    Duplicates are the rows with equal `Table.together`, otherwise equal texts. If few texts are distinct, they are
    labels, which recur in new rows; then each row is assigned separately. With times, the folds are consecutive parts.
    """
    same = equal_texts(table.text)
    if (parts := _parts_by_time(table)) is not None:
        return parts
    if few_distinct(same) and table.group is None:
        same = np.arange(len(same))
    elif table.together is not None:
        same = np.unique(table.together, return_inverse=True)[1]
    folds: np.ndarray = (np.random.default_rng(0).permutation(same.max(initial=-1) + 1) % FOLDS)[same]
    return folds


def _parts_by_time(table: Table) -> np.ndarray | None:
    """Return the place of each row among `FOLDS` consecutive parts, int64 (N,); None with too few different times.

    So each part is predicted from rows of other times, as new rows will be.
    """
    if table.time is None:
        return None
    _, row, rows = np.unique(table.time, return_inverse=True, return_counts=True)
    part = ((np.cumsum(rows) - rows / 2) * FOLDS / len(table)).astype(np.int64)
    return part[row] if len(np.unique(part)) == FOLDS else None
