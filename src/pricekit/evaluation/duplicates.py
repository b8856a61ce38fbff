"""Duplicate products: rows with (nearly) equal texts, and the error that equal texts with different prices imply.

A row is not held out if training sees its duplicate. Two texts are near-duplicates if 85% of their pairs of
neighbouring words agree (Jaccard similarity), ignoring numbers, such as `Pack of 6` and `Pack of 12` of a product.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from pricekit.metrics import smape_terms
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.table.columns import equal_texts, few_distinct, normalised

SIMILARITY = (0.85, 0.9, 0.95)
"""Jaccard similarity of near-duplicates. A group that grows too large uses the stricter values."""
MAX_GROUP_SHARE = 0.05
"""A larger group of near-duplicates is a chain whose ends are not similar."""
SMALL_GROUP = 10
"""A group of at most this many rows is never too large."""
MIN_PAIRS = 6
"""Texts with fewer distinct word pairs are duplicates only if they are equal."""

LABEL_ERROR = 10.0
"""Texts with few distinct values are labels if their irreducible SMAPE is at least this."""

_PERMUTATIONS, _BAND = 128, 8  # 16 bands: texts of similarity 0.85 share one with probability 0.994
_CHUNK = 1000
_MAX_CANDIDATES = 200  # prices to try for a text with more rows


@dataclass(frozen=True)
class IrreducibleError:
    """The lowest error that a model of the text can reach on rows with equal texts and different prices.

    Attributes:
        rows: number of rows whose text also appears with a different price.
        smape: the lowest SMAPE on these rows with one price for each text, in percent.
        share: their share of all rows.
    """

    rows: int
    smape: float
    share: float

    @property
    def smape_of_all(self) -> float:
        """The lowest SMAPE over all rows: that of a model that prices all other rows exactly."""
        return self.smape * self.share

    def sentence(self) -> str:
        """Describe the error in one sentence."""
        return (
            f"{self.rows:,} rows have equal texts but different prices: no model of the text can reach a SMAPE "
            f"below {self.smape:.1f} on them, or below {self.smape_of_all:.2f} over all rows"
        )


def irreducible_error(groups: np.ndarray, price: np.ndarray) -> IrreducibleError:
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
    return IrreducibleError(rows, total / max(1, rows), rows / max(1, len(price)))


def _lowest_error(prices: np.ndarray) -> float:
    """Return the lowest sum of SMAPE terms of a single price for prices in ascending order.

    The best price is one of them. With more than `_MAX_CANDIDATES`, only some are tried, which bounds the error
    closely from above.
    """
    candidates = prices
    if len(prices) > _MAX_CANDIDATES:
        candidates = prices[np.linspace(0, len(prices) - 1, _MAX_CANDIDATES).astype(int)]
    return min(float(smape_terms(np.full_like(prices, price), prices).sum()) for price in candidates)


def are_labels(groups: np.ndarray, price: np.ndarray) -> bool:
    """Return whether texts name kinds of products rather than products: few distinct texts at varied prices."""
    return few_distinct(groups) and irreducible_error(groups, price).smape_of_all >= LABEL_ERROR


def split_groups_of(texts: pd.Series, price: np.ndarray, *, near: bool, shown: bool = True) -> np.ndarray:
    """Return the group of each row, int64 (N,): a split must keep each group on one side.

    Rows with equal texts form a group. If the texts are labels, each row is its own group: new rows will have the
    same labels.

    Args:
        texts: (N,).
        price: (N,).
        near: also group near-duplicates.
        shown: show a progress bar.
    """
    groups = equal_texts(texts)
    if are_labels(groups, price):
        logger.warning(
            f"the texts are labels ({groups.max() + 1:,} distinct texts for {len(groups):,} rows at many prices), so "
            "rows with equal texts are split like other rows."
        )
        return np.arange(len(groups))
    return duplicate_groups(texts, shown=shown) if near else groups


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


def duplicate_groups(texts: pd.Series, *, shown: bool = True) -> np.ndarray:
    """Group rows with equal or nearly equal texts; returns the group of each row, int64 (N,), from 0.

    Finds near-duplicates by MinHash and banding (Broder 1997; Leskovec et al., Mining of Massive Datasets,
    chapter 3). Groups are the connected components of near-duplicate pairs. A group with more than 5% of the rows is
    rebuilt with stricter similarities, at last with equal texts only.

    Args:
        texts: (N,).
        shown: show a progress bar.
    """
    same = equal_texts(texts)
    _, first = np.unique(same, return_index=True)
    pairs, similarity = _similar_pairs(texts.iloc[first], shown)
    weights = np.bincount(same)
    kept, most = similarity >= SIMILARITY[0], max(SMALL_GROUP, MAX_GROUP_SHARE * len(texts))
    for stricter in (*SIMILARITY[1:], np.inf):
        groups = _connected(pairs[kept], len(first))
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
    found: np.ndarray = _connected(pairs[kept], len(first))[same]
    return found


def _similar_pairs(texts: pd.Series, shown: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows that agree in a band, (P, 2), and their estimated similarity, (P,)."""
    signatures, rows = [], []
    with progress("searching for near-duplicates", len(texts), shown=shown) as advance:
        for start in range(0, len(texts), _CHUNK):
            chunk = texts.iloc[start : start + _CHUNK]
            for row, signature in enumerate(_signatures(chunk), start):
                if signature is not None:
                    signatures.append(signature)
                    rows.append(row)
            advance(len(chunk))
    if not rows:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    signed = np.array(signatures)
    pairs = np.unique(np.concatenate(list(_band_pairs(signed))), axis=0)
    parts = np.array_split(pairs, 1 + len(pairs) // 100_000)
    similarity = np.concatenate([(signed[part[:, 0]] == signed[part[:, 1]]).mean(axis=1) for part in parts])
    return np.array(rows)[pairs], similarity


def _signatures(texts: pd.Series) -> Iterator[np.ndarray | None]:
    """Yield the MinHash of each text, None for a text that is too short."""
    from datasketch import MinHash

    empty = MinHash(_PERMUTATIONS, hashfunc=int)
    for text in pc.replace_substring_regex(normalised(texts), r"\pN+", "0"):
        pairs = _word_pairs(text.as_py())
        minhash = empty.copy()
        minhash.update_batch(pairs)
        yield minhash.hashvalues if len(pairs) >= MIN_PAIRS else None


def _word_pairs(text: str) -> list[int]:
    """Return a 32-bit hash of each distinct pair of neighbouring words."""
    words = np.array([zlib.crc32(word.encode()) for word in text.split()], np.uint64)
    mixed = words[:-1] * np.uint64(0x9E3779B1) + words[1:]
    found: list[int] = np.unique((mixed ^ (mixed >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).tolist()
    return found


def _band_pairs(signed: np.ndarray) -> Iterator[np.ndarray]:
    """Yield, for each band, pairs of rows that agree in it: each row with the first such row and with the previous one.

    All pairs of a bucket would be too many if thousands of texts share a template.
    """
    for start in range(0, _PERMUTATIONS, _BAND):
        band = np.ascontiguousarray(signed[:, start : start + _BAND])
        keys = band.view(f"V{band.dtype.itemsize * _BAND}").ravel()
        _, first, bucket = np.unique(keys, return_index=True, return_inverse=True)
        rows = np.arange(len(signed))
        ordered = np.argsort(bucket, kind="stable")
        before, after = ordered[:-1], ordered[1:]
        chained = bucket[before] == bucket[after]
        pairs = np.concatenate(
            [np.stack([first[bucket], rows], 1), np.stack([before[chained], after[chained]], 1)]
        )
        yield pairs[pairs[:, 0] != pairs[:, 1]]


def _connected(pairs: np.ndarray, count: int) -> np.ndarray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(pairs), bool)
    graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    groups: np.ndarray = connected_components(graph, directed=False)[1]
    return groups.astype(np.int64)
