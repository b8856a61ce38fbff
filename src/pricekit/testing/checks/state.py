"""The checks of a feature's fitted state, and of prices that it must not see."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from pricekit.features.fitted import uses_price
from pricekit.table import Table
from pricekit.testing.data import ordinary_prices, with_price
from pricekit.testing.runner import Make, fail, shown


def fit(plugin: Any, table: Table, price: np.ndarray | None = None) -> Any:
    """Return what fit returns; a feature that uses the price is given one."""
    if not uses_price(plugin):
        return plugin.fit(table)
    return plugin.fit(table, prices_of(table) if price is None else price)


def prices_of(table: Table) -> np.ndarray:
    """Return made-up prices of the rows, float64 (N,)."""
    return np.resize(ordinary_prices(), len(table))


def to_json(state: Any) -> str:
    """Return the state as JSON; raises CheckFailed where it is none."""
    try:
        return json.dumps(state, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(
            f"the state that fit returned is not JSON: {error}",
            "finite numbers, strings, lists and dicts",
            "convert arrays with .tolist() and numpy's numbers with float() or int()",
        )


def stored(plugin: Any, table: Table) -> Any:
    """Return the fitted state as prediction reads it."""
    return json.loads(to_json(fit(plugin, table)))


def require_equal(found: np.ndarray, expected: np.ndarray, plugin: Any, what: str, cure: str) -> None:
    """Refuse columns that are not equal to the bit."""
    if found.shape == expected.shape and np.array_equal(found, expected, equal_nan=True):
        return
    where = f"{shown(found)} instead of {shown(expected)}"
    if found.shape == expected.shape:
        row, column = np.argwhere(~((found == expected) | (np.isnan(found) & np.isnan(expected))))[0]
        name = plugin.names[column]
        where = f"{name} of row {row} is {found[row, column]} instead of {expected[row, column]}"
    fail(f"{what}: {where}", "the same to the bit", cure)


def is_json(make: Make, table: Table) -> None:
    """A dict of plain values."""
    state = fit(make(), table)
    if not isinstance(state, dict):
        fail(f"fit returned {shown(state)}", "a dict", "return {} where there is nothing to learn")
    to_json(state)


def survives(make: Make, table: Table) -> None:
    """What comes back from JSON gives the same columns."""
    plugin = make()
    state = fit(plugin, table)
    expected = plugin.transform(table, state)
    found = plugin.transform(table, json.loads(to_json(state)))
    cure = "JSON turns tuples into lists and every key into a string: make the state of such from the start"
    require_equal(found, expected, plugin, "the state read back from JSON gives other values", cure)


def holds_all(make: Make, table: Table) -> None:
    """A plugin made anew needs nothing but the state."""
    plugin = make()
    state = stored(plugin, table)
    expected, found = plugin.transform(table, state), make().transform(table, state)
    cure = "prediction makes the plugin anew: put what fit learns into the state, and nothing into self"
    require_equal(found, expected, plugin, "a new instance with the same state gives other values", cure)


def fit_is_blind(make: Make, table: Table) -> None:
    """Without `uses_price`."""
    plugin = make()
    if uses_price(plugin):  # pricekit gives it the prices of other rows than those that it is applied to
        return
    states = {to_json(plugin.fit(table)), *_with_prices(table, lambda seen: to_json(make().fit(seen)))}
    if len(states) > 1:
        fail(
            "fit learned another state where the table had prices, or had others",
            "one that does not depend on them",
            "do not read the price, or set uses_price = True and take it as fit's second argument",
        )


def transform_is_blind(make: Make, table: Table) -> None:
    """With and without `uses_price`."""
    plugin = make()
    state = stored(plugin, table)
    expected = plugin.transform(table, state)
    cure = "there is no price in prediction: transform must not read it"
    for found in _with_prices(table, lambda seen: plugin.transform(seen, state)):
        require_equal(found, expected, plugin, "a table with prices has other values", cure)


def _with_prices(table: Table, call: Callable[[Table], Any]) -> list[Any]:
    """Return what a call gives for the table with prices, and with others.

    A plugin that refuses such a table does not use them.
    """
    price, found = ordinary_prices(), []
    for given in (price, price[::-1]):
        with suppress(Exception):
            found.append(call(with_price(table, given)))
    return found
