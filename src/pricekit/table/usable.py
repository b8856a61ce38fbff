"""A table file to the rows that can be trained on or judged by; what is set aside is counted aloud."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pricekit.errors import DataError
from pricekit.table.model import Columns, Notices, Table
from pricekit.table.read import read_table
from pricekit.table.validate import split_usable


def read_usable(
    path: Path, columns: Columns, *, limit: int | None, encoding: str, notices: Notices
) -> tuple[Table, pd.DataFrame]:
    """Read a table and split it by `split_usable`, with a notice that counts the reasons.

    Raises:
        DataError: the table cannot be read, or no row of it can be used.
    """
    table = read_table(path, columns, limit=limit, encoding=encoding, notices=notices)
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
    return usable, rejected


def count_reasons(rejected: pd.DataFrame) -> str:
    """Return how many rows were rejected for each reason, most frequent first."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in rejected["reason"].value_counts().items())
