"""How the prices of a file are written, by all cells of their column: decimal mark, currency, examples.

Whether "." and "," are decimal marks or part thousands is decided once for a file: a number such as 565.000
does not say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.table.columns import as_text
from pricekit.table.options import ReadOptions
from pricekit.table.prices.cells import Cell, read_cell
from pricekit.table.prices.currency import canonical, decimals_of, may_mean
from pricekit.table.prices.signs import SHARED

THREE = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"
"""Plain numbers whose point may part thousands."""
DOTTED = r"^[+-]?[0-9]*\.[0-9]"
"""Plain numbers with a point."""

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_BARE_THOUSANDS = r"^[+-]?[1-9][0-9]{3,}$"
_BARE_HUNDREDS = r"^[+-]?[1-9][0-9]{2}$"
_MAX_NUMBER_CHARS = 400  # the longest finite float64 written out is 309 digits before the point
_EXAMPLES, _KINDS = 3, 50
_SELDOM = 0.05
"""Where so few of the numbers with a mark have other than three digits behind it, it parts thousands, and they are odd:
of prices with two decimals none has three, and of those with three one in ten is written with fewer."""
_FEW = 3  # of numbers without a sign, so many alike are needed before a "." parts thousands
_ROUND = r"[059]$"
_MOSTLY = 0.6
"""Of prices in thousands most end in 0, 5 or 9; of numbers with three decimals from a program, three in ten."""
MIXED = 0.01
"""The share of prices in other currencies than the main one from which on a column is one of several currencies."""


@dataclass(frozen=True)
class PriceFormat:
    """How the prices of a file are written.

    Attributes:
        decimal: the decimal mark, "." or ",".
        multiplied: that of numbers with a word such as million, which tell it of each other: 1.2M of 1.125M.
        strict: the user said so: it holds for cells that show the other one, too, which are no numbers then.
        open: how many cells hold a mark before three digits that is told by other cells or by default only.
        guessed: no other cell, or hardly one, told what that mark is, and it may well be the other one.
        against: how many cells show the other decimal mark; each is read by its own.
        currency: the currency of the prices, None where no cell shows one; others are set aside.
        currencies: how many cells show each currency.
        several: how many cells hold several prices.
        written: how many cells are no plain numbers and yet prices.
        examples: up to three such cells, of different kinds where there are.
    """

    decimal: str = "."
    multiplied: str = "."
    strict: bool = False
    open: int = 0
    guessed: bool = False
    against: int = 0
    currency: str | None = None
    currencies: dict[str, int] = field(default_factory=dict)
    several: int = 0
    written: int = 0
    examples: tuple[str, ...] = ()

    def factor_of(self, cell: Cell) -> float:
        """What the number of a cell is multiplied by."""
        return cell.factor * (0.01 if cell.pence and self.currency in ("£", "GBP") else 1)

    def decimal_of(self, cell: Cell) -> str:
        """The decimal mark of a cell that does not show it itself."""
        return self.multiplied if abs(cell.factor) > 1 and not self.strict else self.decimal

    @property
    def others(self) -> int:
        """How many cells show another currency than that of the column."""
        main = self.currency
        return sum(n for name, n in self.currencies.items() if main and not may_mean(name, main))

    @property
    def mixed(self) -> bool:
        """Whether so many prices are in other currencies that the user has to say which is meant."""
        return self.others > MIXED * sum(self.currencies.values())


@dataclass
class _Evidence:
    """What the cells of a column show, counted over rows."""

    sure: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    multiplied: Counter[str] = field(default_factory=Counter)
    millions_open: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)
    plain_open: int = 0
    plain_round: int = 0
    bare_thousands: int = 0
    bare_hundreds: int = 0
    currencies: Counter[str] = field(default_factory=Counter)
    several: int = 0
    written: int = 0
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, column: pa.Array) -> None:
        if is_numeric(column.type):
            return
        cells = pc.utf8_trim_whitespace(as_text(column))
        number = plain_numbers(cells)
        plain = cells.filter(pa.array(number))
        with_three = plain.filter(pc.match_substring_regex(plain, THREE))
        three = len(with_three)
        self.plain_open += three
        self.plain_round += int(mask(pc.match_substring_regex(with_three, _ROUND)).sum())
        self.sure[".", None] += int(mask(pc.match_substring_regex(plain, DOTTED)).sum()) - three
        self.bare_thousands += int(mask(pc.match_substring_regex(plain, _BARE_THOUSANDS)).sum())
        self.bare_hundreds += int(mask(pc.match_substring_regex(plain, _BARE_HUNDREDS)).sum())
        if three and "plain" not in self.examples:
            self.examples.setdefault("plain", with_three[0].as_py())
        others = cells.filter(pa.array(~number))
        shapes, shape = shapes_of(others)
        for text, rows in zip(shapes, np.bincount(shape, minlength=len(shapes)).tolist(), strict=True):
            self._add_cell(text, rows)
        for text in others.slice(0, _KINDS).to_pylist():
            self._add_example(text, text)

    def _add_cell(self, text: str, rows: int) -> None:
        cell = read_cell(text) if text else ""
        if isinstance(cell, str):
            return
        self.written += rows
        self.several += rows * cell.several
        if abs(cell.factor) > 1:  # 1.5 million says nothing of 1.500
            self.multiplied[cell.mark or ""] += rows
            self.millions_open[cell.open] += rows * (abs(cell.factor) in (1e6, 1e9))
        elif cell.mark:
            self.sure[cell.mark, cell.currency] += rows
        elif cell.open:
            self.open[cell.open] += rows
        if cell.currency:
            self.currencies[cell.currency] += rows
        kind = f"{cell.currency} {cell.several} {cell.open} {cell.mark} {len(cell.digits) > 3}"
        self._add_example(kind, text)

    def shown(self, mark: str, currency: str | None) -> int:
        """Return how many cells show that a mark is the decimal one, those in other currencies left out."""
        return sum(
            rows
            for (found, of), rows in self.sure.items()
            if found == mark and not (of and currency and not may_mean(of, currency))
        )

    def _add_example(self, kind: str, text: str) -> None:
        if (
            len(self.examples) < _KINDS
            and text not in self.examples.values()
            and isinstance(read_cell(text), Cell)
        ):
            self.examples.setdefault(kind, text)


def price_format(columns: Iterable[pa.Array], read_options: ReadOptions) -> PriceFormat:
    """Decide how prices are written, by all cells of their column, in one or several parts."""
    seen = _Evidence()
    for column in columns:
        seen.add(column)
    currency = _currency(seen, read_options)
    decimal, guessed = _decimal(seen, currency)
    decimal = read_options.decimal or decimal
    plain_too = decimal == ","
    kept = {text: kind for kind, text in seen.examples.items() if plain_too or kind != "plain"}
    # Those that count before the others, and one of each kind before more of one.
    examples = sorted(kept, key=lambda text: (is_other(text, currency), kept[text] == text))
    return PriceFormat(
        decimal=decimal,
        multiplied=_of_multiplied(seen, decimal),
        strict=read_options.decimal is not None,
        open=sum(seen.open.values()) + seen.plain_open,
        guessed=guessed and read_options.decimal is None,
        against=0 if read_options.decimal else seen.shown("," if decimal == "." else ".", currency),
        currency=currency,
        currencies=dict(seen.currencies.most_common()),
        several=seen.several,
        written=seen.written + plain_too * seen.plain_open,
        examples=tuple(examples[:_EXAMPLES]),
    )


def is_other(text: str, currency: str | None) -> bool:
    """Whether a cell shows another currency than the column's."""
    cell = read_cell(text)
    return isinstance(cell, Cell) and bool(
        cell.currency and currency and not may_mean(cell.currency, currency)
    )


def _currency(seen: _Evidence, read_options: ReadOptions) -> str | None:
    if read_options.currency:
        return canonical(read_options.currency)
    if not seen.currencies:
        return None
    main = seen.currencies.most_common(1)[0][0]
    # "kr" beside "NOK" is Norwegian; of "$" beside "CAD" nobody knows it.
    codes = () if main in ("$", "£") else SHARED.get(main, ())
    return next((name for name in codes if name in seen.currencies), main)


def _of_multiplied(seen: _Evidence, decimal: str) -> str:
    for found in (seen.multiplied, seen.millions_open):  # nobody writes 1125 million
        if found["."] != found[","]:
            return "." if found["."] > found[","] else ","
    return decimal


def _decimal(seen: _Evidence, currency: str | None) -> tuple[str, bool]:
    """The decimal mark, and whether it is a guess."""
    point, comma = seen.shown(".", currency), seen.shown(",", currency)
    points, commas = seen.open["."] + seen.plain_open, seen.open[","]
    if not points and not commas:
        return ("," if comma > point else "."), False
    point, comma = point * (point >= _SELDOM * points), comma * (comma >= _SELDOM * commas)
    if point != comma:
        return ("." if point > comma else ","), False
    if currency and decimals_of(currency) == 3:
        return ("." if points >= commas else ","), True
    if commas > points:
        return ".", bool(points or seen.shown(",", currency))
    # Numbers alone, as programs write them: 1.125 among 3 and 12000 is no twelve hundred, nor is it among 3.418; but
    # it is among 916 and 730, which would be far dearer than all that has a mark.
    uneven = seen.plain_round < _MOSTLY * seen.plain_open and seen.bare_hundreds < _FEW
    if not seen.written and (points < _FEW or seen.bare_thousands or uneven):
        return ".", points >= _FEW and not seen.bare_thousands
    return ",", True


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def shapes_of(cells: pa.Array) -> tuple[list[str], np.ndarray]:
    """One cell of each shape, and which shape each cell has, int64 (N,): cells that differ in their digits alone.

    All that `read_cell` says but the digits is equal for cells of one shape; a lone 0 before a mark has a shape
    of its own, as it tells what the mark is.
    """
    shape = pc.replace_substring_regex(cells, r"(^|[^0-9.,])0(\s?[.,])", "\\1\ue000\\2")
    coded = pc.replace_substring_regex(shape, "[0-9]", "5").dictionary_encode()
    code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.unique(code, return_index=True)[1]
    return cells.take(pa.array(first)).to_pylist(), code


def plain_numbers(cells: pa.Array) -> np.ndarray:
    """Which cells are numbers as Python's `float` reads them, without underscores, bool (N,)."""
    short = pc.less_equal(pc.binary_length(cells), _MAX_NUMBER_CHARS)
    return mask(pc.and_(short, pc.match_substring_regex(cells, _NUMBER)))


def mask(booleans: pa.Array) -> np.ndarray:
    """Arrow booleans without nulls as numpy's, (N,), to be written to."""
    return np.array(booleans.to_numpy(zero_copy_only=False), dtype=bool)
