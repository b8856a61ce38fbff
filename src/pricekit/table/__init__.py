"""Tables: reading, validating, setting rows aside, writing.

model.py      what a table is: Table, Columns, the reasons for which a row is set aside
encoding.py   bytes to text: byte order marks, other encodings, files that are no text at all
delimited.py  CSV and TSV      }
jsonlines.py  JSON lines       }  a file to chunks of raw columns
parquet.py    Parquet          }
columns.py    raw columns to clean text and to prices
read.py       chunks to Table: the one way in, for training and prediction alike
validate.py   usable rows here, the others there, each with its reason
usable.py     a file to its usable rows, the others counted aloud
write.py      predictions out, whole or not at all
"""

from pricekit.files import write_atomically
from pricekit.table.model import MAX_TEXT_CHARS, REASONS, Columns, Notices, Table, concat_tables
from pricekit.table.read import iter_table, progress_size, read_table
from pricekit.table.usable import count_reasons, read_usable
from pricekit.table.validate import row_reasons, split_usable
from pricekit.table.write import PredictionWriter

__all__ = [
    "MAX_TEXT_CHARS",
    "REASONS",
    "Columns",
    "Notices",
    "PredictionWriter",
    "Table",
    "concat_tables",
    "count_reasons",
    "iter_table",
    "progress_size",
    "read_table",
    "read_usable",
    "row_reasons",
    "split_usable",
    "write_atomically",
]
