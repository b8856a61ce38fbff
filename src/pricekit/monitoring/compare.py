"""A table against the sketch of a training table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pricekit.errors import BundleError, DataError
from pricekit.metrics import smape_terms
from pricekit.monitoring.alarms import alarms_of, failures_of
from pricekit.monitoring.domain import Domain, vectors_of
from pricekit.monitoring.fields import BRAND, OWN, UNIT, brands_of, fields_of
from pricekit.monitoring.limits import LEAST_ROWS, Measure
from pricekit.monitoring.make import unknown_tokens
from pricekit.monitoring.result import Drift
from pricekit.monitoring.rows import ComparedRows, describe_rows
from pricekit.monitoring.shares import Difference, difference, surprise
from pricekit.monitoring.sketch import Distribution, FieldSketch, Sketch, three_digits
from pricekit.monitoring.words import Documents, documents_of
from pricekit.preprocess import Inputs, Preprocessor
from pricekit.support.progress import progress
from pricekit.table import Table

WINDOW = 2048
"""Rows that are priced at a time."""
SURPRISING = 20.0
"""G² of a change that is not chance: ten rows expected, and none found."""
LEAST_CHANGE, LEAST_CHANGE_OF_WORDS = 0.01, 0.02
"""Values and words whose shares change less are not listed."""
VANISHED = 0.1
"""A value is gone, or new, if its share is below this part of the other one."""
SIGMAS = 3.0
"""Standard errors by which SMAPE may grow by chance."""
MOST_WORDS, MOST_OUTLIERS, MOST_NEW_WORDS = 20, 10, 8


LEAST_PRICES = 10
"""Rows with known prices, of which fewer have no SMAPE."""


@dataclass(frozen=True)
class Priced:
    """What the model makes of the new rows.

    Attributes:
        features: float32 (N, K).
        tokens: of all rows, int32.
        predicted: prices, float32 (N,).
    """

    features: np.ndarray
    tokens: np.ndarray
    predicted: np.ndarray


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
    priced = None
    if rows.readable and not missing_other:
        priced = _priced(rows.table, prepare, price)
    found = _Comparison(sketch, rows, preprocessor, priced)
    with progress("comparing", 1) as advance:
        result = found.result(limits)
        advance(1)
    return result


def require_sketch(sketch: Sketch | None) -> Sketch:
    """Return the sketch of a model; raises BundleError if it has none."""
    if sketch is None:
        raise BundleError(
            "the model has no sketch of its training table, because an older pricekit trained it; train and export it "
            "again"
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


class _Comparison:
    """New rows and the sketch of the training rows; arguments as of `compare`."""

    def __init__(
        self, sketch: Sketch, rows: ComparedRows, preprocessor: Preprocessor, priced: Priced | None
    ) -> None:
        self.sketch, self.rows, self.priced, self.count = sketch, rows, priced, len(rows.table)
        self._preprocessor = preprocessor
        self._names = preprocessor.features.names
        texts: list[str] = rows.table.text.tolist() if rows.readable else []
        self._documents: Documents = documents_of(texts)
        self._fields = self._read_fields()

    def _read_fields(self) -> dict[str, list[str]]:
        """Return the fields of the sketch that the table has, with their values."""
        sketch, table = self.sketch, self.rows.table
        labels = [name for name in sketch.fields if name not in (*OWN, *sketch.others)]
        found = fields_of(table, sketch.others, labels)
        if BRAND in sketch.fields and sketch.fields[BRAND].values:
            found[BRAND] = brands_of(table.text, sketch.label, sketch.fields[BRAND].values)
        if not self.rows.readable:
            found = {name: values for name, values in found.items() if name in sketch.others}
        kept = sketch.fields.keys() - set(self.rows.missing)
        return {name: values for name, values in found.items() if name in kept}

    def result(self, limits: Mapping[str, float]) -> Drift:
        features, values = self.features(), self.values()
        missing, words = self.missing(), self.words()
        auc, outliers = self.domain()
        measures = {each.name: each for each in self.measures(features, auc)}
        alarms = alarms_of(measures, features, values, missing, self.count, self.sketch.rows)
        return Drift(
            rows=self.count,
            trained_on=self.sketch.rows,
            alarms=tuple(alarms),
            failures=tuple(failures_of(measures, limits, self.rows.missing, self.count, self.sketch.rows)),
            measures=measures,
            features=features,
            values=values,
            words=words,
            missing=missing,
            outliers=outliers,
            price_bins=self.price_bins(),
            notes=tuple(self.notes()),
        )

    def features(self) -> pd.DataFrame:
        found = [
            [name, kind, each.psi, each.distance, each.chance, rank]
            for name, kind, each, rank in self._shifts()
        ]
        frame = pd.DataFrame(found, columns=["name", "kind", "psi", "distance", "chance", "rank"])
        order = np.lexsort((-frame["distance"].to_numpy(float), -frame["psi"].to_numpy(float)))
        return frame.iloc[order].reset_index(drop=True)

    def _shifts(self) -> Iterator[tuple[str, str, Difference, float]]:
        sketch = self.sketch
        if self.rows.readable and "text_length" not in sketch.features:
            yield self._shift("text length", "text", sketch.text_length, _lengths(self.rows.table))
        if self.priced is not None:
            for name, then in sketch.features.items():
                values = self.priced.features[:, self._names.index(name)]
                yield self._shift(name, "feature", then, values)
            if sketch.prices is not None:
                then, predicted = sketch.prices.predicted, three_digits(self.priced.predicted)
                yield self._shift("predicted price", "price", then, predicted)
        for name, cells in self._fields.items():
            if sketch.fields[name].values:
                then_rows, now_rows = self._bins(sketch.fields[name], cells)
                yield name, "field", difference(then_rows, now_rows, ordered=False), np.nan

    @staticmethod
    def _shift(
        name: str, kind: str, then: Distribution, values: np.ndarray
    ) -> tuple[str, str, Difference, float]:
        each = difference(
            np.array(then.rows),
            then.count(values),
            ordered=True,
            own=then.own,
            own_distance=then.own_distance,
        )
        return name, kind, each, float(then.scores(values).mean())

    def _bins(self, then: FieldSketch, values: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of each named value, of all others, and of none."""
        counts = Counter(values)
        named = list(then.values.values())
        now = [counts[value] for value in then.values]
        filled = self.count - counts[""]
        total = max(self.sketch.rows, then.filled)
        before = [*named, max(0, then.filled - sum(named)), total - then.filled]
        return np.array(before), np.array([*now, filled - sum(now), counts[""]])

    def values(self) -> pd.DataFrame:
        found = [row for name, values in self._fields.items() for row in self._changed(name, values)]
        found.sort(key=lambda row: (row[4] == "", -abs(row[3] - row[2])))
        return pd.DataFrame(found, columns=["field", "value", "then", "now", "change"])

    def _changed(self, field: str, values: Sequence[str]) -> Iterator[tuple[str, str, float, float, str]]:
        sketch = self.sketch.fields[field]
        if not sketch.values:
            return
        counts = Counter(value for value in values if value)
        names = [*sketch.values, *(value for value in counts if value not in sketch.values)]
        then, now, kept = self._different(names, sketch.values, sketch.rare, counts, LEAST_CHANGE)
        for place in np.flatnonzero(kept):
            before, after = float(then[place]), float(now[place])
            gone = before >= LEAST_CHANGE and after < VANISHED * before
            new = after >= LEAST_CHANGE and before < VANISHED * after
            change = "gone" if gone else "new" if new else ""
            yield field, names[place], before, after, change

    def _different(
        self,
        names: Sequence[str],
        before: Mapping[str, int],
        rare: int,
        after: Mapping[str, int],
        least: float,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the shares of names then and now, and which have changed by `least` and beyond chance.

        A name that the sketch lacks counts as if `rare` training rows had it, the most that are possible.
        """
        rows = self.sketch.rows
        then = np.minimum([before.get(name, rare) for name in names], rows)
        now = np.array([after.get(name, 0) for name in names], np.int64)
        surprising = surprise(then, rows, now, self.count) > SURPRISING
        shares = then / rows, now / self.count
        return *shares, surprising & (np.abs(shares[1] - shares[0]) >= least)

    def words(self) -> pd.DataFrame:
        counts = dict(zip(self._documents.vocabulary, self._documents.rows.tolist(), strict=True))
        if not self.rows.readable:
            return pd.DataFrame({"word": [], "then": [], "now": []})
        names = list(dict.fromkeys([*self.sketch.words, *counts]))
        then, now, kept = self._different(
            names, self.sketch.words, self.sketch.rare, counts, LEAST_CHANGE_OF_WORDS
        )
        order = [place for place in np.argsort(-np.abs(now - then), kind="stable") if kept[place]][
            :MOST_WORDS
        ]
        return pd.DataFrame({"word": [names[n] for n in order], "then": then[order], "now": now[order]})

    def missing(self) -> pd.DataFrame:
        found = []
        for name, values in self._fields.items():
            if name not in (BRAND, UNIT):
                then = 1 - min(self.sketch.fields[name].filled, self.sketch.rows) / self.sketch.rows
                found.append((name, then, values.count("") / self.count))
        found += [(name, np.nan, 1.0) for name in self.rows.missing if name not in self._fields]
        frame = pd.DataFrame(found, columns=["field", "then", "now"])
        order = np.argsort(-(frame["now"] - frame["then"].fillna(0)).to_numpy(float), kind="stable")
        return frame.iloc[order].reset_index(drop=True)

    def domain(self) -> tuple[float | None, pd.DataFrame]:
        """Return the AUC of the domain classifier, and the rows least like the training rows."""
        columns = ["row", "id", "distance", "new_words", "text"]
        if self.priced is None:
            return None, pd.DataFrame(columns=columns)
        names = self.sketch.vector.features
        values = self.priced.features[:, [self._names.index(name) for name in names]]
        vectors = vectors_of(self._documents, values, [self.sketch.features[name] for name in names])
        domain = Domain(self.sketch.vector, self.sketch.rows, vectors)
        distances = domain.distances()
        farthest = np.argsort(-distances, kind="stable")[:MOST_OUTLIERS]
        outliers = [self._outlier(int(row), float(distances[row])) for row in farthest]
        auc = domain.auc() if self.count > 1 else None
        return auc, pd.DataFrame(outliers, columns=columns)

    def _outlier(self, row: int, distance: float) -> tuple[int, object, float, str, str]:
        table = self.rows.table
        new = [word for word in self._documents.words_of(row) if word not in self.sketch.words]
        number = row if table.rows is None else int(table.rows[row])
        words = " ".join(new[:MOST_NEW_WORDS])
        return number, table.ids.iloc[row], distance, words, str(table.text.iloc[row])

    def measures(self, features: pd.DataFrame, auc: float | None) -> Iterator[Measure]:
        for name in ("psi", "distance"):
            if len(features):
                place = int(np.argmax(features[name].to_numpy(float)))
                yield Measure(name, float(features[name].iloc[place]), str(features["name"].iloc[place]))
            else:
                yield Measure(name, None)
        yield Measure("auc", auc)
        sketch, readable = self.sketch, self.rows.readable
        outside = self._documents.outside(sketch.words)
        yield _grown("unknown_words", sketch.unknown_words, float(outside.mean()) if len(outside) else None)
        tokens = None if self.priced is None else self.priced.tokens
        tokenizer = self._preprocessor.tokenizer
        yield _grown(
            "unknown_tokens",
            sketch.unknown_tokens,
            None if tokens is None else unknown_tokens(tokens, tokenizer),
        )
        brands = self._fields.get(BRAND) if readable else None
        before = None
        if brands is not None:
            before = 1 - min(sum(sketch.fields[BRAND].values.values()), sketch.rows) / sketch.rows
        yield _grown("unknown_brands", before, None if brands is None else brands.count("") / self.count)
        yield Measure("missing_columns", float(len(self.rows.missing)), ", ".join(self.rows.missing))
        yield self._smape()

    def _smape(self) -> Measure:
        """Return by how much SMAPE has grown, if at least ten rows have a known price."""
        then, price = self.sketch.prices, self.rows.table.price
        if then is None or price is None or self.priced is None:
            return Measure("smape", None)
        known = np.isfinite(price) & (price > 0)
        if known.sum() < LEAST_PRICES:
            return Measure("smape", None, then=then.smape)
        terms = smape_terms(self.priced.predicted[known], price[known])
        variance = then.deviation**2 / max(1, sum(then.predicted.rows)) + terms.var() / len(terms)
        grown = _grown("smape", then.smape, float(terms.mean()))
        return replace(grown, chance=SIGMAS * math.sqrt(variance))

    def price_bins(self) -> pd.DataFrame:
        prices = self.sketch.prices
        if prices is None or self.priced is None:
            return pd.DataFrame({"up_to": [], "then": [], "now": []})
        then, now = (
            np.array(prices.predicted.rows),
            prices.predicted.count(three_digits(self.priced.predicted)),
        )
        shares = {"then": then / max(1, then.sum()), "now": now / self.count}
        return pd.DataFrame({"up_to": [*prices.predicted.cuts, np.inf], **shares})

    def notes(self) -> Iterator[str]:
        yield from describe_rows(self.rows)
        if self.rows.missing and self.priced is None:
            yield "So features, predicted prices and the domain classifier are skipped."
        elif self.rows.missing:
            yield "Missing columns are read as empty."
        few = min(self.count, self.sketch.rows)
        if few < LEAST_ROWS:
            whose = "rows of the table" if self.count == few else "training rows"
            yield f"Only {few:,} {whose} are compared, too few for an alarm: expected at least {LEAST_ROWS}."
        if self.priced is not None and self._smape().value is None:
            yield "SMAPE is not computed: fewer than ten rows have a known price."


def _lengths(table: Table) -> np.ndarray:
    return table.text.str.len().to_numpy(np.int64)


def _grown(name: str, then: float | None, now: float | None) -> Measure:
    if then is None or now is None:
        return Measure(name, None, then=then, now=now)
    return Measure(name, now - then, then=then, now=now)
