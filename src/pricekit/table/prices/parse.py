"""Convert a column of prices in any notation to numbers.

Arrow converts plain numbers. Other cells that differ only in their digits are analysed once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.support.text import shorten
from pricekit.table.columns import as_text
from pricekit.table.model import NOT_A_NUMBER, NOT_FINITE, OTHER_CURRENCY
from pricekit.table.prices.cells import Cell, read_cell
from pricekit.table.prices.currency import label, may_mean
from pricekit.table.prices.price_format import (
    DOTTED,
    THREE,
    PriceFormat,
    as_mask,
    group_by_shape,
    is_numeric,
    plain_numbers,
    shows_other_currency,
)

_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"


def parse_price(column: pa.Array, form: PriceFormat) -> tuple[np.ndarray, np.ndarray]:
    """Return prices, float64 (N,), or NaN, and flaws, object (N,): why a non-empty cell has no price, or ""."""
    if is_numeric(column.type):
        return _finite(
            np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        )
    cells = pc.utf8_trim_whitespace(as_text(column))
    number = plain_numbers(cells)
    if form.decimal == ",":
        pattern = DOTTED if form.strict else THREE
        number &= ~as_mask(pc.match_substring_regex(cells, pattern))
    values = np.full(len(cells), np.nan)
    values[number] = cells.filter(pa.array(number)).to_numpy(zero_copy_only=False).astype(np.float64)
    values, flaws = _finite(values)
    other = ~number & as_mask(pc.not_equal(cells, ""))
    values[other], flaws[other] = _read_others(cells.filter(pa.array(other)), form)
    flaws[as_mask(pc.match_substring_regex(cells, _NOT_FINITE))] = NOT_FINITE
    return values, flaws


def read_as(text: str, form: PriceFormat) -> float:
    """Return the number in one cell, or NaN."""
    return float(parse_price(pa.array([text], pa.large_string()), form)[0][0])


def _read_others(cells: pa.Array, form: PriceFormat) -> tuple[np.ndarray, np.ndarray]:
    values, flaws = np.full(len(cells), np.nan), np.full(len(cells), "", dtype=object)
    if not len(cells):
        return values, flaws
    shapes, shape = group_by_shape(cells)
    ordered = np.argsort(shape, kind="stable")
    ends = np.cumsum(np.bincount(shape, minlength=len(shapes)))[:-1]
    for text, rows in zip(shapes, np.split(ordered, ends), strict=True):
        value, flaw = _read(text, form)
        cell = read_cell(text)
        if flaw or not isinstance(cell, Cell) or len(rows) == 1:
            values[rows], flaws[rows] = value, flaw
        elif cell.start < 0:
            read = [_read(text, form) for text in cells.take(pa.array(rows)).to_pylist()]
            values[rows], flaws[rows] = [one[0] for one in read], [one[1] for one in read]
        else:
            values[rows] = _digits(cells.take(pa.array(rows)), cell, form) * form.factor_of(cell)
    return values, flaws


def _digits(cells: pa.Array, like: Cell, form: PriceFormat) -> np.ndarray:
    """Return the numbers of cells that differ from the cell `like` only in their digits, float64 (N,)."""
    mark = form.decimal_of(like) if form.strict or not like.decimal_mark else like.decimal_mark
    written = pc.utf8_slice_codeunits(cells, like.start, like.start + like.length)
    kept = pc.replace_substring_regex(written, f"[^0-9{mark}]", "")
    found = pc.replace_substring(kept, mark, ".").to_numpy(zero_copy_only=False)
    return np.asarray(found.astype(np.float64))


def _read(text: str, form: PriceFormat) -> tuple[float, str]:
    cell = read_cell(text)
    if not isinstance(cell, Cell):
        return np.nan, cell
    if shows_other_currency(text, form.currency):
        return np.nan, OTHER_CURRENCY
    value = cell.value(form.decimal_of(cell), strict=form.strict)
    return (np.nan, NOT_A_NUMBER) if value is None else (value * form.factor_of(cell) / cell.factor, "")


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
        parts.insert(0, examples(form))
    sentences = [f"prices read: {'; '.join(parts)}. Set decimal and currency to override this."]
    if form.guessed:
        sentences.append(_describe_guess(form))
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
    return " ".join(sentences)


def _describe_guess(form: PriceFormat) -> str:
    thousands = "." if form.decimal == "," else ","
    return (
        f"{form.ambiguous:,} cells have a '.' or ',' before three digits, and hardly any other cell shows its meaning: "
        f"'{form.decimal}' is assumed to be the decimal mark and '{thousands}' the thousands separator. If that is "
        f"wrong, set decimal to '{thousands}'."
    )


def examples(form: PriceFormat) -> str:
    """Return some cells with their parsed numbers."""
    return ", ".join(f"'{shorten(text)}' as {_number(read_as(text, form))}" for text in form.examples)


def count_currencies(form: PriceFormat, *, others: bool = False) -> str:
    """Return the number of cells per currency, most frequent first; with `others`, without the column's currency."""
    main = form.currency if others else None
    shown = {name: count for name, count in form.currencies.items() if not main or not may_mean(name, main)}
    return ", ".join(f"{label(name)}: {count:,}" for name, count in shown.items())


def _number(value: float) -> str:
    return "no price" if np.isnan(value) else np.format_float_positional(float(f"{value:.12g}"), trim="-")
