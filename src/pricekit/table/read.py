"""Files to tables: the one way in, for training and prediction alike."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.table.columns import as_text, clean, flat, is_text, join_text, keeps_type, parse_price
from pricekit.table.delimited import read_delimited
from pricekit.table.encoding import check_readable
from pricekit.table.jsonlines import read_json_lines
from pricekit.table.model import (
    RAGGED,
    Columns,
    Notices,
    RawChunk,
    Table,
    Tally,
    concat_tables,
    format_of,
)
from pricekit.table.parquet import read_parquet

_log = logging.getLogger("pricekit")
_SHOWN_COLUMNS = 30
_SHOWN_CHARS = 40
_NULLABLE = {
    getattr(pa, kind.lower())(): pd.api.types.pandas_dtype(kind)
    for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}


def read_table(
    path: Path,
    columns: Columns,
    *,
    limit: int | None = None,
    encoding: str = "utf-8",
    notices: Notices = _log.warning,
) -> Table:
    """The whole table in memory; arguments and errors as of `iter_table`."""
    return concat_tables(list(iter_table(path, columns, limit=limit, encoding=encoding, notices=notices)))


def iter_table(
    path: Path,
    columns: Columns,
    *,
    rows: int = 8192,
    limit: int | None = None,
    encoding: str = "utf-8",
    notices: Notices = _log.warning,
    first_row: int = 0,
) -> Iterator[Table]:
    """Yield the table in consecutive chunks, in bounded memory; no row is left out.

    Args:
        path: a .csv, .tsv, .parquet, .pq, .jsonl or .ndjson file.
        columns: which columns mean what.
        rows: rows of a chunk, at most; a chunk also ends at about 64 MB of text.
        limit: read the first `limit` rows only.
        encoding: of CSV, TSV and JSON lines; a byte order mark outranks it.
        notices: is told in one sentence each what was repaired, at the end of the file.
        first_row: what rows are counted from.

    Raises:
        DataError: the file is missing, empty, damaged, of an unknown format or another encoding, or
            lacks a column. Raised when the chunk that shows it is asked for.
    """
    path = Path(path)
    tally = Tally()
    rows = rows if limit is None else max(1, min(rows, limit))
    meant: Columns | None = None
    done = 0
    for raw in _raw_chunks(path, rows, encoding, tally):
        meant = meant or _resolve(path, raw.columns.column_names, columns, notices)
        raw = raw if limit is None else _first(raw, limit - done)
        if len(raw.columns):
            yield _assemble(raw, meant, first_row + done, tally)
        done += len(raw.columns)
        if done == limit:
            break
    if not done:
        raise DataError(f"{path} has no rows: at least one is expected below the header.")
    for sentence in tally.sentences(path):
        notices(sentence)


def progress_size(path: Path) -> int:
    """What `Table.position` counts up to, in bytes."""
    return Path(path).stat().st_size


def _raw_chunks(path: Path, rows: int, encoding: str, tally: Tally) -> Iterator[RawChunk]:
    check_readable(path)
    kind = format_of(path)
    if kind == "parquet":
        return read_parquet(path, rows)
    if kind == "jsonl":
        return read_json_lines(path, rows, encoding, tally)
    return read_delimited(path, "\t" if kind == "tsv" else ",", rows, encoding, tally)


def _first(raw: RawChunk, rows: int) -> RawChunk:
    ragged = None if raw.ragged is None else raw.ragged[:rows]
    return replace(raw, columns=raw.columns.slice(0, rows), ragged=ragged)


def _resolve(path: Path, names: list[str], columns: Columns, notices: Notices) -> Columns:
    """Check that the columns are there; an id column that nobody asked for may be missing."""
    for name in columns.text:
        _require(path, names, name, "--text")
    if columns.price is not None:
        _require(path, names, columns.price, "--price")
    if columns.id is None or columns.id in names:
        return columns
    if columns.id_required:
        _require(path, names, columns.id, "--id")
    notices(
        f"{path} has no id column {columns.id!r}: row numbers from 0 are used instead (--id names another)."
    )
    return replace(columns, id=None)


def _require(path: Path, names: list[str], name: str, flag: str) -> None:
    if name in names:
        return
    shown = ", ".join(_short(n) for n in names[:_SHOWN_COLUMNS])
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    folded = {n.casefold(): n for n in names}
    near = difflib.get_close_matches(name.casefold(), list(folded), n=1)
    hint = f" Did you mean {_short(folded[near[0]])!r}?" if near else ""
    raise DataError(f"{path} has no column {name!r}. It has: {shown}{more}.{hint} Name it with {flag}.")


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN_CHARS else name[: _SHOWN_CHARS - 1] + "…"


def _assemble(raw: RawChunk, columns: Columns, start: int, tally: Tally) -> Table:
    arrays = {name: flat(raw.columns.column(name)) for name in raw.columns.column_names}
    # The price is read before NUL bytes are removed: "1\0999" is no number and must not become one.
    price, flaws = (None, None) if columns.price is None else parse_price(arrays[columns.price])
    if raw.ragged is not None and raw.ragged.any():
        flaws = np.full(len(raw.columns), "", dtype=object) if flaws is None else flaws
        flaws[raw.ragged] = RAGGED
    arrays = {name: clean(cells, tally) if is_text(cells.type) else cells for name, cells in arrays.items()}
    text = join_text(columns.text, [as_text(arrays[name]) for name in columns.text], tally)
    frame = _frame(arrays)
    rows = np.arange(start, start + len(frame), dtype=np.int64)
    return Table(
        ids=pd.Series(rows, name="row") if columns.id is None else _ids(columns.id, arrays, frame),
        text=pa.table({"text": text}).to_pandas()["text"],
        price=price,
        frame=frame,
        flaws=flaws,
        rows=rows,
        position=raw.position,
    )


def _ids(name: str, arrays: dict[str, pa.Array], frame: pd.DataFrame) -> pd.Series:
    # Decimals, dates and the like are objects in pandas, whose Arrow type would be guessed anew for each chunk.
    if keeps_type(arrays[name].type):
        return frame[name]
    text: pd.DataFrame = pa.table({name: as_text(arrays[name])}).to_pandas()
    return text[name]


def _frame(arrays: dict[str, pa.Array]) -> pd.DataFrame:
    frame: pd.DataFrame = pa.table(arrays).to_pandas()
    for name, cells in arrays.items():
        # Whole numbers with gaps stay whole numbers: an id 7 must not come back as 7.0.
        if cells.null_count and cells.type in _NULLABLE:
            frame[name] = pa.table({name: cells}).to_pandas(types_mapper=_NULLABLE.get)[name]
    return frame
