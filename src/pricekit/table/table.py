"""The table, its columns, the reasons to reject a row; and tables that are larger than memory.

The texts of a large table are in a file that is mapped into memory: its text columns are Arrow arrays in the file;
numbers stay in memory. Rows that are taken from it are stored in the same way if they are many, and `parts_of` reads
it in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError
from pricekit.storage import Location
from pricekit.support.mapped import map_file, nameless_file, release_pages
from pricekit.support.text import shorten

MAX_TEXT_CHARS = 50_000
"""Longer cells and texts are cut to this length in training and prediction; no model reads further."""

RAGGED = "ragged row"
NO_TEXT = "no text"
NO_PRICE = "no price"
NOT_A_NUMBER = "price not a number"
NOT_FINITE = "price not finite"
NOT_POSITIVE = "price not positive"
OTHER_CURRENCY = "other currency"
DUPLICATE_ID = "duplicate id"

REASONS = (
    RAGGED,
    NO_TEXT,
    NOT_A_NUMBER,
    NOT_FINITE,
    OTHER_CURRENCY,
    NO_PRICE,
    NOT_POSITIVE,
    DUPLICATE_ID,
)
"""Why a row is unusable for training and evaluation; if several reasons apply, the first one is given."""

Notices = Callable[[str], None]
"""Receives one sentence at a time that the user should read."""

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
}
_ARCHIVES = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar")
_WORKBOOKS = (".xlsx", ".xls", ".ods")
_ADVICE = dict.fromkeys(_ARCHIVES, "Unpack it first.") | dict.fromkeys(_WORKBOOKS, "Save the sheet as CSV.")
_ADVICE[".json"] = "Write it as JSON lines, one object per line, with the suffix .jsonl."


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        text: the text columns; several become lines "column: cell" of one text.
        price: the price column; None reads no prices.
        id: the id column; None numbers the rows from 0.
        id_required: the user named this id column, so a table without it is an error.

    Example:
        >>> from pricekit import Columns
        >>> Columns("title", price="eur", id="sku").text
        ('title',)
    """

    text: tuple[str, ...] = ("catalog_content",)
    price: str | None = "price"
    id: str | None = "sample_id"
    id_required: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.text, str):
            object.__setattr__(self, "text", (self.text,))


@dataclass(frozen=True)
class Table:
    """Rows of products, in the order of their source.

    Attributes:
        ids: one id per row, (N,), named like the id column: strings, or the numbers or times of a typed table. Without
            an id column: row numbers from 0, int64, named "row".
        text: one text per row, (N,), pandas `str` dtype, never missing (an empty cell is "").
        price: float64 (N,), in the table's currency, finite, or NaN if it could not be read; None if no price
            column was read.
        frame: the columns as read, (N, columns), for features that use more than the text. Text columns have the
            dtype `str` and "" for missing values.
        flaws: object (N,), problems of a row that the columns above do not show: "ragged row", "price not a number",
            "price not finite", "other currency" or "". None means "" everywhere.
        rows: int64 (N,), the number of each row in its source, from 0. None means 0 to N-1.
        position: number of bytes of the file that had been read after this table; 0 for a frame.
        currency: the currency of the prices; None if no price shows one or the table was read in parts.
        together: int64 (N,), from 0, equal for rows of the same product, which a split keeps in one part; None if
            duplicates have not been searched.
        weight: float64 (N,), at least 0, how much each row counts; None: all rows count equally.
        group: int64 (N,), equal for rows of one group that the user named; None: no groups were named.
        time: float64 (N,), in any unit; None: no times were named.
        folder: where the texts of many rows that are taken from this table are stored, because they are in a file there
            (`pricekit.table.table`); None: they are in memory.

    Example:
        >>> import pricekit as pk
        >>> table = pk.read_table(pk.make_catalog(3))
        >>> len(table), table.price.dtype, table.take([0, 2]).ids.tolist()
        (3, dtype('float64'), [0, 2])
    """

    ids: pd.Series
    text: pd.Series
    price: np.ndarray | None
    frame: pd.DataFrame
    flaws: np.ndarray | None = None
    rows: np.ndarray | None = None
    position: int = 0
    currency: str | None = None
    together: np.ndarray | None = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    time: np.ndarray | None = None
    folder: Path | None = None

    def __len__(self) -> int:
        return len(self.text)

    @property
    def known_price(self) -> np.ndarray:
        """The prices, float64 (N,); raises ValueError if no price column was read."""
        if self.price is None:
            raise ValueError("the table was read without its price column")
        return self.price

    def take(self, positions: np.ndarray) -> Table:
        """Return the rows at these positions, int (M,), in this order."""
        if self.folder is not None:
            return take_stored(self, positions, self.folder)
        return Table(
            ids=self.ids.take(positions).reset_index(drop=True),
            text=self.text.take(positions).reset_index(drop=True),
            price=None if self.price is None else self.price[positions],
            frame=self.frame.take(positions).reset_index(drop=True),
            flaws=None if self.flaws is None else self.flaws[positions],
            rows=np.asarray(positions, np.int64) if self.rows is None else self.rows[positions],
            position=self.position,
            currency=self.currency,
            together=None if self.together is None else self.together[positions],
            weight=None if self.weight is None else self.weight[positions],
            group=None if self.group is None else self.group[positions],
            time=None if self.time is None else self.time[positions],
        )

    def slice(self, start: int, stop: int) -> Table:
        """Return consecutive rows, as a view."""
        rows = slice(start, stop)
        return Table(
            ids=self.ids.iloc[rows].reset_index(drop=True),
            text=self.text.iloc[rows].reset_index(drop=True),
            price=None if self.price is None else self.price[rows],
            frame=self.frame.iloc[rows].reset_index(drop=True),
            flaws=None if self.flaws is None else self.flaws[rows],
            rows=np.arange(start, min(stop, len(self))) if self.rows is None else self.rows[rows],
            position=self.position,
            currency=self.currency,
            together=None if self.together is None else self.together[rows],
            weight=None if self.weight is None else self.weight[rows],
            group=None if self.group is None else self.group[rows],
            time=None if self.time is None else self.time[rows],
        )


@dataclass(frozen=True)
class RawChunk:
    """Consecutive rows as read from a file, unchanged.

    Attributes:
        columns: the columns, unchanged.
        ragged: bool (N,), rows with too few or too many fields; None in formats where that cannot happen.
        position: bytes of the file read so far.
    """

    columns: pa.Table
    ragged: np.ndarray | None
    position: int


@dataclass
class ReadWarnings:
    """The repairs made while a table was read.

    Attributes:
        ragged: rows with too few or too many fields.
        first_ragged_line: the line of the first of them.
        ends_in_quotes: the file ends inside a quoted cell.
        quoted_lines: lines inside quoted cells that look like rows.
        first_quoted_line: the line on which the first such cell begins.
        extra_empty: rows with empty fields beyond the header.
        wider: rows with filled fields beyond the header.
        nul_cells: cells from which NUL bytes were removed.
        cut_cells: cells that were cut to `MAX_TEXT_CHARS`.
        not_utf8: cells with bytes that are not UTF-8.
        new_key_rows: JSON objects with keys that the first chunk lacks.
        first_new_key: the first such key.
        duplicate_names: column names that the header has more than once.
    """

    ragged: int = 0
    first_ragged_line: int = 0
    ends_in_quotes: bool = False
    quoted_lines: int = 0
    first_quoted_line: int = 0
    extra_empty: int = 0
    wider: int = 0
    nul_cells: int = 0
    cut_cells: int = 0
    not_utf8: int = 0
    new_key_rows: int = 0
    first_new_key: str = ""
    duplicate_names: tuple[str, ...] = ()

    def sentences(self, name: str) -> list[str]:
        """Return one sentence for each kind of repair; `name` is that of the table."""
        return [f"{name}: {sentence}" for sentence in (*self._about_rows(), *self._about_cells())]

    def _about_rows(self) -> Iterator[str]:
        if self.ragged:
            yield (
                f"rows with too few or too many fields: {self.ragged:,}, the first on line "
                f"{self.first_ragged_line:,}. Prediction prices them, training rejects them."
            )
        if self.duplicate_names:
            names = ", ".join(repr(shorten(name)) for name in self.duplicate_names[:5])
            yield f"several columns have the same name: {names}. The first one keeps it, the others get a number."
        if self.extra_empty:
            yield (
                f"rows with empty fields beyond the header: {self.extra_empty:,}. If the cause is a delimiter inside "
                "an unquoted field, the columns after it are shifted."
            )
        if self.quoted_lines:
            yield (
                f"{self.quoted_lines:,} lines that look like rows are inside quoted cells, the first of which begins "
                f'on line {self.first_quoted_line:,}; they are not rows. Write a quote inside a text as "".'
            )
        if self.ends_in_quotes:
            yield "the file ends inside a quoted cell; it may be incomplete."
        if self.new_key_rows:
            yield (
                f"rows with keys that the first rows lack, which are ignored: {self.new_key_rows:,}, the first such "
                f"key {shorten(self.first_new_key)!r}."
            )

    def _about_cells(self) -> Iterator[str]:
        if self.nul_cells:
            yield f"cells from which NUL bytes were removed: {self.nul_cells:,}."
        if self.cut_cells:
            yield f"cells cut to {MAX_TEXT_CHARS:,} characters: {self.cut_cells:,}."
        if self.not_utf8:
            yield f"cells with bytes that are not UTF-8: {self.not_utf8:,}; each such byte is read as '\ufffd'."


def format_of(path: Location) -> str:
    """Return the format that a path's suffix names: csv, tsv, txt, parquet or jsonl.

    Raises:
        DataError: another suffix.
    """
    suffix = path.suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    raise DataError(
        f"{path}: the suffix {path.suffix or '(none)'!r} names no supported format: {', '.join(_FORMATS)}. "
        f"{_ADVICE.get(suffix, 'Rename the file to the suffix of its format.')}",
        parameters=("table",),
        suffix=path.suffix,
        candidates=list(_FORMATS),
    )


def concat_tables(tables: Sequence[Table]) -> Table:
    """Join tables of the same columns, at least one, in order; the currency is that of the first."""
    if len(tables) == 1:
        return tables[0]
    prices = [table.price for table in tables if table.price is not None]
    return Table(
        ids=pd.concat([table.ids for table in tables], ignore_index=True),
        text=pd.concat([table.text for table in tables], ignore_index=True),
        price=np.concatenate(prices) if len(prices) == len(tables) else None,
        frame=pd.concat([table.frame for table in tables], ignore_index=True),
        flaws=np.concatenate([_flaws(table) for table in tables]),
        rows=np.concatenate([_rows(table) for table in tables]),
        position=tables[-1].position,
        currency=tables[0].currency,
        together=_joined_groups(tables, [table.together for table in tables]),
        weight=_joined_values(tables, [table.weight for table in tables], 1.0),
        group=_joined_groups(tables, [table.group for table in tables]),
        time=_joined_values(tables, [table.time for table in tables], np.inf),
        folder=next((table.folder for table in tables if table.folder is not None), None),
    )


def _joined_groups(tables: Sequence[Table], groups: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the groups of all rows; each row of a table without groups is one of its own."""
    known = [one for one in groups if one is not None]
    if not known:
        return None
    free = 1 + max(int(one.max(initial=-1)) for one in known)
    parts = []
    for table, one in zip(tables, groups, strict=True):
        if one is None:
            parts.append(np.arange(free, free + len(table), dtype=np.int64))
            free += len(table)
        else:
            parts.append(one)
    return np.concatenate(parts)


def _joined_values(
    tables: Sequence[Table], values: Sequence[np.ndarray | None], default: float
) -> np.ndarray | None:
    """Return the values of all rows, with a default for the rows of a table without them; None if no table has any."""
    if all(one is None for one in values):
        return None
    return np.concatenate(
        [
            np.full(len(table), default) if one is None else one
            for table, one in zip(tables, values, strict=True)
        ]
    )


def _flaws(table: Table) -> np.ndarray:
    return np.full(len(table), "", dtype=object) if table.flaws is None else table.flaws


def _rows(table: Table) -> np.ndarray:
    return np.arange(len(table), dtype=np.int64) if table.rows is None else table.rows


PART_ROWS = 1 << 15
"""Rows that are read or taken together."""

_ALIGNMENT = 64
_TEXT, _IDS = "text", "ids"


def stored(parts: Iterable[Table], folder: Path) -> Table:
    """Return a table of consecutive parts, at least one, whose texts are in a file.

    Args:
        parts: tables of the same columns, which are read one after the other.
        folder: the folder of the file, which has no name and disappears with the table.

    Raises:
        OSError: the file cannot be written; the error names the folder.
    """
    try:
        with nameless_file(folder) as file:
            rest, places = [], []
            for part in parts:
                texts, names = _texts_of(part)
                places.append((*_append(file, texts), names))
                rest.append(_without_texts(part))
                release_pages()
            mapped = pa.py_buffer(map_file(file))
    except OSError as error:
        error.filename = error.filename or str(folder)  # an error for a full disk has no file name
        raise
    tables = [
        _with_texts(part, pa.ipc.open_stream(mapped.slice(start, size)).read_all(), names)
        for part, (start, size, names) in zip(rest, places, strict=True)
    ]
    return replace(concat_tables(tables), folder=folder)


def parts_of(table: Table, rows: int = 0) -> Iterator[Table]:
    """Yield the rows of a table in consecutive parts in memory; a table in memory is one part.

    Args:
        table: the table.
        rows: of a part, at most; 0: `PART_ROWS`.
    """
    size = rows or PART_ROWS
    if table.folder is None or not len(table):
        yield table
        return
    for start in range(0, len(table), size):
        yield table.slice(start, start + size)
        release_pages()


def take_stored(table: Table, positions: np.ndarray, folder: Path) -> Table:
    """Return the rows of a stored table at these positions, int (M,), in this order; many rows are stored again."""
    if len(positions) <= PART_ROWS:
        return _take(table, positions)
    some = np.array_split(positions, -(-len(positions) // PART_ROWS))
    return stored((_take(table, part) for part in some), folder)


def _take(table: Table, positions: np.ndarray) -> Table:
    """Return rows in memory. They are taken from one part after the other, because Arrow would join all of them."""
    part = positions // PART_ROWS
    order = np.argsort(part, kind="stable")
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        start = int(part[rows[0]]) * PART_ROWS if len(rows) else 0
        found.append(table.slice(start, start + PART_ROWS).take(positions[rows] - start))
    whole = concat_tables(found)
    if (np.diff(order) > 0).all():
        return whole
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return whole.take(inverse)


def texts_in_parts(texts: pd.Series) -> Iterator[pd.Series]:
    """Yield a column in consecutive parts of at most `PART_ROWS` rows, at least one."""
    for start in range(0, max(1, len(texts)), PART_ROWS):
        yield texts.iloc[start : start + PART_ROWS]
        release_pages()


def _texts_of(table: Table) -> tuple[pa.Table, dict[Any, str]]:
    """Return the different text columns of a table, and for each place in the table the name of its column."""
    found: dict[str, pa.ChunkedArray] = {}
    names: dict[Any, str] = {}
    columns: list[tuple[Any, pd.Series]] = [(_TEXT, table.text), (_IDS, table.ids)]
    columns += [(place, table.frame.iloc[:, place]) for place in range(table.frame.shape[1])]
    for place, column in columns:
        if isinstance(column.dtype, pd.StringDtype):
            cells = pa.chunked_array(pa.array(column))
            same = (name for name, other in found.items() if cells.equals(other))
            names[place] = next(same, str(len(found)))
            found.setdefault(names[place], cells)
    return pa.table(found), names


def _append(file: Any, columns: pa.Table) -> tuple[int, int]:
    """Write columns at the end of a file; return their place and size in bytes."""
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    start = file.tell()
    with pa.ipc.new_stream(file, columns.schema) as writer:
        writer.write_table(columns)
    return start, file.tell() - start


def _without_texts(table: Table) -> Table:
    """Return a table without its texts, each of them an empty column."""
    gone = pd.Series(np.zeros(len(table), np.int8))
    frame = pd.DataFrame(
        {
            place: gone
            if isinstance(table.frame.dtypes.iloc[place], pd.StringDtype)
            else table.frame.iloc[:, place]
            for place in range(table.frame.shape[1])
        },
        index=table.frame.index,
    )
    frame.columns = table.frame.columns
    ids = _named(gone, table.ids) if isinstance(table.ids.dtype, pd.StringDtype) else table.ids
    return replace(table, text=_named(gone, table.text), ids=ids, frame=frame)


def _with_texts(table: Table, texts: pa.Table, names: dict[Any, str]) -> Table:
    """Return a table with the texts that `_texts_of` returned."""
    columns = texts.to_pandas()
    frame = {
        place: columns[names[place]] if place in names else table.frame.iloc[:, place]
        for place in range(table.frame.shape[1])
    }
    whole = pd.DataFrame(frame, index=table.frame.index)
    whole.columns = table.frame.columns
    ids = _named(columns[names[_IDS]], table.ids) if _IDS in names else table.ids
    return replace(table, text=_named(columns[names[_TEXT]], table.text), ids=ids, frame=whole)


def _named(column: pd.Series, like: pd.Series) -> pd.Series:
    """Return a column with the name of another one."""
    return pd.Series(column.array, name=like.name)
