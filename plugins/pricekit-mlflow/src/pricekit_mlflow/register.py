"""Bundles as models of MLflow, in a run and in the registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pricekit.errors import ConfigError, path_of
from pricekit_mlflow.client_settings import client_settings


def log_bundle(
    bundle: str | os.PathLike[str],
    *,
    name: str | None = None,
    aliases: str | Sequence[str] = (),
    run_id: str | None = None,
) -> str:
    """Log a bundle as a model of MLflow, and register it if it gets a name.

    MLflow's own variables say where: MLFLOW_TRACKING_URI and MLFLOW_REGISTRY_URI.

    Args:
        bundle: its folder; every file is checked first.
        name: of the registered model, which gets a new version; None: it is logged, but not registered.
        aliases: of the new version, such as "champion"; each one moves from the version that has it.
        run_id: the MLflow run that the model belongs to; default: the active run, if there is one.

    Returns:
        What `mlflow.pyfunc.load_model` opens: `models:/NAME/VERSION`, or `models:/ID` without a name.

    Raises:
        BundleError: the bundle is damaged.
        ConfigError: there are aliases without a name.
        RuntimeError: MLflow cannot store it.

    Example:
        >>> import pricekit as pk, tempfile
        >>> from pricekit_mlflow import log_bundle
        >>> folder = tempfile.mkdtemp()
        >>> _ = pk.train(pk.make_catalog(200), epochs=1).export(f"{folder}/bundle")
        >>> log_bundle(f"{folder}/bundle", name="tea", aliases="champion")    # doctest: +SKIP
        'models:/tea/1'
    """
    names = [aliases] if isinstance(aliases, str) else list(aliases)
    if names and name is None:
        raise ConfigError(
            "aliases belong to a registered model, but it has no name", parameters=("name", "aliases")
        )
    folder: Path = path_of(bundle, "bundle")
    with client_settings("the bundle is not in MLflow", patient=True):
        from pricekit_mlflow.log import log_model, register_model

        model = log_model(folder, run_id)
        return f"models:/{model.model_id}" if name is None else register_model(model, name, names)
