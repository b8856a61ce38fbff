"""Rows that are one product twice: equal and nearly equal texts, and what equal texts of other prices cost.

A row whose twin is trained on is not held out. Two texts are near-duplicates where 85% of the pairs of neighbouring
words in them agree (Jaccard), whatever the numbers: `Pack of 6` and `Pack of 12` of one product are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from pricekit.log import logger
from pricekit.metrics import smape_terms
from pricekit.progress import progress
from pricekit.table.columns import equal_texts, normalised

LIKENESS = (0.85, 0.9, 0.95)
"""Jaccard similarity from which texts are near-duplicates; the later ones where the first joins too many."""
LARGEST = 0.05
"""A group of near-duplicates with a larger share of the rows is a chain of texts ever less alike."""
SMALL = 10
"""A group of so few rows is never too large."""
SHORTEST = 6
"""Texts with fewer different pairs of words are duplicates only where they are equal."""

LABELS, LABEL_NOISE = 0.2, 10.0
"""Texts are labels where under this share of them differ, and one price each would have at least this SMAPE."""

_PERMUTATIONS, _BAND = 128, 8  # 16 bands: texts of likeness 0.85 meet in one with probability 0.994
_AT_ONCE = 1000
_CANDIDATES = 200  # prices that are tried for a text with more rows than that


@dataclass(frozen=True)
class IrreducibleError:
    """What rows of equal texts and different prices cost every model of the text.

    Attributes:
        rows: whose text says the same as that of a row of another price.
        smape: the lowest that one price a text can have on them, in percent.
        share: of the table's rows.
    """

    rows: int
    smape: float
    share: float

    @property
    def smape_of_all(self) -> float:
        """The SMAPE over the whole table if all other rows were priced exactly."""
        return self.smape * self.share

    def sentence(self) -> str:
        """Say it in one sentence."""
        return (
            f"{self.rows:,} rows have the text of a row with another price: no model of the text can be below SMAPE "
            f"{self.smape:.1f} on them, which is {self.smape_of_all:.2f} over all rows"
        )


def irreducible_error(same: np.ndarray, price: np.ndarray) -> IrreducibleError:
    """Return what is left of the error when each text has the one price that suits its rows best.

    With d = log c - log a, a row's term of SMAPE is 2·tanh(|d| / 2), which is concave on each side of 0; so the
    best price c of a text is the price of one of its rows.

    Args:
        same: which rows have equal texts, see `equal_texts`, int64 (N,).
        price: (N,), positive.
    """
    ordered = np.lexsort((price, same))
    starts = np.flatnonzero(np.diff(same[ordered], prepend=-1))
    rows, total = 0, 0.0
    for prices in np.split(price[ordered], starts[1:]):
        if prices[0] < prices[-1]:
            rows += len(prices)
            total += _least_error(prices)
    return IrreducibleError(rows, total / max(1, rows), rows / max(1, len(price)))


def _least_error(prices: np.ndarray) -> float:
    """Return the lowest sum of SMAPE terms of one price for all of these, ascending.

    Tried are the prices themselves, among which the best one is; of more than `_CANDIDATES` some of them, which
    comes near it from above.
    """
    candidates = prices
    if len(prices) > _CANDIDATES:
        candidates = prices[np.linspace(0, len(prices) - 1, _CANDIDATES).astype(int)]
    return min(float(smape_terms(np.full_like(prices, price), prices).sum()) for price in candidates)


def are_labels(same: np.ndarray, price: np.ndarray) -> bool:
    """Say whether texts name a kind of product rather than one: few of them differ, and their prices vary."""
    if not len(same) or (same.max() + 1) >= LABELS * len(same):
        return False
    return irreducible_error(same, price).smape_of_all >= LABEL_NOISE


def kept_together(texts: pd.Series, price: np.ndarray, *, near: bool, shown: bool = True) -> np.ndarray:
    """Return which rows must be on one side of a split, int64 (N,): those of equal texts, or of `near` ones, too.

    Each row by itself where the texts are labels, as they will be where the model is used.
    """
    same = equal_texts(texts)
    if are_labels(same, price):
        logger.warning(
            f"the texts are labels, {same.max() + 1:,} different ones for {len(same):,} rows of many prices: rows "
            "of equal texts are split like any others."
        )
        return np.arange(len(same))
    return duplicate_groups(texts, shown=shown) if near else same


def duplicate_groups(texts: pd.Series, *, shown: bool = True) -> np.ndarray:
    """Return which rows belong together because their texts are equal or nearly so, int64 (N,), from 0.

    Near-duplicates are found by MinHash and bands (Broder 1997; Leskovec et al., Mining of Massive Datasets,
    chapter 3). Groups are what such pairs connect. Where they chain more than 5% of the rows together, that group's
    pairs must be more alike, in the end equal.

    Args:
        texts: (N,).
        shown: show a progress bar.
    """
    same = equal_texts(texts)
    _, first = np.unique(same, return_index=True)
    pairs, likeness = _alike(texts.iloc[first], shown)
    weights = np.bincount(same)
    kept, most = likeness >= LIKENESS[0], max(SMALL, LARGEST * len(texts))
    for stricter in (*LIKENESS[1:], np.inf):
        groups = _connected(pairs[kept], len(first))
        large = np.bincount(groups, weights) > most
        inside = large[groups[pairs[:, 0]]] & kept
        if not inside.any():
            break
        rows = int(weights[large[groups]].sum())
        kind = "equal texts" if stricter > 1 else f"texts alike to {stricter:.0%}"
        logger.warning(
            f"{rows:,} rows are chained together by near-duplicate texts, more than {LARGEST:.0%} of all in a group; "
            f"of these only {kind} are kept together."
        )
        kept &= ~inside | (likeness >= stricter)
    found: np.ndarray = _connected(pairs[kept], len(first))[same]
    return found


def _alike(texts: pd.Series, shown: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of row numbers that share a band, (P, 2), and how alike their texts are, (P,)."""
    signatures, rows = [], []
    with progress("looking for near-duplicates", len(texts), shown=shown) as advance:
        for start in range(0, len(texts), _AT_ONCE):
            for row, signature in enumerate(_signatures(texts.iloc[start : start + _AT_ONCE]), start):
                if signature is not None:
                    signatures.append(signature)
                    rows.append(row)
            advance(_AT_ONCE)
    if not rows:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    signed = np.array(signatures)
    found = np.unique(np.concatenate(list(_meetings(signed))), axis=0)
    parts = np.array_split(found, 1 + len(found) // 100_000)
    likeness = np.concatenate([(signed[part[:, 0]] == signed[part[:, 1]]).mean(axis=1) for part in parts])
    return np.array(rows)[found], likeness


def _signatures(texts: pd.Series) -> Iterator[np.ndarray | None]:
    """Yield the MinHash of each text, None for one that is too short."""
    from datasketch import MinHash

    empty = MinHash(_PERMUTATIONS, hashfunc=int)
    for text in pc.replace_substring_regex(normalised(texts), r"\pN+", "0"):
        pairs = _word_pairs(text.as_py())
        minhash = empty.copy()
        minhash.update_batch(pairs)
        yield minhash.hashvalues if len(pairs) >= SHORTEST else None


def _word_pairs(text: str) -> list[int]:
    """Return a 32-bit number for each different pair of neighbouring words."""
    words = np.array([zlib.crc32(word.encode()) for word in text.split()], np.uint64)
    mixed = words[:-1] * np.uint64(0x9E3779B1) + words[1:]
    found: list[int] = np.unique((mixed ^ (mixed >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).tolist()
    return found


def _meetings(signed: np.ndarray) -> Iterator[np.ndarray]:
    """Yield, for each band, pairs of rows that agree in it: each with the first such row and with the one before it.

    All pairs of a bucket would be too many where thousands of texts share a template.
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
