"""Logs runs, cross-validations and bundles to MLflow; this module and MLflow are imported when one of them starts."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import LoggedModel, LoggedModelOutput, Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.store.db.db_types import DATABASE_ENGINES
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from sqlalchemy import create_engine, make_url

from pricekit import __version__
from pricekit.plugin import logger, temporary_folder
from pricekit.plugin.runners import METRICS, read_bundle
from pricekit_mlflow.client_settings import without_password
from pricekit_mlflow.flavor import save_model
from pricekit_mlflow.run_id import save_run_id

EXPERIMENT = "pricekit"
VERSION_TAG = "pricekit.version"
STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
FILES = ("config.toml", "metrics.jsonl", "run.json")
FILES_OF_FOLDS = ("cv.toml", "cv.json")
BATCH, NAME_LENGTH, VALUE_LENGTH = 100, 250, 500
"""Limits of MLflow: parameters per request, characters of a name, and characters of a value before version 2.8."""


FINAL = ("constant_score", "best_epoch", "seconds")
"""Facts of a run that are logged besides its metrics."""


@dataclass
class Log:
    """An MLflow run in progress, and the last epoch that it contains."""

    client: MlflowClient
    run_id: str
    epoch: int = 0

    def epoch_ended(self, record: Mapping[str, Any]) -> None:
        """Log the metrics of an epoch under their names in `metrics.jsonl`; skip an epoch logged before a kill."""
        if record["epoch"] > self.epoch:
            self._metrics({k: v for k, v in record.items() if k != "epoch"}, record["epoch"])

    def run_ended(self, folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
        """Log the metrics of the best weights, the status, and the small files of the run."""
        if outcome == "finished":
            final = {**facts["metrics"], **{k: facts[k] for k in FINAL if k in facts}}
            self._metrics({f"final/{name}": value for name, value in final.items()}, facts["best_epoch"])
        self._ended(folder, outcome, FILES)

    def cross_validation_ended(self, folder: Path, outcome: str, facts: Mapping[str, Any]) -> None:
        """Log the metrics over all rows, the status, and the small files of the cross-validation."""
        if outcome == "finished":
            scores = {name: facts["scores"].get(name) for name in METRICS}
            final = {**scores, **{k: facts[k] for k in FINAL if k in facts}}
            numbers = {f"final/{name}": value for name, value in final.items() if value is not None}
            self._metrics(numbers, len(facts["folds"]))
        self._ended(folder, outcome, FILES_OF_FOLDS)

    def _ended(self, folder: Path, outcome: str, names: Sequence[str]) -> None:
        self.client.set_terminated(self.run_id, STATUS[outcome])
        for name in names:
            if (folder / name).is_file():
                self.client.log_artifact(self.run_id, str(folder / name))

    def _metrics(self, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, step) for name, value in values.items()]
        self.client.log_batch(self.run_id, metrics=metrics)


def start(folder: Path, settings: Mapping[str, Any], run_id: str | None, parent: str | None = None) -> Log:
    """Continue the MLflow run `run_id` if this package created it, else create one; log where it is.

    Args:
        folder: of the run.
        settings: become parameters.
        run_id: of the MLflow run to continue.
        parent: id of the MLflow run whose child a new one is.
    """
    client, run = _client(), None
    if run_id is not None and (run := _own(client, run_id)):
        client.update_run(run_id, status="RUNNING")
        log = Log(client, run_id, _last_epoch(client, run_id))
    else:
        name = folder.absolute().name
        nested = {} if parent is None else {MLFLOW_PARENT_RUN_ID: parent}
        tags = {VERSION_TAG: __version__, **nested}
        run = client.create_run(_experiment(client), tags=tags, run_name=name)
        log = Log(client, run.info.run_id)
        save_run_id(folder, log.run_id)
        params = parameters(settings)
        for first in range(0, len(params), BATCH):
            client.log_batch(log.run_id, params=params[first : first + BATCH])
    logger.info(f"MLflow: {_place(client, run)}")
    return log


def log_exported(run_id: str, bundle: Path) -> None:
    """Log a bundle as a model of its run; raise LookupError if the run is not in this store."""
    client = _client()
    if _own(client, run_id) is None:
        raise LookupError(f"there is no run {run_id} of pricekit in {client.tracking_uri}")
    model = log_model(bundle, run_id)
    client.set_tag(run_id, "pricekit.predict.bundle", bundle.absolute().name)
    logger.info(f"MLflow: the bundle is models:/{model.model_id}")


def log_model(bundle: Path, run_id: str | None) -> LoggedModel:
    """Log a bundle as a model of MLflow, which belongs to a run or, without one, to the active run if there is one."""
    opened = read_bundle(bundle)
    client = _client()
    active = mlflow.active_run()
    run_id = run_id or (active.info.run_id if active else None)
    place = client.get_run(run_id).info.experiment_id if run_id else _experiment(client)
    model = client.create_logged_model(place, bundle.absolute().name, source_run_id=run_id)
    try:
        with temporary_folder() as folder:
            known = Model(artifact_path=model.artifact_location, run_id=run_id, model_id=model.model_id)
            save_model(opened, folder / "model", known)
            client.log_model_artifacts(model.model_id, str(folder / "model"))
        if run_id:
            client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, "READY")
    except BaseException:
        client.finalize_logged_model(model.model_id, "FAILED")
        raise
    return model


def register_model(model: LoggedModel, name: str) -> str:
    """Make a logged model the next version of a registered one, which is made if it is new; return the version."""
    client = _client()
    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        client.create_registered_model(name)
    source = f"models:/{model.model_id}"
    return str(
        client.create_model_version(name, source, model.source_run_id, model_id=model.model_id).version
    )


def set_alias(name: str, version: str, alias: str) -> None:
    """Give an alias of a registered model to a version."""
    _client().set_registered_model_alias(name, alias, version)


def parameters(settings: Mapping[str, Any]) -> list[Param]:
    """Return settings as valid MLflow parameters; the complete configuration is also logged as a file."""
    named = {re.sub(r"[^\w.\- ]", "_", name, flags=re.ASCII)[:NAME_LENGTH]: v for name, v in _flat(settings)}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in named.items()}
    return [Param(name, text[:VALUE_LENGTH]) for name, text in texts.items()]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _client() -> MlflowClient:
    """Return a client of the store that MLFLOW_TRACKING_URI names."""
    uri = mlflow.get_tracking_uri()
    if uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES:
        _connect_once(uri)
    return MlflowClient(uri)


def _connect_once(uri: str) -> None:
    """Connect to a database, or raise: MLflow itself would retry for two minutes."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite" and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def _experiment(client: MlflowClient) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name))


def _own(client: MlflowClient, run_id: str) -> Run | None:
    """Return the run if this package created it, else None: the id comes from a folder that is not trusted."""
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return run if run.info.lifecycle_stage == "active" and VERSION_TAG in run.data.tags else None


def _last_epoch(client: MlflowClient, run_id: str) -> int:
    return max((metric.step for metric in client.get_metric_history(run_id, "loss")), default=0)


def _place(client: MlflowClient, run: Run) -> str:
    uri, info = without_password(client.tracking_uri), run.info
    if uri.startswith(("http://", "https://")):
        return f"{uri.rstrip('/')}/#/experiments/{info.experiment_id}/runs/{info.run_id}"
    return f"run {info.run_id} of experiment {client.get_experiment(info.experiment_id).name} in {uri}"
