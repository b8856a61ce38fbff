"""What users see of the importance: frames, text, HTML and JSON."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pricekit.metrics import Metric
from pricekit.support.text import counted, printable, shorten

SHOWN = 15
"""Rows of each frame in a notebook and on a terminal."""


@dataclass(frozen=True, repr=False, eq=False)
class Importance:
    """What a model's prices for the rows of a table depend on.

    Attributes:
        rows: the number of rows.
        metric: whose increase is measured.
        score: the metric of the rows as they are.
        features: the engineered features, the largest increase first: `feature`; `increase`, by how much the metric
            grows when the feature's values change rows; `low` and `high`, its 95% interval, NaN without scipy or with
            too few rows.
        lines: the same for lines of the text, or for columns: `line`, its label or the name of the column; `kind`,
            "line" or "column"; `rows` that have one; `increase`, `low`, `high`.
        words: words of explained rows, the largest sum of contributions first: `word`; `rows` that have it; `factor`,
            the geometric mean of what it multiplies the price by; `low` and `high`, its 95% interval over the rows;
            `size`, its mean absolute contribution to the log price.
    """

    rows: int
    metric: Metric
    score: float
    features: pd.DataFrame
    lines: pd.DataFrame
    words: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit importance --json` prints them; None for an unknown bound."""
        frames = {"features": self.features, "lines": self.lines, "words": self.words}
        records = {name: _records(frame) for name, frame in frames.items()}
        return {"rows": self.rows, "metric": self.metric.name, "score": self.score, **records}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __repr__(self) -> str:
        largest = [
            f"{shorten(printable(name), 20)} {self.metric.write(increase, self.score, sign=True)}"
            for frame, column in ((self.features, "feature"), (self.lines, "line"))
            for name, increase in zip(frame[column][:2], frame["increase"], strict=False)
        ]
        score = f"{self.metric.title} {self.metric.write(self.score)}"
        return f"Importance({counted(self.rows, 'row')}, {score}; {', '.join(largest)})"

    def _repr_html_(self) -> str:
        score = f"{html.escape(self.metric.title)} {self.metric.write(self.score)}"
        frames = {"features": self.features, "lines": self.lines, "words": self.words}
        shown = (
            f"<h4>{name}</h4>"
            + frame.head(SHOWN).to_html(index=False, border=0, na_rep="", float_format="{:.4g}".format)
            for name, frame in frames.items()
        )
        return f"<p>{counted(self.rows, 'row')}, {score}</p>" + "".join(shown)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    known = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in known.to_dict("records")]
