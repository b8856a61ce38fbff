"""The numbers of a column, and whether they are amounts of money or measures: the search for leaks compares them."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.table.name_words import MEASURES, names_price, words_of
from pricekit.table.price_cells import Cell, read_cell
from pricekit.text.units import COUNT, KINDS, SPELLINGS

PARSED_ROWS = 2000
"""Of a column of text, this many rows are parsed."""
_LONGEST = 60
"""Cells that are longer on average are texts that may contain numbers."""
_MOSTLY = 0.5
_FIRST, _SELDOM = 200, 0.1
"""Text, such as titles, has hardly a number among its first different cells with digits."""
_MEASURE = re.compile(
    r"\D{0,6}?(\d+(?:[.,]\d+)*)\s?([^\W\d]{1,12}[23]?|%|)[^\w%]{0,3}(?:off)?", re.IGNORECASE
)
"""A number with its unit, in a cell that is no price: "30m2", "-20%", "20% off"."""
_UNITS_IN_NAMES = {KINDS.index(kind) for kind in ("weight", "volume", "length", "area", "distance", "power")}
"""The units of "weight_kg"; others are words: "salary_min", "pay_to"."""


@dataclass(frozen=True)
class ColumnNumbers:
    """The numbers of a column of N rows.

    Attributes:
        name: the name of the column.
        values: float64 (N,), NaN for a cell without a number.
        money: the name or the cells say that the numbers are prices.
        measured: the name or the cells name a unit or a measure, and nothing says that the numbers are prices.
    """

    name: str
    values: np.ndarray
    money: bool
    measured: bool


def column_numbers(name: str, column: pd.Series) -> list[ColumnNumbers]:
    """Return the readings of a column: one, or two if "." may separate decimals or thousands; none for text.

    A misread cell can hide a leak in one reading, but cannot create one.

    Example:
        >>> [reading.values.tolist() for reading in column_numbers("mrp", pd.Series(["€ 1.299", "-", "€ 2.450"]))]
        [[1.299, nan, 2.45], [1299.0, nan, 2450.0]]
    """
    named, measure = names_price(name), _names_measure(name)
    if pd.api.types.is_numeric_dtype(column.dtype):
        values = _finite(column.to_numpy(np.float64, na_value=np.nan))
        return [ColumnNumbers(name, values, named, measure and not named)]
    texts = as_strings(column)[:PARSED_ROWS].str.strip()
    if texts.str.len().sum() > _LONGEST * (texts != "").sum():
        return []
    codes, cells = pd.factorize(texts)
    digits = [place for place, cell in enumerate(cells) if any(map(str.isdigit, cell))]
    by_cell = np.full((len(cells), 4), math.nan)
    for count, place in enumerate(digits):
        if count == _FIRST and np.isfinite(by_cell[digits[:_FIRST], 0]).sum() <= _SELDOM * _FIRST:
            return []
        by_cell[place] = _read(cells[place])
    read = _finite(by_cell)[codes]
    known = np.isfinite(read[:, 0])
    if not known.any():
        return []
    signed, unit = read[known, 2:].mean(axis=0) >= _MOSTLY
    money = bool(signed or (named and not unit))
    readings: list[ColumnNumbers] = []
    for parsed in read[:, :2].T if (read[known, 0] != read[known, 1]).any() else read[:, :1].T:
        values = np.full(len(column), np.nan)
        values[: len(parsed)] = parsed
        readings.append(ColumnNumbers(name, values, money, bool(unit or measure) and not money))
    return readings


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def as_strings(column: pd.Series) -> pd.Series:
    """Return a column as text, "" for an empty cell; pandas does not treat the bytes of Parquet as text."""
    texts = column.map(str, na_action="ignore") if column.dtype == object else column
    return texts.astype("str").fillna("")


def _names_measure(name: str) -> bool:
    words = words_of(name)
    unit = words[-1] if words else ""
    named_unit = unit != "in" and SPELLINGS.get(unit, (COUNT, 1.0))[0] in _UNITS_IN_NAMES
    is_rate = "per" in words  # such as price per kg
    return not is_rate and (named_unit or not MEASURES.isdisjoint(words))


def _read(text: str) -> tuple[float, float, bool, bool]:
    """Return the number of a cell, with "." and with "," as the decimal mark; whether it has a currency, or a unit."""
    with suppress(ValueError):
        return float(text), float(text), False, False
    price, measure = read_cell(text), _MEASURE.fullmatch(text)
    if measure is not None and not (isinstance(price, Cell) and price.currency):
        _, scale = SPELLINGS.get(measure[2].casefold(), (COUNT, 1.0))
        number = Cell(measure[1])
        with suppress(ValueError):  # such as 1.2.3
            return number.value(".") * scale, number.value(",") * scale, False, bool(measure[2])
        return math.nan, math.nan, False, False
    if isinstance(price, Cell):
        return price.value("."), price.value(","), price.currency is not None, False
    return math.nan, math.nan, False, False
