"""Read a column of prices: detect its format, then convert its cells to numbers.

All cells together decide whether "." and "," are decimal marks or thousands separators; 565.000 alone is ambiguous.
Arrow converts plain numbers. Other cells that differ only in their digits are analysed once.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.table.columns import as_text, is_numeric
from pricekit.table.currency import SHARED, canonical, decimals_of, label, may_mean, require_same_currency
from pricekit.table.price_cells import PLAIN_NUMBER, Cell, read_cell
from pricekit.table.price_words import TOTAL
from pricekit.table.source import ReadOptions
from pricekit.table.table import NOT_A_NUMBER, NOT_FINITE, OTHER_CURRENCY, OTHER_UNIT, PriceStyle
from pricekit.text.labelled_lines import numpy_of
from pricekit.wording import shorten

THREE = r"^[+-]?[1-9][0-9]{0,2}\.[0-9]{3}$"
"""Plain numbers whose point may separate thousands."""
DOTTED = r"^[+-]?[0-9]*\.[0-9]"
"""Plain numbers with a point."""

_BARE_THOUSANDS = r"^[+-]?[1-9][0-9]{3,}$"
_BARE_HUNDREDS = r"^[+-]?[1-9][0-9]{2}$"
_MAX_NUMBER_CHARS = 400  # the longest finite float64 written out is 309 digits before the point
_EXAMPLES, _KINDS = 3, 50
_MIN_DECIMAL_SHARE = 0.05
"""If a smaller share of the numbers with a mark has other than three digits after it, the mark separates thousands and
these numbers are errors: prices with two decimals never have three, and of prices with three one in ten has fewer."""
_MIN_CELLS = 3
"""Number of numbers without a sign that must agree before "." counts as a thousands separator."""
_ROUND = r"[059]$"
_MIN_ROUND_SHARE = 0.6
"""Most prices in thousands end in 0, 5 or 9; of computed numbers with three decimals, three in ten."""
MAX_OTHERS = 0.01
"""A column with a larger share of prices outside its main currency or unit is in several."""
_MAX_CONTRADICTING = 0.1
"""A table with a larger share of prices that contradict the style of the training table is not read."""
_PROGRAM = 20
"""If so many times more plain numbers show a decimal point than other cells a comma, programs wrote the numbers."""


@dataclass(frozen=True)
class PriceFormat:
    """The format of the prices of a table.

    Attributes:
        decimal: the decimal mark, "." or ",".
        multiplied_decimal: the decimal mark of numbers with a word such as million: 1.2M shows that of 1.125M.
        strict: the user set the decimal mark, so cells that show the other one are not numbers.
        ambiguous: cells with a mark before three digits; other cells or a default decide its meaning.
        guessed: hardly any other cell decided that, so the guess may be wrong.
        contradicting: cells that show the other decimal mark; each is read by its own mark.
        currency: the currency of the prices, None if no cell shows one; prices in other currencies are rejected.
        currencies: number of cells per currency.
        unit: what all prices are for, such as "m2" or "month"; None if they are totals; prices for others are rejected.
        units: number of cells per unit and of totals; empty if no cell shows a unit.
        per_unit: up to three cells of each unit other than the column's.
        by_programs: programs wrote the numbers, with a decimal point: 1.639.792 is none.
        several: cells with several prices.
        formatted: cells that are prices but not plain numbers.
        examples: up to three of those cells, of different kinds if possible.
        style: what training stores of this: only what cells, the user or an earlier training told.
    """

    decimal: str = "."
    multiplied_decimal: str = "."
    strict: bool = False
    ambiguous: int = 0
    guessed: bool = False
    contradicting: int = 0
    currency: str | None = None
    currencies: dict[str, int] = field(default_factory=dict)
    unit: str | None = None
    units: dict[str, int] = field(default_factory=dict)
    per_unit: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_programs: bool = False
    several: int = 0
    formatted: int = 0
    examples: tuple[str, ...] = ()
    style: PriceStyle = field(default_factory=PriceStyle)

    def factor_of(self, cell: Cell) -> float:
        """Return the multiplier of a cell's number."""
        return cell.factor * (0.01 if cell.in_pence and self.currency in ("£", "GBP") else 1)

    def decimal_of(self, cell: Cell) -> str:
        """Return the decimal mark of a cell that does not show it itself; yen and their kin have no decimals."""
        if self.strict:
            return self.decimal
        if abs(cell.factor) > 1:
            return self.multiplied_decimal
        known = self.currency if self.currency not in SHARED else None
        if cell.ambiguous_mark and known and not decimals_of(known):
            return "," if cell.ambiguous_mark == "." else "."
        return self.decimal

    @property
    def others(self) -> int:
        """The number of cells in a currency other than that of the column."""
        return sum(count for name, count in self.currencies.items() if not may_mean(name, self.currency))

    @property
    def mixed(self) -> bool:
        """Whether the user must choose a currency, because many prices are in others."""
        return self.others > MAX_OTHERS * sum(self.currencies.values())

    @property
    def other_units(self) -> int:
        """The number of cells per another unit than that of the column."""
        return sum(count for name, count in self.units.items() if name != (self.unit or TOTAL))

    @property
    def mixed_units(self) -> bool:
        """Whether the user must choose a unit, because many prices are for others."""
        return self.other_units > MAX_OTHERS * sum(self.units.values())


@dataclass
class _Evidence:
    """Statistics of the cells of a column, as numbers of rows.

    Attributes:
        decimals: by decimal mark and currency, of cells that show their decimal mark.
        multiplied: by decimal mark, of cells with a multiplier.
        millions: by ambiguous mark, of cells in millions or billions.
        ambiguous: by ambiguous mark, of the other cells.
        plain_decimals: plain numbers whose point is a decimal mark.
        plain_ambiguous: plain numbers whose point may separate thousands.
        plain_round: those among them that end in 0, 5 or 9.
        bare_thousands: plain whole numbers of at least four digits.
        bare_hundreds: those of three digits.
        currencies: by currency.
        units: by unit, and `TOTAL`.
        several: cells with several prices.
        formatted: prices that are not plain numbers.
        examples: cells by kind.
        telling: cells by what they show: a decimal mark, a currency or a unit.
    """

    wanted: str | None = None

    decimals: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    multiplied: Counter[str] = field(default_factory=Counter)
    millions: Counter[str] = field(default_factory=Counter)
    ambiguous: Counter[str] = field(default_factory=Counter)
    plain_decimals: int = 0
    plain_ambiguous: int = 0
    plain_round: int = 0
    bare_thousands: int = 0
    bare_hundreds: int = 0
    currencies: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    several: int = 0
    formatted: int = 0
    examples: dict[str, str] = field(default_factory=dict)
    telling: dict[str, list[str]] = field(default_factory=dict)

    def add(self, column: pa.Array) -> None:
        """Count the cells of a part of the column."""
        if is_numeric(column.type):
            return
        cells = pc.utf8_trim_whitespace(as_text(column))
        number = _plain_numbers(cells)
        plain = cells.filter(pa.array(number))
        with_three = plain.filter(pc.match_substring_regex(plain, THREE))
        three = len(with_three)
        self.plain_ambiguous += three
        self.plain_round += _count(with_three, _ROUND)
        self.plain_decimals += _count(plain, DOTTED) - three
        for text in plain.slice(0, _KINDS).to_pylist():
            if "." in text and len(text.partition(".")[2]) != 3:
                self._tell(".", text)
        self.units[TOTAL] += len(plain)
        for text in plain.slice(0, _EXAMPLES).to_pylist():
            self._tell(TOTAL, text)
        self.bare_thousands += _count(plain, _BARE_THOUSANDS)
        self.bare_hundreds += _count(plain, _BARE_HUNDREDS)
        if three:
            self.examples.setdefault("plain", with_three[0].as_py())
        others = _unescaped(cells.filter(pa.array(~number)))
        shapes, shape = group_by_shape(others)
        for text, rows in zip(shapes, np.bincount(shape, minlength=len(shapes)).tolist(), strict=True):
            self._add_cell(text, rows)
        for text in others.slice(0, _KINDS).to_pylist():
            self._add_example(text, text)

    def _add_cell(self, text: str, rows: int) -> None:
        cell = read_cell(text, self.wanted) if text else ""
        if not isinstance(cell, Cell) or cell.is_quantity:
            return
        self.formatted += rows
        self.several += rows * cell.has_several
        if abs(cell.factor) > 1:  # 1.5 million shows nothing about 1.500
            self.multiplied[cell.decimal_mark or ""] += rows
            self.millions[cell.ambiguous_mark] += rows * (abs(cell.factor) in (1e6, 1e9))
        elif cell.decimal_mark:
            self.decimals[cell.decimal_mark, cell.currency] += rows
            self._tell(cell.decimal_mark, text)
        elif cell.ambiguous_mark:
            self.ambiguous[cell.ambiguous_mark] += rows
        if cell.currency:
            self.currencies[cell.currency] += rows
            self._tell(cell.currency, text)
        self.units[cell.unit or TOTAL] += rows
        self._tell(cell.unit or TOTAL, text)
        marks = f"{cell.ambiguous_mark} {cell.decimal_mark}"
        kind = f"{cell.currency} {cell.has_several} {marks} {len(cell.digits) > 3}"
        self._add_example(kind, text)

    def shown(self, mark: str, currency: str | None) -> int:
        """Return the number of cells that show this decimal mark, without those in other currencies."""
        return sum(
            rows
            for (shown_mark, of), rows in self.decimals.items()
            if shown_mark == mark and may_mean(of, currency)
        ) + (self.plain_decimals if mark == "." else 0)

    def _tell(self, what: str, text: str) -> None:
        kept = self.telling.setdefault(what, [])
        if len(kept) < _EXAMPLES and text not in kept:
            kept.append(text)

    def _add_example(self, kind: str, text: str) -> None:
        new = len(self.examples) < _KINDS and text not in self.examples.values()
        if new and isinstance(read_cell(text), Cell):
            self.examples.setdefault(kind, text)


def price_format(
    columns: Iterable[pa.Array],
    read_options: ReadOptions,
    trained: PriceStyle | None = None,
    table: str = "the table",
) -> PriceFormat:
    """Detect the price format from all cells of a column, in one or several parts.

    Args:
        columns: the parts of the column, strings or numbers.
        read_options: the user's decimal mark, currency and unit, which override the others.
        trained: the style of the training table, which decides what cells leave open.
        table: its name, for errors.

    Raises:
        DataError: more than a tenth of the cells that show a decimal mark, a currency or a unit contradict `trained`.
    """
    known = trained or PriceStyle()
    wanted = canonical(read_options.currency) if read_options.currency else known.currency
    seen = _Evidence(wanted)
    for column in columns:
        seen.add(column)
    currency = wanted or _currency(seen)
    known_decimal = read_options.decimal or known.decimal
    whole = trained is not None and trained.decimal is None
    decimal, guessed = (known_decimal, False) if known_decimal else _decimal(seen, currency, whole=whole)
    multiplied = read_options.decimal or known.multiplied_decimal or _multiplied_decimal(seen, decimal)
    units = seen.units if set(seen.units) - {TOTAL} else Counter[str]()
    usual_unit = units.most_common(1)[0][0] if units else TOTAL
    unit = read_options.price_unit or (trained and (trained.unit or TOTAL)) or usual_unit
    plain_too = decimal == ","
    kept = {text: kind for kind, text in seen.examples.items() if plain_too or kind != "plain"}
    # Prices in the column's currency and unit come first, and one of each kind before several of the same kind.
    named = None if unit == TOTAL else unit
    examples = sorted(kept, key=lambda text: (not _agrees(text, currency, named), kept[text] == text))
    contradicting = 0 if read_options.decimal else seen.shown("," if decimal == "." else ".", currency)
    shown = any(
        (read_options.decimal, seen.plain_decimals, seen.plain_ambiguous, seen.decimals, seen.ambiguous)
    )
    shown_multiplied = any(seen.multiplied[mark] or seen.millions[mark] for mark in ".,")
    stored = decimal if shown else known.decimal, multiplied if shown_multiplied else known.multiplied_decimal
    form = PriceFormat(
        decimal=decimal,
        multiplied_decimal=multiplied,
        strict=read_options.decimal is not None,
        ambiguous=sum(seen.ambiguous.values()) + seen.plain_ambiguous,
        guessed=guessed,
        contradicting=contradicting,
        currency=currency,
        currencies=dict(seen.currencies.most_common()),
        unit=named,
        units=dict(units.most_common()),
        per_unit={name: tuple(seen.telling.get(name, ())) for name in units if name != unit},
        by_programs=decimal == "." and seen.plain_decimals >= _PROGRAM * max(1, contradicting),
        several=seen.several,
        formatted=seen.formatted + plain_too * seen.plain_ambiguous,
        examples=tuple(examples[:_EXAMPLES]),
        style=PriceStyle(*stored, currency, named),
    )
    if trained is not None:
        _check_style(form, seen, read_options, trained, table)
    return form


def _check_style(
    form: PriceFormat, seen: _Evidence, read_options: ReadOptions, trained: PriceStyle, table: str
) -> None:
    """Raise DataError if more than a tenth of the cells contradict the style of the training table."""
    marks = {mark: seen.shown(mark, form.currency) for mark in ".,"}
    for parameter, what, own, counts in (
        ("decimal", "decimal mark", trained.decimal, marks),
        ("currency", "currency", trained.currency, form.currencies),
        ("price_unit", "price unit", trained.unit or TOTAL, form.units),
    ):
        if own is None or getattr(read_options, parameter) is not None:
            continue
        # CAD may be meant by the "$" of the training table.
        others = [
            name for name in counts if counts[name] and not (may_mean(name, own) or may_mean(own, name))
        ]
        contradicting, cells = sum(counts[name] for name in others), sum(counts.values())
        if contradicting > _MAX_CONTRADICTING * cells:
            if parameter == "currency":
                require_same_currency(own, others[0], f"of {table}")
            shown = [repr(shorten(text)) for name in others for text in seen.telling.get(name, ())]
            raise DataError(
                f"{table}: {contradicting:,} of {cells:,} prices contradict the {what} of the "
                f"training table, which is '{own}': {', '.join(shown[:_EXAMPLES])}. Write the prices as in that table, "
                f"or set {parameter} to '{others[0]}' if that is right for this table.",
                parameters=(parameter,),
                expected=own,
                found=others[0],
                contradicting=contradicting,
                cells=cells,
            )


def _agrees(text: str, currency: str | None, unit: str | None) -> bool:
    """Return whether a cell shows no currency and no unit other than the column's."""
    cell = read_cell(text, currency)
    return isinstance(cell, Cell) and may_mean(cell.currency, currency) and cell.unit == unit


def _currency(seen: _Evidence) -> str | None:
    if not seen.currencies:
        return None
    main = seen.currencies.most_common(1)[0][0]
    # In a column with "NOK", "kr" is Norwegian; in a column with "CAD", "$" may be either dollar.
    codes = () if main in ("$", "£") else SHARED.get(main, ())
    return next((name for name in codes if name in seen.currencies), main)


def _multiplied_decimal(seen: _Evidence, decimal: str) -> str:
    for rows_of_mark in (seen.multiplied, seen.millions):  # 1.125 million cannot be 1125 million
        if rows_of_mark["."] != rows_of_mark[","]:
            return "." if rows_of_mark["."] > rows_of_mark[","] else ","
    return decimal


def _decimal(seen: _Evidence, currency: str | None, *, whole: bool) -> tuple[str, bool]:
    """Return the decimal mark, and whether it is a guess; `whole`: the training table has no decimals."""
    point, comma = seen.shown(".", currency), seen.shown(",", currency)
    points, commas = seen.ambiguous["."] + seen.plain_ambiguous, seen.ambiguous[","]
    if not points and not commas:
        return ("," if comma > point else "."), False
    point *= point >= _MIN_DECIMAL_SHARE * points
    comma *= comma >= _MIN_DECIMAL_SHARE * commas
    if point != comma:
        return ("." if point > comma else ","), False
    if currency and decimals_of(currency) == 3:
        return ("." if points >= commas else ","), True
    if commas > points:
        return ".", bool(points or seen.shown(",", currency))
    # Plain numbers, as programs write them: among 3, 12000 or 3.418, 1.125 is not eleven hundred. Among 916 and 730 it
    # is, because these would be far more expensive than all prices with a mark.
    uneven = seen.plain_round < _MIN_ROUND_SHARE * seen.plain_ambiguous and seen.bare_hundreds < _MIN_CELLS
    if not seen.formatted and (seen.bare_thousands or (not whole and (points < _MIN_CELLS or uneven))):
        return ".", points >= _MIN_CELLS and not seen.bare_thousands
    return ",", True


def _count(cells: pa.Array, pattern: str) -> int:
    return int(_matches(cells, pattern).sum())


def group_by_shape(cells: pa.Array) -> tuple[list[str], np.ndarray]:
    """Group cells that differ only in their digits; returns one cell of each group, and the group of each cell.

    `read_cell` returns the same for all cells of a group, except for the digits. A single 0 before a mark forms a
    separate group, because it shows that the mark is a decimal mark; and so do counts and
    powers of units, as in "/100 g" and "/m2".

    Returns:
        The first cell of each group, and the group of each cell, int64 (N,).
    """
    shape = pc.replace_substring_regex(cells, r"(^[.,]?|[^0-9.,][.,]?)0(\s?[.,])", "\\1\ue000\\2")
    coded = pc.replace_substring_regex(shape, "[0-9]", "5").dictionary_encode()
    if _matches(coded.dictionary, _UNIT_SHAPE).any():
        shape = pc.replace_substring_regex(shape, _UNIT_COUNT, "\\1\ue001\\2\\3")
        for power in "23":
            shape = pc.replace_substring_regex(shape, _LENGTH + power, f"\\1\ue001{'²' * int(power)}")
        coded = pc.replace_substring_regex(shape, "[0-9]", "5").dictionary_encode()
    code = numpy_of(coded.indices).astype(np.int64)
    first = np.unique(code, return_index=True)[1]
    return cells.take(pa.array(first)).to_pylist(), code


def _unescaped(cells: pa.Array) -> pa.Array:
    """Return cells without the digits of HTML's characters, such as &#8377;."""
    if _matches(cells, "&#").any():
        return pa.array(map(html.unescape, cells.to_pylist()), cells.type)
    return cells


def _plain_numbers(cells: pa.Array) -> np.ndarray:
    """Return which cells are numbers that `float` accepts, without underscores, bool (N,)."""
    return _matches(cells, PLAIN_NUMBER) & (numpy_of(pc.binary_length(cells)) <= _MAX_NUMBER_CHARS)


def _matches(cells: pa.Array, pattern: str) -> np.ndarray:
    return numpy_of(pc.match_substring_regex(cells, pattern)).astype(bool)


_UNIT_COUNT = r"([/=(\pL]\s?|^)(1|10|100|1000)(\s?\pL)"
_LENGTH = r"([mMмМ]|[fF][tT])"
_UNIT_SHAPE = r"([/=(\pL]\s?|^)5{1,4}\s?\pL|[mMмМtT]5"
_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"


def parse_price(column: pa.Array, form: PriceFormat) -> tuple[np.ndarray, np.ndarray]:
    """Return prices, float64 (N,), or NaN, and flaws, object (N,): why a non-empty cell has no price, or ""."""
    if is_numeric(column.type):
        return _finite(numpy_of(column.cast(pa.float64(), safe=False)).astype(np.float64))
    cells = pc.utf8_trim_whitespace(as_text(column))
    number = _plain_numbers(cells)
    if form.decimal == ",":
        number &= ~_matches(cells, DOTTED if form.strict else THREE)
    values = np.full(len(cells), np.nan)
    values[number] = numpy_of(cells.filter(pa.array(number))).astype(np.float64)
    values, flaws = _finite(values)
    if form.unit and form.units:  # a plain number is a total
        values[number], flaws[number] = np.nan, OTHER_UNIT
    other = ~number & numpy_of(pc.not_equal(cells, "")).astype(bool)
    values[other], flaws[other] = _read_others(_unescaped(cells.filter(pa.array(other))), form)
    flaws[_matches(cells, _NOT_FINITE)] = NOT_FINITE
    return values, flaws


def _read_others(cells: pa.Array, form: PriceFormat) -> tuple[np.ndarray, np.ndarray]:
    values, flaws = np.full(len(cells), np.nan), np.full(len(cells), "", dtype=object)
    if not len(cells):
        return values, flaws
    shapes, shape = group_by_shape(cells)
    ordered = np.argsort(shape, kind="stable")
    ends = np.cumsum(np.bincount(shape, minlength=len(shapes)))[:-1]
    for text, rows in zip(shapes, np.split(ordered, ends), strict=True):
        value, flaw = _read(text, form)
        cell, alike = read_cell(text, form.currency), cells.take(pa.array(rows))
        if flaw or len(rows) == 1 or not isinstance(cell, Cell):
            values[rows], flaws[rows] = value, flaw
        elif cell.start >= 0:
            values[rows] = _digits(alike, cell, form) * form.factor_of(cell)
        else:
            values[rows] = [_read(one, form)[0] for one in alike.to_pylist()]
    flaws[~np.isfinite(values) & (flaws == "")] = NOT_FINITE
    values[np.isinf(values)] = np.nan
    return values, flaws


def _digits(cells: pa.Array, like: Cell, form: PriceFormat) -> np.ndarray:
    """Return the numbers of cells that differ from the cell `like` only in their digits, float64 (N,)."""
    mark = like.decimal_mark or form.decimal_of(like)
    written = pc.utf8_slice_codeunits(cells, like.start, like.start + like.length)
    kept = pc.replace_substring_regex(written, f"[^0-9{mark}]", "")
    return np.asarray(numpy_of(pc.replace_substring(kept, mark, ".")), np.float64)


def _read(text: str, form: PriceFormat) -> tuple[float, str]:
    cell = read_cell(text, form.currency)
    if not isinstance(cell, Cell):
        return np.nan, cell
    if cell.is_quantity:
        return np.nan, NOT_A_NUMBER
    if not may_mean(cell.currency, form.currency):
        return np.nan, OTHER_CURRENCY
    if form.units and cell.unit != form.unit:
        return np.nan, OTHER_UNIT
    if form.by_programs and not cell.currency and cell.digits.count(".") > 1:
        return np.nan, NOT_A_NUMBER
    if cell.decimal_mark == "," != form.decimal and len(cell.digits.partition(",")[2]) > 3:
        return np.nan, NOT_A_NUMBER  # $1,2345
    if form.strict and cell.decimal_mark not in (None, form.decimal):
        return np.nan, NOT_A_NUMBER
    return cell.number(form.decimal_of(cell)) * form.factor_of(cell), ""


def _finite(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flaws = np.full(len(values), "", dtype=object)
    infinite = np.isinf(values)
    flaws[infinite] = NOT_FINITE
    values[infinite] = np.nan
    return values, flaws


def describe_prices(form: PriceFormat) -> str:
    """Return a summary of how prices were read, or "" if all cells are unambiguous plain numbers."""
    if not form.formatted and not form.others and not form.guessed:
        return ""
    parts = [f"decimal mark '{form.decimal}'"]
    if form.currency:
        parts.insert(0, f"currency {label(form.currency)}")
    if form.examples:
        read = parse_price(pa.array(form.examples, pa.large_string()), form)[0]
        shown = zip(form.examples, map(_number, read), strict=True)
        parts.insert(0, ", ".join(f"'{shorten(text)}' as {number}" for text, number in shown))
    sentences = [f"prices read: {'; '.join(parts)}. Set decimal and currency to override this."]
    if form.guessed:
        thousands = "." if form.decimal == "," else ","
        sentences.append(
            f"{form.ambiguous:,} cells have a '.' or ',' before three digits, and hardly any other cell shows its "
            f"meaning: '{form.decimal}' is assumed to be the decimal mark and '{thousands}' the thousands separator. "
            f"If that is wrong, set decimal to '{thousands}'."
        )
    if form.contradicting:
        sentences.append(
            f"Cells that show the other decimal mark, and are read with it: {form.contradicting:,}."
        )
    if form.several:
        sentences.append(
            "Cells with several prices, of which the first one is used, or the one after a word such as 'now': "
            f"{form.several:,}."
        )
    if form.others:
        sentences.append(
            f"Rejected because of another currency: {form.others:,} ({count_currencies(form, others=True)})."
        )
    if form.unit:
        sentences.append(f"The prices are per {form.unit}.")
    if form.other_units:
        sentences.append(
            f"Rejected because of another price unit: {form.other_units:,} ({count_units(form)})."
        )
    return " ".join(sentences)


def count_units(form: PriceFormat) -> str:
    """Return the number of cells per unit other than the column's, with examples of each."""
    return "; ".join(
        f"{name}: {form.units[name]:,}, such as {', '.join(repr(shorten(text)) for text in texts)}"
        for name, texts in form.per_unit.items()
    )


def count_currencies(form: PriceFormat, *, others: bool = False) -> str:
    """Return the number of cells per currency, most frequent first; with `others`, without the column's currency."""
    shown = [name for name in form.currencies if not (others and may_mean(name, form.currency))]
    return ", ".join(f"{label(name)}: {form.currencies[name]:,}" for name in shown)


def _number(value: float) -> str:
    return "no price" if np.isnan(value) else np.format_float_positional(float(f"{value:.12g}"), trim="-")
