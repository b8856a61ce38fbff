"""Values that may not be prices: years, and placeholders such as 12345 that repeat more often than their neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

FIRST_YEAR, LAST_YEAR = 1950, 2035
PLACEHOLDERS = tuple(
    float(digits)
    for digits in (
        *(str(digit) * length for digit in range(1, 10) for length in range(4, 10)),
        *("1234567890"[:length] for length in range(4, 10)),
        *("4321", "54321", "654321"),
    )
)
LOWEST = (0.01, 0.1, 1.0)
"""Placeholders if other prices are far higher."""
FAR = 100
"""The lowest placeholders are at most the median price divided by this."""
FEWEST = 3
FEWEST_YEARS = 5
TIMES = 5
"""A suspect repeats this many times as often as its neighbours, or as chance explains."""
HIGH = 10
"""A row of nines, which shops use as a price, is a placeholder from this multiple of the median price on."""
_SHOWN = 5


@dataclass(frozen=True)
class Suspect:
    """A value that may not be a price.

    Attributes:
        value: the value.
        rows: the number of rows with it.
        reason: "year" or "placeholder".
    """

    value: float
    rows: int
    reason: str


def find_suspects(price: np.ndarray) -> list[Suspect]:
    """Return the values of prices, float (N,), that look like placeholders or years, lowest first.

    Example:
        >>> import numpy as np
        >>> found = find_suspects(np.array([*range(20, 400), *[12345.0] * 4]))
        >>> [(suspect.value, suspect.rows, suspect.reason) for suspect in found]
        [(12345.0, 4, 'placeholder')]
    """
    values, rows = np.unique(price, return_counts=True)
    counts = dict(zip(values.tolist(), rows.tolist(), strict=True))
    median = float(np.median(price))
    found = [Suspect(v, counts[v], "placeholder") for v in LOWEST if _is_low(v, counts, median)]
    found += [
        Suspect(v, counts[v], "placeholder") for v in PLACEHOLDERS if _is_placeholder(v, counts, median)
    ]
    years = map(float, range(FIRST_YEAR, LAST_YEAR + 1))
    found += [Suspect(year, counts[year], "year") for year in years if _is_year(year, counts)]
    return sorted(found, key=lambda suspect: suspect.value)


def rows_of_equal_years(
    price: np.ndarray, frame: pd.DataFrame, ignored: Sequence[str | None]
) -> dict[str, int]:
    """Return the number of rows whose price equals the year in another column, by column, where chance is no reason.

    Args:
        price: prices, float (N,).
        frame: the columns of the same rows, as read.
        ignored: columns that are not compared.
    """
    found: dict[str, int] = {}
    is_year = (price >= FIRST_YEAR) & (price <= LAST_YEAR) & (price == np.floor(price))
    if is_year.sum() < FEWEST_YEARS:
        return found
    for name in frame.columns.difference([c for c in ignored if c], sort=False):
        years = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
        in_range = (years >= FIRST_YEAR) & (years <= LAST_YEAR)
        if 2 * in_range.sum() < len(years):
            continue
        equal = int((is_year & (price == years)).sum())
        if equal >= max(FEWEST_YEARS, TIMES * _by_chance(price[is_year], years[in_range])):
            found[str(name)] = equal
    return found


def describe_suspects(suspects: Sequence[Suspect], equal: Mapping[str, int]) -> list[str]:
    """Return a sentence for each kind of suspect and each column of years."""
    advice = "They are kept; if they are not prices, empty these cells or remove the rows."
    sentences = []
    for reason, looks in (("placeholder", "look like placeholders"), ("year", "look like years")):
        some = sorted((s for s in suspects if s.reason == reason), key=lambda s: -s.rows)
        if some:
            shown = ", ".join(f"{s.value:.10g} in {s.rows:,} rows" for s in some[:_SHOWN])
            more = f" and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
            sentences.append(f"Some prices {looks}, because they repeat often: {shown}{more}. {advice}")
    for name, rows in equal.items():
        sentences.append(f"In {rows:,} rows the price is the year in the column '{name}'. {advice}")
    return sentences


def _is_low(value: float, counts: Mapping[float, int], median: float) -> bool:
    return counts.get(value, 0) >= FEWEST and value * FAR <= median


def _is_placeholder(value: float, counts: Mapping[float, int], median: float) -> bool:
    rows = counts.get(value, 0)
    if rows < FEWEST:
        return False
    if set(f"{value:.0f}") == {"9"}:
        near = [
            count
            for other, count in counts.items()
            if 0.8 * value <= other <= 1.25 * value and other != value
        ]
        return value >= HIGH * median and rows >= 2 * max(near, default=0)
    usual = median / HIGH < value < median * HIGH
    if usual and len(set(f"{value:.0f}")) == 1:  # sellers ask for 7777 in earnest
        return False
    return rows >= TIMES * _mean(counts, [value + step for step in range(-10, 11) if step])


def _is_year(year: float, counts: Mapping[float, int]) -> bool:
    """Return whether a year is much more frequent than prices with the same last digit; 1980 and 1999 are usual."""
    if year % 5 == 0 or year % 100 >= 90:
        return False
    near = [year + 10 * step for step in range(-6, 7) if step and (year + 10 * step) % 100 < 90]
    rows = counts.get(year, 0)
    return rows >= FEWEST_YEARS and rows >= TIMES * max(1.0, _mean(counts, near))


def _mean(counts: Mapping[float, int], values: Sequence[float]) -> float:
    return sum(counts.get(value, 0) for value in values) / len(values)


def _by_chance(price: np.ndarray, years: np.ndarray) -> float:
    """Return the expected number of these prices that equal the year of their row if both are independent."""
    values, rows = np.unique(years, return_counts=True)
    share = dict(zip(values.tolist(), (rows / len(years)).tolist(), strict=True))
    return float(sum(share.get(value, 0.0) for value in price.tolist()))
