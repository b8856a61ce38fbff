"""Texts in memory to a table, cleaned as those of a file are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.table.columns import clean, text_array
from pricekit.table.model import Columns, ReadWarnings, Table

_log = logging.getLogger("pricekit")


def table_of_texts(texts: Sequence[str], name: str = "text") -> Table:
    """A table of one text column called `name`, without prices, its ids the row numbers.

    NUL bytes are removed and texts cut to `MAX_TEXT_CHARS` characters, as `read_table` does; what
    was repaired is logged as a warning.

    Raises:
        DataError: a single text instead of a list of them, or a value that is no string.
    """
    if isinstance(texts, pd.DataFrame | pa.Table | pa.RecordBatch):
        raise DataError(
            f"a list of texts is expected, not a whole {type(texts).__name__}. Give its column of texts as a list."
        )
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise DataError(
            f"a list of texts is expected, not one {type(texts).__name__}. Put a text into a list: [text]."
        )
    cells = texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else list(texts)
    wrong = next((i for i, cell in enumerate(cells) if not isinstance(cell, str)), None)
    if wrong is not None:
        raise DataError(
            f"value {wrong:,} of the texts is of type {type(cells[wrong]).__name__}; a string is expected. "
            'Give "" where there is no text.'
        )
    read_warnings = ReadWarnings()
    frame: pd.DataFrame = pa.table({name: clean(text_array(cells), read_warnings)}).to_pandas()
    for sentence in read_warnings.sentences("the texts"):
        _log.warning(sentence)
    rows = np.arange(len(frame), dtype=np.int64)
    return Table(pd.Series(rows, name="row"), frame[name].rename("text"), None, frame, rows=rows)


def check_labelled(texts: Iterable[str], columns: Columns) -> None:
    """Refuse texts for a model of several columns that name none of them, as `join_text` does: DataError."""
    labels = tuple(f"{name}: " for name in columns.text)
    if len(labels) == 1 or not any(texts):
        return
    if not any(line.startswith(labels) for text in texts for line in text.split("\n")):
        raise DataError(
            f"no text has a line such as '{labels[0]}…': this model reads the columns {', '.join(columns.text)}. Give "
            "a DataFrame with these columns, or texts of a line 'column: cell' for each."
        )
