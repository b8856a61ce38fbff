"""The rows of a search: those that trials are trained and scored on, in folds, and those that no trial sees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from pricekit.config import RunConfig
from pricekit.runs.split import (
    Source,
    Split,
    check_weights,
    digest_of,
    load_rows,
    split_table,
    with_duplicates,
)
from pricekit.support.log import logger
from pricekit.table import Table
from pricekit.workflows.folds import FoldPlan, make_plan


@dataclass(frozen=True)
class SearchRows:
    """The rows of a search.

    Attributes:
        plan: the rows that trials see, with their folds.
        final: the rows that no trial sees, on which the choice is scored once, at the end.
    """

    plan: FoldPlan
    final: Table

    def fold(self, number: int) -> Split:
        """Return the rows of a fold of a trial, which trains on the other folds, or on earlier rows."""
        plan = self.plan
        others = np.flatnonzero(plan.fold != number if plan.table.time is None else plan.fold < number)
        parts = replace(plan.table, together=plan.groups).take(others), plan.held_out(number)
        return Split(*parts, [plan.rejected], plan.leaks, own=True)

    def whole(self, config: RunConfig) -> Split:
        """Return all rows that trials see, in the parts that `train` makes of a table."""
        plan = self.plan
        parts = split_table(replace(plan.table, together=plan.groups), config)
        return Split(*parts, [plan.rejected], plan.leaks, own=True)

    def growth(self) -> float:
        """Return how many times as many rows `whole` has as a fold trains on, in the mean."""
        sizes = [len(self.fold(number).train) for number in range(self.plan.folds)]
        return len(self.plan.table) / float(np.mean(sizes))

    def digest(self) -> str:
        """Return a hash of the rows and of the part and fold of each."""
        digest = hashlib.sha256(digest_of(self.plan.table, self.final).encode())
        digest.update(self.plan.fold.astype("<i8").tobytes())
        return digest.hexdigest()


def load_search_rows(source: Source, config: RunConfig, folds: int, *, allow_leak: bool) -> SearchRows:
    """Read a table and divide its rows: by time, by group, or with duplicates in one part.

    The share of the final rows is `validation_fraction`; the seed is that of the configuration.

    Raises:
        DataError: the table cannot be used, the price leaks, or there are too few rows.
        ConfigError: the number of folds is invalid.
    """
    table, rejected = load_rows(source, config)
    table = with_duplicates(table, shown=config.speed.progress)
    seen, final = split_table(table, config)
    check_weights(seen, final)
    which = "latest " if table.time is not None else ""
    logger.info(f"no trial sees the {len(final):,} {which}of {len(table):,} rows that score the result")
    return SearchRows(make_plan(seen, rejected, config, folds, allow_leak=allow_leak), final)
