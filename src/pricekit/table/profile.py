"""Profile the columns of a table: their kinds, and which ones look like text, price and id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.table.columns import as_text, flat, readable
from pricekit.table.formats.delimited import looks_like_data
from pricekit.table.prices.cells import Cell, read_cell
from pricekit.table.prices.price_format import is_numeric
from pricekit.table.prices.price_text import PLAIN_NUMBER

_MAX_CATEGORY_SHARE = 0.3
"""A column of short texts with a smaller share of distinct cells holds categories."""
_NEARLY_ALL = 0.9
_HALF = 0.5
_SHORT_WORDS = 8
"""Cells with fewer words on average are short texts."""
_MAX_TEXT_COLUMNS = 16
_TITLE_WORDS = 1.5
"""Titles have at least this many words on average."""
_MIN_FILLED = 0.05
"""A column with a smaller share of filled cells does not describe products."""
_CODE_DIGITS = 8
"""Integers that never repeat and have at least this many digits are codes, such as barcodes."""
_UNIT_LETTERS = 5
"""A number with at most this many letters has a unit, such as 150,000km."""
_MAX_CELLS = 2000
"""Number of cells per column that are parsed individually."""

_DATE = r"^([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{2,4})([T ].*)?$"
_PRICE_NAME = re.compile(
    r"price|preis|prix|precio|preço|preco|prezzo|prijs|pris\b|cena|cijena|ár\b|hinta|fiyat|harga|giá|gia\b|цена|ціна"
    r"|стоимость|価格|値段|金額|价格|價格|售价|가격|ราคา|سعر|מחיר|τιμή|msrp|mrp|amount|cost",
    re.IGNORECASE,
)
_TEXT_NAME = re.compile(
    r"title|name|desc|text|content|product|item|about|summary|titel|bezeichnung|beschreibung|artikel|titre|nom\b|libell"
    r"|título|titulo|nombre|descri|titolo|nazwa|opis|назв|наимен|опис|товар"
    r"|商品|品名|名称|名稱|标题|説明|상품|제목|tên|mô tả|ürün|ชื่อ|اسم|שם",
    re.IGNORECASE,
)
_ID_NAME = re.compile(
    r"(?i:(^|[^a-z])(id|sku|asin|ean|gtin|upc|isbn|mpn|barcode|uid|uuid|guid|nr|no|s\.n)\.?$|артикул|код|номер|品番)|[a-z]I[dD]$"
)


@dataclass(frozen=True)
class Profile:
    """The profile of a column, from the first rows.

    Attributes:
        name: the name of the column.
        kind: "text", "category", "price" (numbers with currency signs), "number", "date", "address" (of a web page) or
            "empty".
        filled: the share of cells that are not blank.
        distinct: the share of distinct cells among those.
        values: the number of distinct cells.
        words: the mean number of words per cell.
        example: a cell.
        counts: the numbers only identify rows: they are consecutive, or codes that never repeat.
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
    words = pc.add(pc.count_substring_regex(kept, r"\s+"), 1)
    mean_words = float(pc.mean(words).as_py())
    values = pc.count_distinct(kept).as_py()
    distinct = values / len(kept)
    least = _HALF if _PRICE_NAME.search(name) else _NEARLY_ALL  # a price column may also hold "on request"
    kind = "number" if is_numeric(column.type) else _kind(kept, distinct, mean_words, least)
    counts = kind == "number" and distinct == 1.0 and _counts(kept)
    return Profile(name, kind, len(kept) / len(cells), distinct, values, mean_words, kept[0].as_py(), counts)


def _counts(cells: pa.Array) -> bool:
    """Return whether numbers that never repeat are consecutive integers, or long enough to be codes."""
    if not pc.all(pc.match_substring_regex(cells, "^[0-9]{1,18}([.]0)?$")).as_py():
        return False
    numbers = np.sort(cells.cast(pa.float64()).to_numpy())
    return bool((np.diff(numbers) == 1).all() or numbers[0] >= 10 ** (_CODE_DIGITS - 1))


def _kind(cells: pa.Array, distinct: float, words: float, least: float) -> str:
    for kind, pattern in (("address", r"^https?://"), ("number", PLAIN_NUMBER), ("date", _DATE)):
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


def guess_price(columns: Sequence[Profile]) -> str | None:
    """Return the most likely price column: by its name, else by its currency signs."""
    named = [c for c in columns if c.kind in ("number", "price") and _PRICE_NAME.search(c.name)]
    signed = [c for c in columns if c.kind == "price"]
    called = [c for c in columns if c.name.casefold() == "price"]  # with words among the prices
    ranked = sorted(named, key=lambda c: (c.name.casefold() != "price", c.kind != "price", len(c.name)))
    return next((column.name for column in [*ranked, *signed, *called]), None)


def guess_text(columns: Sequence[Profile]) -> tuple[str, ...]:
    """Return the columns that may describe a product: the title, then the others from short to long.

    Identifiers, dates, web addresses, other prices, and columns that are empty or constant are left out.
    """
    if any(c.name == "catalog_content" and c.kind == "text" for c in columns):
        return ("catalog_content",)
    texts = [c for c in columns if c.kind == "text"] or [c for c in columns if c.kind == "category"]
    if not texts:
        return ()
    title = _title(texts)
    others = [c for c in columns if c is not title and _describes(c)]
    kept = sorted(others, key=lambda c: c.kind != "text")[: _MAX_TEXT_COLUMNS - 1]
    ordered = sorted((c for c in others if c in kept), key=lambda c: c.words)
    return (title.name, *(column.name for column in ordered))


def _title(texts: Sequence[Profile]) -> Profile:
    """Return the shortest column with the name of a text, without codes; else the longest column."""
    named = [c for c in texts if _TEXT_NAME.search(c.name) and not _is_coded(c)]
    if not named:
        return max(texts, key=lambda c: c.words)
    return min([c for c in named if c.words >= _TITLE_WORDS] or named, key=lambda c: c.words)


def _is_coded(column: Profile) -> bool:
    """Return whether the cells are codes: single words that hardly repeat."""
    return column.kind == "text" and column.words < _TITLE_WORDS and column.distinct > _NEARLY_ALL


def _describes(column: Profile) -> bool:
    identifies = column.counts or (column.distinct > _NEARLY_ALL and bool(_ID_NAME.search(column.name)))
    paid = column.kind == "number" and _PRICE_NAME.search(column.name)
    kept = (
        column.kind in ("text", "category", "number") and column.values > 1 and column.filled >= _MIN_FILLED
    )
    return kept and not (identifies or _is_coded(column) or paid)


def guess_id(columns: Sequence[Profile], taken: Sequence[str | None]) -> str | None:
    """Return a column whose name and distinct cells identify rows; `sample_id` is always one."""
    free = [c for c in columns if c.name not in taken]
    named = [c.name for c in free if c.unique and _ID_NAME.search(c.name)]
    return "sample_id" if any(c.name == "sample_id" for c in free) else next(iter(named), None)


def text_lengths(text: pa.Array) -> dict[str, float]:
    """Return the median, the 99% quantile and the maximum of the words per text, and the maximum of characters."""
    words = pc.count_substring_regex(text, r"\S+").to_numpy(zero_copy_only=False)
    return {
        "median_words": float(np.median(words)),
        "words_99": float(np.quantile(words, 0.99)),
        "most_words": int(words.max()),
        "most_characters": int(pc.max(pc.utf8_length(text)).as_py()),
    }
