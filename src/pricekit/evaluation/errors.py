"""The rows with the largest errors, and what they have in common."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.evaluation.groups import (
    MEASURES,
    Grouping,
    Quantities,
    by_categories,
    by_category,
    by_price,
    by_quantity,
    by_unit,
)
from pricekit.evaluation.held_out import MOST_VALUES, HeldOut
from pricekit.metrics import smape_terms


def error_table(held_out: HeldOut, quantities: Quantities) -> pd.DataFrame:
    """Return all rows, the largest error first, equal ones in the order of their rows.

    Columns: `row`, `id`, `fold`; `error`, what the row adds to SMAPE, 0 to 200; `price`, `predicted`; `value` in
    the unit that the text states, 0 for none, `total` in the common `measure` (g, ml, pieces, mm or none); the
    group columns; `text`.
    """
    frame = pd.DataFrame(
        {
            "row": held_out.rows,
            "id": held_out.ids,
            "fold": held_out.fold,
            "error": smape_terms(held_out.predicted, held_out.price),
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
    """Return the groupings that `errors` shows: unit, quantity, price and each category, or all groups of one column.

    A grouping that has all rows in one group is left out.

    Raises:
        DataError: there is no group column `by`, and which there are.
    """
    if by is not None:
        if by not in held_out.groups:
            there = ", ".join(held_out.groups.columns) or "none at all"
            raise DataError(
                f"the held-out rows have no column {by!r} to group by, but {there}. A column of the table is "
                f"kept where it is text with 2 to {MOST_VALUES} different values."
            )
        return [by_category(held_out.groups[by], MOST_VALUES)]
    built_in = [by_unit(quantities), by_quantity(quantities), by_price(held_out.price)]
    return [grouping for grouping in [*built_in, *by_categories(held_out)] if len(grouping.labels) > 1]


def share_of_worst(table: pd.DataFrame, count: int) -> float:
    """Return the percentage of all error that the `count` rows with the largest make up, of an `error_table`."""
    total = float(table["error"].sum())
    return 100 * float(table["error"].head(count).sum()) / total if total else 0.0
