"""The first step of training: rows, plugins, model inputs and a model, in a new run folder or a resumed one.

A new folder is written after every plugin has processed a batch. An older run in it is deleted only then.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.core.contracts import Backbone, Policy, State
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.errors import ConfigError, TrainingError, check_intact
from pricekit.features.assets import assets_in
from pricekit.features.fit import Sample, fit_features, some_rows, too_slow
from pricekit.formats import FORMAT
from pricekit.model.network import ModelPlugins, PriceModel, build_model
from pricekit.preprocess import Inputs, Preprocessor, without_price
from pricekit.runs.checks import check_feature_leaks, check_inputs, check_plugins, check_rates
from pricekit.runs.folder import (
    BACKBONE,
    FINISHED,
    REFIT_FINISHED,
    SOURCE,
    STARTED,
    TAKEN_OVER,
    check_free,
    clear_run,
    is_started,
    read_architecture,
    read_out_of_fold,
    read_preprocessor,
    read_source,
    run_id,
    write_out_of_fold,
    write_split,
)
from pricekit.runs.inputs import TRAIN, VALID, InputFiles
from pricekit.runs.pseudo_labels import add_pseudo_labels, write_pseudo_labelled
from pricekit.runs.refit import FirstPass, all_rows, known_columns, take_over
from pricekit.runs.seen import Seen, earlier_texts, read_seen, write_seen
from pricekit.runs.split import Source, Split, columns_of, load_split
from pricekit.runs.warm_start import WarmStart, seen_of
from pricekit.support.digests import list_files, unlist_files
from pricekit.support.files import write_atomically, write_text
from pricekit.support.log import logger, silence
from pricekit.support.mapped import folder_for_files
from pricekit.support.progress import progress
from pricekit.table import Table
from pricekit.tokens import pad_id_of
from pricekit.training.batches import PricedInputs
from pricekit.training.checkpoint import LAST, recover_checkpoint
from pricekit.training.machine import choose_precision
from pricekit.training.parallel import Processes
from pricekit.training.session import Job
from pricekit.training.time_budget import feature_seconds


@dataclass(frozen=True)
class Setup:
    """The parts of a run that depend only on the configuration, created once per run.

    Attributes:
        config: of the run.
        plugins: backbone and loss.
        policy: provides the optimizer and the schedule.
        entries: of all plugins of the run, features included.
        processes: the processes that train together.
        precision: of matrix products: fp32, bf16 or fp16.
    """

    config: RunConfig
    plugins: ModelPlugins
    policy: Policy
    entries: list[Entry]
    processes: Processes
    precision: str

    @classmethod
    def create(cls, config: RunConfig) -> Setup:
        """Create the plugins and choose the precision; raises PluginError, ConfigError."""
        torch.manual_seed(config.seed)  # a plugin may draw random numbers when it is created
        registry().require_trackers(config.track)
        processes = Processes()
        setup = cls(
            config=config,
            plugins=ModelPlugins.create(config),
            policy=registry().create("policy", config.policy.name, config.policy.options),
            entries=plugins_of(config),
            processes=processes,
            precision=choose_precision(config.speed, processes.device),
        )
        _check_length(config, setup.plugins.backbone)
        return setup


def _check_length(config: RunConfig, backbone: Backbone) -> None:
    longest = backbone.max_length
    if longest is not None and config.max_length > longest:
        raise ConfigError(
            f"max_length is {config.max_length}, but the backbone '{config.backbone.name}' accepts at most {longest}",
            parameters=("max_length",),
            found=config.max_length,
            longest=longest,
        )


def plugins_of(config: RunConfig) -> list[Entry]:
    """Return the registry entries of all plugins that a configuration names; raises PluginError."""
    chosen = [("feature", name) for name in config.features]
    chosen += [("backbone", config.backbone.name), ("loss", config.loss.name), ("policy", config.policy.name)]
    return [registry().get(kind, name) for kind, name in chosen]


@dataclass(frozen=True)
class Fitted:
    """The parts that are fitted on the training rows before the model is built.

    Attributes:
        preprocessor: turns a table into model inputs.
        architecture: the values that the backbone stores to rebuild its encoder.
        out_of_fold: training columns of features that use the price, float32 (N,) each, by name; NaN for rows from
            which nothing was learned, so that what the features return for them is out of fold.
        held_out: the same columns of the validation rows, if features have learned from these rows, too.
        init: what was taken over from the run that this one continues; None if it starts from the beginning.
    """

    preprocessor: Preprocessor
    architecture: State
    out_of_fold: Mapping[str, np.ndarray]
    held_out: Mapping[str, np.ndarray] = field(default_factory=dict)
    init: Mapping[str, Any] | None = None

    def complete(self, train: Inputs) -> Fitted:
        """Return this with the values of rows outside of the sample, from the inputs of the training rows."""
        names = self.preprocessor.features.names
        columns = {name: train.features[:, names.index(name)].copy() for name in self.out_of_fold}
        return replace(self, out_of_fold=columns)


def without_slow_features(setup: Setup, sample: Sample, seconds: float) -> Setup:
    """Return the setup without the features that learn from prices and take longer than they may."""
    config, train = setup.config, sample.table
    table = without_price(train, columns_of(config))
    options, price = config.feature_options, train.known_price
    slow = too_slow(config.features, options, table, price, seconds, sample.folds)
    kept = [name for name in config.features if name not in slow]
    options = {name: given for name, given in options.items() if name in kept}
    config = config.model_copy(update={"features": kept, "feature_options": options})
    return replace(setup, config=config, entries=plugins_of(config))


def fit_parts(setup: Setup, sample: Sample, known: Mapping[str, np.ndarray], cache: Path | None) -> Fitted:
    """Train or load the tokenizer and fit the features; see `fit_features` for `known`, which has all rows."""
    config, backbone, train = setup.config, setup.plugins.backbone, sample.table
    with plugin_call("backbone", config.backbone.name, "making its tokenizer"):
        tokenizer = backbone.tokenizer(train.text.tolist())
        architecture = backbone.architecture(tokenizer)
    columns = replace(columns_of(config), id_required=False)
    features, out_of_fold = fit_features(
        config.features,
        config.feature_options,
        without_price(train, columns),
        train.known_price,
        {name: column[sample.rows] for name, column in known.items()},
        folds=sample.folds,
        show_progress=config.speed.progress,
        cache=cache,
    )
    preprocessor = Preprocessor(
        columns, tokenizer, config.max_length, pad_id_of(tokenizer), features, config.facts_first
    )
    spread = {
        name: known[name] if name in known else sample.spread(out_of_fold[name]) for name in out_of_fold
    }
    return Fitted(preprocessor, architecture, spread)


def continue_parts(warm: WarmStart, split: Split, known: Mapping[str, np.ndarray]) -> Fitted:
    """Take over tokenizer and features from the run to continue; `known` are the columns of `known_columns`.

    A validation table of the user's is not learned from.
    """
    own = split.own
    preprocessor, facts = warm.fit(all_rows(split) if own else split.train)
    out_of_fold = known or warm.out_of_fold(split.train)
    held_out = warm.out_of_fold(split.valid) if own and not known else {}
    return Fitted(preprocessor, warm.architecture, out_of_fold, held_out, facts)


def rows_of(split: Split, first: FirstPass | None) -> Table:
    """Return the rows that a pass trains on."""
    return all_rows(split) if first else split.train


def inputs_of(fitted: Fitted, table: Table, files: InputFiles, name: str) -> PricedInputs:
    """Return the inputs of training or validation rows, with the columns that were learned from other rows."""
    columns = fitted.out_of_fold if name == TRAIN else fitted.held_out
    inputs = files.inputs(name, fitted.preprocessor, table, columns)
    weight = None if table.weight is None else table.weight / table.weight.mean()
    return PricedInputs(inputs, table.known_price, weight)


def new_model(setup: Setup, fitted: Fitted, train: PricedInputs, warm: WarmStart | None = None) -> PriceModel:
    """Return a model with random or pretrained weights, its constants fitted on the training rows.

    A run that continues another one has that run's weights and constants.
    """
    config = setup.config
    torch.manual_seed(config.seed)
    if warm is not None:
        return warm.model(setup.plugins, config, fitted.preprocessor, train.inputs.tokens)
    model = build_model(setup.plugins, config, fitted.preprocessor, fitted.architecture, train.inputs)
    with plugin_call("loss", config.loss.name, "fitting to the training prices"):
        features = train.inputs.features[some_rows(len(train.price))]
        model.fit(torch.from_numpy(features), torch.from_numpy(train.price))
    return model


def job_of(
    setup: Setup, fitted: Fitted, model: PriceModel, train: PricedInputs, valid: PricedInputs | None, run: str
) -> Job:
    """Return the job of these parts; raises the errors of `check_inputs`."""
    for rows in [train, *([] if valid is None else [valid])]:
        check_inputs(rows, fitted.preprocessor.features.names)
    return Job(model, setup.policy, setup.config, train, valid, setup.processes, setup.precision, run)


def prepare_new_run(
    out: Path,
    source: Source,
    setup: Setup,
    split: Split,
    first: FirstPass | None,
    warm: WarmStart | None,
    files: InputFiles,
    *,
    overwrite: bool,
    seconds: float | None = None,
) -> Job:
    """Fit the preprocessor, build the model, check every plugin on a batch, then write the folder with its `files`.

    `seconds` limits the time for features that learn from prices, unless the run continues another one, `warm`.

    Raises:
        TrainingError: `out` is not empty.
        PluginError, ConfigError: a plugin or its settings are invalid; the folder is unchanged.
        DataError: a feature reads a column that leaks the price.
    """
    check_free(out, overwrite)
    config, rows = setup.config, rows_of(split, first)
    with progress("preparing", 5, shown=config.speed.progress) as advance:
        advance(0, "tokenizer and features")
        known = known_columns(out.parent, split) if first else {}
        if warm is None:
            sample = Sample.of(rows)
            if seconds is not None and first is None:
                setup = without_slow_features(setup, sample, seconds)
                config = setup.config
            fitted = fit_parts(setup, sample, known, files.cache)
        else:
            fitted = continue_parts(warm, split, known)
        preprocessor = fitted.preprocessor
        check_feature_leaks(preprocessor.features, without_price(rows, preprocessor.columns), split.leaks)
        advance(2, "inputs of the training rows")
        train = inputs_of(fitted, rows, files, TRAIN)
        fitted = fitted.complete(train.inputs)
        if warm is not None:
            train = replace(train, new=warm.seen.rows_of(rows.text) < 0)
        advance(1, "inputs of the validation rows")
        valid = None if first else inputs_of(fitted, split.valid, files, VALID)
        advance(1, "model")
        model = new_model(setup, fitted, train, warm)
        job = job_of(setup, fitted, model, train, valid, secrets.token_hex(16))
        check_plugins(job)
    parts = [(rows, train), *([] if valid is None else [(split.valid, valid)])]
    seen = seen_of(warm, fitted.preprocessor, fitted.out_of_fold, parts)
    _write_run(out, source, job.run, setup, split, fitted, first, seen, files)
    return job


def _write_run(
    out: Path,
    source: Source,
    run: str,
    setup: Setup,
    split: Split,
    fitted: Fitted,
    first: FirstPass | None,
    seen: Seen,
    files: InputFiles,
) -> None:
    """Write the files of a new run; `BACKBONE` is the last, and marks the run as started."""
    clear_run(out)
    out.mkdir(parents=True, exist_ok=True)
    files.publish()
    facts = {"format": FORMAT} | source.facts(split)
    facts |= {"run": run, "plugins": [entry.facts() for entry in setup.entries]}
    facts |= {} if first is None else first.to_json()
    facts |= {} if fitted.init is None else {"init": fitted.init}
    write_text(out / SOURCE, json.dumps(facts, indent=2) + "\n")
    if first is not None:
        take_over(out, first)
    write_text(out / "config.toml", setup.config.to_toml())
    write_seen(out, seen)
    if split.pseudo_labelled is not None:
        write_pseudo_labelled(out, split.pseudo_labelled)
    write_split(out, split, setup.config.seed, fitted.preprocessor.columns.price)
    for name, text in fitted.preprocessor.files().items():
        write_text(out / name, text)
    assets = fitted.preprocessor.features.assets()
    for name, content in assets.items():
        with write_atomically(out / name) as temporary:
            temporary.write_bytes(content)
    if fitted.out_of_fold:
        write_out_of_fold(out, fitted.out_of_fold)
    architecture = json.dumps(fitted.architecture, indent=1) + "\n"
    listed = (*STARTED, *(TAKEN_OVER if first else ()), *assets)
    list_files(out, listed, {BACKBONE: architecture})
    write_text(out / BACKBONE, architecture)


def reopen_run(
    out: Path,
    setup: Setup,
    split: Split,
    first: FirstPass | None,
    warm: WarmStart | None,
    files: InputFiles,
) -> Job:
    """Open an unfinished run.

    The weights come from its checkpoint afterwards; without a checkpoint the model is new.

    Raises:
        TrainingError: the rows differ from those that the run was started with.
    """
    check_same_rows(out, split)
    config, rows = setup.config, rows_of(split, first)
    seen = None if config.init is None else read_seen(out)
    own = split.own
    held_out = seen.columns_of(split.valid.text) if seen is not None and own and not first else {}
    fitted = Fitted(read_preprocessor(out), read_architecture(out), read_out_of_fold(out), held_out)
    with progress("preparing", 2, shown=config.speed.progress) as advance:
        advance(0, "inputs of the training rows")
        train = inputs_of(fitted, rows, files, TRAIN)
        if seen is not None:
            train = replace(train, new=~seen.earlier_rows(rows.text))
        advance(1, "inputs of the validation rows")
        valid = None if first else inputs_of(fitted, split.valid, files, VALID)
    if (out / LAST).exists():
        model = build_model(setup.plugins, config, fitted.preprocessor, fitted.architecture, None)
    else:
        model = new_model(setup, fitted, train, warm)
    return job_of(setup, fitted, model, train, valid, run_id(out))


def check_same_rows(out: Path, split: Split) -> None:
    """Raise TrainingError if the rows differ from those that a run was started with."""
    if read_source(out)["digest"] != split.digest():
        raise TrainingError(
            f"the rows differ from those that {out} was started with; use the same tables and the same options for "
            "reading them, or train into a new folder",
            parameters=("table", "valid", "encoding", "decimal", "out"),
            path=str(out),
        )


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to train.

    Attributes:
        source: the source of its rows.
        split: its rows.
        entries: its plugins.
        job: the model to train, its rows and its settings.
        reopened: the run was started before.
        resumed: the run has a checkpoint to continue from.
        folder: the folder of its files.
        first: the results of the first pass, in a second one.
        seconds: how long the features, the inputs and the model took.
    """

    source: Source
    split: Split
    entries: list[Entry]
    job: Job
    reopened: bool
    resumed: bool
    folder: Path
    first: FirstPass | None = None
    seconds: float = 0.0


def prepare(
    source: Source,
    config: RunConfig,
    out: Path,
    *,
    split: Split | None = None,
    first: FirstPass | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    started: float | None = None,
    cache: Path | None = None,
) -> Prepared:
    """Read the rows, then start a new run folder or open the one to resume.

    Arguments and errors are those of `pricekit.runs.train.train`; `first` are the results of the first pass for a
    second one, which trains on all rows.
    """
    setup = Setup.create(config)
    processes = setup.processes
    if not processes.main:
        silence()
    if processes.main:  # before the table is read, which may take long
        _check_start(setup, out, refit=first is not None, resume=resume, overwrite=overwrite)
    if split is None:
        split = _read_split(source, config, out, resume=resume, allow_leak=allow_leak)
    resume = resume and is_started(out)
    if split.pseudo_labelled is None:
        split = add_pseudo_labels(source, split, config, out if resume else None)
    setup = replace(setup, config=config.for_rows(len(split.train)))
    began = time.perf_counter()
    limit = feature_seconds(config, began if started is None else started)
    if not processes.main:
        processes.wait()  # for the main process, which writes the folder
    opens = config.init is not None and not (resume and (out / LAST).exists())
    warm = WarmStart.open(Path(str(config.init))) if opens else None
    new = not resume and processes.main
    with InputFiles(out, new, processes.main, config.speed.progress, cache) as files:
        if new:
            given: dict[str, Any] = {"overwrite": overwrite, "seconds": limit}
            job = prepare_new_run(out, source, setup, split, first, warm, files, **given)
        else:
            job = reopen_run(out, setup, split, first, warm, files)
    if processes.main:
        processes.wait()
    resumed = resume and (out / LAST).exists()
    if resume and not resumed:
        logger.info(f"{out} has no checkpoint: its first epoch is repeated, with the same rows and settings")
    seconds = time.perf_counter() - began
    return Prepared(source, split, plugins_of(job.config), job, resume, resumed, out, first, seconds)


def _read_split(source: Source, config: RunConfig, out: Path, *, resume: bool, allow_leak: bool) -> Split:
    """Read the rows of a run, and split them as the run to resume did."""
    return load_split(
        source,
        config,
        allow_leak=allow_leak,
        checked=resume,
        seen=earlier_texts(config.init, *((out, out.parent) if resume else ())),
        folder=folder_for_files(out),
    )


def _check_start(setup: Setup, out: Path, *, refit: bool, resume: bool, overwrite: bool) -> None:
    """Raise TrainingError unless a run can be written to a folder, or continues there."""
    if not resume:
        check_free(out, overwrite)
        if not refit:
            check_rates(setup.config, setup.plugins.backbone)
    elif is_started(out):
        check_intact(out, (*STARTED, *(TAKEN_OVER if refit else ()), *assets_in(out)))
        recover_checkpoint(out, run_id(out))
        unlist_files(out, REFIT_FINISHED if refit else FINISHED)  # they are written again
