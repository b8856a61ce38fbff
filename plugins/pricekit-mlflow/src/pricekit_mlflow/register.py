"""Bundles as models of MLflow, in a run and in the registry."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from pricekit.plugin import ConfigError, path_of, shorten
from pricekit_mlflow.client_settings import client_settings

_LONGEST_NAME, _LONGEST_ALIAS = 256, 255
_ALIAS = re.compile(r"[\w-]+")
_RESERVED = re.compile(r"latest|v\d+", re.IGNORECASE)
"""MLflow reads models:/NAME/latest as the newest version."""


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
        ConfigError: MLflow accepts no such name or alias, or there are aliases without a name. Nothing is stored.
        RuntimeError: MLflow cannot store or register it. The message names what is stored.

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
    if name is not None:
        _check_name(name)
    for alias in names:
        _check_alias(alias)
    folder: Path = path_of(bundle, "bundle")
    with client_settings("the bundle is not in MLflow", patient=True):
        from pricekit_mlflow.log import log_model, register_model, set_alias

        model = log_model(folder, run_id)
    logged = f"models:/{model.model_id}"
    if name is None:
        return logged
    with client_settings(
        f"the bundle is {logged} in MLflow, but no version of {name}; register this model", patient=True
    ):
        version = register_model(model, name)
    registered = f"models:/{name}/{version}"
    for alias in names:
        failed = (
            f"the bundle is {registered} in MLflow, but without the alias {alias}; give it to this version"
        )
        with client_settings(failed, patient=True):
            set_alias(name, version, alias)
    return registered


def _check_name(name: str) -> None:
    """Raise ConfigError unless MLflow accepts the name of a model; its own check is private, and comes too late."""
    usable = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME
    if not usable or "/" in name or ":" in name or name == "." or name.startswith(".."):
        raise ConfigError(
            f"the name of the model is {shorten(repr(name), 100)}; expected up to {_LONGEST_NAME} characters without / "
            "and :, and no path such as ..",
            parameters=("name",),
        )


def _check_alias(alias: str) -> None:
    """Raise ConfigError unless MLflow accepts an alias; its own check comes after the version is stored."""
    usable = isinstance(alias, str) and _ALIAS.fullmatch(alias) and len(alias) <= _LONGEST_ALIAS
    if not usable or _RESERVED.fullmatch(alias):
        raise ConfigError(
            f"the alias is {shorten(repr(alias), 100)}; expected up to {_LONGEST_ALIAS} letters, digits, - and _, but "
            "neither latest nor v and a number, which MLflow reserves",
            parameters=("aliases",),
        )
