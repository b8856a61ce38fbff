"""Duplicate products: rows with (nearly) equal texts, and the error that equal texts with different prices imply.

A row is not held out if training sees its duplicate. Two texts are near-duplicates if 85% of their pairs of
neighbouring words agree (Jaccard similarity), ignoring numbers, such as `Pack of 6` and `Pack of 12` of a product.
Texts with fewer than six different pairs are duplicates only if they are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.io.log import logger
from pricekit.metrics import SMAPE
from pricekit.text.likeness import compare, few_distinct, similar_pairs

SIMILARITY = (0.85, 0.9, 0.95)
"""Jaccard similarity of near-duplicates. A group that grows too large uses the stricter values."""
MAX_GROUP_SHARE = 0.05
"""A larger group of near-duplicates is a chain whose ends are not similar."""
SMALL_GROUP = 10
"""A group of at most this many rows is never too large."""
LABEL_ERROR = 10.0
"""Texts with few distinct values are labels if their irreducible SMAPE is at least this."""

_MAX_CANDIDATES = 200  # prices to try for a text with more rows


@dataclass(frozen=True)
class Duplicates:
    """Rows with equal texts, and the lowest error that their different prices leave to a model of the text.

    Attributes:
        distinct_texts: number of different texts.
        conflicting_rows: number of rows whose text also appears with a different price.
        conflicting_smape: the lowest SMAPE on these rows with one price for each text, in percent.
        lowest_smape: the lowest SMAPE over all rows: that of a model that prices all other rows exactly.
    """

    distinct_texts: int
    conflicting_rows: int
    conflicting_smape: float
    lowest_smape: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, as `pricekit check --json` prints them."""
        return {
            "distinct_texts": self.distinct_texts,
            "rows_of_equal_text_and_other_price": self.conflicting_rows,
            "their_lowest_smape": self.conflicting_smape,
            "lowest_smape": self.lowest_smape,
        }

    def sentence(self) -> str:
        """Describe the error in one sentence."""
        return (
            f"{self.conflicting_rows:,} rows have equal texts but different prices: no model of the text can reach a "
            f"SMAPE below {self.conflicting_smape:.1f} on them, or below {self.lowest_smape:.2f} over all rows"
        )


def find_duplicates(groups: np.ndarray, price: np.ndarray) -> Duplicates:
    """Return the error that remains if each text gets the single price that fits its rows best.

    With d = log c - log a, the SMAPE term of a row is 2·tanh(|d| / 2), which is concave on each side of 0. So the
    best price c of a text is the price of one of its rows.

    Args:
        groups: which rows have equal texts, see `equal_texts`, int64 (N,).
        price: (N,), positive.
    """
    order = np.lexsort((price, groups))
    ordered, starts = price[order], np.flatnonzero(np.diff(groups[order], prepend=-1))
    ends = np.append(starts[1:], len(price))
    rows, total = 0, 0.0
    for group in np.flatnonzero(ordered[starts] < ordered[ends - 1]) if len(price) else ():
        prices = ordered[starts[group] : ends[group]]
        rows += len(prices)
        total += _lowest_error(prices)
    smape = total / max(1, rows)
    return Duplicates(len(starts), rows, smape, smape * (rows / max(1, len(price))))


def _lowest_error(prices: np.ndarray) -> float:
    """Return the lowest sum of SMAPE terms of a single price for prices in ascending order.

    The best price is one of them. With more than `_MAX_CANDIDATES`, only some are tried, which bounds the error
    closely from above.
    """
    candidates = prices
    if len(prices) > _MAX_CANDIDATES:
        candidates = prices[np.linspace(0, len(prices) - 1, _MAX_CANDIDATES).astype(int)]
    return min(float(SMAPE.terms(np.full_like(prices, price), prices).sum()) for price in candidates)


def are_labels(groups: np.ndarray, price: np.ndarray) -> bool:
    """Return whether texts name kinds of products rather than products: few distinct texts at varied prices."""
    return few_distinct(groups) and find_duplicates(groups, price).lowest_smape >= LABEL_ERROR


def split_groups_of(texts: pd.Series, price: np.ndarray, *, folder: Path | None = None) -> np.ndarray:
    """Return the group of each row, int64 (N,): a split must keep each group on one side.

    Rows with equal or nearly equal texts form a group: the connected components of near-duplicate pairs. A group with
    more than 5% of the rows is rebuilt with stricter similarities, at last with equal texts only.

    If the texts are labels, each row is its own group: new rows will have the same labels.

    Args:
        texts: (N,).
        price: (N,).
        folder: for a file that many texts need; see `compare`.
    """
    compared = compare(texts, folder=folder)
    same = compared.same
    if are_labels(same, price):
        logger.warning(
            f"the texts are labels ({same.max() + 1:,} distinct texts for {len(texts):,} rows at many "
            "prices), so rows with equal texts are split like other rows."
        )
        return np.arange(len(texts))
    pairs, similarity = similar_pairs(compared)
    weights = np.bincount(same)
    kept, most = similarity >= SIMILARITY[0], max(SMALL_GROUP, MAX_GROUP_SHARE * len(same))
    for stricter in (*SIMILARITY[1:], np.inf):
        groups = _connected(pairs[kept], len(weights))
        large = np.bincount(groups, weights) > most
        inside = large[groups[pairs[:, 0]]] & kept
        if not inside.any():
            break
        rows = int(weights[large[groups]].sum())
        kind = "equal texts" if stricter > 1 else f"texts with a similarity of {stricter:.0%}"
        logger.warning(
            f"near-duplicate texts connect {rows:,} rows into groups of more than {MAX_GROUP_SHARE:.0%} of the table; "
            f"in these groups only {kind} stay together."
        )
        kept &= ~inside | (similarity >= stricter)
    return np.asarray(_connected(pairs[kept], len(weights))[same])


def joined_groups(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the groups of rows that either grouping connects, directly or through other rows, int64 (N,) from 0.

    Args:
        first: the group of each row, int64 (N,), at least 0.
        second: another grouping of the same rows.

    Example:
        >>> import numpy as np
        >>> joined_groups(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])).tolist()
        [0, 0, 0, 1]
    """
    one, other = (np.unique(groups, return_inverse=True)[1] for groups in (first, second))
    start = 1 + int(one.max(initial=-1))
    groups = _connected(np.stack([one, start + other], 1), start + 1 + int(other.max(initial=-1)))
    return np.unique(groups[one], return_inverse=True)[1].astype(np.int64)


def _connected(pairs: np.ndarray, count: int) -> np.ndarray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs), bool)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)
