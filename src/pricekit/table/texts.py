"""Convert texts in memory to a table, cleaned like those of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.support.log import logger
from pricekit.table.columns import clean, text_array
from pricekit.table.formats.frame import is_frame
from pricekit.table.model import Columns, ReadWarnings, Table


def table_of_texts(texts: Sequence[str] | np.ndarray | pd.Series, name: str = "text") -> Table:
    """Return a table with one text column called `name`, without prices, with row numbers as ids.

    NUL bytes are removed and texts are cut to `MAX_TEXT_CHARS` characters, as `read_table` does; a warning counts both.

    Args:
        texts: strings, (N,): a list, a numpy array, or a pandas, Arrow or polars column.
        name: the name of the column.

    Raises:
        DataError: a single text or a whole table instead of a list of texts, or a value that is not a string.

    Example:
        >>> table_of_texts(["Green tea 50 g", "Plum jam"]).text.tolist()
        ['Green tea 50 g', 'Plum jam']
    """
    cells = _cells(texts)
    wrong = next((i for i, cell in enumerate(cells) if not isinstance(cell, str)), None)
    if wrong is not None:
        raise DataError(
            f"value {wrong:,} of the texts is of type {type(cells[wrong]).__name__}; a string is expected. "
            'Use "" for a missing text.',
            parameters=("table",),
            position=wrong,
            type=type(cells[wrong]).__name__,
        )
    read_warnings = ReadWarnings()
    column = pd.array(clean(text_array(cells), read_warnings), dtype="str")
    for sentence in read_warnings.sentences("the texts"):
        logger.warning(sentence)
    text = pd.Series(column, name="text")
    rows = np.arange(len(text), dtype=np.int64)
    return Table(pd.Series(rows, name="row"), text, None, text.to_frame(name), rows=rows)


def _cells(texts: Any) -> list[Any]:
    """Return the values of a list of texts; raises DataError if it is something else."""
    kind = type(texts).__name__
    if is_frame(texts):
        raise DataError(
            f"a list of texts is expected, not a whole {kind}. Pass its text column.",
            parameters=("table",),
            type=kind,
        )
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise DataError(
            f"a table or a list of texts is expected, not {_what(texts)}. {_remedy(texts)}",
            parameters=("table",),
            type=kind,
        )
    if isinstance(texts, np.ndarray) and texts.ndim != 1:
        raise DataError(
            f"texts of one dimension are expected, not an array of shape {texts.shape}. Pass one of its columns.",
            parameters=("table",),
            shape=texts.shape,
        )
    return texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else list(texts)


def _what(value: object) -> str:
    return "None" if value is None else f"one {type(value).__name__}"


def _remedy(value: object) -> str:
    if hasattr(value, "collect"):  # of a lazy frame
        return "Call its collect() first."
    return (
        "Put a text into a list: [text]." if isinstance(value, str | bytes) else "Put the texts into a list."
    )


def check_labelled(texts: Iterable[str], columns: Columns) -> None:
    """Raise DataError if a model reads several columns and no text has a line of `join_text` for any of them."""
    labels = tuple(f"{name}: " for name in columns.text)
    if len(labels) == 1 or not any(texts):
        return
    if not any(line.startswith(labels) for text in texts for line in text.split("\n")):
        raise DataError(
            f"no text has a line such as '{labels[0]}…': this model reads the columns {', '.join(columns.text)}. Pass "
            "a DataFrame with these columns, or texts with a line 'column: cell' for each.",
            parameters=("table",),
            columns=list(columns.text),
        )
