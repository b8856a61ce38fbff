"""Feature `columns`: the numbers and amounts of a table's columns, for the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pricekit.config import Section
from pricekit.features.cells.profile import (
    PLACES,
    Column,
    Values,
    columns_of,
    from_json,
    to_json,
    values_of,
)
from pricekit.table import Table

MIN_DISTINCT = 3
"""Minimum number of distinct values of a column; tokens distinguish two equally well."""

BOUND = 1e12

TOTAL, PACK = PLACES, PLACES + 1
"""Places of the amount and of the packs of a cell, behind those of its numbers."""


class CellNumbers:
    """The numbers of each column by their position, and its amounts: "2.0 l / 163 hp" has two numbers.

    Numbers with a unit are in its common measure, so that "1 kg" and "500 g" compare. A value is 0 where the cell is
    missing or has no number. The values that most texts have come first.
    """

    class Options(Section):
        """Options of `columns`."""

        columns: int = Field(16, ge=1, le=256, description="maximum number of values")

    def __init__(self, options: Options) -> None:
        self.names = tuple(f"column_{n}" for n in range(1, options.columns + 1))
        self._opened: tuple[dict[str, Any], list[Column]] | None = None

    def fit(self, table: Table) -> dict[str, Any]:
        """Choose the values: {"columns": see `profile.to_json`, "chosen": [[label, place], ...]}."""
        columns = columns_of(table.text)
        return {
            "columns": to_json(columns),
            "chosen": _choose(values_of(table.text, columns), columns, len(self.names)),
        }

    def transform(self, table: Table, state: dict[str, Any]) -> npt.NDArray[np.float32]:
        """Return the values, float32 (N, `columns`); a row does not depend on other rows."""
        block = np.zeros((len(table), len(self.names)))
        values = values_of(table.text, self._open(state))
        for number, (label, place) in enumerate(state["chosen"]):
            block[:, number] = _value(values, label, place)
        return np.clip(np.nan_to_num(block), -BOUND, BOUND).astype(np.float32)

    def _open(self, state: dict[str, Any]) -> list[Column]:
        """Read the columns of a state, and keep them: this takes longer than reading the cells of a row."""
        opened = self._opened
        if opened is None or opened[0] is not state:
            self._opened = opened = (state, from_json(state["columns"]))
        return opened[1]


def _value(values: Values, label: int, place: int) -> npt.NDArray[np.float64]:
    """Return a number, an amount or a number of packs of each text, float64 (N,); NaN where there is none."""
    if place < PLACES:
        return values.number[:, label, place]
    total = values.total
    of = slice(label, None, values.number.shape[1])
    found = total.amount[of] if place == TOTAL else total.pack[of]
    return np.where(found > (place == PACK), found, np.nan)


def _choose(values: Values, columns: Sequence[Column], most: int) -> list[list[int]]:
    """Return label and place of the values that most texts have."""
    found = []
    for label, column in enumerate(columns):
        for place in [*range(column.places), *([TOTAL, PACK] if column.measured else [])]:
            value = _value(values, label, place)
            known = value[~np.isnan(value)]
            same = place == TOTAL and np.array_equal(
                known, (first := values.number[:, label, 0])[~np.isnan(first)]
            )
            if len(np.unique(known)) >= MIN_DISTINCT and not same:
                found.append((-len(known), label, place))
    return [[label, place] for _, label, place in sorted(found)[:most]]
