"""Leaks: columns that reveal the price, such as a market price or a discounted price, and prices in the text.

A model that reads a leak scores well here and fails where the price is not yet known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pricekit.io.progress import tracked
from pricekit.table import Columns, Table

EXPLAINED = 0.7
"""A column leaks if it alone explains this share of the log price's variance. On the tables that this was tuned on,
brands, years and similar columns explain up to 0.6; list prices with discounts of up to 70% explain 0.74 and more."""
REMAINING = 0.6
"""A column leaks only if at most this standard deviation of the log price remains: above it, the column explains
the price level of a kind of product, not the price of a product."""
IN_TEXT = 0.1
"""The text leaks if this share of texts contains their row's price, beyond chance; other tables have 0.01 at most."""
MIN_ROWS = 20
MOST_ROWS = 10_000
"""A column is judged on a random sample of this size: more rows do not change the result."""

_NUMBER = re.compile(r"\d{1,3}(?:[ '.,]\d{3})+(?:[.,]\d+)?|\d[\d.,]*")
_FOLDS = 5
_NUMERIC = 0.5  # share of the filled cells that must be numbers in a numeric column
_CONFIDENT = 4.0  # standard errors

Guess = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Fits on values and log prices, then predicts the log prices of other values."""


@dataclass(frozen=True)
class Leaks:
    """The leaks of a table.

    Attributes:
        columns: the share of the log price's variance that each leaking column explains, highest first.
        in_text: share of the texts that contain their price, in columns that do not leak; 0 for a small share.
    """

    columns: dict[str, float]
    in_text: float


def find_leaks(table: Table, columns: Columns) -> Leaks:
    """Search for the price in the text and in every column but the price and the id.

    The first text column is the title. Its cells may repeat, and then they rightly predict the price of a product.
    """
    some = np.sort(np.random.default_rng(0).permutation(len(table))[:MOST_ROWS])
    table = table.take(some)  # once: Arrow joins all parts of a column to take rows of it
    named = columns.id if table.ids.name == columns.id else None  # otherwise the rows are numbered
    leaking = dict(leaking_columns(table, (columns.price, named), columns.text[:1]))
    text, left = table.text, [name for name in columns.text if name not in leaking]
    if 0 < len(left) < len(columns.text):
        text = table.frame[left].apply(as_strings).agg("\n".join, axis=1)
    share = price_in_text(text, table.known_price) if left else 0.0
    return Leaks(leaking, share if share >= IN_TEXT else 0.0)


def leaking_columns(
    table: Table,
    ignored: Iterable[str | None] = (),
    described: Iterable[str] = (),
) -> list[tuple[str, float]]:
    """Return the columns that predict the price almost alone, with the share of variance that each explains.

    Each column predicts the log prices of rows that it was not fitted on: numbers, including numbers written as text,
    by isotonic regression, categories by the mean of their rows. The share is 1 - Σ (p - a)² / Σ (a - mean a)².

    Args:
        table: rows with prices, a sample of a large table.
        ignored: columns to skip: the price itself, the id.
        described: columns that are judged as numbers only: their repeated cells name a product.

    Returns:
        Names and shares, highest share first.
    """
    frame, price = table.frame, np.log(table.known_price)
    left_out, texts = set(ignored), set(described)
    judged = [name for name in frame if name not in left_out]
    with tracked("searching for leaks", judged) as names:
        shares = {str(name): explained(frame[name], price, as_category=name not in texts) for name in names}
    enough = max(EXPLAINED, 1 - (REMAINING / max(float(price.std()), 1e-9)) ** 2)
    return sorted(
        ((name, share) for name, share in shares.items() if share >= enough), key=lambda one: -one[1]
    )


def explained(column: pd.Series, log_price: np.ndarray, *, as_category: bool = True) -> float:
    """Return the share of the log price's variance, out of fold, that a column explains; at least 0."""
    cells = as_strings(column).str.strip()
    filled = (cells != "").to_numpy(bool)
    shares = [0.0]
    if as_category:
        shares.append(_share(pd.factorize(cells)[0][filled], log_price[filled], _by_category))
    for numbers in _readings(column):
        known = np.isfinite(numbers)
        if known.sum() >= _NUMERIC * filled.sum():
            shares.append(_share(numbers[known], log_price[known], _by_number))
    return max(shares)


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


def as_strings(column: pd.Series) -> pd.Series:
    """Return a column as text, "" for an empty cell; pandas does not treat the bytes of Parquet as text."""
    texts = column.map(str, na_action="ignore") if column.dtype == object else column
    return texts.astype("str").fillna("")


def _readings(column: pd.Series) -> list[np.ndarray]:
    """Parse one number from each cell, NaN for none: in machine notation and in human notation (15.675 for 15,675).

    A misread cell can hide a leak in one notation, but cannot create one.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return [column.to_numpy(np.float64, na_value=np.nan)]
    plain = pd.to_numeric(as_strings(column), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    cells = as_strings(column).str.extract(r"^\D{0,6}(\d[\d.,' ]*)\D{0,12}$")[0]
    cells = cells.str.replace(r"[' ]|[.,](?=\d{3}(?:\D|$))", "", regex=True).str.replace(",", ".")
    grouped = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return [grouped] if np.array_equal(plain, grouped, equal_nan=True) else [plain, grouped]


def _share(values: np.ndarray, log_price: np.ndarray, guess: Guess) -> float:
    """Return 1 - Σ (p - a)² / Σ (a - mean a)² of out-of-fold predictions."""
    spread = float(((log_price - log_price.mean()) ** 2).sum()) if len(values) else 0.0
    if len(values) < MIN_ROWS or spread < 1e-9 * len(values):
        return 0.0
    fold = np.random.default_rng(0).permutation(len(values)) % _FOLDS
    predicted = np.empty(len(values))
    for held in range(_FOLDS):
        inside = fold == held
        predicted[inside] = guess(values[~inside], log_price[~inside], values[inside])
    return max(0.0, 1 - float(((predicted - log_price) ** 2).sum()) / spread)


def _by_category(values: np.ndarray, log_price: np.ndarray, others: np.ndarray) -> np.ndarray:
    size = int(max(values.max(), others.max())) + 1
    rows, total = np.bincount(values, minlength=size), np.bincount(values, log_price, minlength=size)
    return np.asarray(((total + log_price.mean()) / (rows + 1))[others])


def _by_number(values: np.ndarray, log_price: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Predict by a function that only rises or only falls, whichever the ranks do."""
    from scipy.optimize import isotonic_regression

    points, place, rows = np.unique(values, return_inverse=True, return_counts=True)
    rank, rank_of_price = (pd.Series(each).rank() for each in (values, log_price))
    rises = bool(rank.cov(rank_of_price) >= 0)
    fitted = isotonic_regression(np.bincount(place, log_price) / rows, weights=rows, increasing=rises)
    return np.asarray(np.interp(others, points, fitted.x))
