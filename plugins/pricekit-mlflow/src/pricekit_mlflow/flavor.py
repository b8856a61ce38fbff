"""Writes a bundle as a model of MLflow: the flavor `python_function` with the loader `pricekit_mlflow.model`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from mlflow import pyfunc
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType

from pricekit.plugin.runners import (
    MOST_OTHER_COLUMNS,
    SKETCH,
    BundleReader,
    UncertaintyOptions,
    files_of_bundle,
    parameters_of,
    read_sketch,
)
from pricekit_mlflow.model import CONFIG

LOADER = "pricekit_mlflow.model"


def save_model(reader: BundleReader, path: Path, model: Model) -> None:
    """Write a bundle that was read as a model of MLflow.

    Args:
        reader: the bundle; its bytes are those whose hashes were checked.
        path: a new folder.
        model: the description that is completed.
    """
    copy = path.parent / "bundle"
    copy.mkdir()
    for name, content in files_of_bundle(reader.bundle).items():
        (copy / name).write_bytes(content)
    pyfunc.save_model(
        path,
        loader_module=LOADER,
        data_path=str(copy),
        mlflow_model=model,
        signature=signature(reader),
        model_config=dict(CONFIG),
        pip_requirements=requirements(reader),
        metadata={"pricekit": reader.bundle.manifest["pricekit_version"], "digest": reader.bundle.digest},
    )


def signature(reader: BundleReader) -> ModelSignature:
    """Return the columns that the model reads; cells besides the texts may have any type."""
    sketch = read_sketch(reader.bundle.files[SKETCH], reader.bundle.path)
    texts = [ColSpec("string", name) for name in reader.columns.text]
    inputs = None  # any: the model does not tell which columns it reads
    if len(sketch.others) < MOST_OTHER_COLUMNS:
        others = [ColSpec(AnyType(), name, required=False) for name in sketch.others]
        inputs = Schema([*texts, *others])
    outputs = Schema([TensorSpec(np.dtype("float32"), (-1,))])
    params = [
        ParamSpec(name, "double", [], shape=(-1,)) if option.is_numbers else ParamSpec(name, "double", None)
        for name, option in parameters_of(UncertaintyOptions).items()
    ]
    return ModelSignature(inputs, outputs, ParamSchema(params))


def requirements(reader: BundleReader) -> list[str]:
    """Return the packages that the model needs, in the versions of this environment."""
    plugins = reader.bundle.manifest["plugins"]
    features = sorted({p["package"] for p in plugins if p["kind"] == "feature"} - {"pricekit"})
    names = ["pricekit[cpu]", "pricekit-mlflow", *features]
    return [_pinned(name) for name in names]


def _pinned(name: str) -> str:
    try:
        return f"{name}=={version(name.partition('[')[0])}"
    except PackageNotFoundError:  # a plugin in a file
        return name
