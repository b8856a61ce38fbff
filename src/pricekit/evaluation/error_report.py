"""The rows with the largest errors, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.groups import (
    Grouping,
    Quantities,
    by_categories,
    by_category,
    by_price,
    by_quantity,
    by_unit,
    group_scores,
    quantities_of,
)
from pricekit.evaluation.held_out import MOST_VALUES, HeldOut
from pricekit.metrics import SMAPE, Metric
from pricekit.text.quantity import MEASURES


@dataclass(frozen=True)
class ErrorReport:
    """The errors of all rows, largest first, and of groups of rows.

    Attributes:
        rows: one line for each row, largest error first; see `error_table` for the columns.
        groups: scores and share of the total error by group; see `pricekit.evaluation.groups.group_scores`.
    """

    rows: pd.DataFrame
    groups: pd.DataFrame

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
    return ErrorReport(error_table(held_out, quantities, metric), group_scores(groupings, held_out, metric))


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
