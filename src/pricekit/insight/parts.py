"""A row as a tree of parts, and rows without some of them.

A row consists of lines, a line of phrases, a phrase of words. A column that is not text is a single part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.table import Columns, Table
from pricekit.table.columns import ReadWarnings, as_model_text
from pricekit.table.decisions import join_text
from pricekit.table.table import ColumnFormat, picked
from pricekit.table.vectors import has_vector, holds_lists
from pricekit.wording import counted

_LABEL = re.compile(r"[^:\n]{1,40}:[ \t]+")
_BETWEEN_PHRASES = re.compile(r"[,;:.!?]+(?=\s|$)|[()\[\]{}|•]+|\s[-–—/&+]\s")
_WORD = re.compile(r"\S+")

LONGEST_PHRASE = 8
"""Words; a longer phrase is cut."""

MOST_PARTS = 12
"""Of more phrases, neighbouring ones are grouped first."""

MOST_LINES = 60
"""If a cell has more lines, neighbouring ones are grouped: each line needs two prices of the whole row."""

LONGEST_LINE = 20_000
"""Characters; what follows is not divided."""


Kind = Literal["row", "column", "line", "group", "phrase", "word"]
"""A group is several neighbouring phrases or lines; a column is a cell that is not divided."""


_STR = pd.StringDtype(na_value=np.nan)
"""The dtype `str`; by its name, pandas searches for it each time."""


class Part(NamedTuple):
    """A piece of a cell of one row.

    Attributes:
        column: the name of the column.
        start: its first character in the cell.
        end: behind its last character.
        text: what it says.
        parts: the pieces that it consists of; () if it is not divided.
    """

    kind: Kind
    column: str
    start: int
    end: int
    text: str
    parts: tuple[Part, ...] = ()


def label_of(line: str) -> str:
    """Return the label of a line, "" if it has none.

    Example:
        >>> label_of("Item Name: Green Tea"), label_of("Green Tea"), label_of("Value:")
        ('Item Name', '', '')
    """
    return line[: _content_start(line)].strip().removesuffix(":").rstrip()


def _content_start(line: str) -> int:
    """Return where the content of a line begins: behind its label, 0 without one."""
    label = _LABEL.match(line)
    return label.end() if label and label.end() < len(line.rstrip()) else 0


def parts_of_cell(column: str, cell: str) -> tuple[Part, ...]:
    """Return the lines of a cell that are not blank; at most 60 parts, each a group of lines if there are more.

    Example:
        >>> lines = parts_of_cell("text", "Item Name: Green Tea, 20 Count (Pack of 6)\\nValue: 20")
        >>> [line.text for line in lines]
        ['Item Name: Green Tea, 20 Count (Pack of 6)', 'Value: 20']
        >>> [phrase.text for phrase in lines[0].parts]
        ['Green Tea', '20 Count', 'Pack of 6']
        >>> [word.text for word in lines[0].parts[0].parts]
        ['Green', 'Tea']
    """
    lines, start = [], 0
    for line in cell.split("\n"):
        end = start + len(line)
        if line.strip():
            content = start + _content_start(line)
            phrases = _grouped(cell, _phrases(column, cell, content, min(end, start + LONGEST_LINE)))
            parts = phrases if len(phrases) > 1 else phrases[0].parts if phrases else ()
            lines.append(Part("line", column, start, min(end + 1, len(cell)), line.strip(), parts))
        start = end + 1
    return _grouped(cell, lines, MOST_LINES)


def _phrases(column: str, cell: str, start: int, end: int) -> list[Part]:
    """Return the phrases between two places of a cell."""
    phrases = []
    for first, last in _pieces(cell, start, end):
        words = [Part("word", column, m.start(), m.end(), m[0]) for m in _WORD.finditer(cell, first, last)]
        count = -(-len(words) // LONGEST_PHRASE)
        for some in np.array_split(np.arange(len(words)), count) if count else []:
            phrases.append(_around(cell, "phrase", [words[number] for number in some]))
    return phrases


def _pieces(cell: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for between in _BETWEEN_PHRASES.finditer(cell, start, end):
        yield start, between.start()
        start = between.end()
    yield start, end


def _grouped(cell: str, parts: Sequence[Part], most: int = MOST_PARTS) -> tuple[Part, ...]:
    """Return at most `most` parts, each a group of neighbouring ones if there are more."""
    if len(parts) <= most:
        return tuple(parts)
    groups = np.array_split(np.arange(len(parts)), most)
    return tuple(
        parts[some[0]] if len(some) == 1 else _around(cell, "group", _grouped(cell, [parts[n] for n in some]))
        for some in groups
    )


def _around(cell: str, kind: Kind, parts: Sequence[Part]) -> Part:
    """Return the part from the first to the last of some parts; a single one is not divided."""
    start, end = parts[0].start, parts[-1].end
    return Part(kind, parts[0].column, start, end, cell[start:end], tuple(parts) if len(parts) > 1 else ())


def other_columns(table: Table, columns: Columns) -> tuple[str, ...]:
    """Return the columns of a table that features may read: neither text nor price nor id."""
    read = table.frame if columns.others is None else columns.others
    left_out = (*columns.text, columns.price, columns.id)
    return tuple(str(name) for name in table.frame if name in read and name not in left_out)


class Cells:
    """The cells of rows that a model may read, and the rows without some of their parts.

    Args:
        table: the rows, without prices. Rows that were given as texts have no columns; their lines are parts, too.
        columns: the columns of the model.
        others: further columns that the model's features read, whose cells are undivided parts.
    """

    def __init__(self, table: Table, columns: Columns, others: Sequence[str] = ()) -> None:
        single = len(columns.text) == 1 or any(name not in table.frame for name in columns.text)
        if single and columns.text[0] not in table.frame:  # the text was read from other columns
            table = replace(table, frame=table.frame.assign(**{columns.text[0]: table.text}))
        self._table, self._columns, self._others = table, columns, tuple(others)
        names = columns.text[:1] if single else columns.text
        self._texts = {name: texts_of(table.frame[name]) for name in names}
        self._formats = formats_of(table.frame[list(names)], columns)
        self._written = {name for name in names if isinstance(table.frame[name].dtype, pd.StringDtype)}

    def __len__(self) -> int:
        return len(self._table)

    def row(self, number: int) -> Part:
        """Return a row as the tree of its parts: its lines, then its other cells that have a value."""
        lines: list[Part] = []
        for name, texts in self._texts.items():
            cell = texts[number]
            whole = not isinstance(self._table.frame[name].dtype, pd.StringDtype)
            if not whole:
                lines += parts_of_cell(name, cell)
            elif cell:
                lines.append(Part("column", name, 0, len(cell), cell))
        for name in self._others:
            value = self._table.frame[name].iloc[number]
            if _has_content(value):
                text = counted(len(value), "number") if isinstance(value, list | np.ndarray) else str(value)
                lines.append(Part("column", name, 0, 0, text))
        return Part("row", "", 0, 0, "", tuple(lines))

    def texts(self, number: int) -> dict[str, str]:
        """Return the texts of a row by column."""
        return {name: cells[number] for name, cells in self._texts.items()}

    def without(self, rows: Sequence[int], removed: Sequence[Sequence[Part]]) -> Table:
        """Return rows, each without some of its parts.

        Args:
            rows: the numbers of the rows; the same row may occur many times.
            removed: for each of them, parts that do not overlap.
        """
        places = np.asarray(rows, np.int64)
        cut: dict[str, dict[int, list[Part]]] = {name: {} for name in (*self._texts, *self._others)}
        for place, parts in enumerate(removed):
            for part in parts:
                cut[part.column].setdefault(place, []).append(part)
        texts = {}
        for name, cells in self._texts.items():
            texts[name] = [cells[row] for row in rows]
            for place, parts in cut[name].items():
                texts[name][place] = _cut(texts[name][place], parts)
        columns = {
            name: pd.array(texts[name], dtype=_STR)
            if name in self._written
            else _changed(picked(self._table.frame[name], places), list(cut.get(name, ())))
            for name in self._table.frame.columns
        }
        frame = pd.DataFrame(columns, copy=False)
        return Table(picked(self._table.ids, places), joined_texts(texts, self._formats), None, frame)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns whose texts are divided into lines."""
        return tuple(self._texts)

    def filled(self, column: str) -> np.ndarray:
        """Return which rows have a value in a column that is not blank, bool (N,)."""
        if column in self._texts:
            return np.array([bool(cell.strip()) for cell in self._texts[column]], bool)
        cells = self._table.frame[column]
        if holds_lists(cells):
            return has_vector(cells)
        return np.asarray(cells.notna() & (cells.astype("str").str.strip() != ""))

    def swapped(self, column: str, donors: np.ndarray) -> Table:
        """Return all rows, each with the cell that another row has in a column.

        Args:
            column: its name.
            donors: for each row, the number of the row whose cell it gets, int (N,).
        """
        cells = self._table.frame[column]
        frame = self._table.frame.assign(**{column: cells.take(donors).set_axis(cells.index)})
        changed = replace(self._table, frame=frame)
        if column not in self._texts:
            return changed
        texts = [self._texts[column][donor] for donor in donors.tolist()]
        return replace(changed, text=joined_texts(self._texts | {column: texts}, self._formats))

    def with_texts(self, texts: Sequence[str]) -> Table:
        """Return all rows with other texts, (N,), for a model of a single text column."""
        (name,) = self._texts
        frame = self._table.frame.assign(**{name: pd.array(texts, dtype="str")})
        return replace(self._table, frame=frame, text=joined_texts({name: texts}, self._formats))


def formats_of(frame: pd.DataFrame, columns: Columns) -> dict[str, ColumnFormat]:
    """Return the formats of the columns of numbers of a frame that are text, which are written in one way."""
    known = {} if columns.formats is None else columns.formats.columns
    return {
        name: form
        for name, form in known.items()
        if form.kind == "number" and name in frame and isinstance(frame[name].dtype, pd.StringDtype)
    }


def joined_texts(texts: Mapping[str, Sequence[str]], formats: Mapping[str, ColumnFormat]) -> pd.Series:
    """Return the texts of a model, (N,), from those of its columns; see `formats_of`."""
    columns = [pa.array(cells, pa.large_string()) for cells in texts.values()]
    joined = join_text(list(texts), columns, formats, ReadWarnings())
    return pd.Series(pd.array(joined, dtype=_STR), name="text")


def texts_of(cells: pd.Series) -> list[str]:
    """Return the cells of a text column as they are written."""
    texts: list[str] = as_model_text(pa.array(cells, from_pandas=True)).to_pylist()
    return texts


def _cut(cell: str, parts: Sequence[Part]) -> str:
    kept, start = [], 0
    for part in sorted(parts, key=lambda part: part.start):
        kept.append(cell[start : part.start])
        start = part.end
    return "".join([*kept, cell[start:]])


def _has_content(value: Any) -> bool:
    """Return whether a cell is not empty; a cell of a Parquet file may be a list."""
    return len(value) > 0 if hasattr(value, "__len__") else not pd.isna(value)


def _changed(cells: pd.Series, places: list[int]) -> pd.Series:
    """Return the cells of a column with missing values at some places."""
    if not places:
        return cells
    missing = np.zeros(len(cells), bool)
    missing[places] = True
    if pd.api.types.is_bool_dtype(cells.dtype) or pd.api.types.is_integer_dtype(cells.dtype):
        cells = cells.convert_dtypes()
    return cells.mask(missing, "" if isinstance(cells.dtype, pd.StringDtype) else None)
