"""Explanations of many rows: prices of rows without some of their parts, in large batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pricekit.errors import PluginError
from pricekit.explanation.attribution import Attribution
from pricekit.explanation.parts import Cells, Part
from pricekit.explanation.result import Explanation, explanation_of
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.table import Columns, Table

EVALUATIONS = 120
"""Default number of prices for one row."""

ROWS_AT_A_TIME = 64


def explain_rows(
    table: Table,
    columns: Columns,
    price: Callable[[Table], np.ndarray],
    evaluations: int = EVALUATIONS,
) -> list[Explanation]:
    """Return one explanation per row.

    Args:
        table: the rows, without prices.
        columns: the columns of the model.
        price: returns the price of each row of a table, (N,).
        evaluations: the number of prices for each row; more if two for each line are more.
    """
    found: list[Explanation] = []
    try:
        others = others_read(table, columns, price)
    except PluginError as error:
        logger.info(f"other columns than texts are not explained, because prices without them fail: {error}")
        others = ()
    with progress("explaining", max(1, len(table))) as advance:
        for start in range(0, len(table), ROWS_AT_A_TIME):
            window = table.take(np.arange(start, min(start + ROWS_AT_A_TIME, len(table))))
            found += _explain(window, columns, price, others, evaluations)
            advance(len(window))
    return found


def others_read(table: Table, columns: Columns, price: Callable[[Table], np.ndarray]) -> tuple[str, ...]:
    """Return the other columns of a table if features read any of them: a price changes when all are missing.

    Raises:
        PluginError: a feature cannot do without these columns.
    """
    others = tuple(
        str(name) for name in table.frame if name not in (*columns.text, columns.price, columns.id)
    )
    some = table.take(np.arange(min(len(table), ROWS_AT_A_TIME)))
    if not others or not len(some):
        return ()
    cells = Cells(some, columns, others)
    rows = list(range(len(some)))
    missing: list[list[Part]] = [
        [part for part in cells.row(row).parts if part.column in others] for row in rows
    ]
    kept, changed = np.split(price(cells.without(rows * 2, [*((),) * len(rows), *missing])), 2)
    return others if (kept != changed).any() else ()


def _explain(
    table: Table,
    columns: Columns,
    price: Callable[[Table], np.ndarray],
    others: tuple[str, ...],
    evaluations: int,
) -> list[Explanation]:
    cells = Cells(table, columns, others)
    rows = [Attribution(cells.row(number), evaluations) for number in range(len(table))]
    asking = dict(enumerate(rows))
    while asking:
        asked = {number: row.ask() for number, row in asking.items()}
        asking = {number: row for number, row in asking.items() if asked[number]}
        removed = [(number, parts) for number in asking for parts in asked[number]]
        if not removed:
            break
        numbers, parts = zip(*removed, strict=True)
        log_prices = np.log(price(cells.without(numbers, parts)).astype(np.float64)).tolist()
        start = 0
        for number, row in asking.items():
            row.tell(log_prices[start : start + len(asked[number])])
            start += len(asked[number])
    return [
        explanation_of(row.root, row.full, id_, cells.texts(number), table.currency)
        for number, (row, id_) in enumerate(zip(rows, table.ids.tolist(), strict=True))
        if row.root is not None
    ]
