"""Raw columns to clean text, whole columns at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.table.model import MAX_TEXT_CHARS, ReadWarnings

_FOLDED = r"[\pP\pS\pZ\pC]+"
"""Punctuation, symbols, white space and control characters; letters, marks and digits stay."""

_NULLABLE = {
    getattr(pa, kind.lower())(): pd.api.types.pandas_dtype(kind)
    for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}

_NOT_FOR_PANDAS = (pa.ArrowException, ValueError, OverflowError)


def check_names(name: str, columns: Sequence[str]) -> None:
    """Raise a DataError where several columns of the table called `name` have one name."""
    twice = sorted(column for column, count in Counter(columns).items() if count > 1)
    if twice:
        raise DataError(
            f"{name} has several columns named {twice[0]!r}. Rename all but one of them.",
            parameters=("table",),
            column=twice[0],
            duplicates=twice,
        )


def text_array(cells: Sequence[str]) -> pa.Array:
    """Python strings as an Arrow column; halves of surrogate pairs, which UTF-8 lacks, become U+FFFD."""
    try:
        return pa.array(cells, pa.large_string())
    except UnicodeEncodeError:
        whole = [cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for cell in cells]
        return pa.array(whole, pa.large_string())


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds text."""
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds bytes."""
    types = pa.types
    checks = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(kind) for check in checks)


def keeps_type(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type has one pandas type too, whichever values it holds."""
    types = pa.types
    checks = (is_text, types.is_integer, types.is_floating, types.is_timestamp, types.is_duration)
    return any(check(kind) for check in checks)


def flat(column: pa.ChunkedArray) -> pa.Array:
    """One array, text as `large_string` with "" for null."""
    if is_text(column.type):
        column = pc.fill_null(column.cast(pa.large_string()), "")
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def as_text(column: pa.Array) -> pa.Array:
    """Any column as text, "" for null: numbers as Python writes them, lists and structs as JSON.

    A float without decimals is written as the integer that it is: one missing cell makes a year 2015.0 in pandas.
    """
    kind = column.type
    if is_text(kind):
        return column
    if isinstance(kind, pa.UuidType):
        return text_array([str(value or "") for value in column.to_pylist()])
    if isinstance(kind, pa.BaseExtensionType):
        return pc.fill_null(as_text(column.storage), "")
    if pa.types.is_floating(kind):
        written = pa.array(column.to_numpy(zero_copy_only=False).astype(str), pa.large_string())
        whole = pc.replace_substring_regex(written, r"\.0$", "")
        return pc.if_else(column.is_null(nan_is_null=True), "", whole)
    if pa.types.is_nested(kind) or is_bytes(kind):
        return text_array([_written(value) for value in column.to_pylist()])
    return pc.fill_null(column.cast(pa.large_string()), "")


def as_model_text(column: pa.Array) -> pa.Array:
    """Any column as text for a model: that of `as_text`, but 87 for the decimal 87.00, as of other numbers."""
    written = as_text(column)
    if not pa.types.is_decimal(column.type):
        return written
    return pc.replace_substring_regex(written, r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str)


def as_frame(arrays: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Columns as a pandas frame. Whole numbers with gaps stay whole numbers: an id 7 must not come back as 7.0.

    What Python cannot hold, such as a date after the year 9999, is text.

    Raises:
        pa.ArrowException, ValueError, OverflowError: the columns of `unreadable` are none of pandas', and no text.
    """
    try:
        frame: pd.DataFrame = pa.table(dict(arrays)).to_pandas()
    except _NOT_FOR_PANDAS:
        odd = unreadable(arrays)
        text = pa.large_string()
        frame = pa.table({n: c.cast(text) if n in odd else c for n, c in arrays.items()}).to_pandas()
    for name, cells in arrays.items():
        if cells.null_count and cells.type in _NULLABLE:
            frame[name] = pa.table({name: cells}).to_pandas(types_mapper=_NULLABLE.get)[name]
    return frame


def unreadable(arrays: Mapping[str, pa.Array]) -> list[str]:
    """Names of the columns that pandas cannot hold."""
    odd = []
    for name, cells in arrays.items():
        try:
            pa.table({name: cells}).to_pandas()
        except _NOT_FOR_PANDAS:
            odd.append(name)
    return odd


def clean(cells: pa.Array, read_warnings: ReadWarnings) -> pa.Array:
    """Remove NUL bytes and cut to `MAX_TEXT_CHARS` characters, counting the cells changed."""
    has_nul = pc.sum(pc.match_substring(cells, "\0")).as_py() or 0
    if has_nul:
        read_warnings.nul_cells += has_nul
        cells = pc.replace_substring(cells, "\0", "")
    if (pc.max(pc.binary_length(cells)).as_py() or 0) > MAX_TEXT_CHARS:
        read_warnings.cut_cells += pc.sum(pc.greater(pc.utf8_length(cells), MAX_TEXT_CHARS)).as_py()
        cells = pc.utf8_slice_codeunits(cells, 0, MAX_TEXT_CHARS)
    return cells


def join_text(names: Sequence[str], columns: Sequence[pa.Array], read_warnings: ReadWarnings) -> pa.Array:
    """One text of several columns: a line "name: cell" for each cell that is not blank."""
    if len(columns) == 1:
        return columns[0]
    lines = [_labelled(name, cells) for name, cells in zip(names, columns, strict=True)]
    joined = pc.binary_join_element_wise(*lines, pa.scalar("", pa.large_string()))
    return clean(pc.utf8_slice_codeunits(joined, 1), read_warnings)


def _labelled(name: str, cells: pa.Array) -> pa.Array:
    # Each begins with the line end that parts it from the one before. Nulls for the blank cells would be
    # shorter, but pyarrow's join with null_handling="skip" loses rows that have nothing but nulls.
    blank = pc.equal(pc.utf8_trim_whitespace(cells), "")
    label = pa.scalar(f"\n{name}: ", pa.large_string())
    line = pc.binary_join_element_wise(label, cells, pa.scalar("", pa.large_string()))
    return pc.if_else(blank, pa.scalar("", pa.large_string()), line)


def equal_texts(texts: pd.Series) -> np.ndarray:
    """Return a number for each text, int64 (N,), equal where texts say the same; from 0, as they first appear."""
    codes: np.ndarray = normalised(texts).dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)


def normalised(texts: pd.Series) -> pa.Array:
    """Return texts, (N,), in lower case, Unicode's NFKC, with one space for all that is no letter, mark or digit.

    A text of nothing else stays as it is.
    """
    cells = pa.array(texts.to_numpy(object), pa.large_string())
    folded = pc.utf8_trim_whitespace(pc.replace_substring_regex(cells, _FOLDED, " "))
    folded = pc.utf8_lower(pc.utf8_normalize(folded, form="NFKC"))
    return pc.if_else(pc.equal(pc.utf8_length(folded), 0), cells, folded)
