"""Ensembles: weigh runs by their held-out predictions, and copy the runs into one folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.errors import TrainingError, check_intact
from pricekit.evaluation.calibration import fit_intervals
from pricekit.evaluation.comparison import row_keys
from pricekit.evaluation.held_out import FILE as HELD_OUT
from pricekit.evaluation.held_out import HeldOut, read_held_out, report_refit, write_held_out
from pricekit.evaluation.scores import constant_score, metric_of
from pricekit.features.assets import assets_in
from pricekit.formats import FORMAT
from pricekit.metrics import Metric, price_metrics
from pricekit.monitoring.sketch import FILE as SKETCH
from pricekit.monitoring.training_sketch import prices_of
from pricekit.runs.folder import FILES, INTERVALS, check_replaceable, is_run, read_sketch_of
from pricekit.runs.opened import CONFIG, ENSEMBLE, MEMBERS, is_ensemble
from pricekit.support.digests import LISTING, list_files
from pricekit.support.files import is_free, others, replace_folder, sync, temporary_path, write_text
from pricekit.support.locks import owned
from pricekit.support.progress import progress
from pricekit.training.checkpoint import checkpoints
from pricekit.workflows.latency import choose_within, seconds_per_row
from pricekit.workflows.weights import MIN_COMMON_ROWS, choose_weights


@dataclass(frozen=True)
class EnsembleInput:
    """A run, or the runs of a cross-validation, that an ensemble may use.

    Attributes:
        path: the folder.
        runs: the folders of the runs; the runs of a cross-validation share one weight.
        held_out: rows that the run, or the run of each fold, was not trained on.
    """

    path: Path
    runs: tuple[Path, ...]
    held_out: HeldOut


def make_ensemble(
    paths: Sequence[Path], out: Path, *, overwrite: bool = False, metric: str | None = None
) -> dict[str, Any]:
    """Create an ensemble of runs, which predicts the weighted geometric mean of their prices.

    The weights are best by the metric on the rows that all runs hold out, or are equal if that is better on rows that
    they were not fitted on. The metrics use, for each row, weights that were fitted without it.

    Args:
        paths: finished runs or cross-validations, at least two.
        out: a new or empty folder, or an ensemble to replace.
        overwrite: replace the ensemble in `out`.
        metric: to minimise; None: that of the first run.

    Returns:
        The content of `ensemble.json`, and `metrics` on the held-out rows.

    Raises:
        TrainingError: `out` exists or is being written, or the runs have too few held-out rows in common or
            read different columns.
        DataError: a folder has no held-out rows.
    """
    with owned(out, "ensemble", TrainingError):
        _check_free(out, overwrite)
        _check_common_rows([_read_input(path) for path in paths])
        combined = combine(paths, metric_of(paths, metric))
        _write_copies(out, combined)
        return combined.record | {"metrics": combined.facts["metrics"]}


@dataclass(frozen=True)
class Combined:
    """Runs with their weights.

    Attributes:
        record: the content of `ensemble.json`.
        facts: the content of `run.json`.
        held_out: rows that no member was trained on, with the prices of the ensemble.
    """

    record: dict[str, Any]
    facts: dict[str, Any]
    held_out: HeldOut

    @property
    def runs(self) -> list[Path]:
        """The folders of the members' runs."""
        return [Path(member["path"]) for member in self.record["members"]]


def combine(paths: Sequence[Path], metric: Metric, max_latency: float | None = None) -> Combined:
    """Weigh finished runs or cross-validations on the rows that all of them hold out; errors as of `make_ensemble`.

    With fewer than `MIN_COMMON_ROWS` rows, the weights are equal.

    Args:
        paths: runs or cross-validations.
        metric: to minimise.
        max_latency: seconds that the ensemble may need for one row; runs that cost more than they are worth are left
            out.
    """
    inputs = [_read_input(path) for path in paths]
    report_refit(paths)
    rows = _common_rows(inputs)
    predicted, chosen, latency = np.stack([one.predicted for one in rows], 1), list(range(len(inputs))), None
    if max_latency is not None:
        latency = [seconds_per_row(one.runs[0]) for one in inputs]
        chosen = choose_within(predicted, rows[0], metric, latency, max_latency)
    weights = np.zeros(len(inputs))
    weights[chosen], mixed = choose_weights(predicted[:, chosen], rows[0], metric)
    held_out = replace(rows[0], predicted=mixed)
    record = _record(inputs, rows, weights, metric, latency)
    members = [Path(member["path"]) for member in record["members"]]
    _check_columns(members)
    return Combined(record, _facts(members, held_out, metric), held_out)


def _check_free(out: Path, overwrite: bool) -> None:
    if is_free(out):
        return
    foreign = (
        others(out, [ENSEMBLE, INTERVALS, HELD_OUT, SKETCH, "run.json", MEMBERS, CONFIG, LISTING])
        if out.is_dir()
        else []
    )
    check_replaceable(out, "ensemble", own=is_ensemble(out), overwrite=overwrite, foreign=foreign)


def _read_input(path: Path) -> EnsembleInput:
    held_out = read_held_out(path)
    if is_ensemble(path):
        raise TrainingError(f"{path} is an ensemble; use the runs that it consists of", path=str(path))
    runs = (path,) if is_run(path) else tuple(path / f"fold-{fold}" for fold in np.unique(held_out.fold))
    if unfinished := [run for run in runs if not (run / "run.json").is_file()]:
        raise TrainingError(
            f"{unfinished[0]} is not a finished run; repeat the cross-validation", path=str(unfinished[0])
        )
    for run in runs:
        check_intact(run, (*FILES, *assets_in(run)))
    return EnsembleInput(path, runs, held_out)


def _common_rows(inputs: Sequence[EnsembleInput]) -> list[HeldOut]:
    """Return the rows that all inputs hold out, in one order."""
    keys = [row_keys(one.held_out) for one in inputs]
    common = keys[0]
    for key in keys[1:]:
        common = common.intersection(key, sort=False)
    return [one.held_out.take(key.get_indexer(common)) for one, key in zip(inputs, keys, strict=True)]


def _check_common_rows(inputs: Sequence[EnsembleInput]) -> None:
    """Raise TrainingError if too few rows are held out by all inputs."""
    common = len(_common_rows(inputs)[0])
    if common < MIN_COMMON_ROWS:
        counts = ", ".join(f"{one.path}: {len(one.held_out):,}" for one in inputs)
        raise TrainingError(
            f"the runs have {common} held-out rows in common ({counts}); at least {MIN_COMMON_ROWS} are needed. "
            "Train them on one table with the same seed, so that they hold out the same rows, or cross-validate them, "
            "which holds out every row",
            parameters=("seed",),
            rows=common,
        )


def _record(
    inputs: Sequence[EnsembleInput],
    rows: Sequence[HeldOut],
    weights: np.ndarray,
    metric: Metric,
    latency: Sequence[float] | None,
) -> dict[str, Any]:
    """Return the content of `ensemble.json`; runs of weight 0 are no members."""
    price, counts = rows[0].price, rows[0].weight
    scores = [metric(one.predicted, price, counts) for one in rows]
    members = [
        {"path": str(run), "weight": weight / len(one.runs), metric.name: score}
        for one, weight, score in zip(inputs, weights, scores, strict=True)
        if weight
        for run in one.runs
    ]
    candidates = [
        {
            "path": str(one.path),
            "weight": float(weight),
            metric.name: score,
            "without": _score_without(rows, number, metric),
            **({} if latency is None else {"seconds_per_row": latency[number]}),
        }
        for number, (one, weight, score) in enumerate(zip(inputs, weights, scores, strict=True))
    ]
    return {"metric": metric.name, "members": members, "candidates": candidates, "rows": len(price)}


def _score_without(rows: Sequence[HeldOut], number: int, metric: Metric) -> float | None:
    """Return the score of the ensemble of all models but one; None if there is only one."""
    others = [one.predicted for index, one in enumerate(rows) if index != number]
    if not others:
        return None
    _, mixed = choose_weights(np.stack(others, 1), rows[0], metric)
    return metric(mixed, rows[0].price, rows[0].weight)


def _check_columns(runs: Sequence[Path]) -> None:
    """Raise TrainingError if runs read different text columns: one table must serve all members."""
    read = {run: tuple(_read_preprocess(run)["columns"]["text"]) for run in runs}
    first, *others = read
    for run in others:
        if read[run] != read[first]:
            raise TrainingError(
                f"{first} reads its text from {', '.join(read[first])}, but {run} from {', '.join(read[run])}; members "
                "of an ensemble must read the same columns",
                parameters=("text",),
                columns={str(run): list(columns) for run, columns in read.items()},
            )


def _read_preprocess(run: Path) -> dict[str, Any]:
    file = run / "preprocess.json"
    try:
        record: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"{file} is missing or damaged ({error}); train again", path=str(run)) from None
    return record


def _facts(runs: Sequence[Path], ensemble: HeldOut, metric: Metric) -> dict[str, Any]:
    """Return the content of the ensemble's `run.json`."""
    facts = [json.loads((run / "run.json").read_text("utf-8")) for run in runs]
    plugins = {json.dumps(plugin, sort_keys=True): plugin for one in facts for plugin in one["plugins"]}
    return {
        "format": FORMAT,
        "table": facts[0]["table"],
        "currency": facts[0]["currency"],
        "rows": {**facts[0]["rows"], "valid": len(ensemble)},
        "metric": metric.name,
        "metrics": price_metrics(ensemble.predicted, ensemble.price, metric.name, ensemble.weight),
        "constant_score": constant_score(ensemble, ensemble, metric),
        "plugins": list(plugins.values()),
    }


def _copy_run(run: Path, folder: Path) -> None:
    """Copy a run's files except the checkpoints to resume from, and sync them to disk."""
    folder.mkdir(parents=True)
    left_out = checkpoints(run)
    for file in run.iterdir():
        if file.is_file() and file not in left_out and not file.name.startswith("."):
            shutil.copyfile(file, folder / file.name)
            sync(folder / file.name)
    sync(folder)


def _write_copies(out: Path, combined: Combined) -> None:
    """Copy the runs and write the ensemble under a temporary name, and rename it once it is complete."""
    out = out.resolve()
    temporary = temporary_path(out)
    try:
        temporary.mkdir(parents=True)
        names = [str(number) for number in range(len(combined.runs))]
        with progress("copying the runs", len(names)) as advance:
            for name, run in zip(names, combined.runs, strict=True):
                _copy_run(run, temporary / MEMBERS / name)
                advance(1)
        write_ensemble(temporary, combined, names)
        sync(temporary)
        replace_folder(temporary, out)
    except OSError as error:
        error.filename = error.filename or str(out)  # an error for a full disk may have no file name
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_ensemble(folder: Path, combined: Combined, names: Sequence[str]) -> None:
    """Write the files of an ensemble into the folder that already contains its members; `run.json` is the last.

    Args:
        folder: of the ensemble.
        combined: the members and their weights.
        names: of the members' folders, in their order.
    """
    members = [
        member | {"folder": name} for member, name in zip(combined.record["members"], names, strict=True)
    ]
    write_held_out(folder, combined.held_out)
    intervals = fit_intervals(combined.held_out.predicted, combined.held_out.price).to_json()
    write_text(folder / INTERVALS, json.dumps(intervals) + "\n")
    _write_sketch(folder, folder / MEMBERS / names[0], combined.held_out)
    record = json.dumps(combined.record | {"members": members}, indent=2) + "\n"
    write_text(folder / ENSEMBLE, record)
    facts = json.dumps(combined.facts, indent=2) + "\n"
    listed = [*(f"{MEMBERS}/{name}/{LISTING}" for name in names), HELD_OUT, INTERVALS, SKETCH, ENSEMBLE]
    list_files(folder, listed, {"run.json": facts})
    write_text(folder / "run.json", facts)


def _write_sketch(folder: Path, first: Path, held_out: HeldOut) -> None:
    """Write the sketch of the first member, with the predictions of the ensemble."""
    prices = prices_of(held_out.predicted, held_out.price)
    write_text(folder / SKETCH, read_sketch_of(first).model_copy(update={"prices": prices}).to_text())
