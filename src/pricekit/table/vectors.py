"""Columns of vectors: each cell is a list of numbers, such as an embedding of a picture or a text.

A frame holds the lists of a typed table as Arrow lists (`as_vectors`), without an object for each row. The cells of a
text table are text, such as "[0.5, -1.25]". Features read both as numbers with `read_vectors`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.wording import counted, shorten

LEAST_WIDTH = 16
"""Shorter lists are sizes or codes, unless the user names their column."""
MOST_WIDTH = 1 << 14
"""Numbers of a vector."""
_SAMPLED = 200
"""Cells of text that show whether a column has vectors."""


def is_list_of_numbers(kind: pa.DataType) -> bool:
    """Return whether the cells of an Arrow type are lists of integers or floats."""
    if isinstance(kind, pa.BaseExtensionType):  # such as arrow.fixed_shape_tensor
        kind = kind.storage_type
    types = pa.types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not any(check(kind) for check in (*lists, types.is_list_view, types.is_large_list_view)):
        return False
    return bool(types.is_integer(kind.value_type) or types.is_floating(kind.value_type))


def as_vectors(column: pa.Array) -> pa.Array:
    """Return a column of lists of numbers as large lists, of float32 unless they are integers."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    number, types = column.type.value_type, pa.types
    if types.is_list_view(column.type) or types.is_large_list_view(column.type):  # Arrow's cast errs (26.0)
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
        ends = pa.array(np.cumsum(np.append(0, lengths)), pa.int64())
        column = pa.LargeListArray.from_arrays(ends, column.flatten(), mask=column.is_null())
    return column.cast(pa.large_list(number if types.is_integer(number) else pa.float32()))


def pandas_type(kind: pa.DataType) -> pd.ArrowDtype | None:
    """Return how pandas holds a column that `as_vectors` returns; None for others. A `types_mapper` of Arrow."""
    return pd.ArrowDtype(kind) if pa.types.is_large_list(kind) and is_list_of_numbers(kind) else None


def holds_lists(column: pd.Series) -> bool:
    """Return whether a column of a frame has lists of numbers, as `as_vectors` returns them."""
    return isinstance(column.dtype, pd.ArrowDtype) and is_list_of_numbers(column.dtype.pyarrow_dtype)


def has_vector(column: pd.Series) -> np.ndarray:
    """Return which cells of a column for which `holds_lists` are lists that are not empty, bool (N,)."""
    lengths = pc.list_value_length(pa.chunked_array(column.array._pa_array))
    return np.asarray(pc.fill_null(pc.greater(lengths, 0), False))


def vector_width(column: pa.Array) -> int:
    """Return the length of the vectors in a column of a table, 0 if it does not have vectors.

    All cells that are not empty are lists of so many numbers, at least `LEAST_WIDTH`; of texts, some are looked at.

    Example:
        >>> vector_width(pa.array([[0.5] * 64, None])), vector_width(pa.array([[1.0, 2.0]]))
        (64, 0)
    """
    if is_list_of_numbers(column.type):
        lengths = pc.list_value_length(as_vectors(column))
    elif pa.types.is_large_string(column.type):
        cells = column.filter(pc.starts_with(column, "["))
        if not len(cells) or len(cells) < pc.sum(pc.not_equal(column, "")).as_py():
            return 0
        lists = [_parsed(cell) for cell in cells.slice(0, _SAMPLED).to_pylist()]
        lengths = pa.array([0 if cell is None else len(cell) for cell in lists])
        if not all(lengths.to_pylist()):
            return 0
    else:
        return 0
    ends = pc.min_max(lengths.filter(pc.greater(lengths, 0))).as_py()
    width = ends["min"] if ends["min"] == ends["max"] else 0
    return width if width and LEAST_WIDTH <= width <= MOST_WIDTH else 0


def _parsed(cell: str) -> list[float] | None:
    """Return a list of numbers that is written in JSON, None for anything else."""
    try:
        values = json.loads(cell)
        numbers = isinstance(values, list) and all(
            type(value) in (int, float, type(None)) for value in values
        )
        return [float("nan") if value is None else float(value) for value in values] if numbers else None
    except (ValueError, RecursionError, OverflowError):
        return None


def read_vectors(column: pd.Series, rows: np.ndarray, width: int | None = None) -> np.ndarray:
    """Return the vectors in a column, float32 (N, D); a missing one is NaN.

    A vector with a number that is not finite in float32 counts as missing, and a warning says so.

    Args:
        column: of a frame, (N,), with its name.
        rows: the numbers of the rows in their table, int64 (N,), for errors.
        width: D; None: the length of the first vector.

    Raises:
        DataError: a vector has another length, a cell is no list of numbers, or all are missing and D is not known.
    """
    name = str(column.name)
    lists = column.array._pa_array if holds_lists(column) else _lists(column, rows, width)
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    filled = np.flatnonzero(lengths)
    if width is None:
        width, expected = _first_width(name, lengths[filled]), "the first one"
    else:
        expected = "the training table"
    vectors = np.full((len(lists), width), np.nan, np.float32)
    if not len(filled):
        return vectors
    if (wrong := filled[lengths[filled] != width]).size:
        row, length = int(rows[wrong[0]]), int(lengths[wrong[0]])
        raise DataError(
            f"the vectors in the column {shorten(name)!r} have several lengths: that of row {row:,}, counted from 0, "
            f"has {counted(length, 'number')}; expected {width:,}, as {expected} has. Fix the column"
            + ("" if expected == "the training table" else ", or leave it out of vectors"),
            parameters=("table",) if expected == "the training table" else ("vectors",),
            column=name,
            row=row,
            length=length,
            expected=width,
        )
    with np.errstate(over="ignore"):
        numbers = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(-1, width)
    finite = np.asarray(np.isfinite(numbers).all(axis=1))
    if not finite.all():
        odd = filled[~finite]
        _warn(name, f"{counted(len(odd), 'vector')}", int(rows[odd[0]]))
        numbers = np.where(finite[:, None], numbers, np.float32(np.nan))
    if len(filled) == len(vectors):
        return numbers
    vectors[filled] = numbers
    return vectors


def _first_width(name: str, lengths: np.ndarray) -> int:
    if not len(lengths):
        raise DataError(
            f"the column {shorten(name)!r} has no vectors: all its cells are empty. Leave it out of vectors",
            parameters=("vectors",),
            column=name,
        )
    if lengths[0] > MOST_WIDTH:
        raise DataError(
            f"the vectors in the column {shorten(name)!r} have {lengths[0]:,} numbers; expected at most "
            f"{MOST_WIDTH:,}. Reduce them, or leave the column out of vectors",
            parameters=("vectors",),
            column=name,
            width=int(lengths[0]),
        )
    return int(lengths[0])


def _lists(column: pd.Series, rows: np.ndarray, width: int | None) -> pa.Array:
    """Return cells of text or of other objects as Arrow lists, null where they are missing."""
    missing, lists = column.isna().to_numpy(bool), list[Any]()
    for row, (cell, is_missing) in enumerate(zip(column.tolist(), missing.tolist(), strict=True)):
        blank = is_missing or (isinstance(cell, str) and not cell.strip())
        values = _parsed(cell) if isinstance(cell, str) and not blank else None
        if values is None and not blank:
            raise _no_vector(str(column.name), int(rows[row]), cell, width)
        lists.append(values)
    return pa.array(lists, pa.large_list(pa.float64()))


def _no_vector(name: str, row: int, cell: Any, width: int | None) -> DataError:
    numbers = "numbers" if width is None else counted(width, "number")
    length = f" ({len(cell):,} characters)" if isinstance(cell, str) and len(cell) > 40 else ""
    is_cut = bool(length) and cell.startswith("[") and not cell.rstrip().endswith("]")
    advice = (
        ". Long texts are cut: store vectors of so many numbers as lists, in Parquet, or with fewer digits"
    )
    return DataError(
        f"the column {shorten(name)!r} has no vector in row {row:,}, counted from 0: found {shorten(repr(cell))}"
        f"{length}; expected a list of {numbers}, such as [0.5, -1.25], or an empty cell" + advice * is_cut,
        parameters=("table",),
        column=name,
        row=row,
    )


_warned: set[str] = set()


def _warn(name: str, what: str, row: int) -> None:
    """Say once for each column that vectors count as missing."""
    if name not in _warned:
        _warned.add(name)
        logger.warning(
            f"{what} in the column {shorten(name)!r} count as missing, because they have numbers that are not finite; "
            f"the first is in row {row:,}, counted from 0"
        )
