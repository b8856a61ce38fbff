"""Guess the roles of columns from their profiles: text, price and id; and say why a column is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pricekit.support.text import shorten
from pricekit.table.profile import PRICE_NAME, Profile
from pricekit.table.roles.names import (
    CODES,
    COUNTER,
    DESCRIBED,
    DESCRIPTIONS,
    ENTITY,
    INDEX,
    NOT_A_COUNTER,
    OF_OTHERS,
    PARTY,
    RECORDED,
    TITLE,
    TITLE_SIGNS,
    words_of,
)

MAX_TEXT_COLUMNS = 32
_MAX_LONG_TEXTS = 4
"""Further long texts come after the other columns, if there are too many columns."""
_LONG_WORDS = 8
_TITLE_WORDS = 1.5
"""Titles have at least this many words on average."""
_LONGEST_TITLE = 25
_NEARLY_ALL = 0.9
_MANY = 0.3
"""Numbers with a name such as "house_id" and a larger share of distinct cells identify; others are categories."""
_MANY_VALUES = 50
_ROWS = "identifies rows"
_MIN_FILLED = 0.05
"""A column with a smaller share of filled cells does not describe products."""

_TEXT_NAME = re.compile(
    r"title|name|desc|text|content|product|item|about|summary|titel|bezeichnung|beschreibung|artikel|titre|nom\b|libell"
    r"|título|titulo|nombre|descri|titolo|nazwa|opis|назв|наимен|опис|товар"
    r"|商品|品名|名称|名稱|标题|説明|상품|제목|tên|mô tả|ürün|ชื่อ|اسم|שם",
    re.IGNORECASE,
)
_ID_NAME = re.compile(
    r"(?i:(^|[^a-z])(id|sku|asin|ean|gtin|upc|isbn|isbn1[03]|mpn|barcode|uid|uuid|guid|nr|no|s\.n|r[eé]f[eé]ren[cz](e|ia|a))\.?$|артикул|код|номер"
    r"|品番)|[a-z]I[dD]$"
)


def guess_price(columns: Sequence[Profile]) -> str | None:
    """Return the most likely price column: by its name, else by its currency signs."""
    named = [c for c in columns if c.kind in ("number", "price") and PRICE_NAME.search(c.name)]
    signed = [c for c in columns if c.kind == "price"]
    called = [c for c in columns if c.name.casefold() == "price"]  # with words among the prices
    ranked = sorted(named, key=lambda c: (c.name.casefold() != "price", c.kind != "price", len(c.name)))
    return next((column.name for column in [*ranked, *signed, *called]), None)


def guess_text(columns: Sequence[Profile]) -> tuple[str, ...]:
    """Return the columns that may describe a product: the title, the others from short to long, counters last.

    Columns with a reason in `reasons_left_out` are missing.
    """
    if any(c.name == "catalog_content" and c.kind == "text" for c in columns):
        return ("catalog_content",)
    title = _title(columns)
    if title is None:
        return ()
    kept = _most_useful([c for c in columns if c is not title and not _reason(c)])
    ordered = sorted(kept, key=lambda c: (counts_later(c), c.words))
    return (title.name, *(column.name for column in ordered))


def reasons_left_out(columns: Sequence[Profile], used: Sequence[str | None]) -> dict[str, str]:
    """Return why each column that is not used is left out.

    Args:
        columns: all columns of the table.
        used: the text columns, the price and the id.
    """
    others = [column for column in columns if column.name not in used]
    if "catalog_content" in used:
        return {c.name: _reason(c) or "catalog_content has the text" for c in others}
    return {c.name: _reason(c) or "not among the chosen columns" for c in others}


def counts_later(column: Profile) -> bool:
    """Return whether a column holds counts or dates that may only exist after the price was set."""
    name = " ".join(words_of(column.name))
    shown = name if column.kind == "number" else f"{name} {column.example}"  # "4.0 out of 5 stars"
    counter = bool(COUNTER.search(name)) and not NOT_A_COUNTER.search(shown)
    undated = column.kind == "date" and not DESCRIBED.search(name)
    return undated or (counter and column.kind in ("number", "category"))


def guess_id(columns: Sequence[Profile], taken: Sequence[str | None]) -> str | None:
    """Return a column that identifies rows: `sample_id`, one with a name such as "sku", or a running number."""
    free = [c for c in columns if c.name and c.name not in taken]
    if any(c.name == "sample_id" for c in free):
        return "sample_id"
    named = [c for c in free if c.unique and (_ID_NAME.search(c.name) or _is_index(c))]
    named.sort(key=lambda c: bool(PARTY & {*words_of(c.name)}))
    running = [c for c in free if c.unique and c.kind == "number" and _reason(c).startswith(_ROWS)]
    return next((column.name for column in [*named, *running]), None)


def _title(columns: Sequence[Profile]) -> Profile | None:
    """Return the column with the name of a title, even if its cells repeat; else of a text; else the longest title."""
    texts = [c for c in columns if c.kind in ("text", "category")]
    able = [c for c in texts if not _is_coded(c) and c.values > 1] or texts
    ranked = sorted((c for c in able if _title_rank(c) < len(TITLE)), key=_title_order)
    if ranked:
        return ranked[0]
    long = [c for c in able if c.kind == "text"] or able
    named = [c for c in long if _TEXT_NAME.search(c.name) and not OF_OTHERS & {*words_of(c.name)}]
    if named:
        return min([c for c in named if c.words >= _TITLE_WORDS] or named, key=lambda c: c.words)
    return max([c for c in long if c.words < _LONGEST_TITLE] or long, key=lambda c: c.words, default=None)


def _title_order(column: Profile) -> tuple[bool, int, float]:
    several = column.words >= _TITLE_WORDS
    return not several and _title_rank(column) > 1, _title_rank(column), column.words


def _title_rank(column: Profile) -> int:
    """Return how surely the name is that of a title, from 0; `len(TITLE)` if it is not."""
    words = words_of(column.name)
    if (OF_OTHERS | DESCRIPTIONS) & {*words}:
        return len(TITLE)
    ends = {*words[:1], *words[-1:]}
    signs = 1 if TITLE_SIGNS.search(column.name) else len(TITLE)
    return min(signs, next((rank for rank, names in enumerate(TITLE) if ends & names), len(TITLE)))


def _most_useful(columns: list[Profile]) -> list[Profile]:
    """Return at most `MAX_TEXT_COLUMNS` - 1 columns: counters and many long texts go first."""
    long = [c.name for c in columns if c.words >= _LONG_WORDS][_MAX_LONG_TEXTS:]
    ranked = sorted(columns, key=lambda c: (counts_later(c), c.name in long))
    return ranked[: MAX_TEXT_COLUMNS - 1]


def _is_coded(column: Profile) -> bool:
    """Return whether the cells are codes: single words that hardly repeat."""
    return column.kind == "text" and column.words < _TITLE_WORDS and column.distinct > _NEARLY_ALL


def _is_index(column: Profile) -> bool:
    return column.kind == "number" and column.distinct == 1.0 and bool(INDEX.search(column.name.strip()))


def _reason(column: Profile) -> str:
    """Return why a column does not describe products, or ""."""
    if column.values == 0:
        return "empty"
    if column.filled < _MIN_FILLED:
        return f"nearly empty: {column.filled:.1%} of its cells are filled"
    if column.values == 1:
        return f"constant: every filled cell is {shorten(column.example)!r}"
    if column.kind == "address":
        return "addresses of pages or images"
    if column.kind == "price" or (column.kind == "number" and PRICE_NAME.search(column.name)):
        return "another price, which may reveal the price"
    return _reason_of_time(column) or _reason_of_identifier(column)


def _reason_of_time(column: Profile) -> str:
    stamps = column.kind == "number" and re.fullmatch(r"1[0-9]{9}([0-9]{3})?([.]\d+)?", column.example)
    if not (column.kind == "date" or stamps) or not RECORDED.search(" ".join(words_of(column.name))):
        return ""
    return "date of record keeping, not of the product"


def _reason_of_identifier(column: Profile) -> str:
    if column.counts:
        return f"{_ROWS}: running numbers or codes"
    if _is_index(column):
        return f"{_ROWS}: a running number"
    if column.distinct > _NEARLY_ALL and _ID_NAME.search(column.name):
        return f"{_ROWS}: {column.distinct:.0%} of its cells differ"
    if _is_coded(column):
        return f"codes: single words, of which {column.distinct:.0%} differ"
    return _reason_of_number(column) if column.kind == "number" else ""


def _reason_of_number(column: Profile) -> str:
    words = words_of(column.name)
    if words and words[-1] in CODES:
        return "codes of products"
    if not words or words[-1] not in ("id", "ids") or column.values <= _MANY_VALUES:
        return ""
    owner = {*words[-2:-1]}
    if owner & PARTY:
        return "identifies sellers or users, not products"
    return "identifies rows or products" if owner & ENTITY or column.distinct > _MANY else ""
