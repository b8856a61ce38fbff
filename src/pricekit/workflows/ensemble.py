"""Make an ensemble: weigh runs by their held-out predictions and copy them into one folder."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import TrainingError
from pricekit.evaluation.held_out import HeldOut, read_held_out, write_held_out
from pricekit.files import is_free, others, replace_folder, sync, write_text
from pricekit.metrics import best_constant, price_metrics, smape
from pricekit.runs.calibration import fit_intervals
from pricekit.runs.ensemble import FILE, is_ensemble
from pricekit.runs.folder import INTERVALS, is_run
from pricekit.training.checkpoint import LAST
from pricekit.workflows.ensemble_weights import cross_fitted, fit_weights

LEAST_ROWS = 20
"""Rows that all members must have held out; fewer say nothing about weights."""


@dataclass(frozen=True)
class Candidate:
    """What may become part of an ensemble: a run, or the runs of a cross-validation.

    Attributes:
        path: as it was given.
        runs: the folders of the runs; those of several folds share the candidate's weight.
        held_out: rows that the run, or each fold's, was not trained on.
    """

    path: Path
    runs: tuple[Path, ...]
    held_out: HeldOut


def make_ensemble(paths: Sequence[Path], out: Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Weigh runs by their held-out predictions and write them into the folder `out`.

    Args:
        paths: finished runs, or folders of `pricekit cv`; at least two.
        out: a new or empty folder, or an ensemble that may be replaced.
        overwrite: replace the ensemble in `out`.

    Returns:
        What `ensemble.json` says, with `metrics` on the held-out rows.

    Raises:
        TrainingError: `out` is taken, or the runs do not fit together.
        DataError: a folder has no held-out rows.
    """
    _check_free(out, overwrite)
    candidates = [_candidate(path) for path in paths]
    aligned = _aligned(candidates)
    predicted = np.stack([held_out.predicted for held_out in aligned], 1)
    price = aligned[0].price
    weights = fit_weights(predicted, price)
    together = replace(aligned[0], predicted=cross_fitted(predicted, price, aligned[0].fold))
    pairs = zip(candidates, aligned, weights, strict=True)
    listed = [
        {"path": str(path), "weight": weight / len(candidate.runs), "smape": smape(rows.predicted, price)}
        for candidate, rows, weight in pairs
        if weight
        for path in candidate.runs
    ]
    _check_alike([Path(member["path"]) for member in listed])
    record = {
        "members": listed,
        "candidates": [
            {"path": str(c.path), "weight": float(w), "smape": smape(rows.predicted, price)}
            for c, rows, w in zip(candidates, aligned, weights, strict=True)
        ],
        "rows": len(price),
    }
    facts = _facts([Path(member["path"]) for member in listed], together)
    _write(out, record, facts, together)
    return record | {"metrics": facts["metrics"]}


def _check_free(out: Path, overwrite: bool) -> None:
    if is_free(out):
        return
    if not is_ensemble(out):
        raise TrainingError(
            f"{out} exists and is not an ensemble, so it is not overwritten; name another folder"
        )
    if foreign := others(out, [FILE, INTERVALS, "held_out.parquet", "run.json", "members"]):
        raise TrainingError(
            f"{out} holds {foreign[0]}, which is not of the ensemble there and would be lost; move it away, or name "
            "another folder"
        )
    if not overwrite:
        raise TrainingError(
            f"the ensemble {out} exists already; replace it with --overwrite, or name another folder"
        )


def _candidate(path: Path) -> Candidate:
    held_out = read_held_out(path)
    if is_ensemble(path):
        raise TrainingError(f"{path} is an ensemble itself; give the runs that it was made of")
    runs = (path,) if is_run(path) else tuple(path / f"fold-{fold}" for fold in np.unique(held_out.fold))
    if missing := [run for run in runs if not (run / "run.json").is_file()]:
        raise TrainingError(f"{missing[0]} is no finished run any more; do the cross-validation again")
    return Candidate(path, runs, held_out)


def _aligned(candidates: Sequence[Candidate]) -> list[HeldOut]:
    """Return the held-out rows that all candidates have, in one order."""
    keys = [
        pd.MultiIndex.from_arrays([c.held_out.rows, c.held_out.ids, c.held_out.price]) for c in candidates
    ]
    common = keys[0]
    for key in keys[1:]:
        common = common.intersection(key, sort=False)
    if len(common) < LEAST_ROWS:
        counts = ", ".join(f"{c.path}: {len(c.held_out):,}" for c in candidates)
        raise TrainingError(
            f"the runs have {len(common)} held-out rows in common ({counts}), at least {LEAST_ROWS} are needed. Train "
            "them on the same table with the same --seed, so that they hold out the same rows, or use pricekit cv, "
            "which holds out every row once"
        )
    return [c.held_out.take(key.get_indexer(common)) for c, key in zip(candidates, keys, strict=True)]


def _check_alike(paths: Sequence[Path]) -> None:
    """Refuse runs that read other columns: one table has to serve all."""
    read = {path: tuple(_record(path)["columns"]["text"]) for path in paths}
    first, *others = read
    for path in others:
        if read[path] != read[first]:
            raise TrainingError(
                f"{first} reads its text from {', '.join(read[first])}, and {path} from {', '.join(read[path])}; "
                "members of an ensemble must read the same columns"
            )


def _record(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((path / "preprocess.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{path / 'preprocess.json'} is missing or damaged ({error}); train again"
        ) from None
    return record


def _facts(paths: Sequence[Path], together: HeldOut) -> dict[str, Any]:
    runs = [json.loads((path / "run.json").read_text("utf-8")) for path in paths]
    plugins = {json.dumps(plugin, sort_keys=True): plugin for run in runs for plugin in run["plugins"]}
    constant = np.full(len(together), best_constant(together.price))
    return {
        "table": runs[0]["table"],
        "currency": runs[0].get("currency"),
        "rows": {**runs[0]["rows"], "valid": len(together)},
        "metrics": price_metrics(together.predicted, together.price),
        "constant_smape": smape(constant, together.price),
        "plugins": list(plugins.values()),
    }


def _copy_run(run: Path, folder: Path) -> None:
    """Copy a run's files but the checkpoint to resume from, onto the disk."""
    folder.mkdir(parents=True)
    for file in run.iterdir():
        if file.is_file() and file.name != LAST and not file.name.startswith("."):
            shutil.copyfile(file, folder / file.name)
            sync(folder / file.name)
    sync(folder)


def _write(out: Path, record: dict[str, Any], facts: dict[str, Any], together: HeldOut) -> None:
    """Write the folder under another name, and rename it when it is complete."""
    out = out.resolve()
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        for number, member in enumerate(record["members"]):
            _copy_run(Path(member["path"]), temporary / "members" / str(number))
        write_held_out(temporary, together)
        intervals = fit_intervals(together.predicted, together.price).to_json()
        write_text(temporary / INTERVALS, json.dumps(intervals) + "\n")
        write_text(temporary / "run.json", json.dumps(facts, indent=2) + "\n")
        write_text(temporary / FILE, json.dumps(record, indent=2) + "\n")
        sync(temporary)
        replace_folder(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
