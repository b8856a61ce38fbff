"""Rows in memory that a model prices: tables, frames and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pandas as pd

from pricekit.table import Columns, Table, TableSource, check_labelled, is_frame, read_frame, table_of_texts
from pricekit.table.source import ArrowStream

Rows: TypeAlias = "Table | pd.DataFrame | ArrowStream | pd.Series | np.ndarray | Sequence[str]"
"""A table or frame with the columns of a model, or texts."""


def table_of(rows: Rows, columns: Columns) -> Table:
    """Return rows in memory as a table with the columns of a model."""
    if isinstance(rows, Table):
        return rows
    if is_frame(rows):
        return read_frame(cast(TableSource, rows), columns)
    table = table_of_texts(cast(Sequence[str], rows), columns.text[0])
    check_labelled(table.text.tolist(), columns)
    return table


def named_columns(columns: Columns, text: str | Sequence[str] | None, id_: str | None) -> Columns:
    """Return a model's columns without the price, with the given text and id columns."""
    names = (text,) if isinstance(text, str) else tuple(text or ())
    columns = replace(columns, price=None, text=names or columns.text)
    return columns if id_ is None else replace(columns, id=id_, id_required=True)
