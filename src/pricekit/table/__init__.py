"""Tables: reading, validating, setting rows aside, writing.

model.py      what a table is: Table, Columns, the reasons for which a row is set aside
encoding.py   bytes to text: byte order marks, other encodings, files that are no text at all
delimited.py  CSV and TSV      }
jsonlines.py  JSON lines       }  a file to chunks of raw columns
parquet.py    Parquet          }
columns.py    raw columns to clean text and to prices
files.py      a folder or a pattern to its files
read.py       chunks to Table: the one way in, for training and prediction alike
validate.py   usable rows here, the others there, each with its reason
usable.py     a file to its usable rows, the others counted aloud
texts.py      texts in memory to a table
sinks.py      a frame at a time to CSV, TSV, JSON lines or Parquet
write.py      predictions and frames out, whole or not at all
rejected.py   rows that were set aside, of any files, into one file
"""

from pricekit.table.files import files_size, iter_files, table_files
from pricekit.table.model import MAX_TEXT_CHARS, REASONS, Columns, Notices, Table, concat_tables
from pricekit.table.read import iter_table, progress_size, read_table
from pricekit.table.rejected import write_rejected
from pricekit.table.texts import table_of_texts
from pricekit.table.usable import count_reasons, read_usable
from pricekit.table.validate import row_reasons, split_usable
from pricekit.table.write import PredictionWriter, check_output, write_frame

__all__ = [
    "MAX_TEXT_CHARS",
    "REASONS",
    "Columns",
    "Notices",
    "PredictionWriter",
    "Table",
    "check_output",
    "concat_tables",
    "count_reasons",
    "files_size",
    "iter_files",
    "iter_table",
    "progress_size",
    "read_table",
    "read_usable",
    "row_reasons",
    "split_usable",
    "table_files",
    "table_of_texts",
    "write_frame",
    "write_rejected",
]
