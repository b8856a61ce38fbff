"""Scores by group: by price, text length, unit, and the table's own categories; and the rows with the largest errors.

Each grouping contains every row once, so the mean of the groups' SMAPE, weighted by rows, is the SMAPE of all rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.held_out import MOST_VALUES, HeldOut
from pricekit.features.catalog import compute, size_labels
from pricekit.metrics import SMAPE, Metric
from pricekit.table.table import column_name
from pricekit.text.labelled_lines import as_strings
from pricekit.text.quantity import MEASURES

MIN_ROWS = 10
"""Smaller groups are merged, because scores of a few rows are unreliable."""
MAX_GROUPS = 10
PRICE_GROUPS = 10
LENGTH_GROUPS = 5

BUILT_IN = ("price", "text length", "unit", "quantity")
"""Groupings that need no column of the table."""
TWINS = 0.95
"""Two groups are the same if this share of the rows of either is in both."""
MOST_GROUPINGS = 100
"""At most this many groupings are compared for equal groups, because each pair of them takes time."""
OTHER = "(other)"
BLANK = "(blank)"
KINDS = ("none", "weight", "volume", "pieces", "length")
"""Names for the values of the feature `unit_type`."""


Group = tuple[str, str]
"""A grouping and one of its groups, by name."""


@dataclass(frozen=True)
class Grouping:
    """An assignment of N rows to groups.

    Attributes:
        by: name of the grouping.
        codes: each row's group, an index into `labels`, int64 (N,).
        labels: names of the groups, in display order; each group has at least one row.
    """

    by: str
    codes: np.ndarray
    labels: list[str]


@dataclass(frozen=True)
class Quantities:
    """The quantities that the texts of N rows state; see `pricekit.text.quantity`.

    Attributes:
        value: in the stated unit, 0 without a quantity, (N,).
        kind: the class of the unit, an index into `KINDS`, int64 (N,).
        total: in g, ml, pieces or mm, (N,).
    """

    value: np.ndarray
    kind: np.ndarray
    total: np.ndarray


def quantities_of(text: pd.Series) -> Quantities:
    """Extract the quantities from texts, (N,), as the built-in features do."""
    state = {"label": "", "sizes": size_labels(as_strings(text), "")}
    block = compute(text, ("value", "unit_type", "total_quantity"), state)
    return Quantities(block[:, 0], block[:, 1].astype(np.int64), block[:, 2])


def groupings_of(held_out: HeldOut) -> list[Grouping]:
    """Return the groupings that `evaluate` scores: price, text length, each category (else the unit).

    Groupings with a single group are omitted.
    """
    groupings = [by_price(held_out.price), by_length(held_out.text), *by_categories(held_out)]
    if not len(held_out.groups.columns):
        groupings.append(by_unit(quantities_of(held_out.text)))
    return [grouping for grouping in groupings if len(grouping.labels) > 1]


def by_price(price: np.ndarray) -> Grouping:
    """Group rows by decile of the true price; fewer than 100 rows give fewer groups."""
    codes, ranges = _ranges(price, PRICE_GROUPS)
    return Grouping("price", codes, [f"{amount(low)} to {amount(high)}" for low, high in ranges])


def by_length(text: pd.Series) -> Grouping:
    """Group rows by quintile of the text length in characters, which works in every language."""
    codes, ranges = _ranges(text.str.len().to_numpy(np.float64), LENGTH_GROUPS)
    return Grouping("text length", codes, [f"{low:,.0f} to {high:,.0f} characters" for low, high in ranges])


def by_unit(quantities: Quantities) -> Grouping:
    """Group rows by the kind of unit that their text states."""
    return _by_text("unit", pd.Series(np.array(KINDS)[quantities.kind]), len(KINDS))


def by_quantity(quantities: Quantities) -> Grouping:
    """Group rows by whether their text states a quantity."""
    used, codes = np.unique(quantities.value > 0, return_inverse=True)
    return Grouping("quantity", codes, ["found" if stated else "missing" for stated in used])


def by_categories(held_out: HeldOut) -> list[Grouping]:
    """Group rows by each group column; the `MAX_GROUPS` largest groups, the others merged."""
    return [by_category(held_out.groups[name], MAX_GROUPS) for name in held_out.groups]


def by_category(column: pd.Series, most: int) -> Grouping:
    """Group rows by a column of texts, (N,); the `most` largest groups in descending order, the others merged.

    Values that differ in capitals and spaces alone are one group, named by the most frequent spelling.
    """
    by = f"{column.name}_" if column.name in BUILT_IN else str(column.name)
    return _by_text(by, _in_one_spelling(column), most)


def _in_one_spelling(column: pd.Series) -> pd.Series:
    counts = column.value_counts().sort_index(ascending=False)
    spellings = counts.sort_values(ascending=False, kind="stable").index
    first: dict[str, str] = {}
    for spelling in spellings:
        first.setdefault(" ".join(str(spelling).split()).casefold(), spelling)
    return column.map({each: first[" ".join(str(each).split()).casefold()] for each in spellings})


def _by_text(by: str, column: pd.Series, most: int) -> Grouping:
    counts = column.value_counts()
    counts = counts.iloc[np.lexsort((counts.index.to_numpy(str), -counts.to_numpy()))]  # ties by name
    kept = counts.index[counts >= MIN_ROWS][:most]
    codes = kept.get_indexer(pd.Index(column))
    codes[codes < 0] = len(kept)
    labels = [label if label.strip() else BLANK for label in kept]
    return Grouping(by, codes, labels + [OTHER] * (len(kept) < len(counts)))


def group_scores(groupings: Sequence[Grouping], rows: HeldOut, metric: Metric = SMAPE) -> pd.DataFrame:
    """Score each group of each grouping.

    Columns: `by` and `group`; `rows`; the metric, under its name; `mdape`, the median of |p - a| / a in percent;
    `bias`, the median of log(p / a) as a percentage of the price, above 0 if predictions are typically too
    high; `share`, the group's percentage of the total error: of the sum of the metric's terms.

    Args:
        groupings: of the N rows.
        rows: with prices a, positive, and predicted prices p, not negative. Groups without weight are left out.
        metric: what to show besides `mdape`.
    """
    predicted, price = rows.predicted, rows.price
    terms, weights = metric.terms(predicted, price), metric.weights(price, rows.weight)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(predicted / price)
    frame = pd.DataFrame(
        {
            "term": terms,
            "weight": weights,
            "error": terms * weights,
            "mdape": 100 * np.abs(predicted - price) / price,
            "bias": log_ratio,
        }
    )
    scores = [_scores(grouping, frame, metric) for grouping in groupings]
    if not scores:
        names = ["by", "group", "rows", metric.name, "mdape", "bias", "share"]
        return pd.DataFrame(columns=list(dict.fromkeys(names)))
    return pd.concat(scores, ignore_index=True)


def _scores(grouping: Grouping, rows: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    grouped = rows.groupby(grouping.codes)
    terms = grouped["error"].sum()
    scores = pd.DataFrame(
        {
            "by": grouping.by,
            "group": grouping.labels,
            "rows": grouped.size(),
            metric.name: [
                float(metric.combine(group["term"].to_numpy(), group["weight"].to_numpy()))
                if group["weight"].any()
                else np.nan
                for _, group in grouped
            ],
            "mdape": grouped["mdape"].median(),
            "bias": 100 * np.expm1(grouped["bias"].median()),
            "share": 100 * terms / max(float(terms.sum()), np.finfo(float).tiny),
        }
    )
    return scores[grouped["weight"].sum() > 0]


def _ranges(values: np.ndarray, parts: int) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Cut rows at quantiles into at most `parts` groups; return each row's group, and each group's range.

    Equal values stay in one group.
    """
    parts = max(1, min(parts, len(values) // MIN_ROWS))
    edges = np.quantile(values, np.arange(1, parts) / parts)
    used, codes = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)
    groups = [values[codes == group] for group in range(len(used))]
    return codes, [(float(group.min()), float(group.max())) for group in groups]


def amount(price: float) -> str:
    """Format a price: with cents below a thousand, without above, with three digits below a cent."""
    if price and abs(price) < 0.01:
        return f"{price:.3g}"
    return f"{price:,.2f}" if abs(price) < 1000 else f"{price:,.0f}"


@dataclass(frozen=True)
class ErrorReport:
    """The errors of all rows, largest first, and of groups of rows.

    Attributes:
        rows: one line for each row, largest error first; see `error_table` for the columns.
        groups: scores and share of the total error by group; see `group_scores`.
        groupings: the groups of each row; `twins` compares them.
    """

    rows: pd.DataFrame
    groups: pd.DataFrame
    groupings: Sequence[Grouping] = ()

    @cached_property
    def twins(self) -> dict[Group, Group]:
        """Groups that are the same rows as an earlier group, each with that group; see `twins_of`."""
        return twins_of(self.groupings[:MOST_GROUPINGS])

    @property
    def distinct_groups(self) -> pd.DataFrame:
        """The groups without those that are the same rows as an earlier group."""
        pairs = zip(self.groups["by"], self.groups["group"], strict=True)
        return self.groups[np.array([pair not in self.twins for pair in pairs], bool)]

    def share_of_worst(self, count: int) -> float:
        """Return the percentage of the total error in the `count` rows with the largest errors."""
        error = self.rows["error"]
        total = float(error.sum())
        return 100 * float(error.head(count).sum()) / total if total else 0.0


def find_errors(held_out: HeldOut, by: str | None = None, metric: Metric = SMAPE) -> ErrorReport:
    """Rank rows by their error and group all of them.

    Args:
        held_out: rows with true and predicted prices.
        by: group only by this column; None groups by unit, quantity, price and each category.
        metric: whose terms the errors are.

    Raises:
        DataError: there is no group column `by`.
    """
    quantities = quantities_of(held_out.text)
    groupings = groupings_of_errors(held_out, quantities, by)
    groups = group_scores(groupings, held_out, metric)
    return ErrorReport(error_table(held_out, quantities, metric), groups, groupings)


def error_table(held_out: HeldOut, quantities: Quantities, metric: Metric = SMAPE) -> pd.DataFrame:
    """Return all rows, largest error first; ties in the order of the file.

    Columns: `row`, `id`, `fold`; `error`, the term of the metric, such as the SMAPE of the row, 0 to 200; `price`,
    `predicted`; `value`, the quantity in the unit that the text states, 0 for none; `total`, the
    quantity in the common `measure` (g, ml, pieces, mm or none); the group columns; `text`.
    """
    weights = metric.weights(held_out.price)
    frame = pd.DataFrame(
        {
            "row": held_out.rows,
            "id": held_out.ids,
            "fold": held_out.fold,
            "error": metric.terms(held_out.predicted, held_out.price) * weights / weights.mean(),
            "price": held_out.price,
            "predicted": held_out.predicted,
            "value": quantities.value,
            "total": quantities.total,
            "measure": np.array(MEASURES)[quantities.kind],
        }
    )
    for name in held_out.groups:
        free = str(name)
        while free in frame or free == "text":
            free += "_"
        frame[free] = held_out.groups[name].array
    frame["text"] = held_out.text.array
    order = np.lexsort((held_out.rows, -frame["error"].to_numpy()))
    return frame.take(order).reset_index(drop=True)


def twins_of(groupings: Sequence[Grouping]) -> dict[Group, Group]:
    """Return the groups that are the same rows as a group of an earlier grouping, each with that group.

    Two groups are the same rows if at least 95% of the rows that are in either group are in both.
    """
    twins: dict[Group, Group] = {}
    for earlier, later in itertools.combinations(groupings, 2):
        both = np.zeros((len(earlier.labels), len(later.labels)), np.int64)
        np.add.at(both, (earlier.codes, later.codes), 1)
        either = both.sum(1, keepdims=True) + both.sum(0, keepdims=True) - both
        for one, other in zip(*np.nonzero(both >= TWINS * np.maximum(either, 1)), strict=True):
            group, twin = (earlier.by, earlier.labels[one]), (later.by, later.labels[other])
            if twin not in twins:
                twins[twin] = twins.get(group, group)
    return twins


def groupings_of_errors(held_out: HeldOut, quantities: Quantities, by: str | None = None) -> list[Grouping]:
    """Return the groupings by unit, quantity, price and each category, or only that by one column.

    Groupings with a single group are omitted.

    Raises:
        DataError: there is no group column `by`; the message lists those that exist.
    """
    if by is not None:
        return [grouping_by(held_out, by)]
    built_in = [by_unit(quantities), by_quantity(quantities), by_price(held_out.price)]
    return [grouping for grouping in [*built_in, *by_categories(held_out)] if len(grouping.labels) > 1]


def grouping_by(held_out: HeldOut, by: str, most: int = MOST_VALUES) -> Grouping:
    """Return the grouping by one column; see `by_category`.

    Raises:
        DataError: there is no group column `by`; the message lists those that exist.
    """
    by = column_name(by)
    if by not in held_out.groups:
        names = [str(name) for name in held_out.groups.columns]
        raise DataError(
            f"the held-out rows have no column {by!r} to group by; they have {', '.join(names) or 'none'}. A "
            f"column of the table is kept if it is text with 2 to {MOST_VALUES} different values.",
            parameters=("by",),
            column=by,
            candidates=names,
        )
    return by_category(held_out.groups[by], most)
