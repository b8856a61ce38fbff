"""Duplicates and variants: rows with (nearly) equal texts, products in several sizes, and the errors they imply.

A row is not held out if training sees its duplicate. Two texts are near-duplicates if 85% of their pairs of
neighbouring words agree (Jaccard similarity), ignoring numbers, such as `Pack of 6` and `Pack of 12` of a product.
Texts with fewer than six different pairs are duplicates only if they are equal. Rows whose first lines agree in all
words but numbers and units are variants of a product, if a linear model of words finds new products harder than them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.io.log import logger
from pricekit.metrics import SMAPE
from pricekit.text.likeness import compare, equal_texts, few_distinct, numbered, similar_pairs
from pricekit.text.units import SPELLINGS
from pricekit.text.words import words_of

SIMILARITY = (0.85, 0.9, 0.95)
"""Jaccard similarity of near-duplicates. A group that grows too large uses the stricter values."""
MAX_GROUP_SHARE = 0.05
"""A larger group of near-duplicates is a chain whose ends are not similar."""
SMALL_GROUP = 10
"""A group of at most this many rows is never too large."""
LABEL_ERROR = 10.0
"""Texts with few distinct values are labels if their irreducible SMAPE is at least this."""
VARIANT_SHARE = 0.2
"""Products repeat with variants if at least this share of the rows is in groups of them."""
VARIANT_GAP = 5.0
"""The least difference, in points of SMAPE, between new products and new variants of known ones."""
VARIANT_SIGMAS = 2.0
"""The least difference in standard errors, clustered by product."""
VARIANT_ROWS = 4_000
"""The two errors are estimated on about this many rows, of whole products."""
VARIANT_FOLDS = 4

_PACK_WORDS = frozenset(("pack", "of", "set"))
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


@dataclass(frozen=True)
class Variants:
    """Rows that are variants of a product, such as sizes, and the errors of a linear model of their words.

    Attributes:
        rows: number of rows whose product has other texts, too.
        products: number of these products.
        total: number of all rows.
        new_product_smape: SMAPE on such rows, if the model knows no row of their product, in percent.
        known_product_smape: SMAPE on the same rows, if it may know other variants, in percent.
        groups: the product of each row, which joins near-duplicates, int64 (total,).
    """

    rows: int
    products: int
    total: int
    new_product_smape: float
    known_product_smape: float
    groups: np.ndarray = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, as in `run.json` and in `pricekit check --json`."""
        return {
            "rows": self.rows,
            "products": self.products,
            "new_product_smape": self.new_product_smape,
            "known_product_smape": self.known_product_smape,
        }

    def sentence(self) -> str:
        """Describe the products and both errors in one sentence."""
        return (
            f"{self.rows:,} of {self.total:,} rows are variants, such as sizes, of {self.products:,} products; a "
            "split keeps each product on one side, so the validation error is that of new products: a linear model "
            f"of words has a SMAPE of {self.new_product_smape:.1f} on them, and of {self.known_product_smape:.1f} on "
            "new variants of known products. A group column overrides this; a different value in each row splits "
            "single rows"
        )


def find_variants(texts: pd.Series, price: np.ndarray, groups: np.ndarray) -> Variants | None:
    """Return the variants of products; None if too few rows are variants, or new products are as easy as variants.

    The product of a row is named by the words of its first line, in any order, without numbers, units, and words with
    digits. A single word names none. Products that would have more than 5% of the rows are left as in `groups`.

    Args:
        texts: (N,).
        price: (N,), positive.
        groups: of near-duplicates, as of `split_groups_of`, int64 (N,).
    """
    from pricekit.features.trees import WordTerms, linear_out_of_fold  # slow to import

    same = equal_texts(texts)
    if few_distinct(same):
        return None
    most = max(SMALL_GROUP, MAX_GROUP_SHARE * len(same))
    product = joined_groups(groups, _of_at_most(product_names(texts), most))
    large = np.bincount(product)[product] > most
    product = numbered(np.where(large, groups, product + 1 + groups.max(initial=0)))
    is_variant = _several_texts(product, same)
    if is_variant.mean() < VARIANT_SHARE:
        return None
    rng = np.random.default_rng(0)
    order = rng.permutation(product.max() + 1)
    drawn = np.zeros(len(order), bool)
    drawn[order[np.cumsum(np.bincount(product)[order]) <= VARIANT_ROWS]] = True
    rows = np.flatnonzero(drawn[product])
    counted_rows = is_variant[rows]
    parts = [WordTerms(words) for words in words_of(texts.iloc[rows])]
    terms = [
        SMAPE.terms(np.exp(linear_out_of_fold(parts, np.log(price[rows]), fold)), price[rows])[counted_rows]
        for kept in (product, same)
        for fold in [(rng.permutation(kept.max() + 1) % VARIANT_FOLDS)[kept[rows]]]
    ]
    gap = terms[0] - terms[1]
    by_product = np.bincount(product[rows][counted_rows], gap - gap.mean())
    error = np.sqrt(np.square(by_product).sum()) / max(1, len(gap))
    if not gap.mean() >= max(VARIANT_GAP, VARIANT_SIGMAS * error):
        return None
    number, products = int(is_variant.sum()), len(np.unique(product[is_variant]))
    new, known = (float(each.mean()) for each in terms)
    return Variants(number, products, len(same), new, known, product)


def _several_texts(group: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return whether the group of each row has different texts, bool (N,)."""
    count = np.bincount(group[np.unique(same, return_index=True)[1]], minlength=group.max(initial=-1) + 1)
    return np.asarray(count[group] > 1)


def _of_at_most(names: list[str], most: float) -> np.ndarray:
    """Return a number for each name, int64 (N,); rows of an empty name, or of one of more than `most`, are alone."""
    name = np.asarray(pd.factorize(np.array(names, object))[0], np.int64)
    alone = (np.bincount(name)[name] > most) | np.array([not each for each in names])
    return numbered(np.where(alone, -1 - np.arange(len(name)), name))


def product_names(texts: pd.Series) -> list[str]:
    """Return the sorted words of each first line that name the product; "" if fewer than two do.

    A label that most lines begin with, such as "Item Name:", is no part of the name; a line without it names nothing.
    """
    lines = pc.extract_regex(
        pa.array(texts, pa.large_string()), r"^(?P<label>(?:[^:\n]{1,60}: )?)(?P<line>[^\n]*)"
    )
    label, line = (pc.struct_field(lines, name).to_numpy(zero_copy_only=False) for name in ("label", "line"))
    common = pd.Series(label).mode().iloc[0]
    if (label == common).mean() <= 0.5:
        common = ""
    whole = np.where(label == common, line, "" if common else label + line)
    words = pc.split_pattern_regex(pc.utf8_lower(pa.array(whole, pa.large_string())), r"[^\pL\pM\pN]+")
    flat = pc.list_flatten(words).to_numpy(zero_copy_only=False)
    names, word, start = [], {"": False}, 0
    for end in np.cumsum(pc.list_value_length(words).to_numpy()).tolist():
        chosen = set()
        for each in flat[start:end]:
            if (kept := word.get(each)) is None:
                kept = word[each] = _names_product(each)
            if kept:
                chosen.add(each)
        names.append(" ".join(sorted(chosen)) if len(chosen) > 1 else "")
        start = end
    return names


def _names_product(word: str) -> bool:
    digits = any(character.isdigit() for character in word)
    return not digits and word not in SPELLINGS and word not in _PACK_WORDS


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
