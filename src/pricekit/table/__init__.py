"""Tables: read files and frames, parse prices, separate unusable rows, write results.

Data flows one way: a source is opened, read as raw chunks, and assembled to a `Table`.

    options.py    ReadOptions: the user's options for reading
    source.py     a file or a frame to an OpenedTable
    formats/      raw chunks of CSV, JSON lines, Parquet and frames; detection of encoding and delimiter
    guess.py      guesses of the text, price and id columns, from profile.py
    profile.py    the kind of each column
    columns.py    Arrow columns to clean text and to pandas
    prices/       written prices to numbers
    assemble.py   raw chunks to a Table
    read.py       read_table, iter_table: all of the above in order
    files.py      tables in several files
    texts.py      a list of texts to a Table
    usable.py     usable and rejected rows
    model.py      Table, Columns, reasons for rejection
    output/       predictions, rejected rows and other frames to files
"""

from pricekit.table.files import check_columns, files_size, iter_files, table_files
from pricekit.table.formats.frame import is_frame
from pricekit.table.guess import ColumnGuess, guess_columns
from pricekit.table.model import MAX_TEXT_CHARS, NO_PRICE, REASONS, Columns, Notices, Table, concat_tables
from pricekit.table.output.write import (
    PredictionWriter,
    check_output,
    read_predictions,
    write_frame,
    write_rejected,
)
from pricekit.table.read import column_names, iter_table, read_frame, read_table
from pricekit.table.source import DEFAULT_READ_OPTIONS, ArrowStream, ReadOptions, TableSource, source_name
from pricekit.table.texts import check_labelled, table_of_texts
from pricekit.table.usable import count_reasons, read_usable, row_reasons, split_usable

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
    "column_names",
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
