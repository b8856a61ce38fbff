"""Guess the text, price and id columns of a table for users who have not named them; say why others are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.table.columns import (
    MAX_CHUNK_CELLS,
    ReadWarnings,
    as_text,
    flat,
    is_numeric,
    is_text,
    readable,
)
from pricekit.table.delimited import TITLE_HINT, looks_like_data
from pricekit.table.name_words import (
    CODES,
    COUNTER,
    DESCRIPTIONS,
    DISCOUNT,
    ENTITY,
    ID_NAME,
    INDEX,
    NOT_A_COUNTER,
    OF_OTHERS,
    OTHER_PRICES,
    PARTY,
    RECORDED,
    TEXT_NAME,
    TITLE,
    TITLE_SIGNS,
    names_price,
    words_of,
)
from pricekit.table.price_cells import PLAIN_NUMBER, Cell, read_cell
from pricekit.table.price_columns import parse_price, price_format
from pricekit.table.source import (
    DEFAULT_READ_OPTIONS,
    OpenedTable,
    ReadOptions,
    TableSource,
    check_count,
    no_rows,
    open_table,
)
from pricekit.table.table import Columns
from pricekit.table.vectors import vector_width
from pricekit.text.labelled_lines import numpy_of
from pricekit.wording import listed, shorten

_MAX_CATEGORY_SHARE = 0.3
"""A column of short texts with a smaller share of distinct cells holds categories."""
_NEARLY_ALL = 0.9
_HALF = 0.5
_FEW, _FEW_OTHERS = 0.1, 5
"""The share of prices in a column with the name of a price, and the number of different other cells."""
_SHORT_WORDS = 8
"""Cells with fewer words on average are short texts."""
_CODE_DIGITS = 8
"""Integers that never repeat and have at least this many digits are codes, such as barcodes."""
_COUNT_WORDS = 4
"""Longest mean number of words in a column of counts such as "1,234 ratings"."""
_UNIT_LETTERS = 5
"""A number with at most this many letters has a unit, such as 150,000km."""
_MAX_CELLS, _MIN_CELLS = 2000, 50
"""Number of cells per column that are parsed individually."""
_MAX_PARSED = 300_000
"""Cells of all columns that are parsed individually, if there are at least `_MIN_CELLS` of each."""
_BYTES_TOGETHER = 1 << 25
"""Of the columns that are searched together."""

_DATE = (
    r"^([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{2,4}"
    r"|\p{L}{3,9}[.]? [0-9]{1,2}(st|nd|rd|th)?,? [0-9]{4}|[0-9]{1,2}[. -]+\p{L}{3,9}[. -]+[0-9]{4})(,?[T ].*)?$"
)
_ADDRESS = r"(?i)^[\[{\"' ]*(https?:)?//\S|^www[.]\S|^\S+[.](jpe?g|png|gif|webp|avif|svg|bmp)$"
"""Addresses of web pages, lists of them, and names of image files."""
_HASH = r"^(0x)?[0-9a-fA-F]{16,}$|^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_BLOBS = {
    "base64": r"^(data:[\w./+-]+;base64,)?([A-Za-z0-9+/]{64}|[A-Za-z0-9_-]{64})[A-Za-z0-9+/_=\s-]*$",
    "hexadecimal": _HASH,
    "numbers": r"^[\[({]?\s*-?[0-9][0-9.eE+-]*([,;\s]+-?[0-9][0-9.eE+-]*){15,}",
    "json": r"^\s*[\[{][\s\[{]*(\"[^\"]*\"|'[^']*')\s*:",
    "html": r"(?i)^\s*(<[?!][^>]*>\s*)*<(html|head|body|meta|script|style|table)\b",
}
"""The beginnings of cells that are data for programs."""
_BLOB_CHARACTERS = 300
_WHOLE = re.compile("[0-9]{1,18}([.]0)?")
_SPACES = r"\s+|\p{L}{2}[_+-]+\p{L}{2}"
"""Words end at spaces; signs such as the underscore replace spaces in some tables."""
_SIGNS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{2}"
"""Two letters of a script without spaces, which count as a word."""


@dataclass(frozen=True)
class Profile:
    """The profile of a column, from the first rows.

    Attributes:
        name: the name of the column.
        kind: "text", "category", "price" (numbers with currency signs, or prices by the name of the column), "number",
            "date", "address" (of a web page or an image), "base64", "hexadecimal", "vector" (lists of equal length),
            "numbers" (other lists of many), "json", "html" or "empty".
        filled: the share of cells that are not blank.
        distinct: the share of distinct cells among those.
        values: the number of distinct cells.
        words: the mean number of words per cell; two signs of a script without spaces are one.
        example: a cell.
        counts: the cells only identify rows: numbers that are consecutive, codes that never repeat, or hash values.
        same: the share of the most frequent cell among those that are not blank.
    """

    name: str
    kind: str
    filled: float
    distinct: float
    values: int
    words: float
    example: str
    counts: bool = False
    same: float = 0.0

    @property
    def unique(self) -> bool:
        """Whether no cell is blank and no two are equal."""
        return self.filled == 1.0 and self.distinct == 1.0


def profile(table: str, columns: pa.Table) -> list[Profile]:
    """Profile each column of some rows as read from a file.

    Columns are searched together, because each call of Arrow compiles its pattern again.

    Args:
        table: its name, for messages.
        columns: its first rows.

    Raises:
        DataError: a column has values that cannot be read.
    """
    most, together, size = cells_of_each(columns.num_columns), dict[str, pa.Array](), 0
    profiles: dict[str, Profile] = {}
    for name in columns.column_names:
        cells = flat(columns.column(name))
        if width := vector_width(cells):
            filled = (
                sum(map(bool, cells.to_pylist())) if is_text(cells.type) else len(cells) - cells.null_count
            )
            example = f"{width:,} numbers"
            profiles[name] = Profile(name, "vector", filled / len(cells), 0.0, filled, 0.0, example)
            continue
        together[name] = cells
        size += cells.nbytes
        if size >= _BYTES_TOGETHER:
            profiles |= {each.name: each for each in _profiled(table, together, most)}
            together, size = {}, 0
    profiles |= {each.name: each for each in _profiled(table, together, most)}
    return [profiles[name] for name in columns.column_names]


def cells_of_each(columns: int) -> int:
    """Return how many cells of each column are parsed individually: fewer if there are very many columns."""
    return max(_MIN_CELLS, min(_MAX_CELLS, _MAX_PARSED // max(1, columns)))


@dataclass(frozen=True)
class _Filled:
    """The filled cells of C columns, one column behind the other.

    Attributes:
        cells: of all columns, (N,).
        column: the column of each cell, from 0, int64 (N,), ascending.
        rows: the number of cells of each column, int64 (C,).
    """

    cells: pa.Array
    column: np.ndarray
    rows: np.ndarray

    def of(self, wanted: np.ndarray) -> _Filled:
        """Return the cells of some columns, bool (C,); the others have none."""
        inside = wanted[self.column]
        return _Filled(self.cells.filter(pa.array(inside)), self.column[inside], self.rows * wanted)

    def means(self, values: pa.Array) -> np.ndarray:
        """Return the mean of a value of each cell by column, float64 (C,); NaN without cells."""
        numbers = values.to_numpy(zero_copy_only=False).astype(float)
        with np.errstate(invalid="ignore"):
            means: np.ndarray = np.bincount(self.column, numbers, len(self.rows)) / self.rows
        return means

    def shares(self, pattern: str) -> np.ndarray:
        """Return the share of the cells that match a pattern by column, as `means` does."""
        return self.means(pc.match_substring_regex(self.cells, pattern))

    def each(self) -> list[pa.Array]:
        """Return the cells of each column."""
        starts = np.cumsum(self.rows) - self.rows
        return [
            self.cells.slice(start, rows)
            for start, rows in zip(starts.tolist(), self.rows.tolist(), strict=True)
        ]


def _profiled(table: str, columns: Mapping[str, pa.Array], most: int) -> list[Profile]:
    """Profile columns of the same rows; of each at most so many cells are parsed individually."""
    if not columns:
        return []
    texts = []
    for name, column in columns.items():
        with readable(table, name):
            texts.append(as_text(column))
    total = len(texts[0])
    cells = pc.utf8_trim_whitespace(pa.concat_arrays(texts))
    is_filled = numpy_of(pc.not_equal(cells, "")).astype(bool)
    column = np.repeat(np.arange(len(texts)), total)[is_filled]
    filled = _Filled(cells.filter(pa.array(is_filled)), column, np.bincount(column, minlength=len(texts)))
    signs = pc.count_substring_regex(filled.cells, _SIGNS)
    words = filled.means(pc.add(pc.add(pc.count_substring_regex(filled.cells, _SPACES), 1), signs))
    each = filled.each()
    repeats = [pc.value_counts(kept).field("counts") for kept in each]
    values = np.array(list(map(len, repeats)))
    with np.errstate(invalid="ignore"):
        distinct = values / filled.rows
    kinds = np.where([is_numeric(column.type) for column in columns.values()], "number", "").astype(object)
    kinds[filled.rows == 0] = "empty"
    _find_kinds(kinds, filled)
    for place in np.flatnonzero(kinds == ""):
        kinds[place] = _kind(list(columns)[place], each[place], distinct[place], words[place], most)
    counts = filled.shares(_HASH) == 1
    for place in np.flatnonzero((kinds == "number") & (distinct == 1) & ~counts):
        counts[place] = _counts(each[place])
    return [
        Profile(
            name,
            kinds[place],
            len(kept) / total,
            float(distinct[place]),
            int(values[place]),
            float(words[place]),
            kept[0].as_py(),
            bool(counts[place]),
            pc.max(repeats[place]).as_py() / len(kept),
        )
        if len(kept)
        else Profile(name, "empty", 0.0, 0.0, 0, 0.0, "")
        for place, (name, kept) in enumerate(zip(columns, each, strict=True))
    ]


def _counts(cells: pa.Array) -> bool:
    """Return whether numbers that never repeat are consecutive integers, or long enough to be codes."""
    written = cells.to_pylist()
    if not all(map(_WHOLE.fullmatch, written)):
        return False
    numbers = np.sort(np.array(written, np.float64))
    return bool((np.diff(numbers) == 1).all() or numbers[0] >= 10 ** (_CODE_DIGITS - 1))


def _find_kinds(kinds: np.ndarray, filled: _Filled) -> None:
    """Replace "" among the kinds of columns, object (C,), by the kinds that patterns show."""
    for kind, pattern in (("address", _ADDRESS), ("number", PLAIN_NUMBER), ("date", _DATE)):
        kinds[(kinds == "") & (filled.of(kinds == "").shares(pattern) >= _NEARLY_ALL)] = kind
    filled = filled.of(kinds == "")
    filled = replace(filled, cells=pc.utf8_slice_codeunits(filled.cells, 0, _BLOB_CHARACTERS))
    for kind, pattern in _BLOBS.items():  # data for programs, in at least half of the cells
        held = pc.match_substring_regex(filled.cells, pattern)
        if kind == "base64":  # not a long word, nor words joined by dashes
            for case in ("[a-z]", "[A-Z]", "[0-9]"):
                held = pc.and_(held, pc.match_substring_regex(filled.cells, case))
        if kind == "hexadecimal":  # not a long number
            held = pc.and_(held, pc.match_substring_regex(filled.cells, "[a-fA-F]"))
        kinds[(kinds == "") & (filled.means(held) >= _HALF)] = kind


def _kind(name: str, cells: pa.Array, distinct: float, words: float, most: int) -> str:
    """Return the kind of a column that no pattern shows; at most so many of its cells are parsed."""
    if words < _SHORT_WORDS:
        checked = cells.slice(0, most).to_pylist()
        read = [(cell, read_cell(cell)) for cell in checked]
        prices = [price for _, price in read if isinstance(price, Cell)]
        share = len(prices) / len(checked)
        signed = sum(price.currency is not None for price in prices) / len(checked)
        others = len({cell for cell, price in read if not isinstance(price, Cell)})  # such as "on request"
        few_others = share >= _NEARLY_ALL or others <= max(_FEW_OTHERS, _FEW * len(checked))
        if prices and few_others and signed >= (_FEW if names_price(name) else _HALF):
            return "price"
        if prices and names_price(name) and (share >= _HALF or (share >= _FEW and others <= _FEW_OTHERS)):
            return "price"
        if share >= _NEARLY_ALL:
            letters = sum(sum(map(str.isalpha, cell)) for cell in checked)
            if letters <= _UNIT_LETTERS * len(checked):
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


MAX_TEXT_COLUMNS = 32
_RANKS = 20
_MAX_LONG_TEXTS = 4
"""Further long texts come after the other columns, if there are too many columns."""
_LONG_WORDS = 8
_TITLE_WORDS = 1.5
"""Titles have at least this many words on average."""
_LONGEST_TITLE = 25
_MANY = 0.3
"""Numbers with a name such as "house_id" and a larger share of distinct cells identify; others are categories."""
_MANY_VALUES = 50
_IDENTIFIES_ROWS = "identifies rows"
_NEARLY_CONSTANT = 0.998
"""If this share of the filled cells is equal, the column tells nothing."""
_MIN_FILLED = 0.05
"""A column with a smaller share of filled cells does not describe products."""

_PROFILED_ROWS = 8192
"""Number of rows from which the kind of each column is determined."""
_PROFILED_BYTES = 48 << 20
"""Fewer rows are enough once their cells take so many bytes."""


@dataclass(frozen=True)
class ColumnGuess:
    """The columns of a table as named or guessed.

    Attributes:
        columns: the roles of the columns; `columns.price` is None if no column looks like a price.
        profiles: the profile of each column of the table.
        file: the opened table; the columns of a file without a header are named column1, column2 and so on.
        read_options: how to read the table, with these names.
        headless: the file was read as one without a header, because its first line looks like data.
    """

    columns: Columns
    profiles: list[Profile]
    file: OpenedTable
    read_options: ReadOptions
    headless: bool

    @property
    def vectors(self) -> tuple[str, ...]:
        """The columns of vectors."""
        return tuple(column.name for column in self.profiles if column.kind == "vector")

    @property
    def left_out(self) -> dict[str, str]:
        """Why each column that is not used is left out."""
        used = (*self.columns.text, self.columns.price, self.columns.id)
        return {
            name: why
            for name, why in reasons_left_out(self.profiles, used).items()
            if name not in self.vectors
        }


def guess_columns(
    source: TableSource | OpenedTable,
    *,
    text: Sequence[str] = (),
    price: str | None = None,
    id: str | None = None,  # noqa: A002 - the name of the public parameter
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ColumnGuess:
    """Guess the text, price and id columns from the first rows of a table.

    Args:
        source: a file or a frame.
        text: the text columns; empty guesses them.
        price: the price column; None guesses it.
        id: the id column; None guesses it.
        read_options: how to read the table; options that are not set are detected.

    Raises:
        NoRowsError: the table has no rows.
        DataError: the table cannot be read, or it has no text column.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"sku": ["a1", "b2"], "title": ["Green tea", "Plum jam"], "eur": ["3,50 €", "2,80 €"]})
        >>> guess_columns(frame).columns
        Columns(text=('title',), price='eur', id='sku', id_required=False)
    """
    opened = open_table(source, read_options, logger.debug)
    file, profiles = _with_names(opened)
    headless = file is not opened
    if headless and file.layout is not None:
        read_options = replace(read_options, names=file.layout.names)
    price = price or guess_price(profiles)
    others = [column for column in profiles if column.name != price]
    describing = [column for column in others if column.name not in (id, "sample_id")]
    texts = tuple(text) or guess_text(describing)
    if price is not None and not text and len(texts) == MAX_TEXT_COLUMNS:
        texts = guess_text(describing, shares_told(_first_rows(file), price, describing))
    if not texts:
        raise _without_text(file, profiles)
    columns = Columns(texts, price, id or guess_id(others, texts), id_required=id is not None)
    return ColumnGuess(columns, profiles, file, read_options, headless)


def vectors_in(file: OpenedTable) -> list[str]:
    """Return the columns whose first rows have vectors; raises DataError if the table cannot be read."""
    rows = _first_rows(file)
    return [name for name in rows.column_names if vector_width(flat(rows.column(name)))]


def describe_guess(guess: ColumnGuess) -> list[str]:
    """Return sentences about the guesses."""
    columns = guess.columns
    roles = [f"text: {', '.join(map(shorten, columns.text))}"]
    roles += [
        f"{kind}: {shorten(name)}" for kind, name in (("price", columns.price), ("id", columns.id)) if name
    ]
    sentences = [f"columns guessed: {'; '.join(roles)}."]
    return [describe_headless(guess), *sentences] if guess.headless else sentences


def describe_headless(guess: ColumnGuess) -> str:
    """Return a sentence on the names of the columns of a file without a header."""
    return (
        "The first line looks like data, so the file is read as one without a header; its columns are called "
        f"{guess.profiles[0].name} and so on. Set columns to give them better names, in their order."
    )


def reasons_left_out(columns: Sequence[Profile], used: Sequence[str | None]) -> dict[str, str]:
    """Return why each column that is not used is left out.

    Args:
        columns: all columns of the table.
        used: the text columns, the price and the id.
    """
    other = "not among the chosen columns"
    if "catalog_content" in used:
        other = "catalog_content has the text"
    elif len(used) >= MAX_TEXT_COLUMNS + 2:
        other = f"at most {MAX_TEXT_COLUMNS} columns are read, and the others tell more of the price"
    return {column.name: _reason(column) or other for column in columns if column.name not in used}


def counts_later(column: Profile) -> bool:
    """Return whether a column holds counts or discounts that may only exist after the price was set."""
    name = " ".join(words_of(column.name))
    shown = name if column.kind == "number" else f"{name} {column.example}"  # "4.0 out of 5 stars"
    counter = bool(COUNTER.search(name)) and not NOT_A_COUNTER.search(shown)
    discount = bool(DISCOUNT.search(name)) and column.words < _SHORT_WORDS
    counts = column.kind in ("number", "category") or (column.kind == "text" and column.words < _COUNT_WORDS)
    return discount or (counter and counts)


def _with_names(file: OpenedTable) -> tuple[OpenedTable, list[Profile]]:
    """Profile the columns, and name those of a file whose first line is data."""
    row = [] if file.layout is None or file.layout.names else file.first_row()
    profiles = [] if len(set(row)) < len(row) and looks_like_data(row) else _profiles(file)
    if not row or file.layout is None or (profiles and not without_header(profiles)):
        return file, profiles
    names = tuple(f"column{number}" for number in range(1, len(row) + 1))
    file = replace(file, layout=replace(file.layout, names=names))
    return file, _profiles(file)


def with_generated_names(file: OpenedTable, columns: Columns) -> OpenedTable:
    """Return a file without a header with the names column1, column2 and so on, if some of these columns have them."""
    wanted = {*columns.text, columns.price, columns.id} - {None}
    if (
        file.layout is None
        or file.layout.names
        or not any(re.fullmatch("column[1-9][0-9]*", str(c)) for c in wanted)
    ):
        return file
    if wanted.intersection(file.first_row()):
        return file
    named, _ = _with_names(replace(file, wanted=None))  # all columns decide
    return replace(named, wanted=file.wanted)


def _profiles(file: OpenedTable) -> list[Profile]:
    return profile(file.name, _first_rows(file))


def _first_rows(file: OpenedTable) -> pa.Table:
    parts: list[pa.Table] = []
    rows = size = 0
    for chunk in file.chunks(_PROFILED_ROWS, ReadWarnings()):
        if not parts:
            check_count(file, chunk)
        parts.append(chunk.columns.slice(0, _PROFILED_ROWS - rows))
        rows += len(parts[-1])
        size += chunk.columns.nbytes
        is_wide = rows * chunk.columns.num_columns >= MAX_CHUNK_CELLS
        if rows >= _PROFILED_ROWS or size >= _PROFILED_BYTES or is_wide:
            break
    if not rows:
        raise no_rows(file)
    return pa.concat_tables(parts)


def _without_text(file: OpenedTable, profiles: list[Profile]) -> DataError:
    if all(column.kind == "empty" for column in profiles):
        return DataError(
            f"{file.name} has no values: all cells of its columns ({listed([shorten(c.name) for c in profiles])}) are "
            "empty. Check the delimiter and how the table was exported.",
            parameters=("text", "delimiter"),
            candidates=[column.name for column in profiles],
        )
    names = listed([f"{shorten(column.name)} ({column.kind})" for column in profiles])
    return DataError(
        f"{file.name} has no column of text; it has {names}. Name the columns that describe a product."
        + (TITLE_HINT if file.layout is not None and len(profiles) == 1 else ""),
        parameters=("text",),
        candidates=[column.name for column in profiles],
    )


def guess_price(columns: Sequence[Profile]) -> str | None:
    """Return the most likely price column: by its name, else by its currency signs."""
    named = [
        c for c in columns if c.kind in ("number", "price") and names_price(c.name) and not counts_later(c)
    ]
    signed = [c for c in columns if c.kind == "price" and not counts_later(c)]
    called = [c for c in columns if c.name.casefold() == "price"]  # with words among the prices
    ranked = sorted(
        named,
        key=lambda c: (
            c.name.casefold() != "price",
            not OTHER_PRICES.isdisjoint(words_of(c.name)),
            c.kind != "price",
            len(c.name),
        ),
    )
    return next((column.name for column in [*ranked, *signed, *called]), None)


def guess_text(columns: Sequence[Profile], told: Mapping[str, float] | None = None) -> tuple[str, ...]:
    """Return the columns that may describe a product: the title, then the others from short to long, dates last.

    Columns with a reason in `reasons_left_out` are missing.

    Args:
        columns: the profiles of the columns but the price and the id.
        told: the share of the price that columns tell, by name. It decides if there are too many columns.
    """
    if any(c.name == "catalog_content" and c.kind in ("text", *_BLOBS) for c in columns):
        return ("catalog_content",)
    title = _title(columns)
    if title is None:
        return ()
    able = [c for c in columns if c is not title and not _reason(c)]
    long = {*[c.name for c in able if c.words >= _LONG_WORDS][_MAX_LONG_TEXTS:]}
    kept = sorted(able, key=lambda c: (c.name in long, -(told or {}).get(c.name, 1.0)))[
        : MAX_TEXT_COLUMNS - 1
    ]
    return (title.name, *(column.name for column in sorted(kept, key=lambda c: (c.kind == "date", c.words))))


def shares_told(columns: pa.Table, price: str, profiles: Sequence[Profile]) -> dict[str, float]:
    """Return the share of the log price's variance that each column tells in every other row, if its cells repeat.

    Numbers are compared by their ranks, in 20 groups. Texts that do not repeat are missing, and so are columns that are
    left out for another reason.
    """
    cells = flat(columns.column(price))
    prices, _ = parse_price(cells, price_format([cells], DEFAULT_READ_OPTIONS))
    usable = np.flatnonzero(np.isfinite(prices) & (prices > 0))
    log_price = np.log(prices[usable])
    told = {}
    for profile in profiles:
        if (profile.kind == "text" and profile.distinct > _HALF) or _reason(profile):
            continue
        texts = as_text(flat(columns.column(profile.name))).take(pa.array(usable))
        if profile.kind == "number":
            ranks = pd.to_numeric(texts.to_pandas(), errors="coerce").rank(pct=True)
            codes = np.nan_to_num(np.ceil(ranks.to_numpy() * _RANKS)).astype(int)
        else:
            codes = numpy_of(texts.dictionary_encode().indices)
        told[profile.name] = _share_told(codes, log_price)
    return told


def _share_told(codes: np.ndarray, log_price: np.ndarray) -> float:
    """Return the share of the variance in odd rows that the means of groups in even rows explain, at least 0."""
    known, held = slice(0, None, 2), slice(1, None, 2)
    spread = float(((log_price[held] - log_price.mean()) ** 2).sum())
    if not spread:
        return 0.0
    size, mean = int(codes.max()) + 1, float(log_price[known].mean())
    rows = np.bincount(codes[known], minlength=size)
    predicted = (np.bincount(codes[known], log_price[known], minlength=size) + mean) / (rows + 1)
    return max(0.0, 1 - float(((predicted[codes[held]] - log_price[held]) ** 2).sum()) / spread)


def guess_id(columns: Sequence[Profile], taken: Sequence[str | None]) -> str | None:
    """Return a column that identifies rows: `sample_id`, one with a name such as "sku", or a running number."""
    free = [c for c in columns if c.name and c.name not in taken]
    if any(c.name == "sample_id" for c in free):
        return "sample_id"
    named = [c for c in free if c.unique and (ID_NAME.search(c.name) or _is_index(c))]
    named.sort(key=lambda c: bool(PARTY & {*words_of(c.name)}))
    running = [c for c in free if c.unique and c.kind == "number" and _reason(c).startswith(_IDENTIFIES_ROWS)]
    return next((column.name for column in [*named, *running]), None)


def _title(columns: Sequence[Profile]) -> Profile | None:
    """Return the column with the name of a title, even if its cells repeat; else of a text; else the longest title."""
    texts = [c for c in columns if c.kind in ("text", "category")]
    able = [c for c in texts if not _is_coded(c) and c.values > 1] or texts
    ranked = [(_title_rank(c), c) for c in able if _title_rank(c) < len(TITLE)]
    if ranked:
        return min(ranked, key=lambda r: (r[1].words < _TITLE_WORDS and r[0] > 1, r[0], r[1].words))[1]
    long = [c for c in able if c.kind == "text"] or able
    named = [c for c in long if TEXT_NAME.search(c.name) and not OF_OTHERS & {*words_of(c.name)}]
    if named:
        return min([c for c in named if c.words >= _TITLE_WORDS] or named, key=lambda c: c.words)
    return max([c for c in long if c.words < _LONGEST_TITLE] or long, key=lambda c: c.words, default=None)


def _title_rank(column: Profile) -> int:
    """Return how surely the name is that of a title, from 0; `len(TITLE)` if it is not."""
    words = words_of(column.name)
    if (OF_OTHERS | DESCRIPTIONS) & {*words}:
        return len(TITLE)
    ends = {*words[:1], *words[-1:]}
    signs = 1 if TITLE_SIGNS.search(column.name) else len(TITLE)
    return min(signs, next((rank for rank, names in enumerate(TITLE) if ends & names), len(TITLE)))


def _is_coded(column: Profile) -> bool:
    """Return whether the cells are codes: single words that hardly repeat."""
    return column.kind == "text" and column.words < _TITLE_WORDS and column.distinct > _NEARLY_ALL


def _is_index(column: Profile) -> bool:
    return column.kind == "number" and column.distinct == 1.0 and bool(INDEX.search(column.name.strip()))


@lru_cache(maxsize=1 << 14)
def _reason(column: Profile) -> str:
    """Return why a column does not describe products, or ""."""
    words = words_of(column.name)
    number = column.kind == "number"
    if column.values == 0:
        return "empty"
    if column.filled < _MIN_FILLED:
        return f"nearly empty: {column.filled:.1%} of its cells are filled"
    if column.values == 1:
        return f"constant: every filled cell is {shorten(column.example)!r}"
    if column.same >= _NEARLY_CONSTANT:
        return f"nearly constant: {column.same:.2%} of its filled cells are equal"
    if column.kind == "address":
        return "addresses of pages or images"
    if column.kind == "vector":
        return "vectors, not words"
    if column.kind in _BLOBS:
        return f"data for programs ({column.kind}), not words"
    if column.kind == "price" or (number and names_price(column.name)):
        return "another price, which may reveal the price"
    stamp = number and re.fullmatch(r"1[0-9]{9}([0-9]{3})?([.]\d+)?", column.example)
    if (column.kind == "date" or stamp) and RECORDED.search(" ".join(words)):
        return "date of record keeping, not of the product"
    if counts_later(column):
        return "may arise or change after the price is set"
    if column.counts:
        return f"{_IDENTIFIES_ROWS}: running numbers or codes"
    if _is_index(column):
        return f"{_IDENTIFIES_ROWS}: a running number"
    if column.distinct > _NEARLY_ALL and ID_NAME.search(column.name):
        return f"{_IDENTIFIES_ROWS}: {column.distinct:.0%} of its cells differ"
    if _is_coded(column):
        return f"codes: single words, of which {column.distinct:.0%} differ"
    if not number or not words:
        return ""
    if words[-1] in CODES:
        return "codes of products"
    if words[-1] not in ("id", "ids") or column.values <= _MANY_VALUES:
        return ""
    owner = {*words[-2:-1]}
    if owner & PARTY:
        return "identifies sellers or users, not products"
    return "identifies rows or products" if owner & ENTITY or column.distinct > _MANY else ""
