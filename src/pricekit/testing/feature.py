"""The checks of a feature, of its fitted state and of its access to prices."""

from __future__ import annotations

import copy
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from pricekit.core.contracts import Feature
from pricekit.core.registry import completed, options_model
from pricekit.errors import PluginError
from pricekit.features.assets import check_assets, file_of, split_state
from pricekit.features.fitted import key_of
from pricekit.features.fitted_feature import ROUNDING
from pricekit.features.repeated import from_array, to_array
from pricekit.io.new_process import Arrays, in_new_process
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
from pricekit.wording import nearest

ALONE = len(DIFFICULT_TEXTS) + 8


LARGE, PIECE = 8_192, 256
"""Rows of a large call, as many as prediction computes at a time, and of a small one; some mistakes show only there."""

QUICK = 0.5
"""Seconds that a feature may take for `PIECE` rows; for one that is slower, a quarter of the large calls is enough."""

MOST_ROWS = 192
"""Rows of a user's table that are checked."""

LARGE_TEXT = 1_000
"""Characters of a text in a large call at most, which would otherwise take long."""

NEAR = 0.85
"""Similarity from which on the name of an attribute is taken for a misspelt optional member."""

NUMBERS = ("12.5", "3", "", "1999", "0.25", "0", "1000000")
DATES = ("2024-05-01", "2023-12-31", "", "2019-02-28")
CELLS = (*NUMBERS, *DATES, "31/12/2023", "red / 38", "Kettlewhim", "2 x 500 ml")
"""Invented cells of a declared column: numbers, dates, words and nothing, as texts, as a CSV file has them."""

LONGEST_NAME = 60
"""Characters of a text in a plugin's code that may be the name of a column."""

Rows = Callable[[Any], Table]
"""Makes new rows with the columns that a plugin declares."""


def checks(table: Table | None = None) -> Checks:
    """Return the checks; see `pricekit.testing.check_feature`."""
    if table is None or not len(table):
        texts, cells = ordinary_texts(), None
    else:
        table = table.take(np.unique(np.linspace(0, len(table) - 1, MOST_ROWS).astype(np.int64)))
        texts, cells = table.text.tolist(), table.frame
    ordinary = partial(_rows_for, texts, cells)
    mixed = partial(_rows_for, [*texts, *DIFFICULT_TEXTS], cells)
    none = partial(_rows_for, [], cells)
    short = [text for text in texts if len(text) < LARGE_TEXT] or [text[:LARGE_TEXT] for text in texts]
    large = partial(
        _rows_for, [f"{short[n % len(short)]}{' and' * (n % 13)} {n}" for n in np.arange(LARGE) // 2], cells
    )
    return {
        "has transform": lambda make: require_methods(make(), "transform"),
        "names its columns": _names,
        "optional members are spelt right": _spelling,
        "state is JSON": _on(_is_json, mixed),
        "state survives JSON": _on(_survives, mixed),
        "state holds everything that fit learned": _on(_holds_all, mixed),
        "finite float32 for ordinary texts": _on(_usable, ordinary, ordinary),
        "finite float32 for unseen texts": _on(_usable, ordinary, mixed),
        "finite float32 when fitted on difficult texts": _on(_usable, mixed, mixed),
        "accepts a table without rows": _on(_usable, ordinary, none),
        "a row alone equals the row in a batch": _on(_alone, mixed),
        "independent of the row order": _on(_shuffled, mixed),
        "the same in large calls": _on(_in_large_calls, ordinary, large),
        "deterministic": _on(_twice, mixed),
        "the same in a new process": _on(_in_new_process, ordinary),
        "does not modify the table": _on(_leaves_table, mixed),
        "reads only declared columns": _on(_declares_all, ordinary),
        "fit does not see the price": _on(_fit_is_blind, ordinary),
        "transform does not see the price": _on(_transform_is_blind, ordinary),
        "update learns from more rows": _on(_updates, ordinary, mixed),
        "module imports no torch": lambda make: require_import_without_torch(make()),
        "runs without torch": _on(_runs_without_torch, ordinary),
    }


def _on(check: Callable[..., None], *rows: Rows) -> Callable[[Make], None]:
    """Return a check that gets new tables, so that no other check can have changed them."""

    def run(make: Make) -> None:
        plugin = make()
        try:
            check(make, *(table(plugin) for table in rows))
        except (KeyError, AttributeError) as error:
            if (name := _undeclared(error)) is None:
                raise
            declared = ", ".join(f'"{column}"' for column in (*plugin.columns, name))
            fail(
                f"the plugin reads a column '{name}' of the frame, which it does not declare",
                "a frame of the declared columns alone, as in prediction",
                f"set columns = ({declared}{',' * (not plugin.columns)}) in the class",
            )

    return run


def _undeclared(error: KeyError | AttributeError) -> str | None:
    """Return the column that pandas did not find in a frame; None if the error has another reason."""
    if isinstance(error, AttributeError):
        return error.name if isinstance(error.obj, pd.DataFrame) else None
    frames = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__))
    return str(error.args[0]) if error.args and "pandas.core.frame" in frames else None


def _rows_for(texts: Sequence[str], cells: pd.DataFrame | None, plugin: Any) -> Table:
    """Return rows with texts and with the columns that a plugin declares, whose cells repeat.

    Without cells of the user they are invented: of all kinds, or of one if the plugin only works with that.
    """
    columns = _declared(plugin)
    if cells is not None:
        if lacking := [name for name in columns if name not in cells]:
            fail(
                f"the table, of {', '.join(map(str, cells))}, has no column '{lacking[0]}', which the feature declares",
                "each of its columns",
                "add it to the table, or correct columns",
            )
        return table_of(texts, {name: cells[name] for name in columns})
    kinds: list[Any] = [CELLS, NUMBERS, pd.to_numeric(pd.Series(NUMBERS)), DATES]
    some = ordinary_texts()
    working = (kind for kind in kinds if _works(plugin, table_of(some, dict.fromkeys(columns, kind))))
    return table_of(texts, dict.fromkeys(columns, next(working, CELLS) if columns else CELLS))


def _works(plugin: Any, table: Table) -> bool:
    with suppress(Exception):
        plugin.transform(table, _fit(plugin, table))
        return True
    return False


def _declared(plugin: Any) -> tuple[str, ...]:
    """Return the columns that a plugin declares; fail if they are no names."""
    columns = plugin.columns
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) and name for name in columns):
        fail(
            f"columns is {columns!r}",
            "a tuple of names of columns",
            "set, for example, columns = ('weight',)",
        )
    return tuple(columns)


def _names(make: Make) -> None:
    plugin = make()
    names = getattr(plugin, "names", None)
    words = isinstance(names, tuple) and all(isinstance(name, str) and name.strip() for name in names)
    if not words or not names or len(set(names)) < len(names):
        fail(
            f"names is {names!r}",
            "a tuple of distinct strings, one per column",
            "set, for example, names = ('length',)",
        )
    if plugin.log_price is not None and plugin.log_price not in names:
        fail(f"log_price is {plugin.log_price!r}", f"one of names: {', '.join(names)}", "correct it")
    _declared(plugin)


def _spelling(make: Make) -> None:
    """No attribute of the class has nearly the name of an optional member that the plugin leaves at its default."""
    plugin = make()
    unset = [
        name
        for name in {**Feature.__annotations__, **vars(Feature)}
        if not name.startswith("_") and getattr(plugin, name, None) == getattr(Feature, name, None)
    ]
    unset += [name for name in ("fit",) if getattr(type(plugin), name) is getattr(Feature, name)]
    own = [kind for kind in type(plugin).__mro__ if kind not in (Feature, object)]
    for name in (name for kind in own for name in vars(kind) if not name.startswith("_")):
        if name not in dir(Feature) and name != "names" and (right := nearest(name, unset, NEAR)):
            fail(
                f"{type(plugin).__name__} has an attribute '{name}', and no '{right}'",
                f"the name '{right}', which pricekit reads",
                f"rename it to '{right}', or to something else if it is not meant to be that",
            )


def _is_json(make: Make, table: Table) -> None:
    """The state is a dict of plain JSON values and assets."""
    state = _fit(make(), table)
    if not isinstance(state, dict):
        fail(f"fit returned {shown(state)}", "a dict", "return {} if there is nothing to learn")
    _to_json(state)


def _survives(make: Make, table: Table) -> None:
    """The state is accepted, and gives the same columns, after a round trip through JSON."""
    plugin = make()
    state = _fit(plugin, table)
    expected, stored = plugin.transform(table, state), _read_back(state)
    plugin.check_state(stored)
    columns = plugin.transform(table, stored)
    fix = "JSON turns tuples into lists and all keys into strings: build the state from lists and string keys"
    _require_equal(columns, expected, plugin, "the state read back from JSON gives different values", fix)


def _holds_all(make: Make, table: Table) -> None:
    """A new instance of the plugin needs only the state, also after another one was fitted to other rows."""
    plugin, state, expected = _fitted(make, table)
    _fit(make(), table.slice(0, len(table) // 2))
    columns = make().transform(table, state)
    fix = "prediction creates a new instance: store what fit learns in the state, not in self, a variable or a file"
    _require_equal(
        columns, expected, plugin, "a new instance with the same state gives different values", fix
    )


def _usable(make: Make, fitted_on: Table, table: Table) -> None:
    plugin = make()
    columns = plugin.transform(table, _stored(plugin, fitted_on))
    shape = len(table), len(plugin.names)
    if isinstance(columns, np.ndarray) and columns.shape == (shape[0], *columns.shape[1:2]) != shape:
        fail(
            f"transform returned {columns.shape[1]} columns, and names has {shape[1]}: {', '.join(plugin.names)}",
            "one name for each column",
            "add or remove names, or columns",
        )
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


def _taken(table: Table, rows: np.ndarray) -> Table:
    """Return rows numbered from 0, as features get them."""
    taken = table.take(rows)
    return replace(taken, ids=pd.Series(np.arange(len(rows)), name="row"), rows=None)


def _alone(make: Make, table: Table) -> None:
    plugin, learned, columns = _fitted(make, table)
    rows = np.arange(len(table) - ALONE, len(table))  # the difficult texts and some ordinary ones
    alone = [plugin.transform(_taken(table, rows[i : i + 1]), learned) for i in range(ALONE)]
    fix = "compute each row independently of the others: learn means, ranks and counts in fit"
    _require_equal(np.concatenate(alone), columns[rows], plugin, "a row alone has a different value", fix)


def _shuffled(make: Make, table: Table) -> None:
    plugin, learned, columns = _fitted(make, table)
    order = np.random.default_rng(0).permutation(len(table))
    shuffled = plugin.transform(_taken(table, order), learned)
    fix = "return rows in the order of the table, and do not use their position"
    _require_equal(shuffled, columns[order], plugin, "shuffled rows have different values", fix)


def _in_large_calls(make: Make, fitted_on: Table, table: Table) -> None:
    """Thousands of rows have the values that they have in smaller calls, and remain as they are."""
    plugin = make()
    state, began = _stored(plugin, fitted_on), time.perf_counter()
    make().transform(_taken(table, np.arange(PIECE)), state)
    if time.perf_counter() - began > QUICK:
        table = _taken(table, np.arange(LARGE // 4))
    pieces = [_taken(table, np.arange(start, start + PIECE)) for start in range(0, len(table), PIECE)]
    expected = np.concatenate([make().transform(piece, state) for piece in pieces])
    problem, fix = (
        f"a call of {len(table):,} rows has other values than calls of {PIECE} rows",
        "compute each row independently of the others, and remember nothing by the position of a row",
    )
    for shift in (0, 7):
        order = np.roll(np.arange(len(table)), shift)
        rows = _taken(table, order)
        before = copy.deepcopy(rows)
        _require_equal(plugin.transform(rows, state), expected[order], plugin, problem, fix)
        if changed := _changed(rows, before):
            fail(f"the plugin modified {changed} of a large table", "an unchanged table", "work on a copy")


def _in_new_process(make: Make, table: Table) -> None:
    """A new process with another seed of `hash` learns the same state, and returns the same columns.

    Only for a class that has a name in a module, as each registered one has.
    """
    plugin = make()
    kind = _own_class(plugin)
    if kind is None:
        return
    options = _options_of(plugin)
    path = str(sys.modules[kind.__module__].__file__)
    own, content = _create(kind, options), to_array(table)
    _, state, expected = _fitted(lambda: own, from_array(content))
    values, assets = split_state(state)
    facts = [kind.__module__, path, kind.__qualname__, options, values, list(assets)]
    arrays = {f"asset {key}": np.frombuffer(asset, np.uint8) for key, asset in assets.items()}
    target = f"{__name__}:fitted_in_new_process"
    after, results = in_new_process(
        target, facts, arrays | {"rows": content}, elsewhere=not plugin.reads_files
    )
    if _to_json(state) != after:
        fail(
            "fit returned a different state in a new process",
            "the same state in each process",
            "sort the elements of sets, use hashlib or zlib.crc32 instead of hash(), and seed random numbers",
        )
    problem = "a new process with the same state has different values"
    fix = (
        "store what fit learns in the state, not in a global variable, and use hashlib or zlib.crc32 instead of "
        "hash(), which differs in each process"
    )
    _require_equal(results["columns"], expected, plugin, problem, fix)


def fitted_in_new_process(facts: Any, arrays: Arrays) -> tuple[str, dict[str, np.ndarray]]:
    """Return the state of a fit as JSON, and the columns by the stored state, in the new process.

    The module of the plugin is loaded by its path.
    """
    name, path, kind, options, values, assets = facts
    table, state = (
        from_array(arrays["rows"]),
        values | {key: arrays[f"asset {key}"].tobytes() for key in assets},
    )
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin != path:
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    plugin = _create(attrgetter(kind)(import_module(name)), options)
    order = np.arange(len(table))[::-1]  # what it remembers of earlier rows differs
    columns = plugin.transform(_taken(table, order), state)[order]  # before this process has learned anything
    return _to_json(_fit(plugin, table)), {"columns": columns}


def _own_class(plugin: Any) -> type[Any] | None:
    """Return the class of a plugin that a module has under its name; None if there is none."""
    for kind in type(plugin).__mro__:
        module = sys.modules.get(kind.__module__)
        with suppress(AttributeError):
            if attrgetter(kind.__qualname__)(module) is kind and getattr(module, "__file__", None):
                return kind if kind is not Feature else None
        if "transform" in vars(kind):
            return None
    return None


def _options_of(plugin: Any) -> dict[str, Any] | None:
    """Return the options that a plugin keeps, its default ones if it keeps none; None if it takes none."""
    model = options_model(plugin)
    if model is None:
        return None
    kept = next((value for value in vars(plugin).values() if isinstance(value, model)), None)
    return (kept or model()).model_dump(mode="json")


def _create(kind: type[Any], options: Mapping[str, Any] | None) -> Any:
    return completed("feature", kind() if options is None else kind(kind.Options.model_validate(options)))


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
    changed = _changed(used, table)
    if not np.array_equal(price, _prices_of(table)):
        changed = f"{changed}, price".removeprefix(", ")
    if changed:
        fail(f"the plugin modified {changed} of the table", "an unchanged table", "work on a copy")


def _changed(table: Table, before: Table) -> str:
    """Return the names of the changed parts of a table, separated by commas."""
    unchanged = {
        "frame": table.frame.equals(before.frame) and list(table.frame.columns) == list(before.frame.columns),
        "text": table.text.equals(before.text),
        "ids": table.ids.equals(before.ids),
        "price": table.price is None,
    }
    return ", ".join(name for name, same in unchanged.items() if not same)


def _declares_all(make: Make, table: Table) -> None:
    """A column that the plugin does not declare, but names somewhere in its module, makes no difference."""
    plugin, state, expected = _fitted(make, table)
    learned = _to_json(_fit(make(), table))
    cells = np.resize(np.array(CELLS, object), len(table))

    def differs(names: Sequence[str]) -> bool:
        more = replace(table, frame=table.frame.assign(**dict.fromkeys(names, cells)))
        try:
            same = np.array_equal(plugin.transform(more, state), expected)
            return not (same and _to_json(_fit(make(), more)) == learned)
        except Exception:  # such cells are wrong for that column
            return True

    names = sorted(_texts_of(plugin) - {*table.frame})
    if not names or not differs(names):
        return
    for name in names:
        if differs([name]):
            declared = ", ".join(f'"{column}"' for column in (*plugin.columns, name))
            fail(
                f"the values change if the table has a column '{name}', which the plugin does not declare",
                "values from the text and from declared columns alone, because prediction hides all others",
                f"set columns = ({declared}{',' * (not plugin.columns)}) in the class",
            )


def _texts_of(plugin: Any) -> set[str]:
    """Return the constant texts of one line in the module of a plugin: those of its functions, and global ones."""
    module = sys.modules[type(plugin).__module__]
    codes = [value.__code__ for value in _functions_in(vars(module), module.__name__)]
    texts = {value for value in [*vars(module).values(), *vars(plugin).values()] if isinstance(value, str)}
    while codes:
        constants = codes.pop().co_consts
        codes += [value for value in constants if isinstance(value, CodeType)]
        flat = [each for value in constants for each in (value if isinstance(value, tuple) else (value,))]
        texts |= {value for value in flat if isinstance(value, str)}
    return {text for text in texts if 0 < len(text) <= LONGEST_NAME and text.isprintable()}


def _functions_in(namespace: Mapping[str, Any], module: str) -> Iterator[FunctionType]:
    """Yield the functions of a namespace, and those of the classes that the module defines."""
    for value in namespace.values():
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions_in(vars(value), module)


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
            f"the state that fit returned is not JSON{key_of(values)}: {error}",
            "finite numbers, strings, lists and dicts, and bytes as values of the state itself",
            "convert arrays with .tolist() and numpy numbers with float() or int(), and handle training "
            "rows without a usable cell",
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
    if columns.shape == expected.shape and np.allclose(columns, expected, rtol=1e-5, equal_nan=True):
        fix = ROUNDING
    where = f"{shown(columns)} instead of {shown(expected)}"
    if columns.shape == expected.shape:
        row, column = np.argwhere(~np.isclose(columns, expected, rtol=0, atol=0, equal_nan=True))[0]
        name = plugin.names[column]
        where = f"{name} of row {row} is {columns[row, column]} instead of {expected[row, column]}"
    fail(f"{problem}: {where}", "bitwise equal values", fix)
