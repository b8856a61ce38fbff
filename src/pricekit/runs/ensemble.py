"""The ensemble: a folder with several runs and their weights, which predicts and is exported like one run.

ensemble.json      the weight of each member, and the run that it is a copy of
members/N          a copy of each member's run, without the checkpoint to resume it
held_out.parquet   rows that no member was trained on, with the ensemble's predictions
intervals.json     half widths of the price intervals
run.json           table, rows, plugins, metrics on the held-out rows
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pricekit.errors import TrainingError
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.predictor import Origin, Predictor
from pricekit.runs.folder import INTERVALS, Run, files_digest, open_run
from pricekit.runs.load import load_model

FILE = "ensemble.json"


@dataclass(frozen=True, repr=False)
class Ensemble:
    """An opened ensemble.

    Attributes:
        path: its folder.
        members: the runs and the weights of their log prices, which sum to 1.
        facts: the contents of `run.json`.
        intervals: fitted on the held-out rows.
    """

    path: Path
    members: tuple[tuple[Run, float], ...]
    facts: dict[str, Any]
    intervals: Intervals | None

    def predictor(self) -> Predictor:
        """Return a predictor that runs all members in torch."""
        members = tuple(run.member(weight) for run, weight in self.members)
        origin = Origin(self.path.absolute(), None, load_model)
        return Predictor(members, self.digest(), self.intervals, self.facts.get("currency"), origin)

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        own = files_digest([self.path / FILE, self.path / INTERVALS])
        return sha256(" ".join([own, *(run.digest() for run, _ in self.members)]).encode()).hexdigest()

    def __repr__(self) -> str:
        """Return one line: the members' models have thousands of characters."""
        return f"Ensemble('{self.path}', members={len(self.members)})"


def is_ensemble(path: Path) -> bool:
    """Whether a folder looks like an ensemble."""
    return (path / FILE).is_file()


def open_ensemble(path: Path) -> Ensemble:
    """Open an ensemble; raises TrainingError, PluginError, ConfigError, BundleError."""
    try:
        listed = json.loads((path / FILE).read_text("utf-8"))["members"]
        members = [(int(number), float(member["weight"])) for number, member in enumerate(listed)]
        facts = json.loads((path / "run.json").read_text("utf-8"))
        intervals = (path / INTERVALS).read_text("utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"the ensemble {path} is damaged ({error}); make the ensemble again") from None
    runs = tuple((open_run(path / "members" / str(number)), weight) for number, weight in members)
    return Ensemble(path, runs, facts, read_intervals(intervals, path))
