"""What a table is, which columns mean what, and why a row can be set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.errors import DataError

MAX_TEXT_CHARS = 50_000
"""Longer cells and texts are cut here, in training and prediction alike: no model reads further."""

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
"""Why a row cannot be trained on or judged by; where several hold, the first of them is given."""

Notices = Callable[[str], None]
"""Takes one plain sentence that the user should read."""

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
_ADVICE[".json"] = "Write it as JSON lines, one object a line, with the suffix .jsonl."


@dataclass(frozen=True)
class Columns:
    """Which columns mean what.

    Attributes:
        text: the text columns; several become labelled lines of one text.
        price: the price column; None reads no price.
        id: the id column; None numbers the rows from 0.
        id_required: the user asked for this id column, so a file without it is an error.
    """

    text: tuple[str, ...] = ("catalog_content",)
    price: str | None = "price"
    id: str | None = "sample_id"
    id_required: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of products, in the order of their file.

    Attributes:
        ids: one id a row, (N,), named as the id column: strings, or numbers or times where a Parquet
            file has such; where the file has no id column, row numbers from 0 (int64), named "row".
        text: one text a row, (N,), pandas `str` dtype, never missing (an empty cell is "").
        price: float64 (N,), in the table's currency, NaN where none could be read, otherwise
            finite; None where no price column was read.
        frame: the columns as read, (N, columns), for features that use more than the text.
            Columns of text are of `str` dtype, "" where the file has nothing.
        flaws: object (N,), what reading found wrong with a row and the columns above cannot tell:
            "ragged row", "price not a number", "price not finite" or "". None is "" everywhere.
        rows: int64 (N,), each row's number in its file, from 0. None is 0 to N-1.
        position: how much of the file had been read after this table, in bytes.
        currency: that its prices show, None where none does or the table was read in parts.
    """

    ids: pd.Series
    text: pd.Series
    price: np.ndarray | None
    frame: pd.DataFrame
    flaws: np.ndarray | None = None
    rows: np.ndarray | None = None
    position: int = 0
    currency: str | None = None

    def __len__(self) -> int:
        return len(self.text)

    @property
    def known_price(self) -> np.ndarray:
        """The prices, float64 (N,), of a table whose price column was read."""
        if self.price is None:
            raise ValueError("the table was read without its price column")
        return self.price

    def take(self, positions: np.ndarray) -> Table:
        """The rows at these positions, int (M,), in the order given."""
        return Table(
            ids=self.ids.take(positions).reset_index(drop=True),
            text=self.text.take(positions).reset_index(drop=True),
            price=None if self.price is None else self.price[positions],
            frame=self.frame.take(positions).reset_index(drop=True),
            flaws=None if self.flaws is None else self.flaws[positions],
            rows=np.asarray(positions, np.int64) if self.rows is None else self.rows[positions],
            position=self.position,
            currency=self.currency,
        )


@dataclass(frozen=True)
class RawChunk:
    """Some consecutive rows as a file format gives them.

    Attributes:
        columns: the columns, unchanged.
        ragged: bool (N,), rows that had too few or too many fields; None where that cannot be.
        position: bytes of the file read so far.
    """

    columns: pa.Table
    ragged: np.ndarray | None
    position: int


@dataclass
class ReadWarnings:
    """Counts of what was repaired while reading one file, said to the user at its end."""

    ragged: int = 0
    first_ragged_line: int = 0
    ends_in_quotes: bool = False
    swallowed: int = 0
    first_swallowing_line: int = 0
    surplus: int = 0
    wide: int = 0
    nul_cells: int = 0
    cut_cells: int = 0
    not_utf8: int = 0
    late_rows: int = 0
    late_key: str = ""
    doubled: tuple[str, ...] = ()

    def sentences(self, path: Path | str) -> list[str]:
        """One sentence for each kind of repair that was needed; `path` says what was read."""
        found = []
        if self.ragged:
            found.append(
                f"{path}: rows with too few or too many fields: {self.ragged:,}, the first on line "
                f"{self.first_ragged_line:,}. Prediction prices them, training sets them aside."
            )
        if self.doubled:
            names = ", ".join(repr(name[:40]) for name in self.doubled[:5])
            found.append(
                f"{path}: columns of one name: {names}. The first keeps it, the others get a number."
            )
        if self.surplus:
            found.append(
                f"{path}: rows with empty fields beyond the header: {self.surplus:,}. Where that is for a delimiter "
                "inside a field without quotes, the columns behind it are shifted."
            )
        if self.swallowed:
            found.append(
                f"{path}: {self.swallowed:,} lines that look like rows are inside of quoted cells, the first opened on "
                f'line {self.first_swallowing_line:,}: they are no rows now. Write a quote of the text itself as "".'
            )
        if self.ends_in_quotes:
            found.append(f"{path}: the file ends inside a quoted cell; it may have been cut off.")
        if self.nul_cells:
            found.append(f"{path}: cells from which NUL bytes were removed: {self.nul_cells:,}.")
        if self.cut_cells:
            found.append(f"{path}: cells cut to {MAX_TEXT_CHARS:,} characters: {self.cut_cells:,}.")
        if self.not_utf8:
            found.append(
                f"{path}: cells with bytes that are not UTF-8: {self.not_utf8:,}; '\ufffd' stands in their place."
            )
        if self.late_rows:
            found.append(
                f"{path}: rows with keys that the first rows lack, which are left out: {self.late_rows:,}, "
                f"the first such key {self.late_key[:40]!r}."
            )
        return found


def format_of(path: Path) -> str:
    """The format that a path's suffix names: csv, tsv, txt, parquet or jsonl.

    Raises:
        DataError: another suffix.
    """
    suffix = path.suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    raise DataError(
        f"{path}: the format of a table is told from its suffix, and {path.suffix or 'no suffix'!r} "
        f"is none of those supported: {', '.join(_FORMATS)}. "
        f"{_ADVICE.get(suffix, 'Give it one of these.')}"
    )


def concat_tables(tables: Sequence[Table]) -> Table:
    """One table of several of the same columns and the first one's currency, at least one, in order."""
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
    )


def _flaws(table: Table) -> np.ndarray:
    return np.full(len(table), "", dtype=object) if table.flaws is None else table.flaws


def _rows(table: Table) -> np.ndarray:
    return np.arange(len(table), dtype=np.int64) if table.rows is None else table.rows
