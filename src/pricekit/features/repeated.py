"""Features of others in a new process: what they compute there from the stored state must equal what they do here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pricekit.core.calls import repair
from pricekit.core.loader import registry
from pricekit.errors import PluginError, PricekitError
from pricekit.features.fitted import FittedFeatures
from pricekit.features.fitted_feature import Guard, described, row_of, transform_guarded, transformed
from pricekit.io.new_process import in_new_process
from pricekit.table import Table

NEW_PROCESS_ROWS = 64
"""Rows that a new process computes again."""

_agreed: set[str] = set()
"""The features, with their options, whose training rows a new process has computed equally."""


def check_after_fit(features: FittedFeatures, table: Table) -> None:
    """Check features in a new process, once in this process for each feature with its options.

    So the folds of a cross-validation and the trials of a search do not repeat it.

    Args:
        features: fitted.
        table: training rows, with prices.
    """
    facts = [str({**record, "state": None}) for record in features.of_others().to_json()]
    if not {*facts} <= _agreed:
        check_in_new_process([(features, table)])
        _agreed.update(facts)


def check_in_new_process(fitted: Sequence[tuple[FittedFeatures, Table]]) -> None:
    """Raise PluginError unless a new process computes the same columns, to the bit, from what runs and bundles store.

    The process has another seed of Python's `hash`. There is none without features of others.

    Args:
        fitted: features, and rows with prices; the cheapest and the dearest of them are among `NEW_PROCESS_ROWS`.
    """
    cases = [
        (own, _some(table))
        for features, table in fitted
        if len(table) and (own := features.of_others()).parts
    ]
    if not cases:
        return
    expected = [
        [transform_guarded(part, Guard(part.name), table) for part in own.parts] for own, table in cases
    ]
    stored = [(own.to_json(), own.assets(), table) for own, table in cases]
    names = ", ".join(sorted({part.name for own, _ in cases for part in own.parts}))
    try:
        here = any(part.plugin.reads_files for own, _ in cases for part in own.parts)
        again = in_new_process(f"{__name__}:fresh_columns", stored, elsewhere=not here)
    except PricekitError as error:
        raise type(error)(
            f"the features {names} cannot be computed in a new process, as prediction does: {error}",
            parameters=error.parameters,
            **error.facts,
        ) from None
    for (own, table), before, after in zip(cases, expected, again, strict=True):
        for part, old, new in zip(own.parts, before, after, strict=True):
            if not np.array_equal(old, new):
                row, column = (int(place) for place in np.argwhere(old != new)[0])
                raise PluginError(
                    f"the feature {described(part)} returns for {row_of(table, row)} in its column "
                    f"'{part.plugin.names[column]}' {new[row, column]} in a new process, and {old[row, column]} in "
                    "this one; expected the same value to the bit. It keeps something outside of the state that fit "
                    "returns, such as in a global variable, or it depends on Python's hash(), which differs in each "
                    f"process; {repair('feature', part.name)}",
                    feature=part.name,
                    column=part.plugin.names[column],
                    row=row,
                )


def _some(table: Table) -> Table:
    """Return rows without prices, the cheapest and the dearest among them."""
    rows = np.arange(len(table)) if table.price is None else np.argsort(table.price, kind="stable")
    ends, middle = NEW_PROCESS_ROWS // 4, NEW_PROCESS_ROWS // 2
    if len(rows) > NEW_PROCESS_ROWS:
        drawn = np.random.default_rng(0).permutation(rows[ends:-ends])[:middle]
        rows = np.concatenate([rows[:ends], drawn, rows[-ends:]])
    return replace(table.take(np.sort(rows)), price=None)


def fresh_columns(stored: Sequence[tuple[Any, Any, Table]]) -> list[list[np.ndarray]]:
    """Return the columns of each feature of each model, in the new process."""
    restored = [(FittedFeatures.from_json(records, assets), table) for records, assets, table in stored]
    for features, table in restored:
        for part in features.parts:  # what another instance learns must change nothing
            with suppress(Exception):
                learn = registry().create("feature", part.name, part.options).fit
                learn(table, np.geomspace(1, 1000, len(table))) if part.plugin.uses_price else learn(table)
    return [[transformed(part, table) for part in features.parts] for features, table in restored]
