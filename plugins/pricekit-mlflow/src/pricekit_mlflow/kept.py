"""Which MLflow run a run's folder belongs to: `mlflow.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pricekit.files import write_text

FILE = "mlflow.json"


def keep(folder: Path, run_id: str) -> None:
    """Write the id of the folder's MLflow run. Not where it is: folders come from anyone."""
    write_text(folder / FILE, json.dumps({"run_id": run_id}) + "\n")


def kept(folder: Path) -> str | None:
    """Return the id of the folder's MLflow run, None where there is none or the file is damaged."""
    try:
        run_id = json.loads((folder / FILE).read_text("utf-8"))["run_id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return run_id if isinstance(run_id, str) and re.fullmatch("[0-9a-f]{32}", run_id) else None


def forget(folder: Path) -> None:
    """Delete what an older run in the folder kept, so that nothing of the new one is logged there."""
    (folder / FILE).unlink(missing_ok=True)
