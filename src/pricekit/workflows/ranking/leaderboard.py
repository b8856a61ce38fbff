"""What a leaderboard contains, and how it is shown in Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pricekit.evaluation.comparison import ComparedRun
from pricekit.metrics import Metric
from pricekit.support.text import counted
from pricekit.workflows.ranking.contenders import Kind


@dataclass(frozen=True)
class Entry:
    """One model of a leaderboard.

    Attributes:
        rank: from 1, the best.
        compared: its name, its score, and the difference from the best with its interval and verdict.
        path: its folder.
        kind: run, ensemble or cross-validation.
        parts: the members of an ensemble, or the folds of a cross-validation; 1 for a run.
        seconds: that the training took, of all members or folds.
        seconds_per_row: that a prediction of one row alone takes in torch, of all members, or of one fold; None if it
            was not measured.
        bytes: of the files that a prediction reads, of all members, or of one fold.
        settings: those in which the models differ, by dotted name; without those in which its own members differ.
    """

    rank: int
    compared: ComparedRun
    path: Path
    kind: Kind
    parts: int
    seconds: float
    seconds_per_row: float | None
    bytes: int
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the folder, or its path if the models are in different folders."""
        return self.compared.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        compared = self.compared.to_dict()
        return {
            "rank": self.rank,
            "run": self.name,
            "path": str(self.path),
            "kind": self.kind,
            "parts": self.parts,
            **{name: compared[name] for name in ("score", "difference", "interval", "verdict")},
            "seconds": self.seconds,
            "seconds_per_row": self.seconds_per_row,
            "bytes": self.bytes,
            "settings": self.settings,
        }


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Models of one table, the best first, each compared with the best on the same held-out rows.

    Attributes:
        rows: the number of rows that all models hold out.
        metric: by which they are ranked; lower is better.
        entries: the models.
    """

    rows: int
    metric: Metric
    entries: tuple[Entry, ...]

    @property
    def best(self) -> Entry:
        """The model with the lowest metric."""
        return self.entries[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit leaderboard --json` prints them."""
        return {
            "rows": self.rows,
            "metric": self.metric.name,
            "runs": [entry.to_dict() for entry in self.entries],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each model, by name.

        Columns: rank, score, difference, low, high, verdict, seconds, seconds_per_row, bytes, kind, path, and the
        settings in which the models differ, by dotted name.
        """
        rows = []
        for entry in self.entries:
            found = entry.to_dict()
            low, high = entry.compared.interval or (None, None)
            shown = {name: found[name] for name in ("rank", "score", "difference")}
            shown |= {"low": low, "high": high, "verdict": entry.compared.verdict}
            shown |= {name: found[name] for name in ("seconds", "seconds_per_row", "bytes", "kind", "path")}
            rows.append(shown | entry.settings)
        return pd.DataFrame(rows, index=pd.Index([entry.name for entry in self.entries], name="run"))

    def __repr__(self) -> str:
        """Return one line with at most three models."""
        shown = ", ".join(f"{e.name}: {self.metric.write(e.compared.score)}" for e in self.entries[:3])
        rest = f", … {len(self.entries) - 3} more" if len(self.entries) > 3 else ""
        return f"Leaderboard({counted(self.rows, 'row')}, {self.metric.title}; {shown}{rest})"

    def _repr_html_(self) -> str:
        frame = self.to_frame().drop(columns="path").dropna(axis="columns", how="all")
        return str(frame.to_html(float_format="{:.4g}".format, na_rep="", border=0))
