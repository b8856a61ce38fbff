"""Features that would take longer than a time budget leaves for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pricekit.features.fit.folds import FOLDS
from pricekit.features.fit.out_of_fold import fit_one, threads_for, uses_price
from pricekit.features.fitted import FittedFeature, make
from pricekit.support.log import logger
from pricekit.table import Table

PILOT_ROWS = 200
"""Least number of rows that show how long a feature takes, under a time budget."""

QUICK = 0.2
"""Seconds of a first fit up to which no second one shows what of it happens only once, such as opening an encoder."""

GROWTH = 0.8
"""The time of a fit grows with the number of rows to this power, because a part of it does not depend on them."""


def too_slow(
    names: Sequence[str],
    options: Mapping[str, dict[str, Any]],
    table: Table,
    price: np.ndarray,
    seconds: float,
    folds: int = FOLDS,
) -> list[str]:
    """Return the features that learn from prices and take longer than they may, by the time for a part of the rows.

    Args:
        names: the names of the plugins, in order.
        options: the options of each plugin.
        table: the N training rows, without the price.
        price: the training prices, float64 (N,).
        seconds: how long these features may take together, the first of them first.
        folds: the number of folds, see `fit_features`.
    """
    found = []
    for name in names:
        part = make(name, options.get(name, {}), {})
        if uses_price(part.plugin):
            needed = _seconds_for(part, table, price, folds, seconds)
            if needed <= seconds:
                seconds -= needed
                continue
            logger.warning(
                f"the feature '{name}' would take about {needed:,.0f} s, and the time budget leaves {seconds:,.0f} s "
                "for it, so it is left out; give more time"
            )
            found.append(name)
    return found


def _seconds_for(part: FittedFeature, table: Table, price: np.ndarray, folds: int, most: float) -> float:
    """Return about how long it takes to fit a feature out of fold in at most `most` seconds.

    What only the first fit of a process does is done then, so the time of a second one counts, if there is enough time.
    """
    pilot = np.sort(np.random.default_rng(0).permutation(len(table))[: max(PILOT_ROWS, len(table) // 10)])
    taken = _seconds_of_fit(part, table.take(pilot), price[pilot])
    if QUICK < taken < most / 3:
        taken = _seconds_of_fit(part, table.take(pilot), price[pilot])
    each = taken * (len(table) / len(pilot)) ** GROWTH
    # All rows once, and all but one fold so often; two threads hinder each other, and do the work of one and a half.
    return float(each) * folds / ((1 + threads_for(len(table), folds)) / 2)


def _seconds_of_fit(part: FittedFeature, table: Table, price: np.ndarray) -> float:
    started = time.perf_counter()
    fit_one(part, table, price)
    return time.perf_counter() - started
