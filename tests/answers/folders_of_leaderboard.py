"""Folders that look like finished models, written without training."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from conftest import held_out_rows, tiny_config, write_judged
from pricekit.evaluation.held_out import HeldOut, write_held_out
from pricekit.io.record import Record, write_record


def worse(factor: float, count: int = 100) -> HeldOut:
    """Rows whose predictions are too high by a factor, with some noise that is the same for each factor."""
    rows = held_out_rows(count, noise=0.1)
    return replace(rows, predicted=rows.predicted * factor)


def part_of(rows: HeldOut, first: int, last: int) -> HeldOut:
    """Some of the rows."""
    return rows.take(np.arange(first, last))


def write_run(folder: Path, rows: HeldOut, *layers: dict, finished: bool = True, **facts: object) -> Path:
    """Write a run: the files that a leaderboard reads."""
    folder.mkdir(parents=True)
    write_record(folder, Record("run", "finished" if finished else "unfinished"))
    (folder / "config.toml").write_text(tiny_config(*layers).to_toml())
    (folder / "best.safetensors").write_bytes(b"0" * 1000)
    if finished:
        write_judged(folder, rows)
        record = {"metric": "smape", "seconds": 10.0, "currency": "USD", **facts}
        (folder / "run.json").write_text(json.dumps(record))
    return folder


def write_ensemble(folder: Path, rows: HeldOut, *members: dict) -> Path:
    """Write an ensemble with one member for each layer of settings; it was combined from runs, without a time."""
    for number, layer in enumerate(members):
        write_run(folder / "members" / str(number), rows, layer)
    listed = [{"folder": str(n), "path": "gone", "weight": 1 / len(members)} for n in range(len(members))]
    (folder / "ensemble.json").write_text(json.dumps({"members": listed}))
    (folder / "run.json").write_text(json.dumps({"metric": "smape", "currency": "USD"}))
    write_judged(folder, rows, "ensemble")
    return folder


def write_cv(folder: Path, rows: HeldOut, *layers: dict, folds: int = 2) -> Path:
    """Write a cross-validation."""
    for fold in range(folds):
        write_run(folder / f"fold-{fold}", rows, *layers)
    listed = [{"fold": fold, "seconds": 10.0} for fold in range(folds)]
    record = {"metric": "smape", "folds": listed, "seconds": 20.0}
    write_record(folder, Record("cross-validation", "finished"))
    (folder / "cv.json").write_text(json.dumps(record))
    write_held_out(folder, rows)
    return folder
