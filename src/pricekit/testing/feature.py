"""The checks of a feature, of its fitted state and of its access to prices."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from pricekit.errors import PluginError
from pricekit.features.assets import check_assets, file_of, split_state
from pricekit.table import Table
from pricekit.testing.data import DIFFICULT_TEXTS, ordinary_prices, ordinary_texts, table_of, with_price
from pricekit.testing.runner import (
    Checks,
    Make,
    fail,
    is_float32,
    require_import_without_torch,
    require_methods,
    shown,
    without_torch,
)

ALONE = len(DIFFICULT_TEXTS) + 8


def checks(table: Table | None = None) -> Checks:
    """Return the checks; see `pricekit.testing.check_feature`."""
    columns = None if table is None else {str(name): table.frame[name].tolist() for name in table.frame}
    ordinary = partial(table_of, ordinary_texts(), columns)
    mixed = partial(table_of, [*ordinary_texts(), *DIFFICULT_TEXTS], columns)
    none = partial(table_of, [], columns)
    return {
        "has transform": lambda make: require_methods(make(), "transform"),
        "names its columns": _names,
        "state is JSON": _on(_is_json, mixed),
        "state survives JSON": _on(_survives, mixed),
        "state holds everything that fit learned": _on(_holds_all, mixed),
        "finite float32 for ordinary texts": _on(_usable, ordinary, ordinary),
        "finite float32 for unseen texts": _on(_usable, ordinary, mixed),
        "finite float32 when fitted on difficult texts": _on(_usable, mixed, mixed),
        "accepts a table without rows": _on(_usable, ordinary, none),
        "a row alone equals the row in a batch": _on(_alone, mixed),
        "independent of the row order": _on(_shuffled, mixed),
        "deterministic": _on(_twice, mixed),
        "does not modify the table": _on(_leaves_table, mixed),
        "fit does not see the price": _on(_fit_is_blind, ordinary),
        "transform does not see the price": _on(_transform_is_blind, ordinary),
        "update learns from more rows": _on(_updates, ordinary, mixed),
        "module imports no torch": lambda make: require_import_without_torch(make()),
        "runs without torch": _on(_runs_without_torch, ordinary),
    }


def _on(check: Callable[..., None], *tables: Callable[[], Table]) -> Callable[[Make], None]:
    """Return a check that gets new tables, so that no other check can have changed them."""
    return lambda make: check(make, *(table() for table in tables))


def _names(make: Make) -> None:
    names = getattr(make(), "names", None)
    words = isinstance(names, tuple) and all(isinstance(name, str) and name.strip() for name in names)
    if not words or not names or len(set(names)) < len(names):
        fail(
            f"names is {names!r}",
            "a tuple of distinct strings, one per column",
            "set, for example, names = ('length',)",
        )


def _is_json(make: Make, table: Table) -> None:
    """The state is a dict of plain JSON values and assets."""
    state = _fit(make(), table)
    if not isinstance(state, dict):
        fail(f"fit returned {shown(state)}", "a dict", "return {} if there is nothing to learn")
    _to_json(state)


def _survives(make: Make, table: Table) -> None:
    """The state gives the same columns after a round trip through JSON."""
    plugin = make()
    state = _fit(plugin, table)
    expected = plugin.transform(table, state)
    columns = plugin.transform(table, _read_back(state))
    fix = "JSON turns tuples into lists and all keys into strings: build the state from lists and string keys"
    _require_equal(columns, expected, plugin, "the state read back from JSON gives different values", fix)


def _holds_all(make: Make, table: Table) -> None:
    """A new instance of the plugin needs only the state."""
    plugin, state, expected = _fitted(make, table)
    columns = make().transform(table, state)
    fix = "prediction creates a new instance: store what fit learns in the state, not in self"
    _require_equal(
        columns, expected, plugin, "a new instance with the same state gives different values", fix
    )


def _usable(make: Make, fitted_on: Table, table: Table) -> None:
    plugin = make()
    columns = plugin.transform(table, _stored(plugin, fitted_on))
    shape = len(table), len(plugin.names)
    if not is_float32(columns, np.ndarray, shape):
        fail(
            f"transform returned {shown(columns)}",
            f"float32 of shape {shape}, one row per table row and one column per name",
            "build the columns as numpy.column_stack([...]).astype(numpy.float32)",
        )
    if not np.isfinite(columns).all():
        row, column = np.argwhere(~np.isfinite(columns))[0]
        fail(
            f"{plugin.names[column]} is {columns[row, column]} for the text {table.text.iloc[row][:60]!r}",
            "a finite number",
            "guard divisions and logarithms, clip large values, and use 0 for missing values",
        )


def _alone(make: Make, table: Table) -> None:
    plugin, learned, columns = _fitted(make, table)
    rows = np.arange(len(table) - ALONE, len(table))  # the difficult texts and some ordinary ones
    alone = [plugin.transform(table.take(rows[i : i + 1]), learned) for i in range(ALONE)]
    fix = "compute each row independently of the others: learn means, ranks and counts in fit"
    _require_equal(np.concatenate(alone), columns[rows], plugin, "a row alone has a different value", fix)


def _shuffled(make: Make, table: Table) -> None:
    plugin, learned, columns = _fitted(make, table)
    order = np.random.default_rng(0).permutation(len(table))
    shuffled = plugin.transform(table.take(order), learned)
    fix = "return rows in the order of the table, and do not use their position"
    _require_equal(shuffled, columns[order], plugin, "shuffled rows have different values", fix)


def _twice(make: Make, table: Table) -> None:
    first, second = make(), make()
    learned, other = _fit(first, table), _fit(second, table)
    if _to_json(learned) != _to_json(other):
        fail(
            "fit returned a different state for the same table",
            "the same state each time",
            "seed random numbers, and sort the elements of sets",
        )
    learned = _read_back(learned)
    columns, again = (first.transform(table, learned) for _ in range(2))
    fix = "seed random numbers, and do not modify the state"
    _require_equal(again, columns, first, "the second call gives different values", fix)


def _leaves_table(make: Make, table: Table) -> None:
    plugin, used, price = make(), copy.deepcopy(table), _prices_of(table)
    plugin.transform(used, _read_back(_fit(plugin, used, price)))
    parts = {
        "frame": used.frame.equals(table.frame) and list(used.frame.columns) == list(table.frame.columns),
        "text": used.text.equals(table.text),
        "ids": used.ids.equals(table.ids),
        "price": used.price is None and np.array_equal(price, _prices_of(table)),
    }
    if changed := [name for name, unchanged in parts.items() if not unchanged]:
        fail(f"the plugin modified {', '.join(changed)} of the table", "an unchanged table", "work on a copy")


def _fit_is_blind(make: Make, table: Table) -> None:
    """Without `uses_price`, fit does not depend on prices."""
    plugin = make()
    if plugin.uses_price:  # pricekit fits it on other rows than those it transforms
        return
    states = {_to_json(plugin.fit(table)), *_with_prices(table, lambda priced: _to_json(make().fit(priced)))}
    if len(states) > 1:
        fail(
            "fit returned a different state when the table had prices, or different prices",
            "a state that does not depend on prices",
            "do not read the price, or set uses_price = True and accept it as the second argument of fit",
        )


def _transform_is_blind(make: Make, table: Table) -> None:
    """Transform does not depend on prices, with or without `uses_price`."""
    plugin, state, expected = _fitted(make, table)
    fix = "prediction has no price: transform must not read it"
    for columns in _with_prices(table, lambda priced: plugin.transform(priced, state)):
        _require_equal(columns, expected, plugin, "a table with prices gives different values", fix)


def _with_prices(table: Table, call: Callable[[Table], Any]) -> list[Any]:
    """Return the results of a call for the table with two different sets of prices.

    A plugin that rejects such a table does not use prices, so exceptions are ignored.
    """
    prices, results = ordinary_prices(), []
    for price in (prices, prices[::-1]):
        with suppress(Exception):
            results.append(call(with_price(table, price)))
    return results


def _updates(make: Make, table: Table, more: Table) -> None:
    """The optional method `update` returns a state that works, and leaves the one that it gets."""
    plugin = make()
    if plugin.update is None:
        return
    if not plugin.uses_price:
        fail("update is defined, but uses_price is not True", "uses_price = True", "set it, or remove update")
    learned = _stored(plugin, table)
    before = _to_json(learned)
    later = _read_back(plugin.update(more, _prices_of(more), learned))
    if _to_json(learned) != before:
        fail("update modified the state that it got", "an unchanged state", "return a new dict")
    columns, shape = make().transform(table, later), (len(table), len(plugin.names))
    if not (is_float32(columns, np.ndarray, shape) and np.isfinite(columns).all()):
        fail(
            "transform with the state of update returned values that are not finite, or a wrong shape",
            f"finite float32 of shape {shape}",
            "return a state of the same form as fit",
        )


def _runs_without_torch(make: Make, table: Table) -> None:
    _stored(make(), table)  # other libraries must be imported while torch is available
    with without_torch("fit or transform"):
        _fitted(make, table)


def _fit(plugin: Any, table: Table, price: np.ndarray | None = None) -> Any:
    """Call fit and return the state; features with `uses_price` also get prices."""
    if not plugin.uses_price:
        return plugin.fit(table)
    return plugin.fit(table, _prices_of(table) if price is None else price)


def _prices_of(table: Table) -> np.ndarray:
    """Return generated prices for the rows, float64 (N,)."""
    return np.resize(ordinary_prices(), len(table))


def _to_json(state: Any) -> str:
    """Return the state as JSON, in which the name of a file stands for each asset.

    Raises:
        CheckFailed: the state is not JSON, or a bundle cannot hold its assets.
    """
    values = state
    if isinstance(state, dict):
        values, assets = split_state(state)
        try:
            check_assets("checked", assets)
        except PluginError as error:
            fail(
                str(error),
                "at most 16 assets with plain names",
                "return fewer or smaller ones, or rename them",
            )
        values |= {key: file_of(key, content) for key, content in assets.items()}
    try:
        return json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(
            f"the state that fit returned is not JSON: {error}",
            "finite numbers, strings, lists and dicts, and bytes as values of the state itself",
            "convert arrays with .tolist() and numpy numbers with float() or int()",
        )


def _read_back(state: Any) -> Any:
    """Return a state after a round trip through JSON, as prediction reads it; assets stay as they are."""
    values = json.loads(_to_json(state))
    return values | split_state(state)[1] if isinstance(state, dict) else values


def _stored(plugin: Any, table: Table) -> Any:
    """Return the fitted state as prediction reads it."""
    return _read_back(_fit(plugin, table))


def _fitted(make: Make, table: Table) -> tuple[Any, Any, np.ndarray]:
    """Return a plugin that is fitted on a table, its state as prediction reads it, and the columns of the table."""
    plugin = make()
    state = _stored(plugin, table)
    return plugin, state, plugin.transform(table, state)


def _require_equal(columns: np.ndarray, expected: np.ndarray, plugin: Any, problem: str, fix: str) -> None:
    """Fail if the columns are not bitwise equal."""
    if np.array_equal(columns, expected, equal_nan=True):
        return
    where = f"{shown(columns)} instead of {shown(expected)}"
    if columns.shape == expected.shape:
        row, column = np.argwhere(~np.isclose(columns, expected, rtol=0, atol=0, equal_nan=True))[0]
        name = plugin.names[column]
        where = f"{name} of row {row} is {columns[row, column]} instead of {expected[row, column]}"
    fail(f"{problem}: {where}", "bitwise equal values", fix)
