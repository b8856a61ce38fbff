"""Columns that give the price away: a market price, a discounted price, the price itself in the text.

A model that reads one looks good here and fails where the price is not known yet.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.table import Columns, Table

EXPLAINED = 0.7
"""Share of the log price's variance that a column explains alone, from which it leaks. On the tables that this was
chosen on, brands, years and the like explain up to 0.6, list prices with discounts of up to 70% 0.74 and more."""
REMAINING = 0.6
"""Standard deviation of the log price that may be left: with more, kinds of goods differ in price, not the goods."""
IN_TEXT = 0.1
"""Share of the texts that hold their row's price, beyond chance, from which the text leaks; elsewhere 0.01 at most."""
MIN_ROWS = 20
MOST_ROWS = 10_000
"""A column is judged on so many rows, drawn at random, since more tell nothing else."""

_NUMBER = re.compile(r"\d{1,3}(?:[ '.,]\d{3})+(?:[.,]\d+)?|\d[\d.,]*")
_FOLDS = 5
_NUMBERS = 0.5  # of the cells that are not empty, from which a column is one of numbers
_CONFIDENT = 4.0  # standard errors

Guess = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Learn from a column's values and log prices, then guess those of other values."""


@dataclass(frozen=True)
class Leaks:
    """What gives the price of a table away.

    Attributes:
        columns: and the share of the log price's variance that each explains, the highest first.
        in_text: share of the texts that hold their price; 0 where a column of them leaks, which says it already.
    """

    columns: dict[str, float]
    in_text: float


def find_leaks(table: Table, columns: Columns) -> Leaks:
    """Look for the price in every column but that of the price and the id, and in the text.

    The first text column is the title, which may repeat and then tells the price of a product as it should.
    """
    named = columns.id if table.ids.name == columns.id else None  # else the rows are numbered
    found = dict(leaking_columns(table, (columns.price, named), columns.text[:1]))
    if set(found) & set(columns.text):
        return Leaks(found, 0.0)
    share = price_in_text(table.text, table.known_price)
    return Leaks(found, share if share >= IN_TEXT else 0.0)


def leaking_columns(
    table: Table, ignored: Iterable[str | None] = (), described: Iterable[str] = ()
) -> list[tuple[str, float]]:
    """Return the columns that predict the price almost alone, and the share that each explains, the highest first.

    Each column predicts log prices of rows that it did not learn from: numbers, also those written as text, by
    isotonic regression, categories by the mean of their rows. The share is 1 - Σ (p - a)² / Σ (a - mean a)².

    Args:
        table: rows with prices.
        ignored: columns that are not asked: the price itself, the id.
        described: columns that leak only as numbers: where they repeat, they name a product.
    """
    chosen = some_rows(len(table))
    frame, price = table.frame.iloc[chosen], np.log(table.known_price[chosen])
    left_out, texts = set(ignored), set(described)
    shares = {
        str(name): explained(frame[name], price, as_category=name not in texts)
        for name in frame
        if name not in left_out
    }
    enough = max(EXPLAINED, 1 - (REMAINING / max(float(price.std()), 1e-9)) ** 2)
    return sorted(
        ((name, share) for name, share in shares.items() if share >= enough), key=lambda one: -one[1]
    )


def explained(column: pd.Series, log_price: np.ndarray, *, as_category: bool = True) -> float:
    """Return the share of the log price's variance, out of fold, that a column explains; 0 where it tells nothing."""
    cells = as_strings(column).str.strip()
    there = (cells != "").to_numpy(bool)
    shares = [0.0]
    if as_category:
        shares.append(_share(pd.factorize(cells)[0][there], log_price[there], _by_category))
    for numbers in _readings(column):
        known = np.isfinite(numbers)
        if known.sum() >= _NUMBERS * there.sum():
            shares.append(_share(numbers[known], log_price[known], _by_number))
    return max(shares)


def price_in_text(text: pd.Series, price: np.ndarray) -> float:
    """Return the share of texts that hold their row's price as a number, beyond that expected by chance.

    0 where no more of them do than chance explains. Numbers are compared by their digits, so `$1,299.00` and
    `1.299,00` hold 1299.

    Args:
        text: (N,).
        price: (N,).
    """
    chosen = some_rows(len(text))
    held = [{_digits(found) for found in _NUMBER.findall(cell)} for cell in text.iloc[chosen]]
    written = [{_digits(f"{one:.2f}"), _digits(f"{one:.10g}")} for one in price[chosen].tolist()]
    others = np.random.default_rng(0).permutation(len(chosen))
    true = float(np.mean([bool(held[i] & written[i]) for i in range(len(chosen))]))
    chance = float(np.mean([bool(held[i] & written[j]) for i, j in enumerate(others)]))
    error = math.sqrt(max(chance * (1 - chance), 1 / len(chosen)) / len(chosen))
    return true - chance if true - chance >= _CONFIDENT * error else 0.0


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def some_rows(count: int) -> np.ndarray:
    """Return the numbers of the rows that are judged by, drawn at random where there are more than `MOST_ROWS`."""
    return np.sort(np.random.default_rng(0).permutation(count)[:MOST_ROWS])


def as_strings(column: pd.Series) -> pd.Series:
    """Return a column as text, "" where a cell is empty; what is bytes in Parquet is no text to pandas."""
    texts = column.map(str, na_action="ignore") if column.dtype == object else column
    return texts.astype("str").fillna("")


def _readings(column: pd.Series) -> list[np.ndarray]:
    """Read one number a cell, NaN where there is none: as programs write it, and as people do, 15.675 for 15,675.

    What is misread in one way only hides a leak there, and makes none.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return [column.to_numpy(np.float64, na_value=np.nan)]
    plain = pd.to_numeric(as_strings(column), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    cells = as_strings(column).str.extract(r"^\D{0,6}(\d[\d.,' ]*)\D{0,12}$")[0]
    cells = cells.str.replace(r"[' ]|[.,](?=\d{3}(?:\D|$))", "", regex=True).str.replace(",", ".")
    grouped = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return [grouped] if np.array_equal(plain, grouped, equal_nan=True) else [plain, grouped]


def _share(values: np.ndarray, log_price: np.ndarray, guess: Guess) -> float:
    """Return 1 - Σ (p - a)² / Σ (a - mean a)² of guesses for rows that were not learned from."""
    spread = float(((log_price - log_price.mean()) ** 2).sum()) if len(values) else 0.0
    if len(values) < MIN_ROWS or spread < 1e-9 * len(values):
        return 0.0
    fold = np.random.default_rng(0).permutation(len(values)) % _FOLDS
    found = np.empty(len(values))
    for held in range(_FOLDS):
        inside = fold == held
        found[inside] = guess(values[~inside], log_price[~inside], values[inside])
    return max(0.0, 1 - float(((found - log_price) ** 2).sum()) / spread)


def _by_category(values: np.ndarray, log_price: np.ndarray, others: np.ndarray) -> np.ndarray:
    size = int(max(values.max(), others.max())) + 1
    rows, total = np.bincount(values, minlength=size), np.bincount(values, log_price, minlength=size)
    found: np.ndarray = ((total + log_price.mean()) / (rows + 1))[others]
    return found


def _by_number(values: np.ndarray, log_price: np.ndarray, others: np.ndarray) -> np.ndarray:
    from sklearn.isotonic import IsotonicRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the direction is uncertain
        model = IsotonicRegression(increasing="auto", out_of_bounds="clip").fit(values, log_price)
    found: np.ndarray = model.predict(others)
    return found
