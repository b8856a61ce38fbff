"""A table, or counts of priced rows, against the sketch of a training table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from pricekit.errors import BundleError, DataError
from pricekit.metrics import smape_terms
from pricekit.monitoring.alarms import alarms_of, failures_of
from pricekit.monitoring.counts.count import Priced, Seen, count, see
from pricekit.monitoring.counts.model import Counts
from pricekit.monitoring.counts.priced import PricedRows
from pricekit.monitoring.differences import Differences, grown
from pricekit.monitoring.domain import Domain, some_half
from pricekit.monitoring.limits import LEAST_ROWS, Measure
from pricekit.monitoring.result import Drift
from pricekit.monitoring.rows import ComparedRows, describe_rows
from pricekit.monitoring.sketch import Sketch
from pricekit.preprocess import Inputs, Preprocessor
from pricekit.support.progress import progress
from pricekit.table import Table

WINDOW = 2048
"""Rows that are priced at a time."""
SIGMAS = 3.0
"""Standard errors by which SMAPE may grow by chance."""
MOST_OUTLIERS, MOST_NEW_WORDS = 10, 8
LEAST_PRICES = 10
"""Rows with known prices, of which fewer have no SMAPE."""

_OUTLIERS = ["row", "id", "distance", "new_words", "text"]


def compare(
    sketch: Sketch,
    rows: ComparedRows,
    preprocessor: Preprocessor,
    prepare: Callable[[Table], list[Inputs]],
    price: Callable[[list[Inputs]], np.ndarray],
    limits: Mapping[str, float],
) -> Drift:
    """Return how a table differs from the training table.

    Args:
        sketch: of the training table.
        rows: of the table.
        preprocessor: of the model's first member, which the sketch belongs to.
        prepare: returns the model inputs of rows, for each member.
        price: returns the prices of such inputs.
        limits: of the user, by measure.

    Raises:
        DataError: there are no rows.
        BundleError: the sketch belongs to another model.
    """
    if not len(rows.table):
        raise DataError("the table has no rows; expected at least one", parameters=("table",))
    names = preprocessor.features.names
    if not {*sketch.features, *sketch.vector.features} <= set(names):
        raise BundleError("the sketch of the model names features that it does not have; export it again")
    missing_other = any(name in rows.missing for name in sketch.others)
    priced = _priced(rows.table, prepare, price) if rows.readable and not missing_other else None
    with progress("comparing", 1) as advance:
        domain = Domain(sketch.vector, sketch.rows)
        seen = see(sketch, domain, rows, names, priced)
        counts = count(sketch, seen, preprocessor, some_half(len(rows.table)))
        smape = _smape(sketch, seen)
        notes = tuple(_notes(sketch, seen, smape))
        found = _drift(sketch, counts, domain, limits, smape=smape, notes=notes, missing=rows.missing)
        found = replace(found, outliers=_outliers(sketch, domain, seen))
        advance(1)
    return found


def compare_priced(sketch: Sketch, priced: PricedRows, limits: Mapping[str, float]) -> Drift:
    """Return how priced rows, of which only counts are left, differ from the training table.

    Args:
        sketch: of the training table of the model that priced them.
        priced: the counts.
        limits: of the user, by measure.

    Raises:
        DataError: there are no rows, or another model priced them.
    """
    priced.require(sketch)
    if not priced.counts.rows:
        raise DataError("the sketch has no rows; expected at least one", parameters=("table",))
    missing = tuple(name for name in sketch.others if name not in priced.counts.fields)
    return _drift(
        sketch,
        priced.counts,
        Domain(sketch.vector, sketch.rows),
        limits,
        smape=Measure("smape", None),
        notes=tuple(_notes_of_sketch(sketch, priced)),
        missing=missing,
    )


def _drift(
    sketch: Sketch,
    counts: Counts,
    domain: Domain,
    limits: Mapping[str, float],
    *,
    smape: Measure,
    notes: tuple[str, ...],
    missing: tuple[str, ...],
) -> Drift:
    """Return the result, without rows."""
    found = Differences(sketch, counts, missing)
    features, values, absent = found.features(), found.values(), found.missing()
    measures = {each.name: each for each in (*found.measures(features, domain), smape)}
    alarms = alarms_of(measures, features, values, absent, counts.rows, sketch.rows)
    return Drift(
        rows=counts.rows,
        trained_on=sketch.rows,
        alarms=tuple(alarms),
        failures=tuple(failures_of(measures, limits, missing, counts.rows, sketch.rows)),
        measures=measures,
        features=features,
        values=values,
        words=found.words(),
        missing=absent,
        outliers=pd.DataFrame(columns=_OUTLIERS),
        price_bins=found.price_bins(),
        notes=notes,
    )


def require_sketch(sketch: Sketch | None) -> Sketch:
    """Return the sketch of a model; raises BundleError if it has none."""
    if sketch is None:
        raise BundleError(
            "the model has no sketch of its training table, because it was not loaded from a run or a bundle; load it "
            "with pricekit.load"
        )
    return sketch


def _priced(
    table: Table,
    prepare: Callable[[Table], list[Inputs]],
    price: Callable[[list[Inputs]], np.ndarray],
) -> Priced:
    features, tokens, predicted = [], [], []
    with progress("pricing", len(table)) as advance:
        for start in range(0, len(table), WINDOW):
            window = table.take(np.arange(start, min(start + WINDOW, len(table))))
            inputs = prepare(window)
            features.append(inputs[0].features)
            tokens.append(inputs[0].tokens.ids)
            predicted.append(price(inputs))
            advance(len(window))
    return Priced(*map(np.concatenate, (features, tokens, predicted)))


def _outliers(sketch: Sketch, domain: Domain, seen: Seen) -> pd.DataFrame:
    """Return the rows least like the training rows."""
    if seen.vectors is None:
        return pd.DataFrame(columns=_OUTLIERS)
    distances = domain.distances(seen.vectors)
    farthest = np.argsort(-distances, kind="stable")[:MOST_OUTLIERS]
    found = [_outlier(sketch, seen, int(row), float(distances[row])) for row in farthest]
    return pd.DataFrame(found, columns=_OUTLIERS)


def _outlier(sketch: Sketch, seen: Seen, row: int, distance: float) -> tuple[int, object, float, str, str]:
    table = seen.rows.table
    new = [word for word in seen.documents.words_of(row) if word not in sketch.words]
    number = row if table.rows is None else int(table.rows[row])
    words = " ".join(new[:MOST_NEW_WORDS])
    return number, table.ids.iloc[row], distance, words, str(table.text.iloc[row])


def _smape(sketch: Sketch, seen: Seen) -> Measure:
    """Return by how much SMAPE has grown, if at least ten rows have a known price."""
    then, price = sketch.prices, seen.rows.table.price
    if then is None or price is None or seen.priced is None:
        return Measure("smape", None)
    known = np.isfinite(price) & (price > 0)
    if known.sum() < LEAST_PRICES:
        return Measure("smape", None, then=then.smape)
    terms = smape_terms(seen.priced.predicted[known], price[known])
    variance = then.deviation**2 / max(1, sum(then.predicted.rows)) + terms.var() / len(terms)
    found = grown("smape", then.smape, float(terms.mean()))
    return replace(found, chance=SIGMAS * math.sqrt(variance))


def _notes(sketch: Sketch, seen: Seen, smape: Measure) -> Iterator[str]:
    yield from describe_rows(seen.rows)
    if seen.rows.missing and seen.priced is None:
        yield "So features, predicted prices and the domain classifier are skipped."
    elif seen.rows.missing:
        yield "Missing columns are read as empty."
    yield from _few(sketch, len(seen.rows.table), "rows of the table")
    if seen.priced is not None and smape.value is None:
        yield "SMAPE is not computed: fewer than ten rows have a known price."


def _notes_of_sketch(sketch: Sketch, priced: PricedRows) -> Iterator[str]:
    rows = priced.counts.rows
    if priced.rows > rows:
        yield f"Of {priced.rows:,} priced rows, {rows:,} drawn by chance are compared."
    yield from _few(sketch, rows, "priced rows")
    yield "The sketch contains no true prices and no rows, so SMAPE is not computed, and no rows are shown."


def _few(sketch: Sketch, rows: int, which: str) -> Iterator[str]:
    few = min(rows, sketch.rows)
    if few < LEAST_ROWS:
        whose = which if rows == few else "training rows"
        yield f"Only {few:,} {whose} are compared, too few for an alarm: expected at least {LEAST_ROWS}."
