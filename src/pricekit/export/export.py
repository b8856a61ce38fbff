"""From a run to a published bundle."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pricekit import __version__
from pricekit.bundle import is_bundle, write_bundle
from pricekit.core.events import tell
from pricekit.engines.opened import batches_of
from pricekit.errors import ExportError
from pricekit.export.card import model_card
from pricekit.export.graph import OPSET, export_graph
from pricekit.export.precision import Converted, convert
from pricekit.export.verify import Report, fit_length, shapes, verify_graph
from pricekit.training.run import Run, open_run, read_sample


def export_run(path: Path, out: Path, *, precision: str = "fp32", overwrite: bool = False) -> Report:
    """Export a run's best weights into a bundle; returns what the graph was found to be.

    Args:
        path: the run.
        out: the bundle.
        precision: of the graph: fp32, fp16 or int8.
        overwrite: replace a bundle that is there.

    Raises:
        ExportError: `out` is taken, the model cannot be exported, or its graph differs from it;
            nothing is published then, and a bundle that was there stays.
        TrainingError: `path` is not a finished run.
    """
    _check_free(out, overwrite)
    run = open_run(path)
    sample = read_sample(run)
    inputs = run.preprocessor(sample)
    with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
        file = Path(folder) / "model.onnx"
        example = inputs.batch(np.arange(2) % len(inputs))
        # At least two tokens: a length of 1 would be taken for a constant.
        longest = max(2, example["input_ids"].shape[1])
        export_graph(run.model, fit_length(example, longest, inputs.pad_id), file)
        float32 = file.read_bytes()
    batches = [batch for _, batch in batches_of(inputs)]
    converted = convert(float32, precision, [*shapes(inputs, run.config.max_length), *batches])
    for graph in dict.fromkeys((converted.model, converted.computed)):
        report = verify_graph(
            run.model,
            graph,
            inputs,
            run.config.max_length,
            sample.price,
            precision=precision,
            float32=b"" if precision == "fp32" else float32,
        )
    facts = _facts(run, precision, converted, report)
    files = {
        "model.onnx": converted.model,
        **{name: text.encode() for name, text in run.preprocessor.files().items()},
        "README.md": model_card(run, facts).encode(),
    }
    if run.intervals is not None:
        files["intervals.json"] = (json.dumps(run.intervals.to_json()) + "\n").encode()
    manifest = write_bundle(out, files, facts)
    tell("bundle_exported", folder=path, bundle=out, manifest=manifest)
    return report


def _check_free(out: Path, overwrite: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not is_bundle(out):
        raise ExportError(f"{out} exists and is not a bundle, so it is not overwritten; name another folder")
    if not overwrite:
        raise ExportError(
            f"the bundle {out} exists already; replace it with --overwrite, or name another folder"
        )


def _facts(run: Run, precision: str, converted: Converted, report: Report) -> dict[str, Any]:
    return {
        "pricekit_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "precision": precision,
        "float32_nodes": converted.kept,
        "opset": OPSET,
        **run.facts,
        "verified": {
            "shapes": [[check.rows, check.length] for check in report.checks],
            "max_relative_difference": max(check.difference for check in report.checks),
            "smape_change": report.smape_change,
            "company_relative_difference": report.company,
            "company_share_of_sd": report.company_sd,
        },
    }
