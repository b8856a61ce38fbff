"""Counts of rows against the sketch of a training table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from pricekit.monitoring.counts.model import Counts, FieldCounts
from pricekit.monitoring.domain import Domain
from pricekit.monitoring.fields import BRAND, UNIT
from pricekit.monitoring.limits import Measure
from pricekit.monitoring.shares import Difference, difference, surprise
from pricekit.monitoring.sketch import Distribution, FieldSketch, Sketch

SURPRISING = 20.0
"""G² of a change that is not chance: ten rows expected, and none found."""
LEAST_CHANGE, LEAST_CHANGE_OF_WORDS = 0.01, 0.02
"""Values and words whose shares change less are not listed."""
VANISHED = 0.1
"""A value is gone, or new, if its share is below this part of the other one."""
MOST_WORDS = 20


class Differences:
    """How counts of N rows, at least 1, differ from the sketch of the training rows.

    Args:
        sketch: of the training rows.
        counts: in its bins.
        missing: columns that the model reads and the rows lack.
    """

    def __init__(self, sketch: Sketch, counts: Counts, missing: Sequence[str]) -> None:
        self._sketch, self._counts, self._missing = sketch, counts, missing

    def features(self) -> pd.DataFrame:
        """Return the frame `features` of the result; see `pricekit.monitoring.result.Drift`."""
        found = [
            [name, kind, each.psi, each.distance, each.chance, rank]
            for name, kind, each, rank in self._shifts()
        ]
        frame = pd.DataFrame(found, columns=["name", "kind", "psi", "distance", "chance", "rank"])
        order = np.lexsort((-frame["distance"].to_numpy(float), -frame["psi"].to_numpy(float)))
        return frame.iloc[order].reset_index(drop=True)

    def _shifts(self) -> Iterator[tuple[str, str, Difference, float]]:
        sketch, counts = self._sketch, self._counts
        if counts.text_length and "text_length" not in sketch.features:
            yield self._shift("text length", "text", sketch.text_length, counts.text_length)
        for name, rows in counts.features.items():
            yield self._shift(name, "feature", sketch.features[name], rows)
        if counts.predicted and sketch.prices is not None:
            yield self._shift("predicted price", "price", sketch.prices.predicted, counts.predicted)
        for name, field in counts.fields.items():
            if sketch.fields[name].values:
                then_rows, now_rows = self._bins(sketch.fields[name], field)
                yield name, "field", difference(then_rows, now_rows, ordered=False), np.nan

    @staticmethod
    def _shift(
        name: str, kind: str, then: Distribution, now: Sequence[int]
    ) -> tuple[str, str, Difference, float]:
        rows = np.array(now)
        each = difference(
            np.array(then.rows), rows, ordered=True, own=then.own, own_distance=then.own_distance
        )
        return name, kind, each, float(then.ranks() @ rows / rows.sum())

    def _bins(self, then: FieldSketch, now: FieldCounts) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of each named value, of all others, and of none."""
        named = list(then.values.values())
        found = [now.values.get(value, 0) for value in then.values]
        total = max(self._sketch.rows, then.filled)
        before = [*named, max(0, then.filled - sum(named)), total - then.filled]
        return np.array(before), np.array(
            [*found, max(0, now.filled - sum(found)), self._counts.rows - now.filled]
        )

    def values(self) -> pd.DataFrame:
        """Return the frame `values`."""
        found = [
            row for name, field in self._counts.fields.items() for row in self._changed(name, field.values)
        ]
        found.sort(key=lambda row: (row[4] == "", -abs(row[3] - row[2])))
        return pd.DataFrame(found, columns=["field", "value", "then", "now", "change"])

    def _changed(self, field: str, counts: Mapping[str, int]) -> Iterator[tuple[str, str, float, float, str]]:
        sketch = self._sketch.fields[field]
        if not sketch.values:
            return
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
        rows = self._sketch.rows
        then = np.minimum([before.get(name, rare) for name in names], rows)
        now = np.array([after.get(name, 0) for name in names], np.int64)
        surprising = surprise(then, rows, now, self._counts.rows) > SURPRISING
        shares = then / rows, now / self._counts.rows
        return *shares, surprising & (np.abs(shares[1] - shares[0]) >= least)

    def words(self) -> pd.DataFrame:
        """Return the frame `words`."""
        sketch, counts = self._sketch, self._counts
        if not counts.text_length:
            return pd.DataFrame({"word": [], "then": [], "now": []})
        names = list(dict.fromkeys([*sketch.words, *counts.words]))
        then, now, kept = self._different(
            names, sketch.words, sketch.rare, counts.words, LEAST_CHANGE_OF_WORDS
        )
        order = [place for place in np.argsort(-np.abs(now - then), kind="stable") if kept[place]][
            :MOST_WORDS
        ]
        return pd.DataFrame({"word": [names[n] for n in order], "then": then[order], "now": now[order]})

    def missing(self) -> pd.DataFrame:
        """Return the frame `missing`."""
        found, rows = [], self._counts.rows
        for name, field in self._counts.fields.items():
            if name not in (BRAND, UNIT):
                then = 1 - min(self._sketch.fields[name].filled, self._sketch.rows) / self._sketch.rows
                found.append((name, then, (rows - field.filled) / rows))
        found += [(name, np.nan, 1.0) for name in self._missing if name not in self._counts.fields]
        frame = pd.DataFrame(found, columns=["field", "then", "now"])
        order = np.argsort(-(frame["now"] - frame["then"].fillna(0)).to_numpy(float), kind="stable")
        return frame.iloc[order].reset_index(drop=True)

    def measures(self, features: pd.DataFrame, domain: Domain) -> Iterator[Measure]:
        """Yield each measure but `smape`; `features` are those of this object, and `domain` that of the sketch."""
        for name in ("psi", "distance"):
            if len(features):
                place = int(np.argmax(features[name].to_numpy(float)))
                yield Measure(name, float(features[name].iloc[place]), str(features["name"].iloc[place]))
            else:
                yield Measure(name, None)
        halves = self._counts.halves
        moments = [half.moments() for half in halves if half.rows]
        yield Measure("auc", domain.auc(moments) if len(moments) > 1 else None)
        yield from self._unknown()
        yield Measure("missing_columns", float(len(self._missing)), ", ".join(self._missing))

    def _unknown(self) -> Iterator[Measure]:
        sketch, counts = self._sketch, self._counts
        words, tokens = counts.word_pairs, counts.tokens
        now = counts.unknown_words / words if words else None
        yield grown("unknown_words", sketch.unknown_words, now)
        now = counts.unknown_tokens / tokens if tokens else None
        yield grown("unknown_tokens", sketch.unknown_tokens, now)
        brands, before = counts.fields.get(BRAND), None
        if brands is not None:
            before = 1 - min(sum(sketch.fields[BRAND].values.values()), sketch.rows) / sketch.rows
        now = None if brands is None else (counts.rows - brands.filled) / counts.rows
        yield grown("unknown_brands", before, now)

    def price_bins(self) -> pd.DataFrame:
        """Return the frame `price_bins`."""
        prices = self._sketch.prices
        if prices is None or not self._counts.predicted:
            return pd.DataFrame({"up_to": [], "then": [], "now": []})
        then, now = np.array(prices.predicted.rows), np.array(self._counts.predicted)
        shares = {"then": then / max(1, then.sum()), "now": now / self._counts.rows}
        return pd.DataFrame({"up_to": [*prices.predicted.cuts, np.inf], **shares})


def grown(name: str, then: float | None, now: float | None) -> Measure:
    """Return the measure of how much a number has grown; its value is None if one of the two is unknown."""
    if then is None or now is None:
        return Measure(name, None, then=then, now=now)
    return Measure(name, now - then, then=then, now=now)
