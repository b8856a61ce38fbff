"""How much the shares of two tables differ, and how much they differ by chance alone.

On large tables every difference is significant, and on small ones large differences are not. So all measures are
effect sizes, less what chance gives for tables of these sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SIGMAS = 3.0
"""Standard deviations above the mean that count as chance: a table has dozens of features."""
KOLMOGOROV = 1.36
"""times sqrt(1/n + 1/m) is the largest distance by chance, in 95% of tables (Smirnov 1948)."""


@dataclass(frozen=True)
class Difference:
    """The difference of two tables in one feature or field.

    Attributes:
        psi: the population stability index, less what chance gives at most.
        distance: the largest difference of shares, less what chance gives at most.
        chance: the PSI that chance gives at most.
    """

    psi: float
    distance: float
    chance: float


def psi_of(then: np.ndarray, now: np.ndarray) -> tuple[float, float]:
    """Return the population stability index of two tables, and its highest value by chance alone.

    PSI = Σ (q - p) · ln(q / p) over the shares p and q of B bins (Siddiqi 2006, Credit risk scorecards); half a row is
    added to each bin, so that no share is 0. Without a difference it is about (1/n + 1/m) times a chi-squared number
    with B - 1 degrees of freedom (Yurdakul 2018, Statistical properties of population stability index). The
    second number is its mean plus three standard deviations.

    Args:
        then: rows of the n training rows in each bin, (B,).
        now: rows of the m new rows, (B,).

    Example:
        >>> [round(value, 3) for value in psi_of(np.array([500, 500]), np.array([350, 650]))]
        [0.092, 0.01]
    """
    n, m, bins = then.sum(), now.sum(), len(then)
    p, q = ((rows + 0.5) / (rows.sum() + 0.5 * bins) for rows in (then, now))
    spread = (1 / max(n, 1)) + (1 / max(m, 1))
    chance = spread * (bins - 1 + SIGMAS * math.sqrt(2 * (bins - 1)))
    return float(np.sum((q - p) * np.log(q / p))), float(chance)


def difference(
    then: np.ndarray, now: np.ndarray, *, ordered: bool, own: float = 0.0, own_distance: float = 0.0
) -> Difference:
    """Return how much the bins of two tables differ.

    The distance of ordered bins is that of Kolmogorov and Smirnov at the cuts: the largest difference of the shares of
    rows up to a cut. Of values without an order it is the largest difference of the share of one of them.

    Args:
        then: training rows in each bin, (B,).
        now: new rows, (B,).
        ordered: whether the bins are of ascending numbers.
        own: a PSI that held-out rows of the training table have, too, and is subtracted.
        own_distance: the same of the distance.
    """
    psi, chance = psi_of(then, now)
    n, m = max(1, then.sum()), max(1, now.sum())
    p, q = then / n, now / m
    apart = np.abs(np.cumsum(q - p) if ordered else q - p).max()
    by_chance = KOLMOGOROV * math.sqrt(1 / n + 1 / m)
    return Difference(max(0.0, psi - chance - own), max(0.0, float(apart) - by_chance - own_distance), chance)


def surprise(then: np.ndarray, n: int, now: np.ndarray, m: int) -> np.ndarray:
    """Return how surprising it is that two tables have the same share of rows with a value, float64 (V,).

    It is the likelihood-ratio statistic G² (Dunning 1993, Accurate methods for the statistics of surprise and
    coincidence), about 20 if ten rows are expected and none has the value.

    Args:
        then: training rows with each value, (V,).
        n: the number of training rows.
        now: new rows with each value, (V,).
        m: the number of new rows.
    """
    share = (then + now) / (n + m)
    half = np.zeros(len(then))
    for rows, total in ((then, n), (now, m)):
        half += _terms(rows, total * share) + _terms(total - rows, total * (1 - share))
    return 2 * half


def _terms(rows: np.ndarray, expected: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    some = rows > 0
    return np.where(some, rows * np.log(np.where(some, rows, 1) / np.where(some, expected, 1)), 0.0)
