"""The checks of a feature."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from pricekit.table import Table
from pricekit.testing.checks import state
from pricekit.testing.checks.state import fit, prices_of, require_equal, stored, to_json
from pricekit.testing.data import DIFFICULT_TEXTS, copied, ordinary_texts, table_of
from pricekit.testing.imports import require_import_without_torch, without_torch
from pricekit.testing.runner import Check, Make, fail, named, require_methods, shown

Columns = Mapping[str, Sequence[object]]
ALONE = len(DIFFICULT_TEXTS) + 8


def checks(make: Make, columns: Columns | None = None) -> list[Check]:
    """Return the checks; see `pricekit.testing.check_feature`."""
    ordinary = partial(table_of, ordinary_texts(), columns)
    mixed = partial(table_of, [*ordinary_texts(), *DIFFICULT_TEXTS], columns)
    none = partial(table_of, [], columns)
    found: dict[str, Callable[[Make], None]] = {
        "has fit and transform": _is_made,
        "names its columns": _names,
        "state is JSON": _on(state.is_json, mixed),
        "state survives JSON": _on(state.survives, mixed),
        "state holds everything that fit learned": _on(state.holds_all, mixed),
        "finite float32 for ordinary texts": _on(_usable, ordinary, ordinary),
        "finite float32 for unseen texts": _on(_usable, ordinary, mixed),
        "finite float32 when fitted on difficult texts": _on(_usable, mixed, mixed),
        "accepts a table without rows": _on(_usable, ordinary, none),
        "a row alone equals the row in a batch": _on(_alone, mixed),
        "independent of the row order": _on(_shuffled, mixed),
        "deterministic": _on(_twice, mixed),
        "does not modify the table": _on(_leaves_table, mixed),
        "fit does not see the price": _on(state.fit_is_blind, ordinary),
        "transform does not see the price": _on(state.transform_is_blind, ordinary),
        "module imports no torch": _module_without_torch,
        "runs without torch": _on(_runs_without_torch, ordinary),
    }
    return named(found, make)


def _on(check: Callable[..., None], *tables: Callable[[], Table]) -> Callable[[Make], None]:
    """Return a check that gets new tables, so that no other check can have changed them."""
    return lambda make: check(make, *(table() for table in tables))


def _is_made(make: Make) -> None:
    require_methods(make(), "fit", "transform")


def _names(make: Make) -> None:
    names = getattr(make(), "names", None)
    words = isinstance(names, tuple) and all(isinstance(name, str) and name.strip() for name in names)
    if not words or not names or len(set(names)) < len(names):
        fail(
            f"names is {names!r}",
            "a tuple of distinct strings, one per column",
            "set, for example, names = ('length',)",
        )


def _usable(make: Make, fitted_on: Table, table: Table) -> None:
    plugin = make()
    found = plugin.transform(table, stored(plugin, fitted_on))
    shape = len(table), len(plugin.names)
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype != np.float32:
        fail(
            f"transform returned {shown(found)}",
            f"float32 of shape {shape}, one row per table row and one column per name",
            "build the columns as numpy.column_stack([...]).astype(numpy.float32)",
        )
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        fail(
            f"{plugin.names[column]} is {found[row, column]} for the text {table.text.iloc[row][:60]!r}",
            "a finite number",
            "guard divisions and logarithms, clip large values, and use 0 for missing values",
        )


def _alone(make: Make, table: Table) -> None:
    plugin = make()
    learned = stored(plugin, table)
    rows = np.arange(len(table) - ALONE, len(table))  # the difficult texts and some ordinary ones
    expected = plugin.transform(table, learned)[rows]
    alone = [plugin.transform(table.take(rows[i : i + 1]), learned) for i in range(ALONE)]
    fix = "compute each row independently of the others: learn means, ranks and counts in fit"
    require_equal(np.concatenate(alone), expected, plugin, "a row alone has a different value", fix)


def _shuffled(make: Make, table: Table) -> None:
    plugin = make()
    learned = stored(plugin, table)
    order = np.random.default_rng(0).permutation(len(table))
    expected = plugin.transform(table, learned)[order]
    fix = "return rows in the order of the table, and do not use their position"
    require_equal(
        plugin.transform(table.take(order), learned),
        expected,
        plugin,
        "shuffled rows have different values",
        fix,
    )


def _twice(make: Make, table: Table) -> None:
    first, second = make(), make()
    states = [to_json(fit(plugin, table)) for plugin in (first, second)]
    if states[0] != states[1]:
        fail(
            "fit returned a different state for the same table",
            "the same state each time",
            "seed random numbers, and sort the elements of sets",
        )
    learned = json.loads(states[0])
    found, again = (first.transform(table, learned) for _ in range(2))
    fix = "seed random numbers, and do not modify the state"
    require_equal(again, found, first, "the second call gives different values", fix)


def _leaves_table(make: Make, table: Table) -> None:
    plugin, seen, price = make(), copied(table), prices_of(table)
    plugin.transform(seen, json.loads(to_json(fit(plugin, seen, price))))
    same = seen.frame.equals(table.frame) and list(seen.frame.columns) == list(table.frame.columns)
    parts = {
        "frame": same,
        "text": seen.text.equals(table.text),
        "ids": seen.ids.equals(table.ids),
        "price": seen.price is None and np.array_equal(price, prices_of(table)),
    }
    if changed := [name for name, unchanged in parts.items() if not unchanged]:
        fail(f"the plugin modified {', '.join(changed)} of the table", "an unchanged table", "work on a copy")


def _module_without_torch(make: Make) -> None:
    require_import_without_torch(make())


def _runs_without_torch(make: Make, table: Table) -> None:
    stored(make(), table)  # other libraries must be imported while torch is available
    with without_torch("fit or transform"):
        plugin = make()
        plugin.transform(table, stored(plugin, table))
