"""MLflow for pricekit: an MLflow run for each run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.core.hookspecs import hookimpl
from pricekit_mlflow.asked import asked
from pricekit_mlflow.kept import forget, kept

if TYPE_CHECKING:
    from pricekit_mlflow.log import Log

pricekit_api = 1

_logs: dict[Path, Log] = {}
"""Runs under way; one whose logging has failed is not among them any more."""


@hookimpl
def pricekit_run_started(
    folder: Path, config: Mapping[str, Any], rows: Mapping[str, int], resumed: bool
) -> None:
    """Make an MLflow run with the settings as parameters, or go on with that of a resumed run."""
    if not resumed:
        forget(folder)
    with asked():
        from pricekit_mlflow.log import start

        _logs[folder] = start(folder, {**config, "rows": rows}, kept(folder))


@hookimpl
def pricekit_epoch_ended(folder: Path, record: Mapping[str, Any]) -> None:
    """Log the epoch's numbers."""
    if log := _logs.pop(folder, None):
        with asked():
            log.epoch_ended(record)
        _logs[folder] = log


@hookimpl
def pricekit_run_ended(folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
    """Log the final metrics, the status and the small files of the run."""
    if log := _logs.pop(folder, None):
        with asked():
            log.run_ended(folder, outcome, facts)


@hookimpl
def pricekit_bundle_exported(folder: Path, bundle: Path) -> None:
    """Log what the bundle says of itself to the MLflow run that it was made from, where there is one."""
    if run_id := kept(folder):
        with asked():
            from pricekit_mlflow.log import log_bundle

            log_bundle(run_id, bundle)
