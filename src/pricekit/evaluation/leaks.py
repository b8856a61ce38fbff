"""Leaks: columns that are a copy or a function of the price of their row, and prices in the text.

A model that reads a leak scores well here and fails where the price is not yet known. A column that only explains
much of the price, such as the area of a flat, is no leak. A column leaks if

- its numbers are the price, or a multiple of it, in most cells that hold a number;
- a number that rises or falls with the price tells it nearly exactly, as a logarithm or a rounded price does;
- it holds prices, by its name, its currency signs or its scale, that explain most of the price: list prices, bounds;
- its values are intervals of the price, as price bands are;
- it gives the price with one or two other columns: as a product, a discounted price, a sum or a difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.io.progress import tracked
from pricekit.table import Columns, Table
from pricekit.table.columns import flat
from pricekit.table.guess import cells_of_each
from pricekit.table.name_words import MEASURES, names_price, words_of
from pricekit.table.price_cells import Cell, read_cell
from pricekit.table.table import NOT_A_NUMBER
from pricekit.table.vectors import holds_lists
from pricekit.text.labelled_lines import Ints, Strings, numpy_of
from pricekit.text.normal import normal_text
from pricekit.text.numbers import read_number
from pricekit.text.units import COUNT, KINDS, SPELLINGS

EXPLAINED = 0.7
"""Prices in another column leak if they alone explain this share of the log price's variance: list prices with
discounts of up to 70% explain 0.74 and more."""
REMAINING = 0.6
"""They leak only if at most this standard deviation of the log price remains."""
NEARLY_ALL = 0.97
"""Numbers that are not known to be prices leak if they explain this share."""
NEARLY_NONE = 0.2
"""They leak only if at most this standard deviation of the log price remains."""
SAME_SCALE = 2.5
"""Numbers are on the scale of the price if the median ratio is at most this, and at least its inverse."""
SAME_SPREAD = 1.33
"""The same for the standard deviation of the logarithms: a list price doubles when the price doubles."""
COPIED = 0.5
"""A column is a copy if this share of its numbers is the same multiple of the price."""
EQUAL = 0.2
"""A column is a copy if this share of its numbers is the price, beyond chance."""
BOUNDED = 0.3
"""Prices that are never lower, or never higher, than the price leak if they explain this share: bounds of a salary."""
FEW_VALUES = 20
"""A measure with fewer distinct numbers is not a price."""
BAND_ROWS = 10
"""Values of bands have at least this many rows."""
IN_TEXT = 0.1
"""The text leaks if this share of texts contains their row's price, beyond chance; other tables have 0.01 at most."""
MIN_ROWS = 20
MOST_ROWS = 10_000
"""A column is judged on a random sample of this size: more rows do not change the result."""
_COMPARED_ROWS = 1000
"""Columns are compared with each other on this many rows."""
_MOST_SUMMED, _MOST_MULTIPLIED = 16, 40
"""The number of columns that are compared with each other."""

_NUMBER = re.compile(r"\d{1,3}(?:[ '.,]\d{3})+(?:[.,]\d+)?|\d[\d.,]*")
_FOLDS = 5
_CONFIDENT = 4.0  # standard errors
_SAME = 0.002
"""Logarithms of ratios that differ by less are equal; copies are rounded."""
_ROUNDED = 0.01
"""The same for products of two rounded numbers."""
_CENT = 0.006


@dataclass(frozen=True)
class Leaks:
    """The leaks of a table.

    Attributes:
        columns: how each leaking column reveals the price, in the order of the table: "equals the price in 90% of its
            numbers".
        in_text: share of the texts that contain their price, in columns that do not leak; 0 for a small share.
    """

    columns: dict[str, str]
    in_text: float


def find_leaks(table: Table, columns: Columns) -> Leaks:
    """Search for the price in the text and in every column but the price and the id.

    The first text column is the title. Its cells may repeat, and then they rightly predict the price of a product.
    """
    some = np.sort(np.random.default_rng(0).permutation(len(table))[:MOST_ROWS])
    table = table.take(some)  # once: Arrow joins all parts of a column to take rows of it
    named = columns.id if table.ids.name == columns.id else None  # otherwise the rows are numbered
    leaking = leaking_columns(table, (columns.price, named), columns.text[:1])
    text, left = table.text, [name for name in columns.text if name not in leaking]
    if 0 < len(left) < len(columns.text):
        text = table.frame[left].apply(_as_strings).agg("\n".join, axis=1)
    share = price_in_text(text, table.known_price) if left else 0.0
    return Leaks(leaking, share if share >= IN_TEXT else 0.0)


def leaking_columns(
    table: Table,
    ignored: Iterable[str | None] = (),
    described: Iterable[str] = (),
) -> dict[str, str]:
    """Return how each column that is a copy or a function of the price reveals it, in the order of the table.

    Args:
        table: rows with prices, a sample of a large table.
        ignored: columns to skip: the price itself, the id.
        described: columns that are judged as numbers only: their repeated cells name a product.

    Example:
        >>> price = np.arange(1.0, 31)
        >>> frame = pd.DataFrame({"price": price, "gross": price * 1.19, "size": price % 4})
        >>> table = Table(pd.Series(range(30)), pd.Series(["x"] * 30), price, frame)
        >>> leaking_columns(table, ignored=("price",))
        {'gross': 'is 1.19 times the price in 100% of its numbers'}
    """
    frame, price = table.frame, table.known_price
    left_out, texts = set(ignored), set(described)
    judged = [name for name in frame if name not in left_out and not holds_lists(frame[name])]
    if len(price) < MIN_ROWS or price.min() == price.max():
        return {}
    leaks: dict[str, str] = {}
    numbers: list[ColumnNumbers] = []
    most = min(PARSED_ROWS, cells_of_each(len(judged)))
    with tracked("searching for leaks", judged) as names:
        for name in names:
            column = frame[name]
            is_number = pd.api.types.is_numeric_dtype(column.dtype)
            cells = None if is_number else _stripped(column)
            readings = (
                _typed_numbers(str(name), column) if cells is None else _numbers(str(name), cells, most)
            )
            how = next(filter(None, (as_price(reading, price) for reading in readings)), "")
            if not how and name not in texts:
                how = as_bands(pd.factorize(column)[0] if cells is None else _codes(cells), price)
            if how:
                leaks[str(name)] = how
            else:
                numbers += readings
    leaks |= dict(_products(numbers, price)) | dict(_sums(numbers, price))
    return {str(name): leaks[str(name)] for name in judged if str(name) in leaks}


def as_price(numbers: ColumnNumbers, price: np.ndarray) -> str:
    """Return how the numbers of a column alone reveal the price, or "".

    Args:
        numbers: of N rows.
        price: prices, float (N,).
    """
    known = np.isfinite(numbers.values)
    values, price = numbers.values[known], price[known]
    few = max(5, min(FEW_VALUES, len(values) // 3))
    if len(values) < MIN_ROWS:
        return ""
    equal = np.abs(values - price) <= _CENT
    chance = np.mean(np.abs(values - price[_shuffled(len(price))]) <= _CENT)
    share = float(equal.mean())
    if share - chance >= EQUAL and len(np.unique(price[equal])) >= (5 if share >= NEARLY_ALL else few):
        return f"equals the price in {share:.0%} of its numbers"
    if numbers.measured or len(np.unique(values)) < few:
        return ""
    log_price = np.log(price)
    positive = values > 0
    ratio = np.log(values[positive]) - log_price[positive]
    if (
        positive.mean() >= COPIED
        and (share := float((np.abs(ratio - np.median(ratio)) <= _SAME).mean())) >= COPIED
    ):
        times = float(f"{math.exp(np.median(ratio)):.4g}")
        return f"is {times:,g} times the price in {share:.0%} of its numbers"
    explained = explained_share(values, log_price)
    likely = numbers.money or (positive.mean() >= COPIED and _is_alike(ratio, log_price[positive]))
    most, remaining = (EXPLAINED, REMAINING) if likely else (NEARLY_ALL, NEARLY_NONE)
    if explained >= max(most, 1 - (remaining / max(float(log_price.std()), 1e-9)) ** 2):
        what = "holds amounts that alone explain" if likely else "alone explains"
        return f"{what} {explained:.0%} of the log price"
    if numbers.money and positive.all() and abs(float(np.median(ratio))) <= math.log(SAME_SCALE):
        for bound, within in (("most", ratio <= _ROUNDED), ("least", ratio >= -_ROUNDED)):
            if within.mean() >= NEARLY_ALL and explained >= BOUNDED:
                return f"is at {bound} the price in {within.mean():.0%} of its numbers"
    return ""


def _is_alike(ratio: np.ndarray, log_price: np.ndarray) -> bool:
    """Return whether numbers have the scale and the spread of the price; `ratio` is the logarithm, (N,)."""
    spread = float((ratio + log_price).std()) / max(float(log_price.std()), 1e-9)
    near = abs(float(np.median(ratio))) <= math.log(SAME_SCALE)
    return near and 1 / SAME_SPREAD <= spread <= SAME_SPREAD


def as_bands(codes: Ints, price: np.ndarray) -> str:
    """Return that the values of a column are intervals of the price, or "".

    The intervals do not overlap, and prices reach up to their borders. Prices of kinds of goods that differ much do
    not: few are near the borders.

    Args:
        codes: the number of each row's value, from 0, -1 for an empty cell, int (N,).
        price: prices, float (N,).
    """
    rows = np.bincount(codes + 1)[1:]
    bands = np.flatnonzero(rows >= BAND_ROWS)
    if len(bands) < 2 or rows[bands].sum() < 0.9 * rows.sum():
        return ""
    log_price = np.log(price[codes >= 0])
    order = np.lexsort((log_price, codes[codes >= 0]))
    by_code = np.split(log_price[order], np.cumsum(rows)[:-1])
    prices = sorted((by_code[band] for band in bands), key=_middle)
    ends = [(_quantile(each, 0.02), _quantile(each, 0.98)) for each in prices]
    borders = [(low[1] + high[0]) / 2 for low, high in pairwise(ends)]
    lower, upper = [ends[0][0], *borders], [*borders, ends[-1][1]]
    near = []
    for band, low, high in zip(prices, lower, upper, strict=True):
        inside = band[(band >= low - _ROUNDED) & (band <= high + _ROUNDED)]
        if len(inside) < 0.9 * len(band) or high <= low:
            return ""
        edge = 0.1 * (high - low)
        near += [float((inside <= low + edge).mean())] * (low in borders)
        near += [float((inside >= high - edge).mean())] * (high in borders)
    if np.median(near) < 0.05:
        return ""
    return f"has {len(bands)} values, each of which is a range of prices"


def _quantile(ascending: np.ndarray, share: float) -> float:
    """Return a quantile of numbers in ascending order, as `np.quantile` computes it."""
    place = share * (len(ascending) - 1)
    low = int(place)
    first, second = float(ascending[low]), float(ascending[min(low + 1, len(ascending) - 1)])
    part = place - low
    return second - (second - first) * (1 - part) if part >= 0.5 else first + (second - first) * part


def _middle(ascending: np.ndarray) -> float:
    return _quantile(ascending, 0.5)


@lru_cache(maxsize=16)
def _shuffled(rows: int) -> np.ndarray:
    """Return the numbers from 0 to `rows` - 1 in the same random order each time."""
    return np.random.default_rng(0).permutation(rows)


def _products(numbers: Sequence[ColumnNumbers], price: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield columns that are the price for a size in another column, or an old price beside its discount."""
    rows = slice(None, _COMPARED_ROWS)
    log_price = np.log(price[rows])
    numbers = [each for each in numbers if np.isfinite(each.values[rows]).sum() >= MIN_ROWS][
        :_MOST_MULTIPLIED
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = [np.log(each.values[rows]) for each in numbers]
        for amounts, log_amount in zip(numbers, logs, strict=True):
            if amounts.measured or len(np.unique(amounts.values[rows])) < FEW_VALUES:
                continue
            for other, log_other in zip(numbers, logs, strict=True):
                if other.name == amounts.name:
                    continue
                part = np.abs(np.nan_to_num(other.values[rows]))
                discount = np.log(1 - part / (1 if part.max() < 1 else 100))
                forms = {"{} × {}": log_other, "{} / {}": -log_other, "{} × (1 - {})": discount}
                for form, logarithm in forms.items():
                    if _constant(logarithm - log_price):  # a measure that alone determines the price
                        continue
                    constant = _constant(log_amount + logarithm - log_price)
                    swapped = form == "{} × {}" and _is_size(amounts, other)
                    if constant and not swapped and (constant == 1 or logarithm is not discount):
                        scale = "" if constant == 1 else f"{constant:.3g} × "
                        yield amounts.name, f"price = {scale}{form.format(amounts.name, other.name)}"


def _constant(log_ratio: np.ndarray) -> float:
    """Return the price over a product, 1.0 if it is about 1; 0.0 if it is not the same in nearly all rows."""
    known = log_ratio[np.isfinite(log_ratio)]
    if len(known) < max(MIN_ROWS, 0.1 * len(log_ratio)):
        return 0.0
    middle = float(np.median(known))
    if (np.abs(known - middle) <= _ROUNDED).mean() < 0.9:
        return 0.0
    return 1.0 if abs(middle) <= _ROUNDED else math.exp(-middle)


def _is_size(one: ColumnNumbers, other: ColumnNumbers) -> bool:
    """Return whether the first of two columns whose product is the price is the size, and the other the price."""
    if one.money or other.measured:
        return False
    return other.money or len(np.unique(one.values)) < len(np.unique(other.values))


def _sums(numbers: Sequence[ColumnNumbers], price: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield the largest of two or three columns whose sum or difference is the price."""
    rows = slice(None, _COMPARED_ROWS)
    price = price[rows]
    parts = [(each.name, np.nan_to_num(each.values[rows])) for each in numbers if not each.measured]
    parts = sorted(parts[:_MOST_SUMMED], key=lambda part: -float(np.median(part[1])))
    taken: set[str] = set()
    for size in (2, 3):
        for several in combinations(parts, size):
            (largest, amounts), *others = several
            if len({name for name, _ in several}) < size or largest in taken:
                continue
            for signs in product((1, -1), repeat=size - 1):
                total = amounts + sum(sign * values for sign, (_, values) in zip(signs, others, strict=True))
                equal = np.abs(total - price) <= _CENT * size
                if equal.mean() >= NEARLY_ALL and len(np.unique(price[equal])) >= FEW_VALUES:
                    taken.add(largest)
                    rest = (
                        f"{'+' if sign > 0 else '-'} {name}"
                        for sign, (name, _) in zip(signs, others, strict=True)
                    )
                    yield largest, f"price = {' '.join([largest, *rest])}"


def price_in_text(text: pd.Series, price: np.ndarray) -> float:
    """Return the share of texts that contain their row's price as a number, beyond the share expected by chance.

    0 if chance explains all of them. Numbers are compared by their digits, so `$1,299.00` and `1.299,00` contain 1299.

    Args:
        text: (N,).
        price: (N,).
    """
    held = [{_digits(number) for number in _NUMBER.findall(cell)} for cell in text]
    written = [{_digits(f"{one:.2f}"), _digits(f"{one:.10g}")} for one in price.tolist()]
    others = np.random.default_rng(0).permutation(len(text))
    true = float(np.mean([bool(held[i] & written[i]) for i in range(len(text))]))
    chance = float(np.mean([bool(held[i] & written[j]) for i, j in enumerate(others)]))
    error = math.sqrt(max(chance * (1 - chance), 1 / len(text)) / len(text))
    return true - chance if true - chance >= _CONFIDENT * error else 0.0


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def explained_share(values: np.ndarray, log_price: np.ndarray) -> float:
    """Return the share of the log price's variance, out of fold, that a monotone function of numbers explains.

    The share is 1 - Σ (p - a)² / Σ (a - mean a)², or 0 if it is less, or if there are fewer than `MIN_ROWS` numbers.
    """
    spread = float(((log_price - log_price.mean()) ** 2).sum()) if len(values) else 0.0
    if len(values) < MIN_ROWS or spread < 1e-9 * len(values):
        return 0.0
    fold = np.random.default_rng(0).permutation(len(values)) % _FOLDS
    predicted = np.empty(len(values))
    for held in range(_FOLDS):
        inside = fold == held
        predicted[inside] = _monotone(values[~inside], log_price[~inside], values[inside])
    return max(0.0, 1 - float(((predicted - log_price) ** 2).sum()) / spread)


def _monotone(values: np.ndarray, log_price: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Predict by a function that only rises or only falls, whichever the ranks do."""
    from scipy.optimize import isotonic_regression

    points, place, rows = np.unique(values, return_inverse=True, return_counts=True)
    middle = (len(values) + 1) / 2  # of all ranks
    rises = bool((_ranks(place, rows) - middle) @ (_ranks(*_places(log_price)) - middle) >= 0)
    fitted = isotonic_regression(np.bincount(place, log_price) / rows, weights=rows, increasing=rises)
    return np.asarray(np.interp(others, points, fitted.x))


def _places(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each number among the distinct ones, and how often each of these occurs."""
    return np.unique(values, return_inverse=True, return_counts=True)[1:]


def _ranks(place: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the ranks of numbers, from 1, equal numbers with the mean of theirs; see `_places`."""
    ranks: np.ndarray = (np.cumsum(rows) - (rows - 1) / 2)[place]
    return ranks


PARSED_ROWS = 2000
"""Of a column of text, this many rows are parsed."""
_LONGEST = 60
"""Cells that are longer on average are texts that may contain numbers."""
_MOSTLY = 0.5
_PLAIN = re.compile(r"-?(?:[1-9][0-9]{0,2}(?P<three>\.[0-9]{3})|(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?)")
"""Plain numbers; the point of those with a group of three digits may separate thousands."""
_FIRST, _SELDOM = 200, 0.1
"""Text, such as titles, has hardly a number among its first different cells with digits."""
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


def _typed_numbers(name: str, column: pd.Series) -> list[ColumnNumbers]:
    """Return the only reading of a column of numbers."""
    values, named = _finite(column.to_numpy(np.float64, na_value=np.nan)), names_price(name)
    return [ColumnNumbers(name, values, named, _names_measure(name) and not named)]


def _numbers(name: str, texts: Strings, most: int = PARSED_ROWS) -> list[ColumnNumbers]:
    """Return the readings of a column: one, or two if "." may separate decimals or thousands; none for text.

    A misread cell can hide a leak in one reading, but cannot create one.

    Args:
        name: of the column.
        texts: its cells without surrounding blanks, (N,).
        most: of different cells that are not plain numbers, only so many are read, the first ones.

    Example:
        >>> cells = pa.array(["€ 1.299", "-", "€ 2.450"], pa.large_string())
        >>> [reading.values.tolist() for reading in _numbers("mrp", cells)]
        [[1.299, nan, 2.45], [1299.0, nan, 2450.0]]
    """
    named, measure, rows = names_price(name), _names_measure(name), len(texts)
    texts = texts.slice(0, PARSED_ROWS)
    if (pc.sum(pc.utf8_length(texts)).as_py() or 0) > _LONGEST * (
        pc.sum(pc.not_equal(texts, "")).as_py() or 0
    ):
        return []
    coded = texts.dictionary_encode()
    codes, cells = numpy_of(coded.indices), coded.dictionary.to_pylist()
    digits = [place for place, cell in enumerate(cells) if any(map(str.isdigit, cell))]
    by_cell = np.full((len(cells), 4), math.nan)
    first = min(_FIRST, most)
    for count, place in enumerate(digits):
        if count == first and np.isfinite(by_cell[digits[:first], 0]).sum() <= _SELDOM * first:
            return []
        if plain := _PLAIN.fullmatch(cells[place]):
            grouped = plain[0].replace(".", "") if plain["three"] else plain[0]
            by_cell[place] = float(plain[0]), float(grouped), False, False
        elif most:
            most -= 1
            by_cell[place] = _read(cells[place])
    read = _finite(by_cell)[codes]
    known = np.isfinite(read[:, 0])
    if not known.any():
        return []
    signed, unit = read[known, 2:].mean(axis=0) >= _MOSTLY
    money = bool(signed or (named and not unit))
    readings: list[ColumnNumbers] = []
    for parsed in read[:, :2].T if (read[known, 0] != read[known, 1]).any() else read[:, :1].T:
        values = np.full(rows, np.nan)
        values[: len(parsed)] = parsed
        readings.append(ColumnNumbers(name, values, money, bool(unit or measure) and not money))
    return readings


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _stripped(column: pd.Series) -> Strings:
    """Return a column as text without surrounding blanks, "" for an empty cell."""
    texts = pa.array(column if isinstance(column.dtype, pd.StringDtype) else _as_strings(column))
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return pc.utf8_trim_whitespace(flat(pa.chunked_array(chunks, texts.type)))


def _codes(cells: Strings) -> Ints:
    """Return the number of each cell's text, from 0, -1 for an empty cell."""
    encoded = cells.dictionary_encode()
    codes, blank = numpy_of(encoded.indices).astype(np.int64), pc.index(encoded.dictionary, "").as_py()
    return codes if blank < 0 else np.where(codes == blank, -1, codes - (codes > blank))


def _as_strings(column: pd.Series) -> pd.Series:
    """Return a column as text, "" for an empty cell; pandas does not treat the bytes of Parquet as text."""
    texts = column.map(
        lambda cell: cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell), "ignore"
    )
    return texts.astype("str").fillna("")


def _names_measure(name: str) -> bool:
    words = words_of(name)
    unit = words[-1] if words else ""
    named_unit = unit != "in" and SPELLINGS.get(unit, (COUNT, 1.0))[0] in _UNITS_IN_NAMES
    return "per" not in words and (named_unit or not MEASURES.isdisjoint(words))


def _read(text: str) -> tuple[float, float, bool, bool]:
    """Return the number of a cell, with "." and with "," as the decimal mark; whether it has a currency, or a unit."""
    number = read_number(normal_text(text))
    price = read_cell(text) if number is None or number.unit else NOT_A_NUMBER
    if isinstance(price, Cell) and (price.currency or number is None):
        return price.value("."), price.value(","), price.currency is not None, price.is_quantity
    if number is None:
        return math.nan, math.nan, False, False
    _, scale = SPELLINGS.get(number.unit.casefold(), (COUNT, 1.0))
    point, comma = (float(replace(number, unit="").written(mark)) * scale for mark in ".,")
    return point, comma, False, bool(number.unit)
