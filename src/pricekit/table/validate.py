"""Usable rows here, the others there, each with its reason. No row is dropped in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pricekit.table.model import (
    DUPLICATE_ID,
    NO_PRICE,
    NO_TEXT,
    NOT_A_NUMBER,
    NOT_FINITE,
    NOT_POSITIVE,
    OTHER_CURRENCY,
    RAGGED,
    Table,
)


def split_usable(table: Table) -> tuple[Table, pd.DataFrame]:
    """The rows that can be trained on or judged by, and the others.

    Returns:
        The usable rows in their order, and a frame of the rejected ones: all columns as read, then
        `row` (int64, its number in the file, from 0) and `reason` (one of `REASONS`). A column
        of the file with one of these names is renamed there to `row_` or `reason_`.
    """
    reasons = row_reasons(table)
    usable = table.take(np.flatnonzero(reasons == ""))
    rejected = table.take(np.flatnonzero(reasons != ""))
    frame = _with_free_names(rejected.frame, ("row", "reason"))
    frame["row"] = rejected.rows
    frame["reason"] = pd.Series(reasons[reasons != ""], index=frame.index, dtype="str")
    return usable, frame


def row_reasons(table: Table) -> np.ndarray:
    """Why each row cannot be used, object (N,): one of `REASONS`, or "" for a usable row.

    A table without a price column has no price reasons. Of equal ids the first row that is usable
    otherwise stays; rows without an id are no duplicates of each other.
    """
    reasons = np.full(len(table), "", dtype=object)
    for mask, reason in [*_text_masks(table), *_price_masks(table)]:
        reasons[mask & (reasons == "")] = reason
    reasons[_duplicates(table.ids, reasons == "")] = DUPLICATE_ID
    return reasons


def _text_masks(table: Table) -> list[tuple[np.ndarray, str]]:
    blank = table.text.str.strip().eq("").to_numpy(dtype=bool)
    return [(_flawed(table, RAGGED), RAGGED), (blank, NO_TEXT)]


def _price_masks(table: Table) -> list[tuple[np.ndarray, str]]:
    if table.price is None:
        return []
    with np.errstate(invalid="ignore"):
        return [
            (_flawed(table, NOT_A_NUMBER), NOT_A_NUMBER),
            (_flawed(table, NOT_FINITE) | np.isinf(table.price), NOT_FINITE),
            (_flawed(table, OTHER_CURRENCY), OTHER_CURRENCY),
            (np.isnan(table.price), NO_PRICE),
            (table.price <= 0, NOT_POSITIVE),
        ]


def _flawed(table: Table, flaw: str) -> np.ndarray:
    return np.zeros(len(table), dtype=bool) if table.flaws is None else table.flaws == flaw


def _duplicates(ids: pd.Series, usable: np.ndarray) -> np.ndarray:
    named = usable & ~(ids.isna() | ids.eq("")).to_numpy(dtype=bool)
    twice = np.zeros(len(ids), dtype=bool)
    twice[named] = ids[named].duplicated().to_numpy()
    return twice


def _with_free_names(frame: pd.DataFrame, taken: tuple[str, ...]) -> pd.DataFrame:
    names = {str(name) for name in frame.columns} | set(taken)
    renamed = {}
    for name in taken:
        if name in frame.columns:
            free = name + "_"
            while free in names:
                free += "_"
            names.add(free)
            renamed[name] = free
    return frame.rename(columns=renamed)
