"""Tables: read files and frames, parse prices, separate unusable rows, write results.

Data flows one way: a source is opened, read as raw chunks, and assembled to a `Table`.

    table.py          Table, Columns, reasons for rejection; tables larger than memory
    formats.py        the formats that suffixes name
    source.py         ReadOptions; a file or a frame to an OpenedTable
    delimited.py      raw chunks of CSV, TSV and TXT
    jsonlines.py      raw chunks of JSON lines
    arrow.py          raw chunks of Parquet, Feather and ORC files, and of frames in memory
    workbook.py       the table in a sheet of a workbook
    cell_formats.py   currencies that the formats of its cells show
    encoding.py       encodings of text files
    vectors.py        columns whose cells are lists of numbers
    columns.py        raw chunks and the warnings of reading; Arrow columns to clean text and to pandas
    price_words.py    words of written prices: sizes such as "million", units such as "per month"
    price_cells.py    one written price to a number
    price_columns.py  the format of a column of prices; its cells to numbers
    currency.py       currencies and their signs
    name_words.py     words in the names of columns
    guess.py          the profile of each column; guesses of the text, price and id columns
    read.py           read_table, iter_table: all of the above in order
    many_files.py     tables in several files
    odd_rows.py       headers inside a table and totals
    usable.py         usable and rejected rows
    row_info.py       weights, groups and times of rows
    write.py          predictions, rejected rows and other frames to files
"""

from pricekit.table.arrow import is_frame
from pricekit.table.guess import ColumnGuess, guess_columns
from pricekit.table.many_files import check_columns, files_size, iter_files, table_files
from pricekit.table.read import (
    check_labelled,
    column_names,
    iter_table,
    read_frame,
    read_table,
    table_of_texts,
)
from pricekit.table.source import DEFAULT_READ_OPTIONS, ReadOptions, TableSource, source_name
from pricekit.table.table import MAX_TEXT_CHARS, NO_PRICE, REASONS, Columns, Table, concat_tables
from pricekit.table.usable import count_reasons, read_usable, row_reasons, split_usable
from pricekit.table.write import (
    PredictionWriter,
    check_output,
    check_table_output,
    read_predictions,
    write_frame,
    write_rejected,
)

__all__ = [
    "DEFAULT_READ_OPTIONS",
    "MAX_TEXT_CHARS",
    "NO_PRICE",
    "REASONS",
    "ColumnGuess",
    "Columns",
    "PredictionWriter",
    "ReadOptions",
    "Table",
    "TableSource",
    "check_columns",
    "check_labelled",
    "check_output",
    "check_table_output",
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
