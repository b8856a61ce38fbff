"""The ensemble: a folder with several runs and their weights, which predicts and is exported like one run.

ensemble.json      each member's folder, weight, and where it was taken from
members/N          a copy of each member's run, without what it takes to resume it
held_out.parquet   rows that no member was trained on, with what the ensemble predicts for them
intervals.json     how far prices lie from the predicted ones
run.json           table, rows, plugins, metrics on the held-out rows
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pricekit.errors import TrainingError
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.predictor import Predictor
from pricekit.runs.folder import INTERVALS, Run, open_run

FILE = "ensemble.json"


@dataclass(frozen=True)
class Ensemble:
    """A finished ensemble, opened.

    Attributes:
        path: its folder.
        members: the runs and the weights of their log prices, which sum to 1.
        facts: what `run.json` says.
        intervals: learned on the held-out rows.
    """

    path: Path
    members: tuple[tuple[Run, float], ...]
    facts: dict[str, Any]
    intervals: Intervals | None

    def predictor(self) -> Predictor:
        """Return a predictor that runs all members in torch."""
        state = (self.path / FILE).stat()
        fingerprint = f"{self.path.absolute()} {state.st_size} {state.st_mtime_ns}"
        return Predictor(
            tuple(run.member(weight) for run, weight in self.members),
            fingerprint,
            self.intervals,
            self.facts.get("currency"),
        )


def is_ensemble(path: Path) -> bool:
    """Say whether a folder looks like an ensemble."""
    return (path / FILE).is_file()


def open_ensemble(path: Path) -> Ensemble:
    """Open an ensemble; raises TrainingError, PluginError, ConfigError, BundleError."""
    try:
        listed = json.loads((path / FILE).read_text("utf-8"))["members"]
        members = [(int(number), float(member["weight"])) for number, member in enumerate(listed)]
        facts = json.loads((path / "run.json").read_text("utf-8"))
        intervals = (path / INTERVALS).read_text("utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"the ensemble {path} is damaged ({error}); make it again") from None
    runs = tuple((open_run(path / "members" / str(number)), weight) for number, weight in members)
    return Ensemble(path, runs, facts, read_intervals(intervals, path))
