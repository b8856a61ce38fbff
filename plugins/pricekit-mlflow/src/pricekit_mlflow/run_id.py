"""The id of the MLflow run of a run folder, stored in `observers/mlflow/run_id.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pricekit.plugin import write_text

FILE = Path("observers", "mlflow", "run_id.json")


def save_run_id(folder: Path, run_id: str) -> None:
    """Store the id of the MLflow run, but not its server, because a folder may come from somebody else."""
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, json.dumps({"run_id": run_id}) + "\n")


def load_run_id(folder: Path) -> str | None:
    """Return the id of the MLflow run, None if there is none or the file is damaged."""
    try:
        run_id = json.loads((folder / FILE).read_text("utf-8"))["run_id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return run_id if isinstance(run_id, str) and re.fullmatch("[0-9a-f]{32}", run_id) else None


def delete_run_id(folder: Path) -> None:
    """Delete the id of an older run in the folder, so that the new run is not logged there."""
    (folder / FILE).unlink(missing_ok=True)
