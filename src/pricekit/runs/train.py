"""Training: from a table to a finished run, in three steps: prepare, fit, finish. A refit repeats them on all rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from pricekit.config import RunConfig
from pricekit.core.calls import observed, unobserved
from pricekit.errors import PluginError, TrainingError
from pricekit.evaluation.held_out import held_out_of, write_held_out
from pricekit.evaluation.scores import Goal, constant_score, goal_of
from pricekit.features.fit import folds_of
from pricekit.features.forest import Forest
from pricekit.features.trees import WordTerms, linear_out_of_fold
from pricekit.insight.sketch import SKETCH
from pricekit.insight.training_sketch import first_sketch, second_sketch
from pricekit.io.digests import write_listed
from pricekit.io.files import write_text
from pricekit.io.locks import owned
from pricekit.io.log import logger, quiet
from pricekit.io.mapped import rows_read
from pricekit.io.progress import progress, tracked
from pricekit.io.record import Mode, advance_to, check_intact, clear_away, read_intact, state_of
from pricekit.io.staging import keep_others, publish_pass
from pricekit.metrics import Metric, metric_named, price_metrics
from pricekit.nets.inference import predict
from pricekit.nets.losses import aimed_price
from pricekit.nets.network import PriceModel
from pricekit.predict.intervals import INTERVALS, fit_intervals, fit_spread, rows_for_spread, spread_of
from pricekit.runs.folder import (
    FINISHED,
    REFIT_FINISHED,
    SAMPLE_ROWS,
    check_same_rows,
    read_preprocessor,
    read_sketch_of,
    read_source,
    writing,
)
from pricekit.runs.inputs import delete_inputs
from pricekit.runs.opened import open_files, read_sample
from pricekit.runs.prepare import (
    NO_TRIAL,
    Pass,
    Trial,
    plugins_of,
    prepare,
    prepare_fold,
    prepare_refit,
)
from pricekit.runs.pseudo_labels import add_pseudo_labels
from pricekit.runs.refit import (
    FirstPass,
    first_job,
    job_until,
    other_folds,
    refit_job,
    refits,
    share_of_first,
)
from pricekit.runs.split import Source, Split, load_split
from pricekit.table import Table, concat_tables
from pricekit.text.words import words_of
from pricekit.training.batches import PricedInputs
from pricekit.training.checkpoint import BEST, TrainingState, checkpoints, read_state
from pricekit.training.loop import Job, Stage, fit
from pricekit.training.parallel import Processes
from pricekit.training.time_budget import first_pass_ends, training_ends
from pricekit.wording import counted

ESTIMATE_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of a feature's own estimate in the price, of which the validation rows choose one."""


def train(
    source: Source,
    config: RunConfig,
    out: Path,
    mode: Mode = "new",
    *,
    started: float | None = None,
    trial: Trial = NO_TRIAL,
) -> dict[str, Any]:
    """Train a model into the folder `out`.

    Args:
        source: the tables.
        config: from `pricekit.config.resolve.configure`, which also resolves the options of plugins.
        out: the folder.
        mode: "new": it is new or empty; "resume": its run is continued from the last checkpoint, or from its beginning
            if it has none; "overwrite": it is replaced, and what is finished stays until the new run is complete.
        started: `time.perf_counter()` when the work began, from which a time budget counts; None: now.
        trial: of a search.

    Returns:
        The content of `run.json`: table, currency, price unit, rows, best epoch, seconds, metrics and plugins.

    Raises:
        DataError: the table cannot be used, or the price leaks.
        TrainingError: `out` may not be written or is being written, training failed, or the rows differ from those of
            the run to resume.
        ConfigError, PluginError: a setting or a plugin is invalid.
        KeyboardInterrupt: training was interrupted; a checkpoint was written.
    """
    started = time.perf_counter() if started is None else started
    with writing(out, "run", mode, shown=config.speed.progress) as folder:
        part, job = prepare(source, config, folder, started, trial)
        if job.processes.main and folder.path != out:  # for observers, who read their files
            keep_others(out, folder.path)
        settings = job.config.model_dump(mode="json", exclude_none=True)
        rows = {"train": len(part.split.train), "valid": len(part.split.valid)}
        start = {"config": settings, "rows": rows, "resumed": folder.resumed}
        with observed("run", folder.path, start, enabled=job.processes.main) as facts:
            facts |= _train(part, job, started)
        job.processes.wait()
        return facts


def train_unless_finished(source: Source, config: RunConfig, folder: Path) -> dict[str, Any]:
    """Train a run that is a part of something larger, or continue it; return its facts.

    Args:
        source: the tables and the rows.
        config: of the run.
        folder: of the run; a finished one is only checked.

    Raises:
        PricekitError: as `train`; or a finished run is damaged or has other rows.
    """
    processes = Processes()
    if not processes.from_main(float(state_of(folder).name == "finished")):
        return train(source, config, folder, "resume")
    with owned(folder, "run", TrainingError, enabled=processes.main):  # deletes the lock of a killed process
        check_intact(folder, None)
        split = add_pseudo_labels(source, load_split(source, config), config, folder)
        check_same_rows(folder, read_source(folder)["digest"] == split.digest())
        return read_intact(folder, "run.json")


def _train(part: Pass, job: Job, started: float) -> dict[str, Any]:
    """Train the only pass of a run, or both, or the second one of a run that is resumed in it; return its facts."""
    budget, first = job.config.training.time_budget, part.first
    if first is not None:
        return _refit(part, job, first, started, first.facts["seconds"])
    ends, fits = training_ends(budget, part.seconds), False
    if refits(job.config, part.source):
        ends, fits = first_pass_ends(budget, started, part.seconds, share_of_first(part.split))
        fits = bool(job.processes.from_main(float(fits)))
    job = first_job(job, part.split, ends) if fits else job_until(job, ends)
    state = fit(job, part.run, resume=part.resumed, started=started)
    folds = [_validate(part, job, state)]
    if fits and job.processes.count == 1:
        folds += _validate_others(part, job)
    facts = measure(part, job, folds, state, started)
    if fits:
        first = FirstPass(facts, state.history, state.position, read_state(part.run / BEST)["step"])
        if job.processes.main:
            delete_inputs(part.run)  # the second pass has others
        job.processes.wait()
        return _refit(*prepare_refit(part, first), first, started, state.seconds)
    if job.processes.main:
        complete_run(part.run, facts, job.model, FINISHED)
    return facts


def _refit(part: Pass, job: Job, first: FirstPass, started: float, earlier: float) -> dict[str, Any]:
    """Train the second pass of two, on all rows, and finish the run with its weights.

    If the time budget leaves it fewer steps than the first pass took, the weights of that pass are kept.

    Args:
        part: the second pass.
        job: of it.
        first: the results of the first one.
        started: `time.perf_counter()` when this process began.
        earlier: seconds of training in other processes, which a checkpoint of the second pass contains.
    """
    run, folder, budget = part.run, part.folder, job.config.training.time_budget
    stage = Stage(run, first.position, earlier, history=first.history)
    job = refit_job(replace(job, stage=stage), first, training_ends(budget, part.seconds))
    state = fit(job, folder, resume=part.resumed, started=started)
    seconds = round(state.seconds + time.perf_counter() - started, 1)
    complete = budget is None or state.step >= first.best_steps
    facts = first.facts | {"seconds": seconds}
    if complete:
        facts["refit"] = {"rows": len(job.train.price), "epochs": state.epoch}
    elif folder == run:
        raise TrainingError(
            f"the time budget leaves {counted(state.step, 'step')} for the second pass of {run}, and the weights of "
            "the first one no longer exist; give more time",
            parameters=("time_budget",),
            path=str(run),
        )
    else:
        logger.warning(
            f"the time budget leaves {counted(state.step, 'step')} for the refit, and the first pass took "
            f"{first.best_steps:,} until its best epoch: its weights are kept, and no row of the validation is trained "
            "on. Give more time, or train without the refit"
        )
    if not job.processes.main:
        return facts
    job.model.cpu()
    job.model.estimate_share = facts["estimate_share"]
    if complete:
        rows = part.rows
        sketch = second_sketch(read_sketch_of(run), rows, job.train.inputs, read_preprocessor(folder))
        write_text(folder / SKETCH, sketch.to_text())
        complete_run(folder, facts, job.model, REFIT_FINISHED)
        publish_pass(run)
    else:
        clear_away(folder)
        complete_run(run, facts, None, FINISHED)
    return facts


@dataclass(frozen=True)
class Validation:
    """Rows that a training has held out, with what it says about them.

    Attributes:
        rows: N rows.
        best_epoch: of the training.
        network: the network's prices, float32 (N,).
        estimate: log prices that a feature estimates, float32 (N,); None without such a feature.
        forest: of the spread.
        spread: float32 (N,).
    """

    rows: Table
    best_epoch: int
    network: np.ndarray
    estimate: np.ndarray | None
    forest: Forest | None
    spread: np.ndarray


def _validate(part: Pass, job: Job, state: TrainingState) -> Validation:
    """Price the validation rows of a pass, after its training."""
    split, valid, place = part.split, job.valid, job.model.estimate
    assert valid is not None
    with (
        _without_compilation(job.config),
        progress("pricing the validation rows", len(split.valid)) as advance,
    ):
        size = job.config.training.eval_batch_size
        own = predict(job.model, valid.inputs, size, part=job.processes.part, advance=advance)
    network = job.processes.sum(torch.from_numpy(own)).numpy()
    job.model.cpu()
    forest = None
    if job.processes.main:
        forest = _forest_of_spread(split, job.train, place)
    features = valid.inputs.features
    estimate = None if place is None else features[:, place]
    return Validation(split.valid, state.best_epoch, network, estimate, forest, spread_of(forest, features))


def _validate_others(part: Pass, job: Job) -> list[Validation]:
    """Train on the other folds of few rows, and price what each of them holds out."""
    splits = other_folds(part.split, job.config)
    if not splits:
        return []
    logger.info(
        f"the rows are few: the first pass is repeated {counted(len(splits), 'time')} on other parts of them, so that "
        f"all {len(part.split.train) + len(part.split.valid):,} rows validate and calibrate"
    )
    validations = []
    with unobserved(), tracked("validating the other rows", splits) as turns:
        for split in turns:
            with TemporaryDirectory() as name, quiet():
                fold, fold_job = prepare_fold(part, split, Path(name) / "run")
                state = fit(fold_job, fold.run, resume=False, started=time.perf_counter())
                validations.append(_validate(fold, fold_job, state))
    return validations


def measure(
    part: Pass, job: Job, folds: Sequence[Validation], state: TrainingState, started: float
) -> dict[str, Any]:
    """Write the validation rows with their prices, and the price intervals; return the facts of the run.

    Args:
        part: the first pass, or the only one.
        job: of it, with the trained model, whose `estimate_share` is chosen here.
        folds: its validation rows, and those of the other folds.
        state: of its training.
        started: `time.perf_counter()` when the work began.
    """
    out, split, valid = part.run, part.split, job.valid
    assert valid is not None
    held_out, init = concat_tables([fold.rows for fold in folds]), read_source(out).get("init")
    prices, actual = _with_estimate(job, held_out, folds, init), held_out.known_price
    if job.processes.main:
        spread = np.concatenate([fold.spread for fold in folds])
        intervals = fit_intervals([folds[0].forest], prices, actual, spread, held_out.weight)
        write_text(out / INTERVALS, intervals.to_text())
        number = np.repeat(np.arange(len(folds)), [len(fold.rows) for fold in folds])
        write_held_out(out, held_out_of(held_out, prices, number, spread=spread))
        sketch = first_sketch(
            split.train,
            job.train.inputs,
            read_preprocessor(out),
            predicted=prices,
            held_out=valid.inputs.features,
            price=actual,
        )
        write_text(out / SKETCH, sketch.to_text())
    return ({} if init is None else {"init": init}) | {
        "table": part.source.table_name,
        "currency": split.train.price_style.currency,
        "price_unit": split.train.price_style.unit,
        "rows": split.count() | {"valid": len(held_out)},
        **({} if split.variants is None else {"variants": split.variants.to_dict()}),
        "best_epoch": state.best_epoch,
        **({} if len(folds) == 1 else {"best_epochs": [fold.best_epoch for fold in folds]}),
        "seconds": round(state.seconds + time.perf_counter() - started, 1),
        "metric": job.config.metric,
        "metrics": price_metrics(prices, actual, job.config.metric, held_out.weight),
        "estimate_share": job.model.estimate_share,
        "constant_score": _constant_score(
            held_out, split.train, job.model.loss, metric_named(job.config.metric)
        ),
        "plugins": [entry.facts() for entry in plugins_of(job.config)],
    }


def complete_run(
    folder: Path, facts: dict[str, Any], model: PriceModel | None, finished: Sequence[str]
) -> None:
    """Write `run.json`, compare the run with the model, and mark it as finished.

    Args:
        folder: of the pass whose weights are kept.
        facts: the content of `run.json`.
        model: with these weights; None: it is no longer in memory.
        finished: the files that `files.json` lists now.
    """
    delete_inputs(folder)
    write_listed(folder, "run.json", facts, finished)
    if model is not None:
        _check_reopened(folder, model)
    advance_to(folder, "finished")
    for earlier in checkpoints(folder)[1:]:
        earlier.unlink(missing_ok=True)
    warn_if_useless(goal_of(facts))


def _with_estimate(
    job: Job, rows: Table, folds: Sequence[Validation], init: Mapping[str, Any] | None
) -> np.ndarray:
    """Choose how much of the price is the estimate of a feature; return the prices of the validation rows.

    Args:
        job: with the trained model, whose share is set.
        rows: the validation rows.
        folds: what was validated of them, in order.
        init: what was taken over from the run that this one continues: its share, too, which more rows have chosen.
    """
    model, price = job.model, np.concatenate([fold.network for fold in folds])
    estimates = [fold.estimate for fold in folds if fold.estimate is not None]
    if not estimates or job.config.training.keep != "best":
        return price  # with the last weights, the validation rows choose nothing
    if not model.loss.central:
        return price
    shares = ESTIMATE_SHARES if init is None else (float(init["estimate_share"]),)
    network, estimate = np.log(price), np.concatenate(estimates)
    mixed: list[np.ndarray] = [np.exp((1 - share) * network + share * estimate) for share in shares]
    metric = metric_named(job.config.metric)
    best = int(np.argmin([metric(prices, rows.known_price, rows.weight) for prices in mixed]))
    model.estimate_share = shares[best]
    if shares[best]:
        logger.info(f"{shares[best]:.0%} of the price is a feature's own estimate, the rest the network's")
    return mixed[best]


def _forest_of_spread(split: Split, train: PricedInputs, place: int | None) -> Forest | None:
    """Grow the forest of the spread from the errors of estimates of training rows that were not learned from the row.

    The estimate is the feature column at `place`, or else that of a linear model of the words. Pseudo-labels have other
    errors.
    """
    count = len(train.price) - (0 if split.pseudo_labelled is None else len(split.pseudo_labelled))
    rows = rows_for_spread(count)
    features, log_price = train.inputs.features[rows], np.log(train.price[rows])
    rows_read(len(rows))
    weight = None if train.weight is None else train.weight[rows]
    if not features.size:
        return None
    if place is not None:
        estimate = features[:, place].astype(np.float64)
    else:
        table = split.train.take(rows)
        terms = [WordTerms(part) for part in words_of(table.text)]
        estimate = linear_out_of_fold(terms, log_price, folds_of(table), weight)
    return fit_spread(features, np.abs(log_price - estimate), weight)


def _constant_score(valid: Table, train: Table, loss: Any, metric: Metric) -> float:
    """Return the score of the best constant price; for a loss that is not central, of the one that it aims at."""
    if loss.central:
        return constant_score(valid, train, metric)
    price = aimed_price(loss, torch.from_numpy(train.known_price))
    return metric(np.full(len(valid), price), valid.known_price, valid.weight)


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
    run = open_files(out)
    inputs = run.preprocessor(read_sample(run))
    with _without_compilation(run.config):
        expected, reopened = (predict(one, inputs, SAMPLE_ROWS) for one in (model, run.model))
    if not np.allclose(reopened, expected, rtol=1e-4):
        raise PluginError(
            f"the run {out} predicts different prices after it is reopened: the backbone or the loss stores fitted "
            "values outside of its parameters and buffers; report it to the plugin's author"
        )
