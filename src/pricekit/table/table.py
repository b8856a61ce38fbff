"""The table, its columns, the reasons to reject a row; and tables that are larger than memory.

The texts of a large table are in a file that is mapped into memory: its columns of texts and of lists are Arrow arrays
in the file; numbers stay in memory. Rows that are taken from it are stored in the same way if they are many, and
`parts_of` reads it in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from pricekit.io.mapped import map_file, release_pages, scratch_file
from pricekit.table.vectors import holds_lists, pandas_type
from pricekit.text.dates import DateFormat
from pricekit.text.normal import normal_text

MAX_TEXT_CHARS = 50_000
"""Longer cells and texts are cut to this length in training and prediction; no model reads further."""

RAGGED = "ragged row"
HEADER = "a header inside the table"
NO_TEXT = "no text"
NO_PRICE = "no price"
NOT_A_NUMBER = "price not a number"
NOT_FINITE = "price not finite"
NOT_POSITIVE = "price not positive"
OTHER_CURRENCY = "other currency"
OTHER_UNIT = "other price unit"
TOTAL_ROW = "a total of other rows"
DUPLICATE_ID = "duplicate id"

REASONS = (
    RAGGED,
    HEADER,
    NO_TEXT,
    NOT_A_NUMBER,
    NOT_FINITE,
    OTHER_CURRENCY,
    OTHER_UNIT,
    NO_PRICE,
    NOT_POSITIVE,
    TOTAL_ROW,
    DUPLICATE_ID,
)
"""Why a row is unusable for training and evaluation; if several reasons apply, the first one is given."""

Notices = Callable[[str], None]
"""Receives one sentence at a time that the user should read."""


MOST_WORDS, LONGEST_WORD = 20, 60


class ColumnFormat(BaseModel):
    """How the cells of a column are written.

    Attributes:
        kind: "number": each cell is one number, perhaps with a unit; "text": words; "mixed": words and numbers, or
            numbers that are codes. Only numbers change when they are read.
        decimal: the decimal mark of numbers that do not show theirs.
        unit: that of nearly all numbers, in lower case, "" if these have none; None if they have several.
        words: cells of a column of numbers that are none, and stay as they are.
        whole: the numbers have neither decimals nor marks that may be taken for decimal marks.
        reason: why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["text", "mixed", "number"] = "text"
    decimal: Literal[".", ","] = "."
    unit: str | None = None
    words: tuple[str, ...] = Field((), max_length=MOST_WORDS)
    whole: bool = False
    reason: str = Field("", max_length=200)


@dataclass(frozen=True)
class PriceStyle:
    """How prices are written.

    Attributes:
        decimal: the decimal mark, "." or ","; None if no cell has one.
        multiplied_decimal: the decimal mark of numbers with a word such as million; None if no cell has one.
        currency: the currency of the prices; None if no cell shows one.
        unit: what all prices are for, such as "m2" or "month"; None if they are totals.
    """

    decimal: str | None = None
    multiplied_decimal: str | None = None
    currency: str | None = None
    unit: str | None = None


class Formats(BaseModel):
    """What the training decided about the columns of its table.

    Attributes:
        columns: the formats of the text columns.
        price: how prices are written; None if none were read.
        time: the format of the dates of the time column; None without dates.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: dict[str, ColumnFormat] = {}
    price: PriceStyle | None = None
    time: DateFormat | None = None


def column_name(written: str) -> str:
    """Return the name of a column as it is written in a file, a frame or an option, in the form of equal names.

    Example:
        >>> column_name(" list\\u00a0price\\n(EUR) ")
        'list price (EUR)'
    """
    return " ".join(normal_text(written.replace("\0", "")).split())


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns, whose names are in the form of `column_name`.

    Attributes:
        text: the text columns; several become lines "column: cell" of one text.
        price: the price column; None reads no prices.
        id: the id column; None numbers the rows from 0.
        id_required: the user named this id column, so a table without it is an error.
        formats: how the training table writes its columns; None: a table that is read decides.
        others: further columns that features read; the cells of all columns that are not named here are skipped. None:
            all columns are read.

    Example:
        >>> from pricekit import Columns
        >>> Columns("title", price="eur", id="sku").text
        ('title',)
    """

    text: tuple[str, ...] = ("catalog_content",)
    price: str | None = "price"
    id: str | None = "sample_id"
    id_required: bool = False
    formats: Formats | None = field(default=None, repr=False, compare=False)
    others: tuple[str, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def wanted(self) -> frozenset[str] | None:
        """The names of the columns whose cells are read; None: all."""
        if self.others is None:
            return None
        return frozenset(name for name in (*self.text, self.price, self.id, *self.others) if name is not None)

    @property
    def expected(self) -> frozenset[str]:
        """The names of the columns that a table must have."""
        row_id = self.id if self.id_required else None
        names = (*self.text, self.price, row_id, *(self.others or ()))
        return frozenset(name for name in names if name is not None)

    def __post_init__(self) -> None:
        text = (self.text,) if isinstance(self.text, str) else self.text
        object.__setattr__(self, "text", tuple(map(column_name, text)))
        for role in ("price", "id"):
            if (name := getattr(self, role)) is not None:
                object.__setattr__(self, role, column_name(name))


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
            "price not finite", "other currency", "other price unit" or "". None means "" everywhere.
        rows: int64 (N,), the number of each row in its source, from 0. None means 0 to N-1.
        position: number of bytes of the file that had been read after this table; 0 for a frame.
        formats: how its columns are written.
        cluster: int64 (N,), from 0, equal for rows of the same product, which a split keeps in one part; None if
            duplicates have not been searched.
        weight: float64 (N,), at least 0, how much each row counts; None: all rows count equally.
        group: int64 (N,), equal for rows of one group that the user named; None: no groups were named.
        time: float64 (N,), in any unit; None: no times were named.
        folder: where the texts of many rows that are taken from this table are stored, because they are in a file there
            (`stored`); None: they are in memory.

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
    formats: Formats | None = None
    cluster: np.ndarray | None = None
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

    @property
    def price_style(self) -> PriceStyle:
        """How the prices are written, and their currency and unit."""
        return (self.formats and self.formats.price) or PriceStyle()

    @property
    def row_numbers(self) -> np.ndarray:
        """`rows`, int64 (N,); from 0 if they are None."""
        return np.arange(len(self), dtype=np.int64) if self.rows is None else self.rows

    def take(self, positions: np.ndarray) -> Table:
        """Return the rows at these positions, int (M,), in this order."""
        return (
            _rows_at(self, positions) if self.folder is None else _take_stored(self, positions, self.folder)
        )

    def slice(self, start: int, stop: int) -> Table:
        """Return consecutive rows, as a view."""
        return _rows_at(self, slice(start, stop))

    def windows(self, rows: int) -> Iterator[Table]:
        """Yield consecutive parts, at most `rows` rows each."""
        for start in range(0, len(self), rows):
            yield self.slice(start, start + rows)


def _rows_at(table: Table, places: np.ndarray | slice) -> Table:
    """Return rows in memory."""

    def at(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[places]

    return replace(
        table,
        ids=picked(table.ids, places),
        text=picked(table.text, places),
        price=at(table.price),
        frame=picked(table.frame, places),
        flaws=at(table.flaws),
        rows=table.row_numbers[places],
        cluster=at(table.cluster),
        weight=at(table.weight),
        group=at(table.group),
        time=at(table.time),
        folder=None,
    )


def picked(values: Any, places: np.ndarray | slice) -> Any:
    """Return rows of a column or a frame, numbered from 0; `take` is faster than `iloc`, but has no slices."""
    if isinstance(places, slice):
        return values.iloc[places].reset_index(drop=True)
    if isinstance(values, pd.Series):
        at = np.asarray(places, np.int64)  # of a list without items, too
        return pd.Series(values.array.take(at), dtype=values.dtype, name=values.name, copy=False)
    return values.take(places).reset_index(drop=True)


def concat_tables(tables: Sequence[Table]) -> Table:
    """Join tables of the same columns, at least one, in order, in the formats of the first."""
    if len(tables) == 1:
        return tables[0]
    prices = [table.price for table in tables if table.price is not None]
    return Table(
        ids=pd.concat([table.ids for table in tables], ignore_index=True),
        text=pd.concat([table.text for table in tables], ignore_index=True),
        price=np.concatenate(prices) if len(prices) == len(tables) else None,
        frame=pd.concat([table.frame for table in tables], ignore_index=True),
        flaws=_joined(tables, "flaws", ""),
        rows=np.concatenate([table.row_numbers for table in tables]),
        position=tables[-1].position,
        formats=tables[0].formats,
        cluster=_joined_groups(tables, "cluster"),
        weight=_joined(tables, "weight", 1.0),
        group=_joined_groups(tables, "group"),
        time=_joined(tables, "time", np.inf),
        folder=next((table.folder for table in tables if table.folder is not None), None),
    )


def _joined(tables: Sequence[Table], name: str, default: str | float) -> np.ndarray | None:
    """Return values of all rows, with a default for the rows of a table without them; None if no table has any."""
    parts = [getattr(table, name) for table in tables]
    if all(part is None for part in parts):
        return None
    kind = object if isinstance(default, str) else np.float64
    return np.concatenate(
        [
            np.full(len(table), default, kind) if part is None else part
            for table, part in zip(tables, parts, strict=True)
        ]
    )


def _joined_groups(tables: Sequence[Table], name: str) -> np.ndarray | None:
    """Return the groups of all rows; each row of a table without groups is one of its own."""
    parts = [getattr(table, name) for table in tables]
    if all(part is None for part in parts):
        return None
    free = 1 + max(int(part.max(initial=-1)) for part in parts if part is not None)
    for place, table in enumerate(tables):
        if parts[place] is None:
            parts[place] = np.arange(free, free + len(table), dtype=np.int64)
            free += len(table)
    return np.concatenate(parts)


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
    rest, places = [], []
    with scratch_file(folder) as file:
        for part in parts:
            texts, names = _texts_of(part)
            places.append((*_append(file, texts), names))
            empty = pd.Series(np.zeros(len(part), np.int8))  # in the place of each text
            rest.append(_with_columns(part, dict.fromkeys(names, empty)))
            release_pages()
        mapped = pa.py_buffer(map_file(file))
    tables = []
    for part, (start, size, names) in zip(rest, places, strict=True):
        columns = pa.ipc.open_stream(mapped.slice(start, size)).read_all().to_pandas(types_mapper=pandas_type)
        tables.append(_with_columns(part, {place: columns[name] for place, name in names.items()}))
    return replace(concat_tables(tables), folder=folder)


def parts_of(table: Table) -> Iterator[Table]:
    """Yield the rows of a table in consecutive parts in memory, at most `PART_ROWS` each if it is stored."""
    if table.folder is None or not len(table):
        yield table
        return
    for part in table.windows(PART_ROWS):
        yield part
        release_pages()


def _take_stored(table: Table, positions: np.ndarray, folder: Path) -> Table:
    """Return rows of a stored table; many rows are stored again."""
    if len(positions) <= PART_ROWS:
        return _take(table, positions)
    some = np.array_split(positions, -(-len(positions) // PART_ROWS))
    return stored((_take(table, part) for part in some), folder)


def _take(table: Table, positions: np.ndarray) -> Table:
    """Return rows in memory. They are taken from one part after the other, because Arrow would join all of them."""
    part = positions // PART_ROWS
    order = np.argsort(part, kind="stable")
    taken = []
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        start = int(part[rows[0]]) * PART_ROWS if len(rows) else 0
        taken.append(table.slice(start, start + PART_ROWS).take(positions[rows] - start))
    whole = concat_tables(taken)
    return whole if (np.diff(order) > 0).all() else whole.take(np.argsort(order))


def texts_in_parts(texts: pd.Series) -> Iterator[pd.Series]:
    """Yield a column in consecutive parts of at most `PART_ROWS` rows, at least one."""
    for start in range(0, max(1, len(texts)), PART_ROWS):
        yield texts.iloc[start : start + PART_ROWS]
        release_pages()


def _texts_of(table: Table) -> tuple[pa.Table, dict[Any, str]]:
    """Return the different columns of texts and lists, and for each place in the table the name of its column."""
    distinct: dict[str, pa.ChunkedArray] = {}
    names: dict[Any, str] = {}
    for place, column in [(_TEXT, table.text), (_IDS, table.ids), *_columns(table.frame)]:
        if isinstance(column.dtype, pd.StringDtype) or holds_lists(column):
            stored = pa.array(column)
            cells = stored if isinstance(stored, pa.ChunkedArray) else pa.chunked_array([stored])
            same = (name for name, other in distinct.items() if cells.equals(other))
            names[place] = next(same, str(len(distinct)))
            distinct.setdefault(names[place], cells)
    return pa.table(distinct), names


def _append(file: Any, columns: pa.Table) -> tuple[int, int]:
    """Write columns at the end of a file; return their place and size in bytes."""
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    start = file.tell()
    with pa.ipc.new_stream(file, columns.schema) as writer:
        writer.write_table(columns)
    return start, file.tell() - start


def _with_columns(table: Table, new: Mapping[Any, pd.Series]) -> Table:
    """Return a table with other columns at some places, which `_texts_of` names."""
    frame = pd.DataFrame(
        {place: new.get(place, column) for place, column in _columns(table.frame)}, index=table.frame.index
    )
    frame.columns = table.frame.columns
    text, ids = new[_TEXT], new.get(_IDS, table.ids)
    return replace(
        table,
        text=pd.Series(text.array, name=table.text.name),
        ids=pd.Series(ids.array, name=table.ids.name),
        frame=frame,
    )


def _columns(frame: pd.DataFrame) -> list[tuple[Any, pd.Series]]:
    """Return the columns of a frame with their places."""
    return [(place, frame.iloc[:, place]) for place in range(frame.shape[1])]
