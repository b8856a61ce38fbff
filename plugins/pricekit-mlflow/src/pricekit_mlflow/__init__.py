"""MLflow for pricekit: tracks runs, and makes bundles models of MLflow.

A run that asks for the tracker `mlflow` is an MLflow run. `log_bundle` logs a bundle as a model, and can register it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.plugin import hookimpl
from pricekit_mlflow.client_settings import client_settings
from pricekit_mlflow.register import log_bundle
from pricekit_mlflow.run_id import delete_run_id, load_run_id

if TYPE_CHECKING:
    from pricekit_mlflow.log import Log

__all__ = ["log_bundle"]

pricekit_api = 1
pricekit_tracker = "mlflow"

_logs: dict[Path, Log] = {}
"""Runs in progress; a run is removed when its logging fails."""

_groups: dict[Path, Log] = {}
"""Cross-validations in progress, in the same way."""


@hookimpl
def pricekit_cross_validation_started(
    folder: Path, config: Mapping[str, Any], folds: int, resumed: bool
) -> None:
    """Create an MLflow run whose children are the runs of the folds."""
    _groups[folder] = _started(folder, {**config, "folds": folds}, resumed=resumed)


@hookimpl
def pricekit_cross_validation_ended(folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
    """Log the metrics of all folds, the status and the small files."""
    if log := _groups.pop(folder, None):
        with client_settings():
            log.cross_validation_ended(folder, outcome, facts)


@hookimpl
def pricekit_run_started(
    folder: Path, config: Mapping[str, Any], rows: Mapping[str, int], resumed: bool
) -> None:
    """Create an MLflow run with the settings as parameters; a resumed run continues its MLflow run."""
    parent = next((_groups[above] for above in folder.parents if above in _groups), None)
    _logs[folder] = _started(folder, {**config, "rows": rows}, resumed=resumed, parent=parent)


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
    """Log the bundle as a model to the MLflow run of its training run, if there is one."""
    if run_id := load_run_id(folder):
        with client_settings():
            from pricekit_mlflow.log import log_exported

            log_exported(run_id, bundle)


def _started(folder: Path, settings: Mapping[str, Any], *, resumed: bool, parent: Log | None = None) -> Log:
    if not resumed:
        delete_run_id(folder)
    with client_settings():
        from pricekit_mlflow.log import start

        return start(folder, settings, load_run_id(folder), None if parent is None else parent.run_id)
