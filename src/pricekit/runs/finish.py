"""The last step of training: the validation rows are priced, and the last files are written and checked."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pricekit.config import RunConfig
from pricekit.errors import PluginError
from pricekit.evaluation.calibration import fit_intervals
from pricekit.evaluation.held_out import held_out_of, write_held_out
from pricekit.evaluation.scores import Goal, constant_score, goal_of
from pricekit.formats import FORMAT
from pricekit.metrics import metric_named, price_metrics
from pricekit.model.inference import predict
from pricekit.model.network import PriceModel
from pricekit.monitoring.sketch import FILE as SKETCH
from pricekit.monitoring.training_sketch import first_sketch, second_sketch
from pricekit.runs.folder.contents import read_preprocessor, read_sketch_of
from pricekit.runs.folder.names import FINISHED, INTERVALS, SAMPLE_ROWS
from pricekit.runs.folder.opened import open_run, read_sample
from pricekit.runs.folder.states import read_source
from pricekit.runs.inputs import delete_inputs
from pricekit.runs.preparing.prepare import Prepared
from pricekit.runs.refit import all_rows
from pricekit.support.digests import list_files
from pricekit.support.files import write_text
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.training.checkpoint import TrainingState, checkpoints

ESTIMATE_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of a feature's own estimate in the price, of which the validation rows choose one."""


def finish(prepared: Prepared, state: TrainingState, out: Path, started: float) -> dict[str, Any]:
    """Price the validation rows with the best weights, and write the last files of the run.

    Args:
        prepared: the run.
        state: of the finished training.
        out: folder of the run.
        started: `time.perf_counter()` when the run began.

    Returns:
        The content of `run.json`.

    Raises:
        PluginError: the run predicts different prices after it is reopened.
    """
    facts = measure(prepared, state, out, started)
    if prepared.job.processes.main:
        complete_run(out, facts, prepared.job.model, FINISHED)
    return facts


def measure(prepared: Prepared, state: TrainingState, out: Path, started: float) -> dict[str, Any]:
    """Price the validation rows, and write them and the price intervals; return the facts of the run."""
    job, split = prepared.job, prepared.split
    actual = split.valid.known_price
    with _without_compilation(job.config):
        prices = _with_estimate(prepared, _price(prepared))
    job.model.cpu()
    if job.processes.main:
        intervals = fit_intervals(prices, actual, split.valid.weight).to_json()
        write_text(out / INTERVALS, json.dumps(intervals) + "\n")
        write_held_out(out, held_out_of(split.valid, prices))
        _write_sketch(prepared, out, prices)
    init = {"init": found} if (found := read_source(prepared.folder).get("init")) else {}
    return init | {
        "format": FORMAT,
        "table": prepared.source.table_name,
        "currency": split.train.currency,
        "rows": split.count(),
        "best_epoch": state.best_epoch,
        "seconds": round(state.seconds + time.perf_counter() - started, 1),
        "metric": job.config.metric,
        "metrics": price_metrics(prices, actual, job.config.metric, split.valid.weight),
        "estimate_share": job.model.estimate_share,
        "constant_score": constant_score(split.valid, split.train, metric_named(job.config.metric)),
        "plugins": [entry.facts() for entry in prepared.entries],
    }


def _write_sketch(prepared: Prepared, out: Path, predicted: np.ndarray) -> None:
    """Write the sketch of the training rows; `predicted` are the prices of the validation rows."""
    job, split = prepared.job, prepared.split
    assert job.valid is not None
    preprocessor = read_preprocessor(prepared.folder)
    held_out = {"held_out": job.valid.inputs.features, "price": split.valid.known_price}
    sketch = first_sketch(split.train, job.train.inputs, preprocessor, predicted=predicted, **held_out)
    write_text(out / SKETCH, sketch.to_text())


def renew_sketch(prepared: Prepared, out: Path) -> None:
    """Write the sketch of all rows into the folder of the second pass."""
    inputs, preprocessor = prepared.job.train.inputs, read_preprocessor(prepared.folder)
    sketch = second_sketch(read_sketch_of(out), all_rows(prepared.split), inputs, preprocessor)
    write_text(prepared.folder / SKETCH, sketch.to_text())


def complete_run(
    folder: Path, facts: dict[str, Any], model: PriceModel | None, finished: Sequence[str]
) -> None:
    """Write `run.json`, and compare the run with the model.

    Args:
        folder: of the pass whose weights are kept.
        facts: the content of `run.json`.
        model: with these weights; None: it is no longer in memory.
        finished: the files that `files.json` lists now.
    """
    delete_inputs(folder)
    record = json.dumps(facts, indent=2) + "\n"
    list_files(folder, finished, {"run.json": record})
    write_text(folder / "run.json", record)
    if model is not None:
        _check_reopened(folder, model)
    for earlier in checkpoints(folder)[1:]:
        earlier.unlink(missing_ok=True)
    warn_if_useless(goal_of(facts))


def _price(prepared: Prepared) -> np.ndarray:
    """Return the model's prices of the validation rows, float32 (N,)."""
    job, valid = prepared.job, prepared.job.valid
    assert valid is not None
    with progress("pricing the validation rows", len(valid.price), shown=job.config.speed.progress) as bar:
        size = job.config.training.eval_batch_size
        own = predict(job.model, valid.inputs, size, share=job.processes.share, advance=bar)
    return job.processes.sum(torch.from_numpy(own)).numpy()


def _with_estimate(prepared: Prepared, price: np.ndarray) -> np.ndarray:
    """Choose how much of the price is the estimate of a feature; return the prices of the validation rows.

    A run that continues another one keeps that one's share, which more rows have chosen.

    Args:
        prepared: the trained model, whose share is set.
        price: the network's price of each validation row, float32 (N,).
    """
    model, valid = prepared.job.model, prepared.job.valid
    if model.estimate is None or valid is None or prepared.job.config.training.keep != "best":
        return price  # with the last weights, the validation rows choose nothing
    if not getattr(model.loss, "central", True):
        return price
    init = read_source(prepared.folder).get("init")
    shares = ESTIMATE_SHARES if init is None else (float(init["estimate_share"]),)
    network, estimate = np.log(price), valid.inputs.features[:, model.estimate]
    mixed: list[np.ndarray] = [np.exp((1 - share) * network + share * estimate) for share in shares]
    metric = metric_named(prepared.job.config.metric)
    best = int(np.argmin([metric(prices, valid.price, valid.weight) for prices in mixed]))
    model.estimate_share = shares[best]
    if shares[best]:
        logger.info(f"{shares[best]:.0%} of the price is a feature's own estimate, the rest the network's")
    return mixed[best]


def warn_if_useless(goal: Goal) -> None:
    """Warn about a model that is no better than a constant price on held-out rows."""
    if goal.missed:
        metric = goal.metric
        logger.warning(
            f"the {metric.title} of {metric.write(goal.score)} is not below that of a constant price, "
            f"{metric.write(goal.constant)}: the model has "
            "learned nothing that helps. Check that the text columns describe the products and that prices are read "
            "correctly; then train longer, with a lower training.learning_rate, or on more rows"
        )


def _without_compilation(config: RunConfig) -> AbstractContextManager[object]:
    """Disable compilation while the block runs, because it does not pay off for a few batches."""
    if not config.speed.compile:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _check_reopened(out: Path, model: PriceModel) -> None:
    """Check on the sample rows that the run, opened as for prediction, predicts the same prices as the model."""
    run = open_run(out)
    inputs = run.preprocessor(read_sample(run))
    with _without_compilation(run.config):
        expected, found = (predict(one, inputs, SAMPLE_ROWS) for one in (model, run.model))
    if not np.allclose(found, expected, rtol=1e-4):
        (out / "run.json").unlink()
        raise PluginError(
            f"the run {out} predicts different prices after it is reopened: the backbone or the loss stores fitted "
            "values outside of its parameters and buffers; report it to the plugin's author"
        )
