"""Separate the rows that training and evaluation can use from the others, and report how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.table.currency import is_currency
from pricekit.table.odd_rows import header_rows, second_header, total_rows, two_headers
from pricekit.table.price_columns import count_currencies, count_units
from pricekit.table.price_words import TOTAL
from pricekit.table.read import Facts, iter_with_facts
from pricekit.table.source import (
    DEFAULT_READ_OPTIONS,
    OpenedTable,
    ReadOptions,
    TableSource,
    is_large,
    open_table,
)
from pricekit.table.table import (
    DUPLICATE_ID,
    HEADER,
    NO_PRICE,
    NO_TEXT,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_POSITIVE,
    OTHER_CURRENCY,
    OTHER_UNIT,
    PART_ROWS,
    RAGGED,
    TOTAL_ROW,
    Columns,
    Notices,
    Table,
    concat_tables,
    stored,
)
from pricekit.wording import shorten

MIN_ROWS = 10
"""Minimum number of usable rows for training."""
OUTLIER_QUANTILE, OUTLIER_FACTOR, OUTLIER_FACTOR_OF_MEDIAN = 0.999, 100, 10_000
"""An outlier exceeds this quantile of the prices, or their median, by the respective factor; or is so far below."""
_CURRENCY_ROWS = 100
"""Number of rows that show whether a column may contain currencies."""
_MAX_CURRENCIES = 50
"""A column of currencies has at most this many distinct values."""
_SHOWN = 5


def read_usable(
    source: TableSource | OpenedTable,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
    notices: Notices = logger.warning,
    folder: Path | None = None,
) -> tuple[Table, pd.DataFrame]:
    """Read a table and split it by `split_usable`, with notices that count the reasons and name outliers.

    Arguments are those of `read_table`; the texts of a large table are stored in a file in `folder`, unless it is None.

    Raises:
        DataError: the table cannot be read, its prices are in several currencies or for several units and
            `read_options` names none, or no row of it can be used.
    """
    if columns is not None:
        columns = replace(columns, others=None)  # all cells of a row show whether it is a header or a total
    opened = open_table(source, read_options, notices)
    if not is_large(opened):
        folder = None
    tables, facts = iter_with_facts(
        opened,
        columns,
        rows=None if folder is None else PART_ROWS,
        limit=limit,
        read_options=read_options,
        notices=notices,
    )
    _check_kinds(facts, read_options)
    if folder is None:
        usable, rejected = split_usable(concat_tables(list(tables)))
    else:
        usable, rejected = _split_parts(tables, folder)
    name = facts.file.name
    if not len(usable):
        price = "" if facts.columns.price is None else f" and positive numbers in {facts.columns.price}"
        raise DataError(
            f"{name} has no usable row ({count_reasons(rejected)}).{_no_number(rejected, facts.columns.price)} "
            f"Expected text in {', '.join(facts.columns.text)}{price}; name other columns or fix the table.",
            parameters=("text", "price"),
            reasons=rejected["reason"].value_counts().to_dict(),
        )
    if below := _second_header(rejected):
        notices(f"{name}: {two_headers(rejected.columns[:-2], below)}")
    if len(rejected):
        rows = len(usable) + len(rejected)
        reasons, example = count_reasons(rejected), _no_number(rejected, facts.columns.price)
        notices(f"{name}: {len(rejected):,} of {rows:,} rows cannot be used ({reasons}).{example}")
    if usable.price is not None and (outliers := describe_outliers(usable.price)):
        notices(f"{name}: {outliers}")
    if currencies := describe_currency_column(usable):
        notices(f"{name}: {currencies}")
    return usable, rejected


def _no_number(rejected: pd.DataFrame, price: str | None) -> str:
    """Return a sentence with the first price that is not a number, "" if there is none."""
    cells = rejected.loc[rejected["reason"] == NOT_A_NUMBER, price].tolist() if price in rejected else []
    return f" The first price that is not a number is {shorten(str(cells[0]))!r}." if cells else ""


def _second_header(rejected: pd.DataFrame) -> list[str]:
    """Return the cells of the first row of a table if it was rejected as a second header, or []."""
    first = rejected[(rejected["row"] == 0) & (rejected["reason"] == HEADER)].drop(columns=["row", "reason"])
    if not len(first) or header_rows(first).all():
        return []
    return [cell for cell in first.iloc[0].fillna("") if cell]


def describe_currency_column(table: Table) -> str:
    """Return a sentence about a column that names several currencies, "" if there is none."""
    for name in table.frame:
        column = table.frame[name]
        if not isinstance(column.dtype, pd.StringDtype) or not _names_currencies(column[:_CURRENCY_ROWS]):
            continue
        counts = column.str.strip().value_counts()
        if len(counts) > 1 and _names_currencies(column):
            shown = ", ".join(f"{currency}: {rows:,}" for currency, rows in counts.head(_SHOWN).items())
            return (
                f"the column '{name}' names several currencies ({shown}), but prices are read as numbers in one. If "
                "they are in several, keep the rows of one currency or convert the prices."
            )
    return ""


def _names_currencies(column: pd.Series) -> bool:
    first = next(filter(None, map(str.strip, column)), "")
    if not is_currency(first):  # most columns are dismissed by one cell
        return False
    values = set(column.str.strip().unique()) - {""}
    return len(values) <= _MAX_CURRENCIES and all(map(is_currency, values))


def describe_outliers(price: np.ndarray) -> str:
    """Return sentences about prices, float (N,), that are extremely high or low compared to the others, or ""."""
    median = float(np.median(price))
    high = min(
        OUTLIER_FACTOR * float(np.quantile(price, OUTLIER_QUANTILE)), OUTLIER_FACTOR_OF_MEDIAN * median
    )
    low = max(
        float(np.quantile(price, 1 - OUTLIER_QUANTILE)) / OUTLIER_FACTOR, median / OUTLIER_FACTOR_OF_MEDIAN
    )
    ordered = np.sort(price)
    kinds = (
        ("high", "highest", ordered[ordered > high][::-1]),
        ("low", "lowest", ordered[ordered < low]),
    )
    sentences = [
        f"extremely {kind} prices: {len(far):,}, the {superlative} {', '.join(f'{value:,.12g}' for value in far[:3])}"
        for kind, superlative, far in kinds
        if len(far)
    ]
    if not sentences:
        return ""
    said = "; ".join(sentences)
    return f"{said}; the median price is {median:,.12g}. They are kept; if they are errors, fix the table."


def _check_kinds(facts: Facts, read_options: ReadOptions) -> None:
    """Raise DataError if many prices are in other currencies or for other units, and the user chose none."""
    prices, column = facts.prices, facts.columns.price
    if prices is None:
        return
    if prices.mixed and read_options.currency is None:
        raise DataError(
            f"{facts.file.name}: the column {column!r} has prices in several currencies ({count_currencies(prices)}). "
            f"A model learns one: set currency to '{prices.currency}' to use only its rows, or convert the prices.",
            parameters=("currency",),
            column=column,
            currencies=prices.currencies,
        )
    if prices.mixed_units and read_options.price_unit is None:
        unit = prices.unit or TOTAL
        raise DataError(
            f"{facts.file.name}: the column {column!r} has prices for several units ({unit}: {prices.units[unit]:,}; "
            f"{count_units(prices)}). A model learns one: set price_unit to '{unit}' or another to use only its rows, "
            "or convert the prices.",
            parameters=("price_unit",),
            column=column,
            units=prices.units,
        )


def count_reasons(rejected: pd.DataFrame) -> str:
    """Return the number of rejected rows per reason, most frequent first."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in rejected["reason"].value_counts().items())


def split_usable(table: Table) -> tuple[Table, pd.DataFrame]:
    """Split a table into the rows that training and evaluation can use, and the others.

    Returns:
        The usable rows in their order, and a frame of the rejected rows: all columns as read, then `row` (int64, its
        number in the table, from 0) and `reason` (one of `REASONS`). A column of the table with one of these names is
        renamed to `row_` or `reason_`.
    """
    usable, rejected = _split(table, row_reasons(table))
    return usable, _with_reasons(rejected)


def _split(table: Table, reasons: np.ndarray) -> tuple[Table, Table]:
    """Return the rows without a reason, and those with one, as their flaw."""
    rejected = replace(table, flaws=reasons).take(np.flatnonzero(reasons != ""))
    return table.take(np.flatnonzero(reasons == "")), rejected


def _split_parts(tables: Iterable[Table], folder: Path) -> tuple[Table, pd.DataFrame]:
    """Split the parts of a table as `split_usable` would split the whole; the usable rows are stored in a file."""
    rejected: list[Table] = []

    def without_rejected(table: Table, reasons: np.ndarray) -> Table:
        usable, others = _split(table, reasons)
        rejected.append(others)
        return usable

    usable = stored((without_rejected(table, row_reasons(table)) for table in tables), folder)
    twice = _duplicates(usable.ids, np.ones(len(usable), bool))
    if twice.any():
        usable = without_rejected(usable, np.where(twice, DUPLICATE_ID, "").astype(object))
    others = concat_tables(rejected)
    return usable, _with_reasons(others.take(np.argsort(others.row_numbers)))


def _with_reasons(rejected: Table) -> pd.DataFrame:
    """Return the columns of rejected rows, with their numbers and the reasons, which are their flaws."""
    names, free = {*map(str, rejected.frame.columns), "row", "reason"}, {}
    for name in ("row", "reason"):
        if name in rejected.frame:
            free[name] = name + "_"
            while free[name] in names:
                free[name] += "_"
            names.add(free[name])
    frame = rejected.frame.rename(columns=free)
    frame["row"] = rejected.rows
    frame["reason"] = pd.Series(rejected.flaws, index=frame.index, dtype="str")
    return frame


def row_reasons(table: Table) -> np.ndarray:
    """Return why each row is unusable, object (N,): one of `REASONS`, or "" for a usable row.

    Without a price column there are no price reasons. Of several rows with the same id, the first that is otherwise
    usable stays; rows without an id are not duplicates of each other.
    """
    reasons = np.full(len(table), "", dtype=object)
    flaws = reasons if table.flaws is None else table.flaws
    header = header_rows(table.frame)
    if len(table) and table.row_numbers[0] == 0 and second_header(table.frame):
        header[0] = True
    masks = {
        RAGGED: flaws == RAGGED,
        HEADER: header,
        NO_TEXT: table.text.str.strip().eq("").to_numpy(dtype=bool),
    }
    if table.price is not None:
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            price = table.price.astype(np.float32)  # which models compute with
            masks |= {
                NOT_A_NUMBER: flaws == NOT_A_NUMBER,
                NOT_FINITE: (flaws == NOT_FINITE) | np.isinf(price),
                OTHER_CURRENCY: flaws == OTHER_CURRENCY,
                OTHER_UNIT: flaws == OTHER_UNIT,
                NO_PRICE: np.isnan(table.price),
                NOT_POSITIVE: price <= 0,
                TOTAL_ROW: total_rows(table.frame, table.price),
            }
    for reason, mask in masks.items():
        reasons[mask & (reasons == "")] = reason
    reasons[_duplicates(table.ids, reasons == "")] = DUPLICATE_ID
    return reasons


def _duplicates(ids: pd.Series, usable: np.ndarray) -> np.ndarray:
    named = usable & ~(ids.isna() | ids.eq("")).to_numpy(dtype=bool)
    twice = np.zeros(len(ids), dtype=bool)
    twice[named] = ids[named].duplicated().to_numpy()
    return twice
