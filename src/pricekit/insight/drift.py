"""A table, or counts of priced rows, against the sketch of a training table; and what users see of the drift."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import BundleError, DataError
from pricekit.features.preprocess import Preprocessor
from pricekit.insight.alarms import LEAST_ROWS, Measure, alarms_of, failures_of
from pricekit.insight.counts import (
    ComparedRows,
    Counts,
    Priced,
    Seen,
    count,
    describe_rows,
    see,
)
from pricekit.insight.domain import Domain, some_half
from pricekit.insight.fields import BRAND, UNIT
from pricekit.insight.priced_rows import PricedRows
from pricekit.insight.shares import Difference, difference, surprise
from pricekit.insight.sketch import Sketch
from pricekit.io.progress import progress
from pricekit.metrics import SMAPE
from pricekit.table import Table
from pricekit.wording import counted, printable, shorten

SHOWN = 15
"""Rows of each frame in a notebook and on a terminal."""


@dataclass(frozen=True, repr=False, eq=False)
class Drift:
    """How the rows of a table differ from those that a model was trained on.

    Attributes:
        rows: the number of rows that were compared.
        trained_on: the number of training rows in the sketch.
        alarms: one sentence for each difference that is large; empty if nothing has changed much, or if there are too
            few rows.
        failures: one sentence for each limit of the user's that was exceeded.
        measures: by name; `value` of each is what limits are compared with, None if it was not computed.
        features: the largest first: `name`; `words` for it, or the name itself; `kind`, "feature", "text", "price" or
            "field"; `psi` and `distance`, both less what chance gives; `chance`, the PSI that chance gives;
            `rank`, the mean rank of the new values among those of the training, 0.5 without a shift, NaN for fields.
            Of vectors, these are means over their numbers, and there is no rank.
        values: of fields whose shares have changed: `field`, `value`, `then` and `now`, shares of the rows, and
            `change`: "gone", "new" or "".
        words: whose shares have changed most: `word`, `then`, `now`.
        missing: `field`, and the shares of rows without it: `then`, `now`.
        outliers: the rows least like the training rows: `row`, from 0, `id`, `distance`, 1 for an average training row,
            `new_words`, which training rows hardly had, and `text`.
        price_bins: predicted prices: `up_to`, and the shares of rows `then` and `now`.
        notes: sentences on what was left out.
    """

    rows: int
    trained_on: int
    alarms: tuple[str, ...]
    failures: tuple[str, ...]
    measures: Mapping[str, Measure]
    features: pd.DataFrame
    values: pd.DataFrame
    words: pd.DataFrame
    missing: pd.DataFrame
    outliers: pd.DataFrame
    price_bins: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One sentence: whether the table has drifted."""
        if self.alarms:
            return f"The table has drifted: {counted(len(self.alarms), 'alarm')}."
        if min(self.rows, self.trained_on) < LEAST_ROWS:
            return "There are too few rows for an alarm."
        return "No drift: the table resembles the training table."

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames by name."""
        names = ("features", "values", "words", "missing", "outliers", "price_bins")
        return {name: getattr(self, name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit drift --json` prints them; None for what was not computed."""
        measures = {
            name: {"value": each.value, "where": each.where, "then": each.then, "now": each.now}
            for name, each in self.measures.items()
        }
        return {
            "rows": self.rows,
            "trained_on": self.trained_on,
            "verdict": self.verdict,
            "alarms": list(self.alarms),
            "failures": list(self.failures),
            "measures": measures,
            **{name: _records(frame) for name, frame in self.frames().items()},
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def __repr__(self) -> str:
        known = [f"{name}={each.value:.3g}" for name, each in self.measures.items() if each.value is not None]
        return f"Drift({counted(self.rows, 'row')}, {counted(len(self.alarms), 'alarm')}; {', '.join(known)})"

    def _repr_html_(self) -> str:
        sentences = "".join(
            f"<li>{html.escape(printable(each))}</li>" for each in (*self.alarms, *self.notes)
        )
        shown = (
            f"<h4>{name}</h4>{_short(frame).to_html(index=False, border=0, float_format='{:.3g}'.format)}"
            for name, frame in self.frames().items()
            if len(frame) and name != "price_bins"
        )
        return f"<p><b>{html.escape(self.verdict)}</b></p><ul>{sentences}</ul>" + "".join(shown)


def _short(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first rows of a frame, with short texts that cannot change a page."""
    return frame.head(SHOWN).map(lambda cell: shorten(printable(cell), 80) if isinstance(cell, str) else cell)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    known = frame.astype(object).where(frame.notna(), None)
    return [
        {str(name): value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
        for row in known.to_dict("records")
    ]


SURPRISING = 20.0
"""G² of a change that is not chance: ten rows expected, and none found."""
LEAST_CHANGE, LEAST_CHANGE_OF_WORDS = 0.01, 0.02
"""Values and words whose shares change less are not listed."""
VANISHED = 0.1
"""A value is gone, or new, if its share is below this part of the other one."""
MOST_WORDS = 20
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
    price: Callable[[Table], Priced],
    limits: Mapping[str, float],
) -> Drift:
    """Return how a table differs from the training table.

    Args:
        sketch: of the training table.
        rows: of the other table.
        preprocessor: of the first member of the model.
        price: prices the rows.
        limits: of the user, by measure.

    Raises:
        DataError: there are no rows.
        BundleError: the sketch is that of another model.
    """
    if not len(rows.table):
        raise DataError("the table has no rows; expected at least one", parameters=("table",))
    names = preprocessor.features.names
    if not {*sketch.features, *sketch.vector.features} <= set(names):
        raise BundleError("the sketch of the model names features that it does not have; export it again")
    missing_other = any(name in rows.missing for name in sketch.others)
    priced = price(rows.table) if rows.readable and not missing_other else None
    with progress("comparing", 1) as advance:
        domain = Domain(sketch.vector, sketch.rows)
        seen = see(sketch, domain, rows, names, priced)
        smape = _smape(sketch, seen)
        counts = count(sketch, seen, preprocessor, some_half(len(rows.table)))
        drift = _drift(sketch, counts, domain, limits, smape, rows.missing, preprocessor.features.words)
        advance(1)
    outliers = pd.DataFrame(_outliers(sketch, domain, seen), columns=_OUTLIERS)
    return replace(drift, notes=tuple(_notes(sketch, seen, smape)), outliers=outliers)


def compare_priced(
    sketch: Sketch, priced: PricedRows, limits: Mapping[str, float], words: Mapping[str, str]
) -> Drift:
    """Return how priced rows, of which only counts are left, differ from the training table.

    Args:
        sketch: of the training table.
        priced: the counts.
        limits: of the user, by measure.
        words: for names of features.

    Raises:
        DataError: there are no rows, or another model priced them.
    """
    priced.require(sketch)
    rows = priced.counts.rows
    if not rows:
        raise DataError("the sketch has no rows; expected at least one", parameters=("table",))
    notes = [f"A random sample of {rows:,} of the {priced.rows:,} priced rows is compared."] * (
        priced.rows > rows
    )
    notes += _few(sketch, rows, "priced rows")
    notes.append(
        "The sketch contains no true prices and no rows, so SMAPE is not computed, and no rows are shown."
    )
    missing = tuple(name for name in sketch.others if name not in priced.counts.fields)
    domain = Domain(sketch.vector, sketch.rows)
    drift = _drift(sketch, priced.counts, domain, limits, Measure("smape", None), missing, words)
    return replace(drift, notes=tuple(notes))


def _drift(
    sketch: Sketch,
    counts: Counts,
    domain: Domain,
    limits: Mapping[str, float],
    smape: Measure,
    missing: tuple[str, ...],
    words: Mapping[str, str],
) -> Drift:
    """Return how counts of N rows, at least 1, differ from the sketch, without notes and outliers.

    `missing` are columns that the rows lack, `words` stand for names of features.
    """
    features, values, absent = (
        _features(sketch, counts, words),
        _values(sketch, counts),
        _absent(sketch, counts, missing),
    )
    measures = {each.name: each for each in (*_measures(sketch, counts, domain, features, missing), smape)}
    present = absent[~absent["field"].isin(missing)]
    alarms = alarms_of(measures, features, values, present, counts.rows, sketch.rows)
    return Drift(
        rows=counts.rows,
        trained_on=sketch.rows,
        alarms=tuple(alarms),
        failures=tuple(failures_of(measures, limits, missing, counts.rows, sketch.rows)),
        measures=measures,
        features=features,
        values=values,
        words=_words(sketch, counts),
        missing=absent,
        outliers=pd.DataFrame(columns=_OUTLIERS),
        price_bins=_price_bins(sketch, counts),
        notes=(),
    )


def _features(sketch: Sketch, counts: Counts, words: Mapping[str, str]) -> pd.DataFrame:
    lines = []
    shifts = []
    if counts.text_length and "text_length" not in sketch.features:
        shifts.append(("text length", "text", sketch.text_length, counts.text_length))
    shifts += [(name, "feature", sketch.features[name], rows) for name, rows in counts.features.items()]
    if counts.predicted and sketch.prices is not None:
        shifts.append(("predicted price", "price", sketch.prices.predicted, counts.predicted))
    parts: dict[tuple[str, str], list[tuple[str, Difference, float]]] = {}
    for name, kind, then, bins in shifts:
        rows = np.array(bins)
        each = difference(
            np.array(then.rows), rows, ordered=True, own=then.own, own_distance=then.own_distance
        )
        rank = float(then.ranks() @ rows / rows.sum())
        parts.setdefault((kind, words.get(name, name)), []).append((name, each, rank))
    for (kind, whole), some in parts.items():
        psi, distance, chance = (
            float(np.mean([getattr(each, number) for _, each, _ in some]))
            for number in ("psi", "distance", "chance")
        )
        name, rank = (some[0][0], some[0][2]) if len(some) == 1 else (whole, np.nan)
        lines.append([name, whole, kind, psi, distance, chance, rank])
    for name, now in counts.fields.items():
        field = sketch.fields[name]
        if field.values:  # bins are the named values, all others, and none
            before, after = [*field.values.values()], [now.values.get(value, 0) for value in field.values]
            before += [max(0, field.filled - sum(before)), max(sketch.rows, field.filled) - field.filled]
            after += [max(0, now.filled - sum(after)), counts.rows - now.filled]
            each = difference(np.array(before), np.array(after), ordered=False)
            lines.append([name, name, "field", each.psi, each.distance, each.chance, np.nan])
    frame = pd.DataFrame(lines, columns=["name", "words", "kind", "psi", "distance", "chance", "rank"])
    return frame.sort_values(["psi", "distance"], ascending=False, ignore_index=True)


def _values(sketch: Sketch, counts: Counts) -> pd.DataFrame:
    changes = []
    for name, field in counts.fields.items():
        then = sketch.fields[name]
        changed = _changed(sketch, counts, then.values, then.rare, field.values) if then.values else []
        for value, before, after in changed:
            if abs(after - before) >= LEAST_CHANGE:
                gone = before >= LEAST_CHANGE and after < VANISHED * before
                new = after >= LEAST_CHANGE and before < VANISHED * after
                changes.append((name, value, before, after, "gone" if gone else "new" if new else ""))
    changes.sort(key=lambda row: (row[4] == "", -abs(row[3] - row[2])))
    return pd.DataFrame(changes, columns=["field", "value", "then", "now", "change"])


def _words(sketch: Sketch, counts: Counts) -> pd.DataFrame:
    changed = _changed(sketch, counts, sketch.words, sketch.rare, counts.words) if counts.text_length else []
    largest = [row for row in changed if abs(row[2] - row[1]) >= LEAST_CHANGE_OF_WORDS]
    largest.sort(key=lambda row: -abs(row[2] - row[1]))
    return pd.DataFrame(largest[:MOST_WORDS], columns=["word", "then", "now"])


def _changed(
    sketch: Sketch, counts: Counts, before: Mapping[str, int], rare: int, after: Mapping[str, int]
) -> list[tuple[str, float, float]]:
    """Return the names whose shares have changed beyond chance, with their shares then and now.

    A name that the sketch lacks counts as if `rare` training rows had it, the most that are possible.
    """
    names = list(dict.fromkeys([*before, *after]))
    then = np.minimum([before.get(name, rare) for name in names], sketch.rows)
    now = np.array([after.get(name, 0) for name in names], np.int64)
    kept = np.flatnonzero(surprise(then, sketch.rows, now, counts.rows) > SURPRISING).tolist()
    shares = (then / sketch.rows).tolist(), (now / counts.rows).tolist()
    return [(names[place], shares[0][place], shares[1][place]) for place in kept]


def _absent(sketch: Sketch, counts: Counts, missing: Sequence[str]) -> pd.DataFrame:
    now = {
        name: (counts.rows - field.filled) / counts.rows
        for name, field in counts.fields.items()
        if name not in (BRAND, UNIT)
    }
    now |= dict.fromkeys((name for name in missing if name not in counts.fields), 1.0)
    then = {name: 1 - min(field.filled, sketch.rows) / sketch.rows for name, field in sketch.fields.items()}
    fields = [(name, then.get(name, np.nan), share) for name, share in now.items()]
    frame = pd.DataFrame(fields, columns=["field", "then", "now"])
    order = np.argsort(-(frame["now"] - frame["then"].fillna(0)).to_numpy(float), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def _measures(
    sketch: Sketch, counts: Counts, domain: Domain, features: pd.DataFrame, missing: Sequence[str]
) -> Iterator[Measure]:
    """Yield each measure but `smape`."""
    for name in ("psi", "distance"):
        values = features[name].to_numpy(float)
        where = int(np.argmax(values)) if len(values) else None
        yield (
            Measure(name, None)
            if where is None
            else Measure(name, float(values[where]), str(features["words"].iloc[where]))
        )
    moments = [half.moments() for half in counts.halves if half.rows]
    yield Measure("auc", domain.auc(moments) if len(moments) > 1 else None)
    words, tokens = counts.word_pairs, counts.tokens
    yield _grown("unknown_words", sketch.unknown_words, counts.unknown_words / words if words else None)
    yield _grown("unknown_tokens", sketch.unknown_tokens, counts.unknown_tokens / tokens if tokens else None)
    before = now = None
    if (brands := counts.fields.get(BRAND)) is not None:
        before = 1 - min(sum(sketch.fields[BRAND].values.values()), sketch.rows) / sketch.rows
        now = (counts.rows - brands.filled) / counts.rows
    yield _grown("unknown_brands", before, now)
    yield Measure("missing_columns", float(len(missing)), ", ".join(missing))


def _price_bins(sketch: Sketch, counts: Counts) -> pd.DataFrame:
    if sketch.prices is None or not counts.predicted:
        return pd.DataFrame({"up_to": [], "then": [], "now": []})
    predicted = sketch.prices.predicted
    then, now = np.array(predicted.rows), np.array(counts.predicted)
    shares = {"then": then / max(1, then.sum()), "now": now / counts.rows}
    return pd.DataFrame({"up_to": [*predicted.cuts, np.inf], **shares})


def _grown(name: str, then: float | None, now: float | None) -> Measure:
    """Return the measure of how much a number has grown; its value is None if one of the two is unknown."""
    return Measure(name, None if then is None or now is None else now - then, then=then, now=now)


def _outliers(sketch: Sketch, domain: Domain, seen: Seen) -> list[tuple[object, ...]]:
    """Return the rows least like the training rows."""
    if seen.vectors is None:
        return []
    table, distances = seen.rows.table, domain.distances(seen.vectors)
    outliers: list[tuple[object, ...]] = []
    for row in np.argsort(-distances, kind="stable")[:MOST_OUTLIERS].tolist():
        new = [word for word in seen.documents.words_of(row) if word not in sketch.words]
        words = " ".join(new[:MOST_NEW_WORDS])
        outliers.append(
            (
                int(table.row_numbers[row]),
                table.ids.iloc[row],
                float(distances[row]),
                words,
                str(table.text.iloc[row]),
            )
        )
    return outliers


def _smape(sketch: Sketch, seen: Seen) -> Measure:
    """Return by how much SMAPE has grown, if at least ten rows have a known price."""
    then, price = sketch.prices, seen.rows.table.price
    if then is None or price is None or seen.priced is None:
        return Measure("smape", None)
    known = np.isfinite(price) & (price > 0)
    if known.sum() < LEAST_PRICES:
        return Measure("smape", None, then=then.smape)
    terms = SMAPE.terms(seen.priced.predicted[known], price[known])
    variance = then.deviation**2 / max(1, sum(then.predicted.rows)) + terms.var() / len(terms)
    return replace(_grown("smape", then.smape, float(terms.mean())), chance=SIGMAS * math.sqrt(variance))


def _notes(sketch: Sketch, seen: Seen, smape: Measure) -> list[str]:
    notes = describe_rows(seen.rows)
    if seen.rows.missing and seen.priced is None:
        notes.append("So features, predicted prices and the domain classifier are skipped.")
    elif seen.rows.missing:
        notes.append("Missing columns are read as empty.")
    notes += _few(sketch, len(seen.rows.table), "rows of the table")
    if seen.priced is not None and smape.value is None:
        notes.append("SMAPE is not computed: fewer than ten rows have a known price.")
    return notes


def _few(sketch: Sketch, rows: int, which: str) -> list[str]:
    few = min(rows, sketch.rows)
    if few >= LEAST_ROWS:
        return []
    whose = which if rows == few else "training rows"
    return [f"Only {few:,} {whose} are compared, too few for an alarm: expected at least {LEAST_ROWS}."]
