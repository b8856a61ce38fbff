"""The folder of an ensemble of runs, which predicts and is exported like one run.

ensemble.json             the weight of each member, and the run that it is a copy of
members/N                 a copy of each member's run, without the checkpoint to resume it
held_out.parquet          rows that no member was trained on, with the ensemble's predictions
intervals.json            half widths of the price intervals
run.json                  table, rows, plugins, metrics on the held-out rows
files.json                size and SHA-256 of these files, and of each member's files.json
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pricekit.errors import TrainingError, check_intact
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.predictor import Origin, Predictor
from pricekit.runs.folder import INTERVALS, LoadedRun, files_digest, open_run
from pricekit.runs.load import load_model
from pricekit.support.digests import LISTING
from pricekit.support.staging import read_whole

ENSEMBLE = "ensemble.json"


@dataclass(frozen=True, repr=False)
class Ensemble:
    """An opened ensemble.

    Attributes:
        path: the folder.
        members: the runs and the weights of their log prices, which sum to 1.
        facts: the contents of `run.json`.
        intervals: fitted on the held-out rows.
    """

    path: Path
    members: tuple[tuple[LoadedRun, float], ...]
    facts: dict[str, Any]
    intervals: Intervals | None

    def predictor(self) -> Predictor:
        """Return a predictor that runs all members in torch."""
        members = tuple(run.member(weight) for run, weight in self.members)
        origin = Origin(self.path.absolute(), None, load_model)
        return Predictor(members, self.digest(), self.intervals, self.facts.get("currency"), origin)

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        own = files_digest([self.path / ENSEMBLE, self.path / INTERVALS])
        return hashlib.sha256(
            " ".join([own, *(run.digest() for run, _ in self.members)]).encode()
        ).hexdigest()

    def __repr__(self) -> str:
        """Return one line: the members' models have thousands of characters."""
        return f"Ensemble('{self.path}', members={len(self.members)})"


def is_ensemble(path: Path) -> bool:
    """Return whether a folder looks like an ensemble."""
    return (path / ENSEMBLE).is_file()


def open_ensemble(path: Path) -> Ensemble:
    """Open an ensemble; raises TrainingError, PluginError, ConfigError, BundleError."""
    return read_whole(path, _open_ensemble)


def _open_ensemble(path: Path) -> Ensemble:
    listed_members = [f"members/{folder.name}/{LISTING}" for folder in (path / "members").glob("*")]
    check_intact(path, [ENSEMBLE, "run.json", INTERVALS, *listed_members], "create the ensemble again")
    try:
        listed = json.loads((path / ENSEMBLE).read_text("utf-8"))["members"]
        members = [(int(number), float(member["weight"])) for number, member in enumerate(listed)]
        facts = json.loads((path / "run.json").read_text("utf-8"))
        intervals = (path / INTERVALS).read_text("utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"the ensemble {path} is damaged ({error}); create it again") from None
    runs = tuple((open_run(path / "members" / str(number)), weight) for number, weight in members)
    return Ensemble(path, runs, facts, read_intervals(intervals, path))
