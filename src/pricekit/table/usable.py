"""A table file to the rows that can be trained on or judged by; what is set aside is counted aloud."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.table.currency import is_currency
from pricekit.table.describe import count_currencies
from pricekit.table.model import Columns, Notices, Table
from pricekit.table.price_format import PriceFormat
from pricekit.table.read import read_with_facts
from pricekit.table.reading import AS_FOUND, Reading
from pricekit.table.validate import split_usable

MIN_ROWS = 10
"""Usable rows that training needs."""
_USUAL = 0.999
_FAR = 100
_LOOKED_AT, _MOST_CURRENCIES, _SHOWN = 100, 50, 5
_FAR_FROM_MIDDLE = 10_000


def read_usable(
    path: Path, columns: Columns, *, limit: int | None, reading: Reading = AS_FOUND, notices: Notices
) -> tuple[Table, pd.DataFrame]:
    """Read a table and split it by `split_usable`, with notices that count the reasons and name outliers.

    Raises:
        DataError: the table cannot be read, its prices are in several currencies and the reading names none,
            or no row of it can be used.
    """
    table, facts = read_with_facts(path, columns, limit=limit, reading=reading, notices=notices)
    if facts.prices is not None and reading.currency is None:
        _check_currency(path, columns, facts.prices)
    usable, rejected = split_usable(table)
    if not len(usable):
        raise DataError(
            f"{path} has no usable row ({count_reasons(rejected)}). Expected text in {', '.join(columns.text)} and "
            f"positive numbers in {columns.price}; name other columns with --text and --price."
        )
    if len(rejected):
        notices(
            f"{path}: {len(rejected):,} of {len(table):,} rows cannot be used ({count_reasons(rejected)})."
        )
    if usable.price is not None and (outliers := describe_outliers(usable.price)):
        notices(f"{path}: {outliers}")
    if named := describe_currency_column(usable):
        notices(f"{path}: {named}")
    return usable, rejected


def describe_currency_column(table: Table) -> str:
    """Return a sentence on a column beside the prices that names several currencies, "" where there is none."""
    for name in table.frame:
        column = table.frame[name]
        if not isinstance(column.dtype, pd.StringDtype) or not _names_currencies(column[:_LOOKED_AT]):
            continue
        counts = column.str.strip().value_counts()
        if len(counts) > 1 and _names_currencies(column):
            shown = ", ".join(f"{currency}: {rows:,}" for currency, rows in counts.head(_SHOWN).items())
            return (
                f"the column '{name}' names several currencies ({shown}), and prices are taken as numbers of one. "
                "Where they are not, keep the rows of one, or convert the prices."
            )
    return ""


def _names_currencies(column: pd.Series) -> bool:
    different = set(column.str.strip().unique()) - {""}
    return bool(different) and len(different) <= _MOST_CURRENCIES and all(map(is_currency, different))


def describe_outliers(price: np.ndarray) -> str:
    """Return a sentence on prices, float (N,), that are out of all proportion to the others, "" where none is."""
    bound = min(_FAR * float(np.quantile(price, _USUAL)), _FAR_FROM_MIDDLE * float(np.median(price)))
    far = np.sort(price[price > bound])[::-1]
    if not len(far):
        return ""
    shown = ", ".join(f"{value:,.12g}" for value in far[:3])
    return (
        f"prices out of all proportion to the others: {len(far):,}, the highest {shown}; half of all are under "
        f"{np.median(price):,.12g}. They are kept; where they are errors, mend the table."
    )


def _check_currency(path: Path, columns: Columns, prices: PriceFormat) -> None:
    if prices.mixed:
        raise DataError(
            f"{path}: the column {columns.price!r} has prices in several currencies ({count_currencies(prices)}). "
            f"A model learns one: give --currency '{prices.currency}' to use its rows alone, or convert the prices."
        )


def count_reasons(rejected: pd.DataFrame) -> str:
    """Return how many rows were rejected for each reason, most frequent first."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in rejected["reason"].value_counts().items())
