"""What users see of drift: frames, alarms, text, HTML and JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pricekit.monitoring.limits import LEAST_ROWS, Measure
from pricekit.support.text import counted, printable, shorten

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
        features: the largest first: `name`; `kind`, "feature", "text", "price" or "field"; `psi` and `distance`, both
            less what chance gives; `chance`, the PSI that chance gives; `rank`, the mean rank of the new values among
            those of the training, 0.5 without a shift, NaN for fields.
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
