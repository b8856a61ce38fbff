"""Rows that are no products: headers that repeat inside a table, a second header, and totals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import numpy as np
import pandas as pd

from pricekit.table.currency import is_currency
from pricekit.table.name_words import (
    DESCRIPTIONS,
    ID_NAME,
    MEASURES,
    OF_OTHERS,
    TITLE,
    TITLE_SIGNS,
    names_price,
    words_of,
)
from pricekit.table.price_cells import Cell, read_cell
from pricekit.text.patterns import lazy_pattern
from pricekit.text.units import SPELLINGS
from pricekit.wording import listed, shorten

_REPEATED = 0.8
"""A row repeats the header if this share of its cells are the names of their columns; equal names get a number."""
_ROWS_BELOW = 50
_NEARLY_ALL = 0.9
_LABELLED = 0.75
"""The share of the cells of a second header that name columns or units."""
_HIGHEST = 50
"""Totals are searched for among this many rows with the highest prices."""

_LABELS = frozenset().union(*TITLE, DESCRIPTIONS, OF_OTHERS, MEASURES, SPELLINGS)
_GRAND_TOTAL = lazy_pattern(
    r"(grand|sub|overall|column|report)[ -]?totals?|gesamt(summe|betrag)?|zwischensumme|endsumme"
    r"|total (general|général|geral)|totale? (generale|complessivo)|suma (całkowita|końcowa)|ogółem|celkem|összesen"
    r"|végösszeg|yhteensä|samlet|общий итог|итого|всего|разом|genel toplam|ara toplam|tổng( cộng)?|总计|總計|合计|合計"
    r"|小计|小計|総計|합계|총계|소계|총합계|ผลรวม|รวม|المجموع|الإجمالي|סך הכל|σύνολο|कुल",
    re.IGNORECASE,
)
_TOTAL = lazy_pattern(
    r"totals?|totale|totaal|summe|summa|suma|razem|toplam|sum|итог|jumlah|totalt", re.IGNORECASE
)
"""These may also be names of products."""


def header_rows(frame: pd.DataFrame) -> np.ndarray:
    """Return which rows repeat the names of the columns, bool (N,).

    Example:
        >>> header_rows(pd.DataFrame({"title": ["Tea", "title", "Jam"], "price": ["3", "price", "2"]}))
        array([False,  True, False])
    """
    repeats = np.zeros(len(frame), bool)
    if not _is_text(frame) or len(frame.columns) < 2:
        return repeats
    names = np.array([str(name).strip() for name in frame.columns])
    first = int(np.argmax(names != ""))
    same = np.flatnonzero(frame.iloc[:, first] == names[first])
    cells = frame.iloc[same].to_numpy(dtype=object, na_value="").astype(str)
    repeats[same] = (np.char.strip(cells) == names).mean(axis=1) >= _REPEATED if len(same) else False
    return repeats


def second_header(frame: pd.DataFrame) -> list[str]:
    """Return the cells of the first row if it is a second header, as in tables with groups of columns, or [].

    A second header has words above numbers, no digits, and mostly words that name columns or units.

    Example:
        >>> second_header(pd.DataFrame({"Product": ["name", "Tea", "Jam"], "Sales": ["net price", "3.10", "2.50"]}))
        ['name', 'net price']
    """
    if len(frame) < 2 or not _is_text(frame):
        return []
    row = [str(cell).strip() for cell in frame.iloc[0].fillna("")]
    filled = [cell for cell in row if cell]
    labels = [cell for cell in filled if _is_label(cell)]
    if len(labels) < 2 or len(labels) < _LABELLED * len(filled) or any(map(str.isdigit, "".join(filled))):
        return []
    below = frame.iloc[1 : _ROWS_BELOW + 1]
    above_numbers = [
        cell for cell, (_, column) in zip(row, below.items(), strict=True) if _holds_numbers(column)
    ]
    return filled if any(above_numbers) and all(map(_is_label, filter(None, above_numbers))) else []


def two_headers(names: Iterable[object], below: Iterable[str]) -> str:
    """Return a sentence on a table with two headers: the names of its columns, and the cells of `second_header`."""
    above, cells = (listed([shorten(str(each)) for each in row]) for row in (names, below))
    return f"the table has two header rows: {above}, then {cells}. Keep one of them."


def total_rows(frame: pd.DataFrame, price: np.ndarray) -> np.ndarray:
    """Return which rows are totals of other rows, bool (N,).

    Such a row has no words but "Grand total"; with only "Total", its price is also the highest.

    Args:
        frame: columns as read.
        price: prices, float (N,), NaN for none.
    """
    totals = np.zeros(len(frame), bool)
    texts = [name for name, kind in frame.dtypes.items() if isinstance(kind, pd.StringDtype)]
    if len(frame) < 2 or not texts:
        return totals
    known = np.nan_to_num(price, nan=-np.inf)
    highest = np.argpartition(known, -min(_HIGHEST, len(known)))[-_HIGHEST:]
    for row, cells in zip(highest.tolist(), frame.iloc[highest][texts].fillna("").to_numpy(), strict=True):
        labels = list(islice(filter(_is_word, map(_label, cells)), 2))
        alone = labels[0] if len(labels) == 1 else ""
        plain = _TOTAL.fullmatch(alone) and known[row] == known.max()
        totals[row] = bool(plain or _GRAND_TOTAL.fullmatch(alone))
    return totals


def _label(cell: str) -> str:
    return str(cell).strip().rstrip(":").strip()


def _is_word(label: str) -> bool:
    has_letters = any(map(str.isalpha, label))
    return has_letters and not is_currency(label) and not isinstance(read_cell(label), Cell)


def _is_text(frame: pd.DataFrame) -> bool:
    return bool(len(frame)) and all(isinstance(kind, pd.StringDtype) for kind in frame.dtypes)


def _is_label(cell: str) -> bool:
    plain = cell.strip("()[]{} ")
    named = names_price(plain) or is_currency(plain) or ID_NAME.search(plain) or TITLE_SIGNS.search(plain)
    return bool(named) or not _LABELS.isdisjoint(words_of(plain))


def _holds_numbers(column: pd.Series) -> bool:
    cells = [cell for cell in column.fillna("").str.strip() if cell]
    numbers = sum(isinstance(read_cell(cell), Cell) for cell in cells)
    return bool(cells) and numbers >= _NEARLY_ALL * len(cells)
