"""Writing a bundle's graph into a model repository of Triton Inference Server."""

from __future__ import annotations

import re
from pathlib import Path

from pricekit.bundle import Bundle
from pricekit.errors import ExportError
from pricekit.preprocess import load_preprocessor
from pricekit.runs.ensemble import is_ensemble
from pricekit.runs.folder import open_run
from pricekit.support.files import publish_folder

MAX_BATCH_SIZE = 256
GRAPH = "1/model.onnx"

_CONFIG = """# Prices from token ids and features; pricekit's Preprocessor makes them from a table.
name: "{name}"
backend: "onnxruntime"
max_batch_size: {rows}
input [
  {{ name: "input_ids" data_type: TYPE_INT64 dims: [ -1 ] }},
  {{ name: "attention_mask" data_type: TYPE_INT64 dims: [ -1 ] }},
  {{ name: "features" data_type: TYPE_FP32 dims: [ {features} ] }}
]
output [
  {{ name: "price" data_type: TYPE_FP32 dims: [ 1 ] reshape: {{ shape: [ ] }} }}
]
dynamic_batching {{ }}
"""


def model_folder(repository: Path, run: Path, bundle: Path, *, overwrite: bool) -> Path:
    """Return the folder for a bundle's model in a repository.

    Args:
        repository: the model repository of the server.
        run: the run to export.
        bundle: the folder of the bundle; its name becomes the model's.
        overwrite: the folder may contain an earlier export.

    Raises:
        ExportError: the folder exists or overlaps the bundle, or Triton cannot serve the run.
    """
    _check_servable(run)
    folder = repository / re.sub(r"[^A-Za-z0-9_-]", "_", bundle.resolve().name)
    where, out = folder.resolve(), bundle.resolve()
    if where == out or where in out.parents or out in where.parents:
        raise _taken(
            f"the Triton model would be written to {folder}, which overlaps the bundle {bundle}", folder
        )
    if repository.exists() and not repository.is_dir():
        raise _taken(f"{repository} is a file", repository)
    if folder.exists() and not _is_ours(folder):
        raise _taken(f"{folder} exists and contains files that pricekit did not write", folder)
    if folder.exists() and not overwrite:
        raise ExportError(
            f"{folder} already exists; overwrite it, or choose another repository",
            parameters=("overwrite", "triton"),
            path=str(folder),
        )
    return folder


def _taken(what: str, path: Path) -> ExportError:
    return ExportError(f"{what}; choose another repository", parameters=("triton",), path=str(path))


def _check_servable(run: Path) -> None:
    """Raise ExportError for a run that Triton cannot serve."""
    if is_ensemble(run):
        raise ExportError(
            f"{run} is an ensemble. Its members have different tokenizers, which one Triton model cannot have; export "
            "its runs one by one",
            path=str(run),
        )
    if not open_run(run).preprocessor.features.names:
        raise ExportError(
            f"{run} has no features, and Triton accepts no input without columns; train with features, or export "
            "without a Triton model",
            parameters=("features", "triton"),
            path=str(run),
        )


def _is_ours(folder: Path) -> bool:
    """Return whether a folder contains only files of `write_triton`."""
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*")}
    return "config.pbtxt" in names <= {"config.pbtxt", "1", GRAPH}


def write_triton(bundle: Bundle, folder: Path) -> None:
    """Write a model of the repository: its configuration and version 1 of the graph.

    The format of the configuration is Triton's model_config.proto. The price has only the batch axis, which the
    configuration expresses as a reshape to no axes.

    Args:
        bundle: an opened bundle.
        folder: the folder of the model, replaced if it exists; its name is the model's.
    """
    features = len(load_preprocessor(bundle.files, bundle.path).features.names)
    config = _CONFIG.format(name=folder.name, rows=MAX_BATCH_SIZE, features=features)
    publish_folder(folder, {"config.pbtxt": config.encode(), GRAPH: bundle.files["model.onnx"]})
