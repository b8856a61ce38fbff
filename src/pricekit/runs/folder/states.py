"""What a folder is: a run or not, started or finished; which rows a run has, and its id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pricekit.errors import TrainingError, check_intact
from pricekit.formats import check_run_format
from pricekit.runs.folder.names import BACKBONE, SOURCE
from pricekit.support.digests import DamagedError, read_listing


def is_run(path: Path) -> bool:
    """Return whether a folder is a run, finished or not; raises TrainingError if its `source.json` is damaged."""
    return names_rows(path / SOURCE)


def names_rows(file: Path) -> bool:
    """Return whether a JSON file contains a digest of training rows, as only the files of runs do.

    Raises:
        TrainingError: the file is damaged.
    """
    check_intact(file.parent, [file.name], "delete the folder and train again")
    try:
        facts = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        if not any((file.parent / name).is_file() for name in ("config.toml", "cv.toml")):
            return False  # a file of something else
        raise TrainingError(
            f"{file} is damaged ({error}); restore it from a copy, or train into another folder",
            parameters=("out",),
            path=str(file.parent),
        ) from None
    return isinstance(facts, dict) and "digest" in facts


def read_source(path: Path) -> dict[str, Any]:
    """Return the content of a run's `source.json`; raises TrainingError if the run has another format."""
    facts = dict(json.loads((path / SOURCE).read_text("utf-8")))
    check_run_format(facts, path)
    return facts


def run_id(path: Path) -> str:
    """Return the id that a run got when it was started."""
    return str(read_source(path)["run"])


def is_started(out: Path) -> bool:
    """Return whether a run folder contains everything that resuming needs; a checkpoint may be missing.

    Raises:
        TrainingError: a file is damaged.
    """
    if not is_run(out) or not (out / BACKBONE).is_file():  # the last file that a new run writes
        return False
    check_intact(out, [BACKBONE])
    return True


def is_replaceable(path: Path) -> bool:
    """Return whether a folder is a run, with damaged files or not; what is no run is never overwritten.

    Raises:
        TrainingError: `source.json` or `files.json` is damaged, and the other one does not tell that it is a run.
    """
    try:
        return is_run(path)
    except TrainingError:
        if _has_source(path):
            return True
        raise


def _has_source(path: Path) -> bool:
    """Return whether a folder contains the `source.json` of a run: by its content, or by an intact list of digests."""
    if not (path / "config.toml").is_file():
        return False
    try:
        facts = json.loads((path / SOURCE).read_text("utf-8"))
        if isinstance(facts, dict) and "digest" in facts:
            return True
    except (OSError, ValueError):
        pass
    try:
        return SOURCE in (read_listing(path) or {})
    except DamagedError:
        return False


def was_started(out: Path) -> bool:
    """Return whether a folder is a run that was started, as `is_started`, but also if files of it are damaged.

    Raises:
        TrainingError: as of `is_replaceable`.
    """
    return is_replaceable(out) and (out / BACKBONE).is_file()
