"""Third-party features in a new process: what they compute there from the stored state must equal what they do here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pricekit.core.calls import repair
from pricekit.core.loader import registry
from pricekit.errors import PluginError
from pricekit.features.fitted import FittedFeatures
from pricekit.features.fitted_feature import Guard, described, row_of, transform_guarded, transformed
from pricekit.io.new_process import Arrays, in_new_process
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
    facts = [str({**record, "state": None}) for record in features.third_party().to_json()]
    if not {*facts} <= _agreed:
        check_in_new_process([(features, table)])
        _agreed.update(facts)


def check_in_new_process(fitted: Sequence[tuple[FittedFeatures, Table]]) -> None:
    """Raise PluginError unless a new process computes the same columns, to the bit, from what runs and bundles store.

    The process has another seed of Python's `hash`. There is none without third-party features.

    Args:
        fitted: features, and rows with prices; the cheapest and the dearest of them are among `NEW_PROCESS_ROWS`.
    """
    cases = [
        (own, _some(table))
        for features, table in fitted
        if len(table) and (own := features.third_party()).parts
    ]
    if not cases:
        return
    names = ", ".join(sorted({part.name for own, _ in cases for part in own.parts}))
    facts = [own.to_json() for own, _ in cases]
    arrays = {
        name: np.frombuffer(asset, np.uint8) for own, _ in cases for name, asset in own.assets().items()
    }
    arrays |= {f"rows of {number}": to_array(table) for number, (_, table) in enumerate(cases)}
    here = any(part.plugin.reads_files for own, _ in cases for part in own.parts)
    try:
        _, again = in_new_process(f"{__name__}:fresh_columns", facts, arrays, elsewhere=not here)
    except PluginError as error:
        raise PluginError(
            f"the features {names} cannot be computed in a new process, as prediction does: {error}"
        ) from None
    for number, (own, table) in enumerate(cases):
        rows = from_array(arrays[f"rows of {number}"])
        for place, part in enumerate(own.parts):
            old, new = transform_guarded(part, Guard(part.name), rows), again[f"{place} of {number}"]
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


def to_array(table: Table) -> np.ndarray:
    """Return the texts and the columns of rows as one array of bytes, for a new process."""
    columns = [table.text, *(table.frame.iloc[:, place] for place in range(table.frame.shape[1]))]
    content = pa.table([_to_arrow(column) for column in columns], names=["", *map(str, table.frame)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, content.schema) as writer:
        writer.write_table(content)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _to_arrow(column: pd.Series) -> pa.Array:
    try:
        return pa.array(column)
    except pa.ArrowException:  # of several types
        return pa.array(column.astype("str"))


def from_array(content: np.ndarray) -> Table:
    """Return the rows of `to_array`, numbered from 0."""
    text, *columns = pa.ipc.open_stream(content.tobytes()).read_all().itercolumns()
    names = pa.ipc.open_stream(content.tobytes()).schema.names[1:]
    frame = pd.DataFrame({name: column.to_pandas() for name, column in zip(names, columns, strict=True)})
    texts = text.to_pandas().astype("str")
    return Table(pd.Series(np.arange(len(texts)), name="row"), texts, None, frame)


def fresh_columns(facts: Any, arrays: Arrays) -> tuple[None, dict[str, np.ndarray]]:
    """Return the columns of each feature of each model, in the new process."""
    assets = {name: array.tobytes() for name, array in arrays.items()}
    results = {}
    for number, records in enumerate(facts):
        table = from_array(arrays[f"rows of {number}"])
        for place, part in enumerate(FittedFeatures.from_json(records, assets).parts):
            with suppress(Exception):  # what another instance learns must change nothing
                learn = registry().create("feature", part.name, part.options).fit
                learn(table, np.geomspace(1, 1000, len(table))) if part.plugin.uses_price else learn(table)
            results[f"{place} of {number}"] = transformed(part, table)
    return None, results
