"""What columns say about rows besides texts and prices: how much a row counts, its group, and its time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.table.table import Formats, Table, column_name
from pricekit.text.dates import DateFormat, date_format, parse_dates
from pricekit.wording import did_you_mean, shorten


def with_row_info(
    table: Table, weight: str | None = None, group: str | None = None, time: str | None = None
) -> Table:
    """Return the table with the weights, groups and times that its columns state.

    Args:
        table: usable rows.
        weight: the column of weights, numbers of at least 0.
        group: the column whose equal cells are one group; a row with an empty cell is a group of its own.
        time: the column of dates, times or numbers such as years.

    Raises:
        DataError: a column is missing, or a cell is not of the expected kind.

    Example:
        >>> import pandas as pd
        >>> from pricekit.table import Columns, read_frame
        >>> frame = pd.DataFrame({"title": ["tea", "ink"], "price": [2.0, 3.0], "year": [2024, 2025]})
        >>> with_row_info(read_frame(frame, Columns(("title",), "price", None)), time="year").time.tolist()
        [2024.0, 2025.0]
    """
    times, formats = table.time, table.formats
    if time is not None:
        times, form = _times(_column(table, "time", time), table)
        formats = (formats or Formats()).model_copy(update={"time": form})
    return replace(
        table,
        weight=table.weight if weight is None else _weights(_column(table, "weight", weight), table),
        group=table.group if group is None else _groups(_column(table, "group", group)),
        time=times,
        formats=formats,
    )


def _column(table: Table, role: str, name: str) -> pd.Series:
    name = column_name(name)
    if name not in table.frame:
        names = [str(each) for each in table.frame]
        raise DataError(
            f"the table has no column '{shorten(name)}' for {role}s; it has "
            f"{shorten(', '.join(names), 300)}.{did_you_mean(name, names)}",
            parameters=(role,),
            column=name,
            candidates=names,
        )
    return table.frame[name]


def _wrong(role: str, column: pd.Series, table: Table, wrong: np.ndarray, expected: str) -> DataError:
    """Return the error about the first of some wrong cells, bool (N,)."""
    place = int(np.flatnonzero(wrong)[0])
    row = table.row_numbers[place]
    return DataError(
        f"the column '{column.name}' has {str(column.iloc[place])!r} in row {row:,} (counted from 0); expected "
        f"{expected}. {int(wrong.sum()):,} of {len(column):,} cells are wrong; fix them, or leave the "
        f"{role}s out",
        parameters=(role,),
        column=str(column.name),
    )


def _weights(column: pd.Series, table: Table) -> np.ndarray:
    """Return weights, float64 (N,), at least 0, some above 0."""
    weights = _numbers(column)
    if (wrong := ~(np.isfinite(weights) & (weights >= 0))).any():
        raise _wrong("weight", column, table, wrong, "numbers of at least 0")
    if not (weights > 0).any():
        raise DataError(
            f"all weights in the column '{column.name}' are 0; expected some above 0", parameters=("weight",)
        )
    return weights


def _numbers(column: pd.Series) -> np.ndarray:
    """Return numbers, float64 (N,), NaN for other cells."""
    return pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _stripped(column: pd.Series) -> pd.Series:
    """Return cells as texts without blanks around them, "" for missing ones."""
    return column.astype("str").fillna("").str.strip()


def _groups(column: pd.Series) -> np.ndarray:
    """Return the group of each row, int64 (N,)."""
    text = _stripped(column)
    groups = pd.factorize(text)[0].astype(np.int64)
    empty = text.eq("").to_numpy(bool)
    groups[empty] = groups.max(initial=-1) + 1 + np.arange(empty.sum())
    count = len(np.unique(groups))
    if count < 2:
        raise DataError(
            f"all rows have the same group in the column '{column.name}'; expected at least two groups, of which some "
            "are held out. Choose another column, or leave the groups out",
            parameters=("group",),
        )
    if count == len(groups):
        logger.warning(
            f"each row has a group of its own in the column '{column.name}', so it keeps none together"
        )
    return groups


def _times(column: pd.Series, table: Table) -> tuple[np.ndarray, DateFormat | None]:
    """Return times, float64 (N,), and the format of dates: these in seconds since 1970, UTC, numbers as they are."""
    cells = _stripped(column)
    form = date_format(cells)
    times = np.full(len(cells), np.nan) if form is None else parse_dates(cells, form)
    blank = cells.eq("").to_numpy(bool)
    if not (np.isfinite(times) | blank).all() and (np.isfinite(_numbers(column)) | blank).all():
        times, form = _numbers(column), None
    if (wrong := ~np.isfinite(times)).any():
        expected = "dates, times or numbers, such as 2026-01-31 or 2026"
        if form is not None:
            expected = f"dates or times in one format, like {cells[~wrong].iloc[0]!r}"
        raise _wrong("time", column, table, wrong, expected)
    if np.ptp(times) == 0:
        raise DataError(
            f"all times in the column '{column.name}' are equal ({column.iloc[0]}), so no rows are later than others. "
            "Choose another column, or leave the times out",
            parameters=("time",),
        )
    if form is not None and form.others:
        logger.warning(
            f"the times in the column '{column.name}', such as {cells.iloc[0]!r}, are read as {form.pattern}, because "
            f"{form.why}; {' and '.join(form.others)} {'fits' if len(form.others) == 1 else 'fit'} all of them, too. "
            "Write them as 2026-01-31 if that is wrong"
        )
    return times, form
