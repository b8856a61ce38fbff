"""MLflow for pricekit: logs each training run as an MLflow run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.core.hookspecs import hookimpl
from pricekit_mlflow.client_settings import client_settings
from pricekit_mlflow.run_id import delete_run_id, load_run_id

if TYPE_CHECKING:
    from pricekit_mlflow.log import Log

pricekit_api = 1

_logs: dict[Path, Log] = {}
"""Runs in progress; a run is removed when its logging fails."""


@hookimpl
def pricekit_run_started(
    folder: Path, config: Mapping[str, Any], rows: Mapping[str, int], resumed: bool
) -> None:
    """Create an MLflow run with the settings as parameters; a resumed run continues its MLflow run."""
    if not resumed:
        delete_run_id(folder)
    with client_settings():
        from pricekit_mlflow.log import start

        _logs[folder] = start(folder, {**config, "rows": rows}, load_run_id(folder))


@hookimpl
def pricekit_epoch_ended(folder: Path, record: Mapping[str, Any]) -> None:
    """Log the metrics of the epoch."""
    if log := _logs.pop(folder, None):
        with client_settings():
            log.epoch_ended(record)
        _logs[folder] = log


@hookimpl
def pricekit_run_ended(folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
    """Log the final metrics, the status and the small files of the run."""
    if log := _logs.pop(folder, None):
        with client_settings():
            log.run_ended(folder, outcome, facts)


@hookimpl
def pricekit_bundle_exported(folder: Path, bundle: Path) -> None:
    """Log the manifest and the model card of the bundle to the MLflow run of its training run, if there is one."""
    if run_id := load_run_id(folder):
        with client_settings():
            from pricekit_mlflow.log import log_bundle

            log_bundle(run_id, bundle)
