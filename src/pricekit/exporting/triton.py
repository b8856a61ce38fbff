"""A bundle's graph as a model repository of Triton Inference Server."""

from __future__ import annotations

import re
from pathlib import Path

from pricekit.bundle import Bundle
from pricekit.errors import ExportError
from pricekit.files import publish_folder
from pricekit.preprocess import load_preprocessor
from pricekit.runs.ensemble import is_ensemble
from pricekit.runs.folder import open_run

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
    """Return where a repository has the model named as the bundle.

    Raises:
        ExportError: it is taken or the bundle's own, or `run` is an ensemble.
    """
    if is_ensemble(run):
        raise ExportError(
            f"{run} is an ensemble, whose members have a tokenizer each, which one model of Triton cannot hold; export "
            "the runs that it was made of one by one"
        )
    if not open_run(run).preprocessor.features.names:
        raise ExportError(
            f"{run} has no features, and Triton takes no input without columns; train with some, or leave --triton out"
        )
    folder = repository / re.sub(r"[^A-Za-z0-9_-]", "_", bundle.resolve().name)
    where, out = folder.resolve(), bundle.resolve()
    if where == out or where in out.parents or out in where.parents:
        raise ExportError(
            f"Triton's model would be written to {folder}, which the bundle in {bundle} would lie in or around; name "
            "another folder with --triton"
        )
    if repository.exists() and not repository.is_dir():
        raise ExportError(f"{repository} is a file; name a folder with --triton")
    if folder.exists() and not _is_ours(folder):
        raise ExportError(
            f"{folder} exists already and is not only what pricekit writes there; name another folder with --triton"
        )
    if folder.exists() and not overwrite:
        raise ExportError(
            f"{folder} exists already; replace it with --overwrite, or name another folder with --triton"
        )
    return folder


def _is_ours(folder: Path) -> bool:
    """Say whether a folder holds what `write_triton` writes and nothing else."""
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*")}
    return "config.pbtxt" in names <= {"config.pbtxt", "1", GRAPH}


def write_triton(bundle: Bundle, folder: Path) -> None:
    """Write one model of a repository: its configuration, and version 1 of the graph.

    The form of the configuration: Triton's model_config.proto. A price has no axis but the batch's, which
    is written there as a reshape to no axes.

    Args:
        bundle: an opened bundle.
        folder: the model's folder, replaced if it is there; its name is the model's.
    """
    features = len(load_preprocessor(bundle.files, bundle.path).features.names)
    config = _CONFIG.format(name=folder.name, rows=MAX_BATCH_SIZE, features=features)
    publish_folder(folder, {"config.pbtxt": config.encode(), GRAPH: bundle.files["model.onnx"]})
