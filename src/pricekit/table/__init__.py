"""Tables: reading, validating, setting rows aside, writing.

model.py         what a table is: Table, Columns, the reasons for which a row is set aside
reading.py       what the user says of how a file is read
detect.py        which encoding a file is in
encoding.py      bytes to text: byte order marks, other encodings, files that are no text at all
dialect.py       what stands between the fields of a delimited file, and whether it has a header
delimited.py     CSV, TSV and text }
jsonlines.py     JSON lines        }  a file to chunks of raw columns
parquet.py       Parquet           }
opened.py        a path and a reading to one of these
columns.py       raw columns to clean text
currency.py      signs and codes of currencies
writing.py       the text of a price in one writing
multiplier.py    words and letters behind a number that multiply it
cells.py         one cell that holds a price
price_format.py  a column of such cells: how the whole of it is written
prices.py        the same column as numbers
describe.py      how prices were read, in words
files.py         a folder or a pattern to its files
equal.py         which texts say the same
read.py          chunks to Table: the one way in, for training and prediction alike
validate.py      usable rows here, the others there, each with its reason
usable.py        a file to its usable rows, the others counted aloud
profile.py       what a table holds, for `pricekit check`
texts.py         texts in memory to a table; a frame: read.py
sinks.py         a frame at a time to CSV, TSV, JSON lines or Parquet
write.py         predictions and frames out, whole or not at all
rejected.py      rows that were set aside, of any files, into one file
"""

import warnings
from typing import Any

from pricekit.table.files import check_columns, files_size, iter_files, table_files
from pricekit.table.formats.frame import is_frame
from pricekit.table.guess import ColumnGuess, guess_columns
from pricekit.table.model import MAX_TEXT_CHARS, NO_PRICE, REASONS, Columns, Notices, Table, concat_tables
from pricekit.table.options import DEFAULT_READ_OPTIONS, ReadOptions
from pricekit.table.read import iter_table, read_frame, read_table
from pricekit.table.rejected import write_rejected
from pricekit.table.source import ArrowStream, TableSource, source_name
from pricekit.table.texts import check_labelled, table_of_texts
from pricekit.table.usable import count_reasons, read_usable, row_reasons, split_usable
from pricekit.table.write import PredictionWriter, check_output, read_predictions, write_frame

__all__ = [
    "DEFAULT_READ_OPTIONS",
    "MAX_TEXT_CHARS",
    "NO_PRICE",
    "REASONS",
    "ArrowStream",
    "ColumnGuess",
    "Columns",
    "Notices",
    "PredictionWriter",
    "ReadOptions",
    "Table",
    "TableSource",
    "check_columns",
    "check_labelled",
    "check_output",
    "concat_tables",
    "count_reasons",
    "files_size",
    "guess_columns",
    "is_frame",
    "iter_files",
    "iter_table",
    "read_frame",
    "read_predictions",
    "read_table",
    "read_usable",
    "row_reasons",
    "source_name",
    "split_usable",
    "table_files",
    "table_of_texts",
    "write_frame",
    "write_rejected",
]

_RENAMED = {"Reading": "ReadOptions", "AS_FOUND": "DEFAULT_READ_OPTIONS"}


def __getattr__(name: str) -> Any:
    """Return what version 0.1 called by another name, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    message = f"{__name__}.{name} is now {__name__}.{new}; the next version of pricekit removes the old name"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return globals()[new]
