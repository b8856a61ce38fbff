"""Scores by group: by price, by length of the text, by unit, and by the table's own categories.

Every row is in exactly one group of each grouping, so the groups' SMAPE, weighted by their rows, is that of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.evaluation.held_out import HeldOut
from pricekit.features.columns import compute
from pricekit.features.lines import as_strings
from pricekit.metrics import smape_terms

MIN_ROWS = 10
"""Groups with fewer rows are joined: their numbers would be those of a few rows."""
MAX_GROUPS = 10
PRICE_GROUPS = 10
LENGTH_GROUPS = 5

BUILT_IN = ("price", "text length", "unit", "quantity")
"""What rows are grouped by without a column of their table."""
OTHER = "(other)"
BLANK = "(blank)"
KINDS = ("none", "weight", "volume", "pieces", "length")
"""Names of the values of the feature `unit_type`."""
MEASURES = ("", "g", "ml", "pieces", "mm")
"""What `total_quantity` counts, for each of them."""


@dataclass(frozen=True)
class Grouping:
    """N rows in groups.

    Attributes:
        by: what they are grouped by.
        codes: each row's group, an index of `labels`, int64 (N,).
        labels: the groups, in the order in which they are shown; each has a row.
    """

    by: str
    codes: np.ndarray
    labels: list[str]


@dataclass(frozen=True)
class Quantities:
    """What the texts of N rows say of how much one buys; see `pricekit.features.quantity`.

    Attributes:
        value: in the stated unit, 0 where there is none, (N,).
        kind: the class of the unit, an index of `KINDS`, int64 (N,).
        total: in g, ml, pieces or mm, (N,).
    """

    value: np.ndarray
    kind: np.ndarray
    total: np.ndarray


def quantities_of(text: pd.Series) -> Quantities:
    """Read the quantities of texts, (N,), as the built-in features do."""
    block = compute(as_strings(text), ("value", "unit_type", "total_quantity"), {"label": ""})
    return Quantities(block[:, 0], block[:, 1].astype(np.int64), block[:, 2])


def groupings_of(held_out: HeldOut) -> list[Grouping]:
    """Return the groupings that `evaluate` scores: price, length, and each category or else the unit.

    A grouping that has all rows in one group is left out.
    """
    found = [by_price(held_out.price), by_length(held_out.text), *by_categories(held_out)]
    if not len(held_out.groups.columns):
        found.append(by_unit(quantities_of(held_out.text)))
    return [grouping for grouping in found if len(grouping.labels) > 1]


def by_price(price: np.ndarray) -> Grouping:
    """Group rows by decile of the true price, fewer groups where there are fewer than 100 rows."""
    codes, ranges = _ranges(price, PRICE_GROUPS)
    return Grouping("price", codes, [f"{amount(low)} to {amount(high)}" for low, high in ranges])


def by_length(text: pd.Series) -> Grouping:
    """Group rows by fifth of the text's length in characters, which every language has."""
    codes, ranges = _ranges(text.str.len().to_numpy(np.float64), LENGTH_GROUPS)
    return Grouping("text length", codes, [f"{low:,.0f} to {high:,.0f} characters" for low, high in ranges])


def by_unit(quantities: Quantities) -> Grouping:
    """Group rows by the class of the unit that their text states."""
    return _by_text("unit", pd.Series(np.array(KINDS)[quantities.kind]), len(KINDS))


def by_quantity(quantities: Quantities) -> Grouping:
    """Group rows by whether their text states a quantity at all."""
    used, codes = np.unique(quantities.value > 0, return_inverse=True)
    return Grouping("quantity", codes, ["found" if there else "missing" for there in used])


def by_categories(held_out: HeldOut) -> list[Grouping]:
    """Group rows by each group column; its `MAX_GROUPS` largest groups by themselves, the small ones joined."""
    return [by_category(held_out.groups[name], MAX_GROUPS) for name in held_out.groups]


def by_category(column: pd.Series, most: int) -> Grouping:
    """Group rows by a column of texts, (N,); the largest groups first, those after the first `most` joined."""
    return _by_text(f"{column.name}_" if column.name in BUILT_IN else str(column.name), column, most)


def _by_text(by: str, column: pd.Series, most: int) -> Grouping:
    counts = column.value_counts()
    counts = counts.iloc[np.lexsort((counts.index.to_numpy(str), -counts.to_numpy()))]  # ties by name
    kept = counts.index[counts >= MIN_ROWS][:most]
    codes = kept.get_indexer(pd.Index(column))
    codes[codes < 0] = len(kept)
    labels = [label if label.strip() else BLANK for label in kept]
    return Grouping(by, codes, labels + [OTHER] * (len(kept) < len(counts)))


def group_scores(groupings: Sequence[Grouping], predicted: np.ndarray, price: np.ndarray) -> pd.DataFrame:
    """Score each group of each grouping.

    Columns: `by` and `group`; `rows`; `smape` in percent; `mdape`, the median of |p - a| / a in percent; `bias`,
    the median of log(p / a) as a percentage of the price, above 0 where predictions are typically too high;
    `share`, the group's percentage of the sum of all rows' SMAPE.

    Args:
        groupings: of the N rows.
        predicted: prices p, (N,), not negative.
        price: prices a, (N,), positive.
    """
    with np.errstate(divide="ignore"):
        log_ratio = np.log(predicted / price)
    rows = {
        "smape": smape_terms(predicted, price),
        "mdape": 100 * np.abs(predicted - price) / price,
        "bias": log_ratio,
    }
    frame = pd.DataFrame(rows)
    return pd.concat([_scores(grouping, frame) for grouping in groupings] or [_NONE], ignore_index=True)


_NONE = pd.DataFrame(columns=["by", "group", "rows", "smape", "mdape", "bias", "share"])


def _scores(grouping: Grouping, rows: pd.DataFrame) -> pd.DataFrame:
    grouped = rows.groupby(grouping.codes)
    terms = grouped["smape"].sum()
    return pd.DataFrame(
        {
            "by": grouping.by,
            "group": grouping.labels,
            "rows": grouped.size(),
            "smape": grouped["smape"].mean(),
            "mdape": grouped["mdape"].median(),
            "bias": 100 * np.expm1(grouped["bias"].median()),
            "share": 100 * terms / max(float(terms.sum()), np.finfo(float).tiny),
        }
    )


def _ranges(values: np.ndarray, parts: int) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Cut rows at quantiles of a value into at most `parts` groups; return their codes, lowest and highest values.

    Equal values are never parted.
    """
    parts = max(1, min(parts, len(values) // MIN_ROWS))
    edges = np.quantile(values, np.arange(1, parts) / parts)
    used, codes = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)
    groups = [values[codes == group] for group in range(len(used))]
    return codes, [(float(group.min()), float(group.max())) for group in groups]


def amount(price: float) -> str:
    """Write a price: cents below a thousand, none above, and three digits of what is under a cent."""
    if price and abs(price) < 0.01:
        return f"{price:.3g}"
    return f"{price:,.2f}" if abs(price) < 1000 else f"{price:,.0f}"
