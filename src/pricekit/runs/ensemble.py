"""Ensembles: train the members that a configuration names, or copy runs; weigh them by their held-out predictions.

`train_model` also trains a single run, if the configuration names no members.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.config import RunConfig
from pricekit.config.resolve import member_configs
from pricekit.errors import ConfigError, TrainingError
from pricekit.evaluation.comparison import shared_rows
from pricekit.evaluation.held_out import HELD_OUT, HeldOut, read_held_out, report_refit, write_held_out
from pricekit.evaluation.scores import constant_score, goal_of, metric_of
from pricekit.insight.sketch import SKETCH
from pricekit.insight.training_sketch import prices_of
from pricekit.io.digests import LISTING, list_files, unlist_files, write_listed
from pricekit.io.files import read_json, write_json, write_text
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.mapped import folder_for_files
from pricekit.io.progress import tracked
from pricekit.io.record import (
    Mode,
    Record,
    advance_to,
    check_apart,
    check_intact,
    check_output,
    clear_away,
    finished_record,
    read_intact,
    state_of,
    write_record,
)
from pricekit.io.staging import new_or_replaced
from pricekit.metrics import SMAPE, Metric, metric_named, price_metrics
from pricekit.predict.intervals import INTERVALS, fit_intervals, intervals_in
from pricekit.runs.chosen_columns import with_columns
from pricekit.runs.folder import (
    CONFIG,
    ENSEMBLE,
    ENSEMBLE_FINISHED,
    MEMBERS,
    SOURCE,
    Folder,
    check_tables,
    read_sketch_of,
    require_plugins,
    saved_config,
    to_resume,
    writing,
)
from pricekit.runs.opened import open_run, read_sample
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train, train_unless_finished, warn_if_useless
from pricekit.runs.warm_start import new_config
from pricekit.training.checkpoint import checkpoints
from pricekit.training.parallel import Processes
from pricekit.wording import duration, milliseconds

MIN_WEIGHT = 0.02
"""A model with a lower weight is left out, because it costs as much prediction time as any other."""

GRADIENT_STEP = 0.01
"""Change of a weight for numerical gradients; wide, because a median is constant between the terms of two rows."""

PARTS = 5
"""Number of parts into which the rows of a single fold are divided for cross-fitting."""

MIN_COMMON_ROWS = 20
"""Rows that all runs must hold out; weights fitted on fewer are unreliable."""

CALLS, WARM_UP = 30, 5
"""Rows of the sample that are priced one by one, and those before them that are not timed."""


def make_ensemble(
    paths: Sequence[Path], out: Path, mode: Mode = "new", *, metric: str | None = None
) -> dict[str, Any]:
    """Create an ensemble of runs, which predicts the weighted geometric mean of their prices.

    The weights are best by the metric on the rows that all runs hold out, or are equal if that is better on rows that
    they were not fitted on. The metrics use, for each row, weights that were fitted without it.

    Args:
        paths: finished runs or cross-validations, at least two.
        out: the folder.
        mode: "new": it is new or empty; "overwrite": it is replaced.
        metric: to minimise; None: that of the first run.

    Returns:
        The content of `ensemble.json`, and `metrics` on the held-out rows.

    Raises:
        TrainingError: `out` may not be written or is being written, or the runs have too few held-out rows in common
            or read different columns.
        DataError: a folder has no held-out rows.
    """
    with owned(out, "ensemble", TrainingError):
        check_apart(out, paths)
        check_output(out, "ensemble", mode)
        inputs = [_read_input(path) for path in paths]
        _check_common_rows(inputs)
        combined = combine(inputs, metric_of(paths, metric))
        _write_copies(out, combined)
        return combined.record | {"metrics": combined.facts["metrics"]}


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


@dataclass(frozen=True)
class Combined:
    """Runs with their weights.

    Attributes:
        runs: the folders of the members' runs.
        record: the content of `ensemble.json`.
        facts: the content of `run.json`.
        held_out: rows that no member was trained on, with the prices of the ensemble.
    """

    runs: list[Path]
    record: dict[str, Any]
    facts: dict[str, Any]
    held_out: HeldOut


def combine(inputs: Sequence[EnsembleInput], metric: Metric, max_latency: float | None = None) -> Combined:
    """Weigh finished runs or cross-validations on the rows that all of them hold out; errors as of `make_ensemble`.

    With fewer than `MIN_COMMON_ROWS` rows, the weights are equal.

    Args:
        inputs: runs or cross-validations.
        metric: to minimise.
        max_latency: seconds that the ensemble may need for one row; runs that cost more than they are worth are left
            out.
    """
    report_refit([one.path for one in inputs])
    rows = shared_rows([one.held_out for one in inputs])
    predicted, chosen, latency = np.stack([one.predicted for one in rows], 1), list(range(len(inputs))), None
    if max_latency is not None:
        latency = [seconds_per_row(one.runs[0]) for one in inputs]
        chosen = choose_within(predicted, rows[0], metric, latency, max_latency)
    weights = np.zeros(len(inputs))
    weights[chosen], mixed = choose_weights(predicted[:, chosen], rows[0], metric)
    spread = weighted(np.stack([one.spread for one in rows], 1), weights)
    held_out = replace(rows[0], predicted=mixed, spread=spread)
    record = _record(inputs, rows, weights, metric, latency)
    runs = [Path(member["path"]) for member in record["members"]]
    _check_columns(runs)
    return Combined(runs, record, _facts(runs, held_out, metric), held_out)


def _read_input(path: Path) -> EnsembleInput:
    held_out, kind = read_held_out(path), state_of(path).kind
    if kind == "ensemble":
        raise TrainingError(f"{path} is an ensemble; use the runs that it consists of", path=str(path))
    folds = np.unique(held_out.fold).tolist()
    runs = tuple(path / f"fold-{fold}" for fold in folds) if kind == "cross-validation" else (path,)
    for run in runs:
        finished_record(run, "run")
        check_intact(run, None)
    return EnsembleInput(path, runs, held_out)


def _check_common_rows(inputs: Sequence[EnsembleInput]) -> None:
    """Raise TrainingError if too few rows are held out by all inputs."""
    common = len(shared_rows([one.held_out for one in inputs])[0])
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
    price, counts, predicted = rows[0].price, rows[0].weight, np.stack([one.predicted for one in rows], 1)
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
            "without": None
            if len(rows) == 1
            else _mixed_score(np.delete(predicted, number, 1), rows[0], metric),
            **({} if latency is None else {"seconds_per_row": latency[number]}),
        }
        for number, (one, weight, score) in enumerate(zip(inputs, weights, scores, strict=True))
    ]
    return {"metric": metric.name, "members": members, "candidates": candidates, "rows": len(price)}


def _check_columns(runs: Sequence[Path]) -> None:
    """Raise TrainingError if runs read different text columns: one table must serve all members."""
    read: dict[Path, list[str]] = {}
    for run in runs:
        read[run] = read_intact(run, "preprocess.json")["columns"]["text"]
    first, *others = read
    for run in others:
        if read[run] != read[first]:
            raise TrainingError(
                f"{first} reads its text from {', '.join(read[first])}, but {run} from {', '.join(read[run])}; members "
                "of an ensemble must read the same columns",
                parameters=("text",),
                columns={str(run): columns for run, columns in read.items()},
            )


def _facts(runs: Sequence[Path], ensemble: HeldOut, metric: Metric) -> dict[str, Any]:
    """Return the content of the ensemble's `run.json`."""
    facts = [read_json(run / "run.json") for run in runs]
    plugins = {json.dumps(plugin, sort_keys=True): plugin for one in facts for plugin in one["plugins"]}
    return {
        "table": facts[0]["table"],
        "currency": facts[0]["currency"],
        "price_unit": facts[0]["price_unit"],
        "rows": {**facts[0]["rows"], "valid": len(ensemble)},
        "metric": metric.name,
        "metrics": price_metrics(ensemble.predicted, ensemble.price, metric.name, ensemble.weight),
        "constant_score": constant_score(ensemble, ensemble, metric),
        "plugins": list(plugins.values()),
    }


def _write_copies(out: Path, combined: Combined) -> None:
    """Copy the runs and write the ensemble under a temporary name, and rename it once it is complete.

    The checkpoints to resume from are not copied.
    """
    with new_or_replaced(out) as temporary:
        names = [str(number) for number in range(len(combined.runs))]
        write_record(temporary, Record("ensemble", "unfinished"))
        with tracked("copying the runs", list(zip(names, combined.runs, strict=True))) as copied:
            for name, run in copied:
                folder, left_out = temporary / MEMBERS / name, checkpoints(run)
                folder.mkdir(parents=True)
                for file in run.iterdir():
                    if file.is_file() and file not in left_out and not file.name.startswith("."):
                        shutil.copyfile(file, folder / file.name)
        write_ensemble(temporary, combined, names)


def write_ensemble(folder: Path, combined: Combined, names: Sequence[str]) -> None:
    """Write the files of an ensemble into the folder that already contains its members, which is finished then.

    Args:
        folder: of the ensemble.
        combined: the members and their weights.
        names: of the members' folders, in their order.
    """
    members = [
        member | {"folder": name} for member, name in zip(combined.record["members"], names, strict=True)
    ]
    held_out = combined.held_out
    write_held_out(folder, held_out)
    spreads = [intervals_in(folder / MEMBERS / name).spreads[0] for name in names]
    intervals = fit_intervals(spreads, held_out.predicted, held_out.price, held_out.spread, held_out.weight)
    write_text(folder / INTERVALS, intervals.to_text())
    prices = prices_of(held_out.predicted, held_out.price)
    sketch = read_sketch_of(folder / MEMBERS / names[0]).model_copy(update={"prices": prices})
    write_text(folder / SKETCH, sketch.to_text())
    write_json(folder / ENSEMBLE, combined.record | {"members": members})
    listed = [*(f"{MEMBERS}/{name}/{LISTING}" for name in names), HELD_OUT, INTERVALS, SKETCH, ENSEMBLE]
    write_listed(folder, "run.json", combined.facts, listed)
    advance_to(folder, "finished")


def fit_weights(
    predicted: np.ndarray, price: np.ndarray, metric: Metric = SMAPE, counts: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights w >= 0 with Σ w = 1 for which exp(Σ w·log p) has the lowest metric, float64 (M,).

    SLSQP (Kraft 1988) with numerical gradients starts from equal weights and from each model alone, so the result is
    never worse than the best model on these rows. Weights below `MIN_WEIGHT` are set to 0 and the others are fitted
    again, unless all are below.

    Args:
        predicted: prices p of each model, float64 (N, M), positive.
        price: true prices a, float64 (N,), positive.
        metric: to minimise.
        counts: how much each row counts, (N,); None: equally.
    """
    weights = _fit(np.log(predicted), lambda prices: metric(prices, price, counts))
    kept = weights >= min(MIN_WEIGHT, weights.max())
    if not kept.all():
        weights = np.zeros(len(weights))
        weights[kept] = fit_weights(predicted[:, kept], price, metric, counts)
    return weights


def cross_fitted(
    predicted: np.ndarray,
    price: np.ndarray,
    fold: np.ndarray,
    metric: Metric = SMAPE,
    counts: np.ndarray | None = None,
) -> np.ndarray:
    """Return weighted predictions, each with weights that were fitted on the other folds, float64 (N,).

    Args:
        predicted: prices of each model, float64 (N, M).
        price: true prices, float64 (N,).
        fold: of each row, int64 (N,); the rows of a single fold are divided into `PARTS`.
        metric: to minimise.
        counts: how much each row counts, (N,); None: equally.
    """
    if len(np.unique(fold)) == 1:
        fold = np.random.default_rng(0).permutation(len(price)) % min(PARTS, len(price))
    prices = np.empty(len(price))
    with tracked("fitting ensemble weights", np.unique(fold).tolist()) as folds:
        for held in folds:
            others = fold != held
            counted = None if counts is None or not counts[others].any() else counts[others]
            weights = fit_weights(predicted[others], price[others], metric, counted)
            prices[fold == held] = weighted(predicted[fold == held], weights)
    return prices


def weighted(predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return exp(Σ w·log p) of prices (N, M), float64 (N,)."""
    return np.asarray(np.exp(np.log(predicted) @ weights))


def _fit(log_predicted: np.ndarray, score: Callable[[np.ndarray], float]) -> np.ndarray:
    """Return the weights with the lowest score of the mixed prices, (M,), for log prices of each model, (N, M)."""
    from scipy.optimize import minimize

    models = log_predicted.shape[1]
    if models == 1:
        return np.ones(1)
    scale = score(np.exp(log_predicted.mean(1))) or 1.0  # near 1, as the solver expects

    def loss(weights: np.ndarray) -> float:
        return score(np.exp(log_predicted @ weights)) / scale

    starts = [np.full(models, 1 / models), *np.eye(models)]
    ends = [
        minimize(
            loss,
            start,
            method="SLSQP",
            options={"eps": GRADIENT_STEP},
            bounds=[(0, 1)] * models,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        ).x
        for start in starts
    ]
    candidates = [np.clip(end, 0, None) / np.clip(end, 0, None).sum() for end in ends] + starts
    return min(candidates, key=loss)


def choose_weights(predicted: np.ndarray, rows: HeldOut, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of models, float64 (M,), and the price of each row with weights that it had no part in, (N,).

    The weights are equal if fitted ones are no better on rows that they were not fitted on, as happens with few rows.

    Args:
        predicted: prices of each model, float64 (N, M).
        rows: with the true prices and the folds.
        metric: to minimise.
    """
    equal = np.full(predicted.shape[1], 1 / predicted.shape[1])
    mean = weighted(predicted, equal)
    if len(rows) < MIN_COMMON_ROWS:
        return equal, mean
    fitted = cross_fitted(predicted, rows.price, rows.fold, metric, rows.weight)
    if metric(mean, rows.price, rows.weight) <= metric(fitted, rows.price, rows.weight):
        return equal, mean
    return fit_weights(predicted, rows.price, metric, rows.weight), fitted


def seconds_per_row(run: Path) -> float:
    """Return the median time that a run needs to price one row alone, in seconds, in torch on this machine.

    A bundle of the same model is usually faster.

    Args:
        run: the folder of a finished run.
    """
    opened = open_run(run)
    rows, predictor = read_sample(opened), opened.predictor()
    seconds = []
    for number in range(WARM_UP + CALLS):
        row = rows.take(np.array([number % len(rows)]))
        began = time.perf_counter()
        predictor.predict(row)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[WARM_UP:]))


def warn_if_slow(run: Path, limit: float | None) -> None:
    """Warn if a run needs longer for one row than it may."""
    if limit is None:
        return
    seconds = seconds_per_row(run)
    if seconds > limit:
        logger.warning(
            f"a row may take {milliseconds(limit)}, and the model needs {milliseconds(seconds)} in torch on this "
            "machine; leave features out, or choose a smaller encoder"
        )


def choose_within(
    predicted: np.ndarray, rows: HeldOut, metric: Metric, seconds: Sequence[float], limit: float
) -> list[int]:
    """Return the positions of models that together price a row within a limit, ascending.

    Models are added one by one, each time the one with which the ensemble has the lowest metric (Caruana et al. 2004,
    Ensemble selection from libraries of models), while it becomes lower. If no model is quick enough, the quickest one
    is chosen, with a warning.

    Args:
        predicted: prices of each model for held-out rows, float64 (N, M).
        rows: with the true prices and the folds.
        metric: to minimise.
        seconds: of each model for one row, M of them.
        limit: in seconds.

    Example:
        >>> from pricekit.metrics import SMAPE
        >>> choose_within(np.ones((2, 2)), None, SMAPE, [0.01, 0.02], 0.001)
        [0]
    """
    if min(seconds) > limit:
        logger.warning(
            f"a row may take {milliseconds(limit)}, and the quickest model needs {milliseconds(min(seconds))} for it: "
            "the ensemble is this model alone. Allow more time, leave features out, or choose a smaller encoder"
        )
        return [int(np.argmin(seconds))]
    chosen: list[int] = []
    best = np.inf
    while True:
        left = limit - sum(seconds[model] for model in chosen)
        scores = {
            model: _mixed_score(predicted[:, [*chosen, model]], rows, metric)
            for model in range(len(seconds))
            if model not in chosen and seconds[model] <= left
        }
        if not scores or min(scores.values()) >= best:
            return sorted(chosen)
        model = min(scores, key=lambda each: scores[each])
        best = scores[model]
        chosen.append(model)


def _mixed_score(predicted: np.ndarray, rows: HeldOut, metric: Metric) -> float:
    return metric(choose_weights(predicted, rows, metric)[1], rows.price, rows.weight)


_SHARED = ("columns", "limit", "validation_fraction", "metric")
"""Settings that are the same for all members: which rows are read and held out, and what weighs the members."""


def train_model(
    source: Source,
    config: RunConfig,
    out: Path,
    mode: Mode = "new",
    *,
    started: float | None = None,
) -> dict[str, Any]:
    """Train a run, or an ensemble if the configuration names members.

    Arguments and errors are those of `pricekit.runs.train.train`.

    Returns:
        The content of `run.json`.
    """
    started = time.perf_counter() if started is None else started
    if config.members:
        with writing(out, "ensemble", mode, shown=config.speed.progress) as folder:
            return _train(source, config, folder, started)
    facts = train(source, config, out, mode, started=started)
    if Processes().main:
        warn_if_slow(out, config.max_latency)
    return facts


def config_to_train(
    out: Path, source: Source, options: Mapping[str, Any], init: Path | None, mode: Mode
) -> RunConfig:
    """Return the configuration of a run or an ensemble: a new one, or the one to resume with its new time budget.

    Args:
        out: its folder.
        source: the tables.
        options: as of `pricekit.options.config_of`.
        init: the folder to continue from.
        mode: how to write it.

    Raises:
        ConfigError: an option, a table or a folder is invalid, or differs from those of the run to resume.
        TrainingError: a file is damaged.
        PluginError: a plugin is not loaded.
    """
    folder = to_resume(out, mode, "run", "ensemble")
    if folder is None:
        named = init is not None or source.split is not None
        new = options if named else with_columns(source, options)
        return new_config(new, init)
    if state_of(folder).kind == "run":
        check_intact(folder, [SOURCE])
        require_plugins(folder)
        file, runs = folder / "config.toml", [folder]
    else:
        check_intact(folder, [CONFIG])
        if not (folder / CONFIG).is_file():
            raise TrainingError(
                f"{folder} combines runs that were trained apart, so there is nothing to resume; combine them again",
                parameters=("resume",),
                path=str(folder),
            )
        file, runs = folder / CONFIG, [run for run in (folder / MEMBERS).glob("*") if state_of(run).begun]
    config = saved_config(file, options)
    if init is not None and str(init.absolute()) != config.init:
        raise ConfigError(
            f"a resumed run continues from the run with which it was started, {config.init or 'none'}, not from "
            f"{init}; leave it out, or train into a new folder",
            parameters=("init",),
        )
    for run in runs:
        check_tables(source, run / SOURCE)
    return config


def _train(source: Source, config: RunConfig, folder: Folder, started: float) -> dict[str, Any]:
    """Train the runs of all members in turn and combine them; return the content of `run.json`.

    The runs of members without a weight are deleted at the end.

    A member may take the time that is left of the budget. So the first ones, which are worth most, are complete.
    """
    processes, configs, out = Processes(), _member_configs(config), folder.path
    finished = folder.state.name == "finished"
    if finished:
        check_intact(out, None)
    elif folder.resumed and processes.main:
        unlist_files(out, ENSEMBLE_FINISHED)  # they are written again
    resumed = (out, *sorted((out / MEMBERS).glob("*"))) if folder.resumed else ()
    source = replace(source, split=load_split(source, config, resumed, folder_for_files(out)))
    if finished:
        for name, member in configs.items():
            if state_of(out / MEMBERS / name).name == "finished":  # those without a weight are deleted
                train_unless_finished(source, member, out / MEMBERS / name)
        return read_intact(out, "run.json")
    if processes.main and not folder.resumed:
        folder.begin()
        (out / MEMBERS).mkdir(exist_ok=True)
        write_text(out / CONFIG, config.to_toml())
        list_files(out, [CONFIG])
        advance_to(out, "unfinished")
    processes.wait()
    left_out, longest = dict[str, str](), 0.0
    with tracked("members", configs.items()) as members:
        for number, (name, member) in enumerate(members, start=1):
            left = processes.from_main(_seconds_left(config.training.time_budget, started))
            if left < longest:
                left_out[name] = (
                    f"{duration(left)} of the time budget are left, and the longest training of a member took "
                    f"{duration(longest)}"
                )
                logger.info(f"the member {name} is left out: {left_out[name]}")
            else:
                logger.info(f"member {name}: {number} of {len(configs)}")
                if left < np.inf:
                    member = member.with_training(time_budget=left)
                facts = train_unless_finished(source, member, out / MEMBERS / name)
                longest = max(longest, processes.from_main(float(facts["seconds"])))
    if not processes.main:
        return {}
    names = [name for name in configs if name not in left_out]
    inputs = [_read_input(out / MEMBERS / name) for name in names]
    combined = combine(inputs, metric_named(config.metric), config.max_latency)
    combined.record["left_out"] = left_out
    combined.facts["seconds"] = round(time.perf_counter() - started, 1)
    kept = [run.name for run in combined.runs]
    write_ensemble(out, combined, kept)
    for name in set(names) - set(kept):
        clear_away(out / MEMBERS / name)
    warn_if_useless(goal_of(combined.facts))
    return combined.facts


def _member_configs(config: RunConfig) -> dict[str, RunConfig]:
    """Return the configuration of each member, without those with the settings of an earlier one.

    A user who names the features of all members makes some of them equal.

    Raises:
        ConfigError: a member differs from the ensemble in a setting that all share.
    """
    configs: dict[str, RunConfig] = {}
    for name, member in member_configs(config).items():
        if same := [other for other, kept in configs.items() if kept == member]:
            logger.info(f"the member {name} has the same settings as {same[0]}, so it is left out")
        else:
            configs[name] = member
    for name, member in configs.items():
        for setting in _SHARED:
            if getattr(member, setting) != getattr(config, setting):
                raise ConfigError(
                    f"the member {name} has a {setting} of its own; all members share it, so set {setting} for the "
                    "whole ensemble",
                    parameters=("settings",),
                    setting=f"members.{name}.{setting}",
                )
    return configs


def _seconds_left(budget: float | None, started: float) -> float:
    """Return the seconds of a time budget that are left; infinite without one."""
    return np.inf if budget is None else max(1.0, budget - (time.perf_counter() - started))
