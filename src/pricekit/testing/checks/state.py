"""The checks of the fitted state of a feature and of its access to prices."""

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
    """Call fit and return the state; features with `uses_price` also get prices."""
    if not uses_price(plugin):
        return plugin.fit(table)
    return plugin.fit(table, prices_of(table) if price is None else price)


def prices_of(table: Table) -> np.ndarray:
    """Return invented prices for the rows, float64 (N,)."""
    return np.resize(ordinary_prices(), len(table))


def to_json(state: Any) -> str:
    """Return the state as JSON.

    Raises:
        CheckFailed: the state is not JSON.
    """
    try:
        return json.dumps(state, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(
            f"the state that fit returned is not JSON: {error}",
            "finite numbers, strings, lists and dicts",
            "convert arrays with .tolist() and numpy numbers with float() or int()",
        )


def stored(plugin: Any, table: Table) -> Any:
    """Return the fitted state after a round trip through JSON, as prediction reads it."""
    return json.loads(to_json(fit(plugin, table)))


def require_equal(found: np.ndarray, expected: np.ndarray, plugin: Any, problem: str, fix: str) -> None:
    """Fail if the columns are not bitwise equal."""
    if found.shape == expected.shape and np.array_equal(found, expected, equal_nan=True):
        return
    where = f"{shown(found)} instead of {shown(expected)}"
    if found.shape == expected.shape:
        row, column = np.argwhere(~((found == expected) | (np.isnan(found) & np.isnan(expected))))[0]
        name = plugin.names[column]
        where = f"{name} of row {row} is {found[row, column]} instead of {expected[row, column]}"
    fail(f"{problem}: {where}", "bitwise equal values", fix)


def is_json(make: Make, table: Table) -> None:
    """The state is a dict of plain JSON values."""
    state = fit(make(), table)
    if not isinstance(state, dict):
        fail(f"fit returned {shown(state)}", "a dict", "return {} if there is nothing to learn")
    to_json(state)


def survives(make: Make, table: Table) -> None:
    """The state gives the same columns after a round trip through JSON."""
    plugin = make()
    state = fit(plugin, table)
    expected = plugin.transform(table, state)
    found = plugin.transform(table, json.loads(to_json(state)))
    fix = "JSON turns tuples into lists and all keys into strings: build the state from lists and string keys"
    require_equal(found, expected, plugin, "the state read back from JSON gives different values", fix)


def holds_all(make: Make, table: Table) -> None:
    """A new instance of the plugin needs only the state."""
    plugin = make()
    state = stored(plugin, table)
    expected, found = plugin.transform(table, state), make().transform(table, state)
    fix = "prediction creates a new instance: store what fit learns in the state, not in self"
    require_equal(found, expected, plugin, "a new instance with the same state gives different values", fix)


def fit_is_blind(make: Make, table: Table) -> None:
    """Without `uses_price`, fit does not depend on prices."""
    plugin = make()
    if uses_price(plugin):  # pricekit fits it on other rows than those it transforms
        return
    states = {to_json(plugin.fit(table)), *_with_prices(table, lambda seen: to_json(make().fit(seen)))}
    if len(states) > 1:
        fail(
            "fit returned a different state when the table had prices, or different prices",
            "a state that does not depend on prices",
            "do not read the price, or set uses_price = True and accept it as the second argument of fit",
        )


def transform_is_blind(make: Make, table: Table) -> None:
    """Transform does not depend on prices, with or without `uses_price`."""
    plugin = make()
    state = stored(plugin, table)
    expected = plugin.transform(table, state)
    fix = "prediction has no price: transform must not read it"
    for found in _with_prices(table, lambda seen: plugin.transform(seen, state)):
        require_equal(found, expected, plugin, "a table with prices gives different values", fix)


def _with_prices(table: Table, call: Callable[[Table], Any]) -> list[Any]:
    """Return the results of a call for the table with two different sets of prices.

    A plugin that rejects such a table does not use prices, so exceptions are ignored.
    """
    price, found = ordinary_prices(), []
    for given in (price, price[::-1]):
        with suppress(Exception):
            found.append(call(with_price(table, given)))
    return found
