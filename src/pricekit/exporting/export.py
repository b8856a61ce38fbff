"""From a run, or an ensemble of runs, to a published bundle."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from pricekit import __version__
from pricekit.bundle import PARTS, strangers, write_bundle
from pricekit.core.events import tell
from pricekit.engines.loaded import batches_of
from pricekit.errors import BundleError, ExportError
from pricekit.exporting.card import ensemble_card, model_card
from pricekit.exporting.graph import OPSET, export_graph
from pricekit.exporting.precision import convert
from pricekit.exporting.verify import Report, fit_length, shapes, verify_graph
from pricekit.files import is_free
from pricekit.prediction.intervals import Intervals
from pricekit.progress import progress
from pricekit.runs.ensemble import Ensemble, is_ensemble, open_ensemble
from pricekit.runs.folder import Run, open_run, read_sample


@dataclass(frozen=True)
class Exported:
    """One model as a bundle holds it.

    Attributes:
        files: under the names that they have in a bundle of one.
        kept: names of the graph's nodes that stayed in float32.
        report: what the graph was found to be.
    """

    files: dict[str, bytes]
    kept: list[str]
    report: Report


def export_run(path: Path, out: Path, *, precision: str = "fp32", overwrite: bool = False) -> Report:
    """Export a run's best weights, or all members of an ensemble, into one bundle.

    Args:
        path: the run or the ensemble.
        out: the bundle.
        precision: of the graphs: fp32, fp16 or int8.
        overwrite: replace a bundle that is there.

    Returns:
        What the graph was found to be; of several, the shapes of all and the worst of each difference.

    Raises:
        ExportError: `out` is taken, a model cannot be exported, or its graph differs from it;
            nothing is published then, and a bundle that was there stays.
        TrainingError: `path` is not a finished run.
    """
    _check_free(out, overwrite)
    if is_ensemble(path):
        report, files, facts = _export_members(open_ensemble(path), precision)
        version = 2
    else:
        run = open_run(path)
        version = 2 if run.config.facts_first else 1
        exported = _exported(run, precision)
        report, files = exported.report, exported.files
        facts = _facts(precision, run.facts, exported.kept, report)
        files |= _beside(model_card(run, facts), run.intervals)
    manifest = write_bundle(out, files, facts, schema_version=version)
    tell("bundle_exported", folder=path, bundle=out, manifest=manifest)
    return report


def _export_members(ensemble: Ensemble, precision: str) -> tuple[Report, dict[str, bytes], dict[str, Any]]:
    """Export each member; its files get its number into their names."""
    files: dict[str, bytes] = {}
    members, reports, kept = [], [], []
    with progress("exporting", len(ensemble.members)) as advance:
        for number, (run, weight) in enumerate(ensemble.members):
            exported = _exported(run, precision)
            names = {part: f"{number}-{plain}" for part, plain in PARTS.items()}
            files |= {names[part]: exported.files[plain] for part, plain in PARTS.items()}
            verified, metrics = _verified(exported.report), run.facts["metrics"]
            members.append({"weight": weight, **names, "metrics": metrics, "verified": verified})
            reports.append(exported.report)
            kept += [f"{number}-{name}" for name in exported.kept]
            advance(1, run.config.backbone.name)
    report = Report(
        checks=[check for report in reports for check in report.checks],
        rows=max(report.rows for report in reports),
        smape_change=max(report.smape_change for report in reports),
        company=max(report.company for report in reports),
        company_sd=max(report.company_sd for report in reports),
    )
    facts = {"members": members, **_facts(precision, ensemble.facts, kept, report)}
    return report, files | _beside(ensemble_card(ensemble, facts), ensemble.intervals), facts


def _exported(run: Run, precision: str) -> Exported:
    """Turn a run into a graph and hold it against the model on the run's sample."""
    sample = read_sample(run)
    inputs = run.preprocessor(sample)
    with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
        file = Path(folder) / "model.onnx"
        example = inputs.batch(np.arange(2) % len(inputs))
        # At least two tokens: a length of 1 would be taken for a constant.
        longest = max(2, example["input_ids"].shape[1])
        with progress("writing the graph", 1):
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
    texts = {name: text.encode() for name, text in run.preprocessor.files().items()}
    return Exported({"model.onnx": converted.model, **texts}, converted.kept, report)


def _beside(card: str, intervals: Intervals | None) -> dict[str, bytes]:
    files = {"README.md": card.encode()}
    if intervals is not None:
        files["intervals.json"] = (json.dumps(intervals.to_json()) + "\n").encode()
    return files


def _check_free(out: Path, overwrite: bool) -> None:
    if is_free(out):
        return
    try:
        others = strangers(out)
    except (BundleError, OSError):
        raise ExportError(
            f"{out} exists and is not a bundle, so it is not overwritten; name another folder"
        ) from None
    if others:
        raise ExportError(
            f"{out} holds {others[0]}, which is not of the bundle there and would be lost; move it away, or name "
            "another folder"
        )
    if not overwrite:
        raise ExportError(
            f"the bundle {out} exists already; replace it with --overwrite, or name another folder"
        )


def _facts(precision: str, facts: Mapping[str, Any], kept: list[str], report: Report) -> dict[str, Any]:
    return {
        "pricekit_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "precision": precision,
        "float32_nodes": kept,
        "opset": OPSET,
        **facts,
        "verified": _verified(report),
    }


def _verified(report: Report) -> dict[str, Any]:
    return {
        "shapes": [[check.rows, check.length] for check in report.checks],
        "max_relative_difference": max(report.rows, *(check.difference for check in report.checks)),
        "smape_change": report.smape_change,
        "company_relative_difference": report.company,
        "company_share_of_sd": report.company_sd,
    }
