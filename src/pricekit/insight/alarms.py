"""Measures of drift: which differences are alarms, and limits that users set.

Alarms are large differences beyond chance. A small probability alone is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pricekit.errors import ConfigError
from pricekit.wording import did_you_mean, listed, shorten

if TYPE_CHECKING:
    import pandas as pd


MEASURES = {
    "psi": "the highest PSI of a feature, a field or the predicted price",
    "distance": "the largest distance of a feature, a field or the predicted price",
    "auc": "the AUC of the domain classifier",
    "unknown_words": "by how much the share of unknown words has grown",
    "unknown_tokens": "by how much the share of unknown tokens has grown",
    "unknown_brands": "by how much the share of rows without a frequent brand has grown",
    "missing_columns": "the number of missing columns",
    "smape": "by how many points SMAPE has grown",
}
"""What limits are set for."""

ALARMS = {
    "psi": 0.2,
    "auc": 0.75,
    "unknown_words": 0.1,
    "unknown_tokens": 0.05,
    "unknown_brands": 0.2,
    "missing_columns": 0.0,
    "smape": 10.0,
}
"""An alarm is raised above these. They are effect sizes, not probabilities: see docs/drift.md."""

Limits = Mapping[str, float] | Iterable[str] | str | None
"""Limits by measure, or texts such as "psi=0.2"."""

LEAST_ROWS = 100
"""Fewer rows, of the training or of the new table, raise no alarm."""


@dataclass(frozen=True)
class Measure:
    """A measure of drift.

    Attributes:
        name: one of `MEASURES`.
        value: compared with limits; None if it was not computed.
        where: the feature, field or columns that it belongs to; "" for all rows.
        then: the value of the training rows, of measures that have one.
        now: the value of the new rows.
        chance: the value that chance gives at most; what is not above it raises no alarm.
    """

    name: str
    value: float | None
    where: str = ""
    then: float | None = None
    now: float | None = None
    chance: float = 0.0

    def exceeds(self, limit: float) -> bool:
        """Return whether the value is known, over a limit, and beyond chance."""
        return self.value is not None and self.value > max(limit, self.chance)

    def sentence(self, limit: float) -> str:
        """Return what is over a limit."""
        of = f" ({shorten(self.where, 80)})" if self.where else ""
        both = f", from {self.then:.3g} to {self.now:.3g}" if self.then is not None else ""
        return f"{self.name} is {self.value:.3g}{of}{both}; the limit is {limit:g}."


def limits_of(limits: Limits) -> dict[str, float]:
    """Return limits by measure, from a mapping or from texts such as "psi=0.2".

    Raises:
        ConfigError: a measure is unknown, or a limit is not a number of at least 0.

    Example:
        >>> limits_of(["psi=0.2", "auc=0.8"])
        {'psi': 0.2, 'auc': 0.8}
    """
    if limits is None:
        return {}
    texts = [limits] if isinstance(limits, str) else limits
    pairs = list(texts.items() if isinstance(texts, Mapping) else map(_pair, texts))
    by_measure = {}
    for name, value in pairs:
        if name not in MEASURES:
            raise ConfigError(
                f"fail_over names the measure {shorten(str(name))!r}, which does not exist."
                f"{did_you_mean(str(name), MEASURES)} Available: {', '.join(MEASURES)}",
                parameters=("fail_over",),
                candidates=list(MEASURES),
            )
        try:
            by_measure[str(name)] = float(value)
        except (TypeError, ValueError):
            by_measure[str(name)] = math.nan
        if not 0 <= by_measure[str(name)] < math.inf:
            raise ConfigError(
                f"the limit of {name} is {value!r}; expected a number of at least 0",
                parameters=("fail_over",),
            )
    return by_measure


def _pair(text: Any) -> tuple[str, str]:
    name, equals, value = str(text).partition("=")
    if not equals:
        raise ConfigError(
            f"fail_over has {str(text)!r}; expected a measure and its limit, such as psi=0.2",
            parameters=("fail_over",),
        )
    return name.strip(), value.strip()


LEAST_MISSING = 0.2
"""An alarm if the share of rows without a field grows by this much."""
LISTED = 5
"""Names in a sentence."""


def alarms_of(
    measures: Mapping[str, Measure],
    features: pd.DataFrame,
    values: pd.DataFrame,
    missing: pd.DataFrame,
    rows: int,
    trained_on: int,
) -> Iterator[str]:
    """Yield one sentence for each alarm; arguments as of `pricekit.insight.drift.Drift`."""
    columns = measures["missing_columns"]
    if columns.value:
        yield f"Columns are missing: {shorten(columns.where, 200)}."
    if min(rows, trained_on) < LEAST_ROWS:
        return
    absent = missing[missing["now"] - missing["then"] >= LEAST_MISSING]
    yield from _of_values(values[~values["field"].isin(absent["field"])])
    shifted = features[features["psi"] > ALARMS["psi"]]
    if len(shifted):
        pairs = zip(shifted["words"], shifted["psi"], strict=True)
        names = [f"{shorten(str(name))} (PSI {psi:.2f})" for name, psi in pairs]
        yield f"The distribution has changed of {listed(names, LISTED)}."
    if len(absent):
        triples = absent[["field", "then", "now"]].itertuples(index=False)
        names = [f"{shorten(str(field))!r} ({then:.1%} then, {now:.1%} now)" for field, then, now in triples]
        yield f"More rows lack {listed(names, LISTED)}."
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
            yield f"{shorten(str(field))}: {change} since the training: {listed(names, LISTED)}."


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
        if few and name != "missing_columns":
            continue
        if each.value is None and missing and name != "smape":
            yield f"{name} cannot be computed, because columns are missing: {shorten(', '.join(missing), 200)}."
        elif each.exceeds(limit):
            yield each.sentence(limit)
