"""Which differences are alarms: large ones, beyond chance. A small probability alone is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from pricekit.monitoring.limits import ALARMS, LEAST_ROWS, Measure
from pricekit.support.text import shorten

LEAST_MISSING = 0.2
"""An alarm if the share of rows without a field grows by this much."""
LISTED = 5
"""Names in a sentence."""

_UNCERTAIN = ("psi", "distance", "auc", "unknown_words", "unknown_tokens", "unknown_brands", "smape")
"""Measures that need enough rows."""


def alarms_of(
    measures: Mapping[str, Measure],
    features: pd.DataFrame,
    values: pd.DataFrame,
    missing: pd.DataFrame,
    rows: int,
    trained_on: int,
) -> Iterator[str]:
    """Yield one sentence for each alarm; arguments as of `pricekit.monitoring.result.Drift`."""
    columns = measures["missing_columns"]
    if columns.value:
        yield f"Columns are missing: {shorten(columns.where, 200)}."
    if min(rows, trained_on) < LEAST_ROWS:
        return
    absent = missing[missing["now"] - missing["then"] >= LEAST_MISSING]
    yield from _of_values(values[~values["field"].isin(absent["field"])])
    shifted = features[features["psi"] > ALARMS["psi"]]
    if len(shifted):
        pairs = zip(shifted["name"], shifted["psi"], strict=True)
        names = [f"{shorten(str(name))} (PSI {psi:.2f})" for name, psi in pairs]
        yield f"The distribution has changed of {_listed(names)}."
    if len(absent):
        triples = absent[["field", "then", "now"]].itertuples(index=False)
        names = [f"{shorten(str(field))!r} ({then:.1%} then, {now:.1%} now)" for field, then, now in triples]
        yield f"More rows lack {_listed(names)}."
    if (auc := measures["auc"]).exceeds(ALARMS["auc"]):
        yield f"A classifier tells the rows from training rows with an AUC of {auc.value:.2f}."
    for name, what in (
        ("unknown_words", "words that training rows hardly had"),
        ("unknown_tokens", "tokens that the tokenizer does not know"),
        ("unknown_brands", "rows without a frequent brand"),
    ):
        each = measures[name]
        if each.exceeds(ALARMS[name]):
            yield f"The share of {what} has grown from {each.then:.1%} to {each.now:.1%}."
    if (each := measures["smape"]).exceeds(ALARMS["smape"]):
        yield f"SMAPE has grown from {each.then:.1f} to {each.now:.1f}."


def _of_values(values: pd.DataFrame) -> Iterator[str]:
    for change, when in (("gone", "then"), ("new", "now")):
        for field, some in values[values["change"] == change].groupby("field", sort=False):
            pairs = zip(some["value"], some[when], strict=True)
            names = [f"{shorten(value)!r} ({share:.1%} {when})" for value, share in pairs]
            yield f"{shorten(str(field))}: {change} since the training: {_listed(names)}."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def failures_of(
    measures: Mapping[str, Measure],
    limits: Mapping[str, float],
    missing: Sequence[str],
    rows: int,
    trained_on: int,
) -> Iterator[str]:
    """Yield one sentence for each limit that is exceeded.

    A measure that cannot be computed because columns are missing counts as exceeded. Too few rows exceed no limit but
    that of missing columns.
    """
    few = min(rows, trained_on) < LEAST_ROWS
    for name, limit in limits.items():
        each = measures[name]
        if few and name in _UNCERTAIN:
            continue
        if each.value is None and missing and name != "smape":
            yield f"{name} cannot be computed, because columns are missing: {shorten(', '.join(missing), 200)}."
        elif each.exceeds(limit):
            yield each.sentence(limit)
