"""What training decides about the columns of its table, once; prediction only applies it.

A column of numbers stays one, whether a program writes 2015 or 2015.0, and whether a row comes alone, in a table, as
JSON or in a frame. Each cell that is one number becomes text in one spelling; with a unit, number and unit have one
space between them. The decisions travel with the columns of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.table.columns import (
    Contradictions,
    RawChunk,
    ReadWarnings,
    as_model_text,
    clean,
    is_numeric,
    readable,
)
from pricekit.table.table import LONGEST_WORD, MOST_WORDS, ColumnFormat, Columns, Formats, PriceStyle
from pricekit.text.labelled_lines import Strings, numpy_of
from pricekit.text.normal import normal_texts, with_texts
from pricekit.text.numbers import MISSING, read_number
from pricekit.text.units import COUNT, SPELLINGS
from pricekit.wording import shorten

NEARLY_ALL = 0.9
"""A column of numbers has at least this share of them among its filled cells."""
MIN_ROWS = 10
"""Rows in which a word, or a unit that is not known, occurs among the numbers of a column."""
LEADING_ZEROS = 0.05
"""With a larger share of numbers such as 007, a column holds codes."""
MOST_CONTRADICTIONS, FEW_CONTRADICTIONS = 0.1, 10
"""A larger share of the cells that contradict the format of their column is an error, if there are more than a few."""
_FIRST_CELLS = 200

_PLAIN = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?$"
"""Numbers in the one spelling."""
_MISSING = f"(?i)^(?:{MISSING})$"
_VERSION = r"^[0-9]{1,3}\.[0-9]{1,2}$"
_DOTTED, _ROUND = r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}(?:[^0-9.,].*)?$", r"^[^.]*\.[0-9]00"


class FormatEvidence:
    """What all cells of some columns show of their formats.

    Args:
        table: its name, for errors.
        names: of the columns.
    """

    def __init__(self, table: str, names: Sequence[str]) -> None:
        self._table = table
        self._seen = {name: _Evidence() for name in names}

    def add(self, chunks: Iterable[RawChunk]) -> Iterator[RawChunk]:
        """Count the cells of consecutive parts of a table, and yield these; raises DataError."""
        for chunk in chunks:
            for name, evidence in self._seen.items():
                if not evidence.is_text:
                    with readable(self._table, name):
                        evidence.add(chunk.cells(name))
            yield chunk

    def formats(self, price: PriceStyle | None) -> Formats:
        """Return the formats of the columns; `price` is how prices are written."""
        marks = Counter[str]([price.decimal] if price and price.decimal else [])
        for evidence in self._seen.values():
            if evidence.is_number:
                marks += evidence.marks
        columns = {name: evidence.format(marks) for name, evidence in self._seen.items()}
        return Formats(columns=columns, price=price)


@dataclass
class _Evidence:
    """Counts of the cells of a column."""

    filled: int = 0
    numbers: int = 0
    zeros: int = 0
    fractions: int = 0
    dotted: int = 0
    round_dots: int = 0
    hundreds: int = 0
    thousands: int = 0
    typed: bool = True
    marks: Counter[str] = field(default_factory=Counter)
    either: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    versions: set[str] = field(default_factory=set)

    def add(self, column: pa.Array) -> None:
        """Count the cells of a part."""
        cells = as_model_text(column)
        if not self.filled and not is_numeric(column.type) and not _shows_numbers(cells):
            self.filled, self.typed = len(cells), False  # most columns of texts are recognised soon
            return
        cells = _filled(normal_texts(cells))
        self.filled += len(cells)
        if is_numeric(column.type):
            self.units[""] += len(cells)
            self.fractions += _count(cells, r"\.")
            return
        self.typed &= not len(cells)
        self.zeros += _count(cells, r"^[-+]?0[0-9]")
        dotted = _matching(cells, _DOTTED)
        self.dotted += len(dotted)
        self.round_dots += _count(dotted, _ROUND)
        coded = cells.dictionary_encode()
        self.versions |= {*_matching(coded.dictionary, _VERSION).to_pylist()}
        rows = np.bincount(numpy_of(coded.indices), minlength=len(coded.dictionary))
        for cell, count in zip(coded.dictionary.to_pylist(), rows.tolist(), strict=True):
            number = read_number(cell) if len(cell) <= LONGEST_WORD else None
            if number is None:
                self.words[cell] += count
                continue
            self.units[number.unit.lower()] += count
            self.marks[number.mark] += count
            self.either[number.either] += count
            if number.digits.isdigit() and not number.power:
                self.hundreds += count * (len(number.digits) <= 3)
                self.thousands += count * (len(number.digits) > 3)

    @property
    def is_text(self) -> bool:
        """Whether the first part shows that this is no column of numbers."""
        return self.filled > 0 and not self.units

    @property
    def is_number(self) -> bool:
        """Whether nearly all filled cells are numbers, with few different units, and no codes."""
        self.numbers = sum(
            count for unit, count in self.units.items() if not unit or unit in SPELLINGS or count >= MIN_ROWS
        )
        return (
            self.numbers > 0
            and self.numbers >= NEARLY_ALL * self.filled
            and self.zeros <= LEADING_ZEROS * self.filled
        )

    def format(self, marks: Counter[str]) -> ColumnFormat:
        """Return the format of the column; `marks` counts the decimal marks of all columns of numbers."""
        whole = not (self.fractions or any(self.marks[mark] or self.either[mark] for mark in ".,"))
        if self.typed and self.filled:
            return ColumnFormat(kind="number", unit="", whole=whole, reason="the table stores numbers")
        if self.is_text:
            return ColumnFormat(reason="less than half of its first cells are numbers")
        if not self.is_number:
            reason = (
                f"{self.zeros:,} of {self.filled:,} cells begin with 0, as codes do" if self.zeros else ""
            )
            return ColumnFormat(kind="mixed", reason=reason or "not nearly all cells are numbers")
        if counted := _counts_up(self.versions):
            return ColumnFormat(kind="mixed", reason=f"it has {counted}.1 and {counted}.10, as versions do")
        words = [
            word
            for word, count in self.words.most_common(MOST_WORDS)
            if count >= MIN_ROWS and len(word) <= LONGEST_WORD
        ]
        decimal, why = self._decimal(marks)
        if self.marks["," if decimal == "." else "."] > MOST_CONTRADICTIONS * self.filled:
            return ColumnFormat(kind="mixed", reason="its cells show both decimal marks")
        unit, count = self.units.most_common(1)[0]
        return ColumnFormat(
            kind="number",
            decimal=decimal,
            unit=unit if count >= NEARLY_ALL * self.filled else None,
            words=tuple(words),
            whole=whole,
            reason=f"{self.numbers:,} of {self.filled:,} cells are numbers; {why}",
        )

    def _decimal(self, marks: Counter[str]) -> tuple[Literal[".", ","], str]:
        if own := self.marks["."] - self.marks[","]:
            return (
                (".", "most show the point as decimal mark")
                if own > 0
                else (",", "most show the decimal comma")
            )
        if not self.either["."] and not self.either[","]:
            return ".", "none has an ambiguous mark"
        if not self.either["."]:
            return ".", "their commas have three digits behind them"
        if self.either[","] or marks["."] > marks[","]:
            return ".", "other columns have the point as decimal mark"
        if marks[","]:
            return ",", "other columns have the decimal comma"
        if 2 * self.round_dots > self.dotted:
            return ",", "most have a point before three digits that end in 00"
        if self.hundreds >= MIN_ROWS and not self.thousands:
            return ",", "no number above 999 lacks a point"
        return ".", "a point is a decimal mark unless most numbers end in 00"


def _filled(cells: Strings) -> Strings:
    """Return the cells that are neither blank nor words for a missing value."""
    return cells.filter(pc.invert(pc.or_(pc.equal(cells, ""), pc.match_substring_regex(cells, _MISSING))))


def _shows_numbers(cells: Strings) -> bool:
    """Return whether at least half of the first filled cells are numbers; True without any."""
    first = _filled(normal_texts(cells.filter(pc.greater(pc.binary_length(cells), 0)).slice(0, _FIRST_CELLS)))
    numbers = sum(read_number(cell) is not None for cell in first.to_pylist() if len(cell) <= LONGEST_WORD)
    return 2 * numbers >= len(first)


def _are_numbers(cells: Strings) -> bool:
    """Return whether the first filled cells are numbers, all of them, and not too few to tell."""
    first = _filled(cells.slice(0, _FIRST_CELLS)).to_pylist() if len(cells) >= MIN_ROWS else []
    numbers = (len(cell) <= LONGEST_WORD and read_number(cell) is not None for cell in first)
    return len(first) >= MIN_ROWS and all(numbers)


def _counts_up(cells: set[str]) -> str:
    """Return a whole number behind whose point cells count 1, 2, ..., 10, 11, as versions do; "" if there is none.

    Numbers of two sources, such as 1.5 and 1.50, do not count, and some have a zero behind the point, such as 1.05.
    """
    behind: dict[str, set[str]] = {}
    for cell in cells:
        whole, _, rest = cell.partition(".")
        behind.setdefault(whole, set()).add(rest)
    if any(len(rest) == 2 and rest[0] == "0" for rests in behind.values() for rest in rests):
        return ""
    for whole, rests in behind.items():
        later = sorted(int(rest) for rest in rests if len(rest) == 2)
        if {"1", "10"} <= rests and len(later) > 1 and 2 * len(later) > later[-1] - 9:
            return whole
    return ""


def _matching(cells: pa.Array, pattern: str) -> pa.Array:
    return cells.filter(pc.match_substring_regex(cells, pattern))


def _count(cells: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0)


def formatted(
    cells: pa.Array,
    form: ColumnFormat,
    contradictions: Contradictions,
    start: int = 0,
    *,
    typed: bool = False,
) -> pa.Array:
    """Return the cells of a column as models read them, (N,) large strings.

    Args:
        cells: in the form of `normal_texts`.
        form: of the column.
        contradictions: counts the cells that contradict it.
        start: the number of the first row.
        typed: the cells were stored as numbers, so the point is their decimal mark.
    """
    if form.kind != "number":
        return cells
    blank = numpy_of(pc.equal(cells, "")).astype(bool)
    is_plain = numpy_of(pc.match_substring_regex(cells, _PLAIN)).astype(bool) | blank
    if (form.decimal == "," or form.whole) and not typed:
        is_plain &= ~numpy_of(pc.match_substring(cells, ".")).astype(bool)
    contradictions.filled += int(np.count_nonzero(~blank))
    if form.unit and (bare := is_plain & ~blank).any():
        row = int(bare.argmax())
        contradictions.note(cells[row].as_py(), start + row, other_unit=int(bare.sum()))
    odd = np.flatnonzero(~is_plain)
    if not len(odd):
        return cells
    coded = cells.take(pa.array(odd)).dictionary_encode()
    written, code = coded.dictionary.to_pylist(), numpy_of(coded.indices)
    row_of, counts = np.unique(code, return_index=True)[1], np.bincount(code)
    missing = numpy_of(pc.match_substring_regex(coded.dictionary, _MISSING))
    decimal = "." if typed else form.decimal
    new: list[str] = []
    for cell, count, row, is_missing in zip(
        written, counts.tolist(), odd[row_of].tolist(), missing, strict=True
    ):
        number = None if is_missing or len(cell) > LONGEST_WORD else read_number(cell)
        if number is None:
            kept = cell in form.words
            new.append(cell if kept else "")
            if not kept and not is_missing:
                contradictions.note(cell, start + row, unreadable=count)
            continue
        if form.unit and number.unit.lower() != form.unit and _are_equal_units(number.unit, form.unit):
            number = replace(number, unit=form.unit)
        new.append(number.written(decimal))
        if form.unit not in (None, number.unit.lower()):
            contradictions.note(cell, start + row, other_unit=count)
        elif number.mark not in ("", decimal) and not typed:
            contradictions.note(cell, start + row, other_mark=count)
        elif form.whole and number.either == decimal and not typed:
            contradictions.note(cell, start + row, decimals=count)
    return with_texts(cells, odd, np.array(new, object)[code])


def _are_equal_units(one: str, other: str) -> bool:
    """Return whether two spellings name one measure, such as m² and sqm; words for pieces are not equal."""
    size = SPELLINGS.get(one.lower())
    return size is not None and size == SPELLINGS.get(other) and size[0] != COUNT


def check_formats(name: str, columns: Columns, read_warnings: ReadWarnings) -> None:
    """Raise DataError for a column in which more than a tenth of the cells contradict its format.

    Args:
        name: of the table.
        columns: with their formats.
        read_warnings: counts the cells.
    """
    for column, cells in read_warnings.contradictions.items():
        if cells.count > max(FEW_CONTRADICTIONS, MOST_CONTRADICTIONS * cells.filled):
            raise DataError(
                f"{name}: the column {shorten(column)!r} is not written as in the training table. Of "
                f"{cells.filled:,} cells, {cells}. Write them as in that table, or check the order of the columns",
                parameters=("table",),
                column=column,
                cells=cells.count,
            )


def join_text(
    names: Sequence[str],
    columns: Sequence[pa.Array],
    formats: Mapping[str, ColumnFormat],
    read_warnings: ReadWarnings,
    start: int = 0,
) -> pa.Array:
    """Return the text of each row as models read it: a line "name: cell" for each cell that is not blank.

    A single column has no labels. Each cell is in the form of `normal_text`, and numbers are in one spelling.

    Args:
        names: of the columns.
        columns: as they were read, (N,) each.
        formats: of columns of numbers.
        read_warnings: counts repairs.
        start: the number of the first row.
    """
    cells = []
    for name, column in zip(names, columns, strict=True):
        text = normal_texts(as_model_text(column))
        kind = formats[name].kind if name in formats else None
        if kind == "text" and not start and _are_numbers(text):
            read_warnings.numbers_for_words.append(name)
        if kind == "number":
            contradictions = read_warnings.contradictions.setdefault(name, Contradictions())
            text = formatted(text, formats[name], contradictions, start, typed=is_numeric(column.type))
        cells.append(text)
    if len(cells) == 1:
        return cells[0]
    lines = [_labelled(name, each) for name, each in zip(names, cells, strict=True)]
    joined = pc.binary_join_element_wise(*lines, pa.scalar("", pa.large_string()))
    return clean(pc.utf8_slice_codeunits(joined, 1), read_warnings)


def _labelled(name: str, cells: pa.Array) -> pa.Array:
    # Each line begins with its preceding line break. Nulls for blank cells would be shorter, but pyarrow's join with
    # null_handling="skip" loses rows of nulls only.
    blank = pc.equal(cells, "")
    label = pa.scalar(f"\n{name}: ", pa.large_string())
    line = pc.binary_join_element_wise(label, cells, pa.scalar("", pa.large_string()))
    return pc.if_else(blank, pa.scalar("", pa.large_string()), line)


def cells_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Divide texts that consist of lines "column: cell" into the cells of their columns; "" for a blank cell.

    Args:
        texts: as the table reader joins several text columns, (N,).
        names: the columns, in their order.

    Example:
        >>> cells_of(["name: Tea\\nnotes: Mild\\nFresh"], ["name", "category", "notes"])
        {'name': ['Tea'], 'category': [''], 'notes': ['Mild\\nFresh']}
    """
    columns: dict[str, list[str]] = {name: [] for name in names}
    for text in texts:
        cells: dict[str, list[str]] = {name: [] for name in names}
        left, current = list(names), names[0]
        for line in text.split("\n"):
            begun = next((name for name in left if line.startswith(f"{name}: ")), None)
            if begun is not None:
                left, current = left[left.index(begun) + 1 :], begun
                line = line.removeprefix(f"{begun}: ")
            cells[current].append(line)
        for name, lines in cells.items():
            columns[name].append("\n".join(lines))
    return columns
