"""Profile the columns of a table: their kinds and the statistics of their cells; `guess.py` guesses their roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.table.columns import as_text, flat, readable
from pricekit.table.delimited import looks_like_data
from pricekit.table.price_cells import PLAIN_NUMBER, Cell, read_cell
from pricekit.table.price_columns import is_numeric

_MAX_CATEGORY_SHARE = 0.3
"""A column of short texts with a smaller share of distinct cells holds categories."""
_NEARLY_ALL = 0.9
_HALF = 0.5
_SHORT_WORDS = 8
"""Cells with fewer words on average are short texts."""
_CODE_DIGITS = 8
"""Integers that never repeat and have at least this many digits are codes, such as barcodes."""
_UNIT_LETTERS = 5
"""A number with at most this many letters has a unit, such as 150,000km."""
_MAX_CELLS = 2000
"""Number of cells per column that are parsed individually."""

_DATE = (
    r"^([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{2,4}"
    r"|\p{L}{3,9}[.]? [0-9]{1,2}(st|nd|rd|th)?,? [0-9]{4}|[0-9]{1,2}[. -]+\p{L}{3,9}[. -]+[0-9]{4})(,?[T ].*)?$"
)
_ADDRESS = r"(?i)^[\[{\"' ]*(https?:)?//\S|^www[.]\S|^\S+[.](jpe?g|png|gif|webp|avif|svg|bmp)$"
"""Addresses of web pages, lists of them, and names of image files."""
_HASH = r"^[0-9a-fA-F]{16,}$|^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_SPACES = r"\s+|\p{L}{2}[_+-]+\p{L}{2}"
"""Words end at spaces; signs such as the underscore replace spaces in some tables."""
_SIGNS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{2}"
"""Two letters of a script without spaces, which count as a word."""
PRICE_NAME = re.compile(
    r"price|preis|prix|precio|preço|preco|prezzo|prijs|pris\b|cena|cijena|ár\b|hinta|fiyat|harga|giá|gia\b|цена|ціна"
    r"|стоимость|価格|値段|金額|价格|價格|售价|가격|ราคา|سعر|מחיר|τιμή|msrp|mrp|amount|cost",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Profile:
    """The profile of a column, from the first rows.

    Attributes:
        name: the name of the column.
        kind: "text", "category", "price" (numbers with currency signs), "number", "date", "address" (of a web page
            or an image) or "empty".
        filled: the share of cells that are not blank.
        distinct: the share of distinct cells among those.
        values: the number of distinct cells.
        words: the mean number of words per cell; two signs of a script without spaces are one.
        example: a cell.
        counts: the cells only identify rows: numbers that are consecutive, codes that never repeat, or hash values.
    """

    name: str
    kind: str
    filled: float
    distinct: float
    values: int
    words: float
    example: str
    counts: bool = False

    @property
    def unique(self) -> bool:
        """Whether no cell is blank and no two are equal."""
        return self.filled == 1.0 and self.distinct == 1.0


def profile(table: str, columns: pa.Table) -> list[Profile]:
    """Profile each column of some rows as read from a file.

    Args:
        table: its name, for messages.
        columns: its first rows.

    Raises:
        DataError: a column has values that cannot be read.
    """
    return [_profile(table, name, flat(columns.column(name))) for name in columns.column_names]


def _profile(table: str, name: str, column: pa.Array) -> Profile:
    with readable(table, name):
        cells = pc.utf8_trim_whitespace(as_text(column))
    kept = cells.filter(pc.not_equal(cells, ""))
    if not len(kept):
        return Profile(name, "empty", 0.0, 0.0, 0, 0.0, "")
    signs = pc.count_substring_regex(kept, _SIGNS)
    words = pc.add(pc.add(pc.count_substring_regex(kept, _SPACES), 1), signs)
    mean_words = float(pc.mean(words).as_py())
    values = pc.count_distinct(kept).as_py()
    distinct = values / len(kept)
    least = _HALF if PRICE_NAME.search(name) else _NEARLY_ALL  # a price column may also hold "on request"
    kind = "number" if is_numeric(column.type) else _kind(kept, distinct, mean_words, least)
    counts = (kind == "number" and distinct == 1.0 and _counts(kept)) or _all_match(kept, _HASH)
    return Profile(name, kind, len(kept) / len(cells), distinct, values, mean_words, kept[0].as_py(), counts)


def _all_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())


def _counts(cells: pa.Array) -> bool:
    """Return whether numbers that never repeat are consecutive integers, or long enough to be codes."""
    if not _all_match(cells, "^[0-9]{1,18}([.]0)?$"):
        return False
    numbers = np.sort(cells.cast(pa.float64()).to_numpy())
    return bool((np.diff(numbers) == 1).all() or numbers[0] >= 10 ** (_CODE_DIGITS - 1))


def _kind(cells: pa.Array, distinct: float, words: float, least: float) -> str:
    for kind, pattern in (("address", _ADDRESS), ("number", PLAIN_NUMBER), ("date", _DATE)):
        if pc.mean(pc.match_substring_regex(cells, pattern)).as_py() >= _NEARLY_ALL:
            return kind
    checked = cells.slice(0, _MAX_CELLS).to_pylist()
    prices = [price for price in map(read_cell, checked) if isinstance(price, Cell)]
    if len(prices) >= least * len(checked) and words < _SHORT_WORDS:
        signed = sum(price.currency is not None for price in prices)
        if 2 * signed >= len(prices):
            return "price"
        if len(prices) >= _NEARLY_ALL * len(checked) and sum(
            sum(map(str.isalpha, cell)) for cell in checked
        ) <= _UNIT_LETTERS * len(checked):
            return "number"
    return "category" if distinct < _MAX_CATEGORY_SHARE and words < _SHORT_WORDS else "text"


def without_header(columns: Sequence[Profile]) -> bool:
    """Return whether the column names are values: each column of values has a name that looks like a value."""
    values = [column for column in columns if column.kind in ("number", "price", "date", "address")]
    return bool(values) and all(looks_like_data([column.name]) for column in values)


def text_lengths(text: pa.Array) -> dict[str, float]:
    """Return the median, the 99% quantile and the maximum of the words per text, and the maximum of characters."""
    words = pc.count_substring_regex(text, r"\S+").to_numpy(zero_copy_only=False)
    return {
        "median_words": float(np.median(words)),
        "words_99": float(np.quantile(words, 0.99)),
        "most_words": int(words.max()),
        "most_characters": int(pc.max(pc.utf8_length(text)).as_py()),
    }
