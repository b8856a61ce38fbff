"""The first step of training: rows, plugins, model inputs and a model, in a new run folder or a resumed one.

A new folder is written after every plugin has processed a batch. An older run in it is deleted only then.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pricekit.config import RunConfig
from pricekit.config.settings import NEVER
from pricekit.core.calls import plugin_call, repair
from pricekit.core.contracts import UNKNOWN_WEIGHTS, Backbone, Loss, State
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.errors import (
    BundleError,
    ConfigError,
    DataError,
    PluginError,
    TrainingError,
    first_invalid_field,
)
from pricekit.features.assets import assets_in
from pricekit.features.fit import Sample, fit_features, some_rows, too_slow
from pricekit.features.fitted import FittedFeatures
from pricekit.features.preprocess import Preprocessor, Record, without_price
from pricekit.features.repeated import check_after_fit
from pricekit.io.digests import unlist_files, write_listed
from pricekit.io.files import write_atomically, write_json, write_parquet, write_text
from pricekit.io.log import logger
from pricekit.io.mapped import folder_for_files, rows_read
from pricekit.io.progress import progress
from pricekit.io.record import REFIT, advance_to, begin, check_intact, read_intact
from pricekit.nets.inference import to_tensors
from pricekit.nets.losses import undeclared_aim
from pricekit.nets.network import ModelPlugins, PriceModel, build_model
from pricekit.predict.limits import check_preprocessor
from pricekit.runs.folder import (
    BACKBONE,
    FINISHED,
    OUT_OF_FOLD,
    REFIT_FINISHED,
    SOURCE,
    STARTED,
    TAKEN_OVER,
    Folder,
    check_same_rows,
    read_out_of_fold,
    read_preprocessor,
    read_source,
    run_id,
    write_split,
)
from pricekit.runs.inputs import TRAIN, VALID, InputFiles
from pricekit.runs.pseudo_labels import add_pseudo_labels, write_pseudo_labelled
from pricekit.runs.refit import FirstPass, all_rows, known_columns, open_pass, take_over
from pricekit.runs.seen import NOTHING, Seen, read_seen, write_seen
from pricekit.runs.split import ALLOW_LEAK, Source, Split, columns_of, load_split
from pricekit.runs.warm_start import WarmStart
from pricekit.table import Columns, Table
from pricekit.text.tokens import pad_id_of
from pricekit.training.batches import PricedInputs, steps_per_epoch
from pricekit.training.checkpoint import (
    LAST,
    EpochResult,
    Parts,
    load_checkpoint,
    recover_checkpoint,
    save_checkpoint,
)
from pricekit.training.loop import Job
from pricekit.training.machine import choose_precision
from pricekit.training.parallel import Processes
from pricekit.training.policies import Policy, Quick, rate_factor
from pricekit.training.time_budget import feature_seconds

_CHECKED_ROWS = 1 << 16
"""Rows whose features are checked at once."""

_FROM_SCRATCH = frozenset({"lstm", "transformer"})
"""Backbones without pretrained weights for which the policy `scratch` has learning rates."""


def check_rates(config: RunConfig, backbone: Backbone) -> None:
    """Warn about an encoder that the policy `quick` would train with the learning rates of `bag`."""
    usual = Quick.defaults["training"]["learning_rate"]
    if config.policy.name != "quick" or config.training.learning_rate != usual:
        return
    pretrained = backbone.weights_source not in (None, UNKNOWN_WEIGHTS)
    if pretrained or config.backbone.name in _FROM_SCRATCH:
        logger.warning(
            f"the policy quick has the learning rates of the backbone bag ({usual:g}), which are "
            f"{'far ' if pretrained else ''}too high for {config.backbone.name}; choose the policy "
            + ("blazing" if pretrained else "scratch")
        )


def check_feature_leaks(features: FittedFeatures, leaks: tuple[str, ...]) -> None:
    """Raise DataError if features declare columns that leak the price."""
    reading = {part.name: [name for name in leaks if name in part.plugin.columns] for part in features.parts}
    if columns := list(dict.fromkeys(name for read in reading.values() for name in read)):
        names = ", ".join(name for name, read in reading.items() if read)
        raise DataError(
            f"features read columns that leak the price: {names} read {', '.join(columns)}. Leave them "
            f"out or drop the columns, {ALLOW_LEAK}",
            parameters=("features", "allow_leak"),
            columns=columns,
        )


def check_inputs(rows: PricedInputs, names: Sequence[str]) -> None:
    """Raise DataError for a price or a feature that is not finite, whatever its plugin or its file says.

    Args:
        rows: N rows.
        names: of the K feature columns.
    """
    usable = np.isfinite(rows.price) & (rows.price > 0)
    if not usable.all():
        row = int(np.argmin(usable))
        raise DataError(f"row {row} has the price {rows.price[row]}; expected a finite one above 0", row=row)
    for start in range(0, len(rows.price), _CHECKED_ROWS):
        wrong = ~np.isfinite(rows.inputs.features[start : start + _CHECKED_ROWS])
        rows_read(len(wrong))
        if not wrong.any():
            continue
        row, column = map(int, np.argwhere(wrong)[0])
        row += start
        raise DataError(
            f"the feature column '{names[column]}' is not finite in row {row}; leave that feature out, or report it to "
            "its author",
            parameters=("features",),
            column=names[column],
            row=row,
        )


def check_storable(preprocessor: Preprocessor) -> None:
    """Raise TrainingError if no bundle could hold what was fitted; the graph is only known after the training."""
    files = {name: text.encode() for name, text in preprocessor.files(portable=True).items()}
    try:
        check_preprocessor(files | preprocessor.features.assets(), "the model")
        Record.model_validate_json(files["preprocess.json"])
    except (BundleError, ValueError) as error:
        raise TrainingError(
            f"no bundle could hold what this training would store{first_invalid_field(error) or f': {error}'}. Leave "
            "the cause out of the columns or the features",
        ) from None


ROWS = 8
PADDED = 5
PADDING_TOLERANCE = 1e-4

_SCHEDULE_STEPS = 101


def check_plugins(job: Job) -> None:
    """Run encoder, loss and optimizer on a few training rows; the model's weights and buffers stay the same.

    A loss and a third-party policy are also tried as a training uses them later. That keeps the random numbers, too.

    Raises:
        PluginError: a plugin breaks its contract; names the plugin.
        ConfigError: the rows have weights, and the loss has no terms.
    """
    model, config, train = job.model, job.config, job.train
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batch = to_tensors(train.inputs.batch(np.arange(min(ROWS, len(train.price)))))
    inputs = batch["input_ids"], batch["attention_mask"], batch["features"]
    price = torch.from_numpy(train.price[:ROWS].astype(np.float32))
    with plugin_call("backbone", config.backbone.name, "encoding a batch"):
        _check_encoder(model.eval(), config, *inputs[:2])
    name = config.loss.name
    with plugin_call("loss", name, "turning raw outputs into prices"):
        with torch.no_grad():
            prices = model(*inputs)
        fits = isinstance(prices, Tensor) and prices.shape == (len(inputs[0]),)
        usable = fits and bool(prices.isfinite().all() and (prices > 0).all())
        _require(usable, "loss", name, "one finite, positive price per row from to_price", prices)
    weight = None if train.weight is None else torch.from_numpy(train.weight[:ROWS].astype(np.float32))
    if weight is not None and type(model.loss).terms is Loss.terms:
        raise ConfigError(
            f"the loss '{name}' cannot weigh rows: it has no method terms(raw, price), which returns the loss of each "
            "row. Choose another loss, or leave the weights out",
            parameters=("weight", "loss"),
        )
    with plugin_call("loss", name, "computing the loss of a batch"):
        loss = model.train().training_loss(*inputs, price, weight)
        _require(loss.ndim == 0 and loss.requires_grad, "loss", name, "a scalar with a gradient", loss)
        loss.backward()  # type: ignore[no-untyped-call]
    with plugin_call("policy", config.policy.name, "taking an optimizer step on this backbone"):
        optimizer = job.policy.optimizer(model, config.training, fused=True)
        optimizer.step()
    with torch.random.fork_rng(devices=[]):
        if is_third_party("loss", name):
            _check_link(model.eval(), name, inputs, train.price)
        if is_third_party("policy", config.policy.name):
            _check_state(job, optimizer, lambda: model.train().training_loss(*inputs, price, weight))
            _check_schedule(job)
    model.zero_grad(set_to_none=True)
    model.load_state_dict(saved)


def is_third_party(kind: str, name: str) -> bool:
    """Return whether a plugin is not a built-in one."""
    return registry().get(kind, name).package != "pricekit"


def _check_link(model: PriceModel, name: str, inputs: Sequence[Tensor], price: np.ndarray) -> None:
    """Check that a loss keeps what it learned, and aims at a central price or says that it does not."""
    with torch.no_grad(), plugin_call("loss", name, "fitting to other prices"):
        before, other = model(*inputs), copy.deepcopy(model.loss)
        other.fit(3 * torch.from_numpy(price))
        kept = torch.equal(model(*inputs), before)
        quantile = undeclared_aim(other)
    if not kept:
        raise PluginError(
            f"the prices of the loss '{name}' change when another instance of it is fitted: it stores what fit learns "
            f"outside of its buffers, where no saved model has it; {repair('loss', name)}",
            parameters=("loss",),
        )
    if quantile is not None:
        raise PluginError(
            f"the loss '{name}' aims at the quantile {quantile:.2f} of the price, and does not say so: its `central` "
            "is True, so a feature's own estimate would be mixed into its prices. Choose another loss, or write "
            "central = False in its class",
            parameters=("loss",),
            quantile=quantile,
        )


def _check_state(job: Job, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """Check that a checkpoint restores an optimizer, which has taken a step, and that this one takes the next."""
    model, config, name = job.model, job.config, job.config.policy.name
    with (
        TemporaryDirectory() as folder,
        plugin_call("policy", name, "saving and restoring the state of its optimizer"),
    ):
        path = Path(folder) / LAST
        save_checkpoint(path, Parts(model, optimizer), {})
        restored = job.policy.optimizer(model, config.training, fused=True)
        try:
            load_checkpoint(path, Parts(model, restored))
        except TrainingError as error:
            raise error.__cause__ or error from None
    model.zero_grad(set_to_none=True)
    loss().backward()  # type: ignore[no-untyped-call]
    with plugin_call("policy", name, "taking an optimizer step after its state was restored"):
        restored.step()


def _check_schedule(job: Job) -> None:
    """Check the learning rates of a whole training, at some of its steps and between them."""
    steps = steps_per_epoch(job.train, job.config)
    total, warmup = sum(steps), round(job.config.training.warmup_epochs * steps[0])
    with plugin_call("policy", job.config.policy.name, "giving the learning rate of a step"):
        for step in (*np.linspace(0, total, _SCHEDULE_STEPS).tolist(), *range(min(total, _SCHEDULE_STEPS))):
            rate_factor(job.policy, step, warmup, total)


def _check_encoder(model: PriceModel, config: RunConfig, ids: Tensor, mask: Tensor) -> None:
    name, room = config.backbone.name, max(0, min(PADDED, config.max_length - 1))
    ids, mask = (each[:, : config.max_length - room] for each in (ids, mask))
    encoder: Any = model.encoder
    with torch.no_grad():
        encoding = encoder(ids, mask)
        shape = (len(ids), encoder.hidden_size)
        fits = isinstance(encoding, Tensor) and encoding.shape == shape and encoding.dtype == torch.float32
        usable = fits and bool(encoding.isfinite().all())
        _require(usable, "backbone", name, f"finite float32 of shape {shape}", encoding)
        # More padding, and other ids where the mask is 0, must not change the encoding.
        padded = torch.nn.functional.pad(
            torch.where(mask > 0, ids, ids.flip(1)), (0, room), value=int(ids[0, 0])
        )
        again = encoder(padded, torch.nn.functional.pad(mask, (0, room)))
    difference = float((again - encoding).abs().max() / encoding.abs().max().clamp(min=1e-6))
    if not difference <= PADDING_TOLERANCE:
        raise PluginError(
            f"the encoding of the backbone '{name}' depends on padding (relative difference {difference:.2g} for "
            "other ids where attention_mask is 0), so a price would depend on the other rows of its batch; report it "
            "to the plugin's author"
        )


def _require(good: bool, kind: str, name: str, expected: str, value: object) -> None:
    if not good:
        shape = (
            f"{value.dtype} of shape {tuple(value.shape)}"
            if isinstance(value, Tensor)
            else type(value).__name__
        )
        raise PluginError(f"the {kind} '{name}' returned {shape}, expected {expected}; {repair(kind, name)}")


@dataclass(frozen=True)
class Setup:
    """The parts of a run that depend only on the configuration, created once per run.

    Attributes:
        config: of the run.
        plugins: backbone and loss.
        policy: provides the optimizer and the schedule.
        processes: the processes that train together.
        precision: of matrix products: fp32, bf16 or fp16.
    """

    config: RunConfig
    plugins: ModelPlugins
    policy: Policy
    processes: Processes
    precision: str

    @classmethod
    def create(cls, config: RunConfig) -> Setup:
        """Create the plugins and choose the precision; raises PluginError, ConfigError."""
        torch.manual_seed(config.seed)  # a plugin may draw random numbers when it is created
        registry().require_trackers(config.track)
        processes, plugins = Processes(), ModelPlugins.create(config)
        policy = registry().create("policy", config.policy.name, config.policy.options)
        plugins_of(config)  # features, too, are known before the table is read
        precision = choose_precision(config.speed, processes.device)
        check_length(plugins.backbone, config.backbone.name, config.max_length)
        return cls(config, plugins, policy, processes, precision)


def check_length(backbone: Any, name: str, max_length: int) -> None:
    """Raise ConfigError if a backbone accepts fewer tokens."""
    longest = backbone.max_length
    if longest is not None and max_length > longest:
        raise ConfigError(
            f"max_length is {max_length}, but the backbone '{name}' accepts at most {longest} tokens",
            parameters=("max_length",),
            max_length=max_length,
            longest=longest,
        )


def plugins_of(config: RunConfig) -> list[Entry]:
    """Return the registry entries of all plugins that a configuration names; raises PluginError."""
    chosen = [("feature", name) for name in config.features]
    chosen += [("backbone", config.backbone.name), ("loss", config.loss.name), ("policy", config.policy.name)]
    return [registry().get(kind, name) for kind, name in chosen]


@dataclass(frozen=True)
class Trial:
    """What a search adds to the training of a trial.

    Attributes:
        watch: called with the result of each epoch of the first pass; an exception that it raises ends the training.
        cache: a folder in which several runs on the same rows have their fitted features.
    """

    watch: Callable[[EpochResult], None] | None = None
    cache: Path | None = None


NO_TRIAL = Trial()


@dataclass(frozen=True)
class Pass:
    """A training on rows, in a folder: the only one of a run, or one of two.

    Attributes:
        run: the folder of the run.
        folder: of its files.
        source: of its rows.
        setup: plugins and settings.
        split: its rows.
        first: the results of the first pass, in a second one, which trains on all rows.
        reopened: it was started before.
        resumed: it has a checkpoint to continue from.
        seconds: how long the features, the inputs and the model took, once it is prepared.
    """

    run: Path
    folder: Path
    source: Source
    setup: Setup
    split: Split
    first: FirstPass | None = None
    reopened: bool = False
    resumed: bool = False
    seconds: float = 0.0

    @property
    def rows(self) -> Table:
        """The rows to train on."""
        return all_rows(self.split) if self.first else self.split.train


@dataclass(frozen=True)
class Fitted:
    """The parts that are fitted on the training rows before the model is built.

    Attributes:
        preprocessor: turns a table into model inputs.
        architecture: the values that the backbone stores to rebuild its encoder.
        out_of_fold: training columns of features that use the price, float32 (N,) each, by name; NaN for rows from
            which nothing was learned, so that what the features return for them is out of fold.
        held_out: the same columns of the validation rows, if features have learned from these rows, too.
        seen: the texts of the runs that this one continues.
        init: what was taken over from the run that this one continues; None if it starts from the beginning.
    """

    preprocessor: Preprocessor
    architecture: State
    out_of_fold: Mapping[str, np.ndarray]
    held_out: Mapping[str, np.ndarray] = field(default_factory=dict)
    seen: Seen = NOTHING
    init: Mapping[str, Any] | None = None


def without_slow_features(config: RunConfig, sample: Sample, seconds: float) -> RunConfig:
    """Return the configuration without the features that learn from prices and take longer than they may."""
    options = config.feature_options
    slow = too_slow(
        config.features, options, visible_rows(sample.table, columns_of(config)), seconds, sample.folds
    )
    kept = [name for name in config.features if name not in slow]
    options = {name: chosen for name, chosen in options.items() if name in kept}
    return config.model_copy(update={"features": kept, "feature_options": options})


def visible_rows(rows: Table, columns: Columns) -> Table:
    """Return rows with their prices, and without the column from which these were read."""
    return replace(without_price(rows, columns), price=rows.known_price)


def fit_parts(setup: Setup, sample: Sample, known: Mapping[str, np.ndarray], cache: Path | None) -> Fitted:
    """Train or load the tokenizer and fit the features; see `fit_features` for `known`, which has all rows."""
    config, backbone, train = setup.config, setup.plugins.backbone, sample.table
    with plugin_call("backbone", config.backbone.name, "making its tokenizer"):
        tokenizer = backbone.tokenizer(train.text.tolist())
        architecture = backbone.architecture(tokenizer)
    columns = replace(columns_of(config), id_required=False, formats=train.formats)
    features, out_of_fold = fit_features(
        config.features,
        config.feature_options,
        visible_rows(sample.table, columns),
        {name: column[sample.rows] for name, column in known.items()},
        folds=sample.folds,
        cache=cache,
        hidden=columns.price,
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
    preprocessor, facts = warm.fit(all_rows(split) if split.own else split.train)
    out_of_fold = known or warm.out_of_fold(split.train)
    held_out = warm.out_of_fold(split.valid) if split.own and not known else {}
    return Fitted(preprocessor, warm.architecture, out_of_fold, held_out, warm.seen.as_earlier(), facts)


def reopen_parts(part: Pass) -> Fitted:
    """Read the parts of an unfinished run; raises TrainingError if it was started with other rows."""
    out, split = part.folder, part.split
    check_same_rows(out, read_source(out)["digest"] == split.digest())
    seen = NOTHING if part.setup.config.init is None else read_seen(out)
    held_out = seen.columns_of(split.valid.text) if split.own and not part.first else {}
    return Fitted(read_preprocessor(out), read_intact(out, BACKBONE), read_out_of_fold(out), held_out, seen)


def inputs_of(fitted: Fitted, table: Table, files: InputFiles, name: str) -> PricedInputs:
    """Return the inputs of training or validation rows, with the columns that were learned from other rows."""
    columns = fitted.out_of_fold if name == TRAIN else fitted.held_out
    inputs = files.inputs(name, fitted.preprocessor, table, columns)
    weight = None if table.weight is None else table.weight / table.weight.mean()
    return PricedInputs(inputs, table.known_price, weight)


def new_model(part: Pass, fitted: Fitted, train: PricedInputs, warm: WarmStart | None) -> PriceModel:
    """Return a model with random or pretrained weights, its constants fitted on the training rows.

    A run that continues another one, `warm`, has that run's weights and constants. With a checkpoint, all of these come
    from it afterwards.
    """
    config, plugins = part.setup.config, part.setup.plugins
    if part.resumed:
        return build_model(plugins, config, fitted.preprocessor, fitted.architecture, None)
    torch.manual_seed(config.seed)
    if warm is not None:
        return warm.model(plugins, config, fitted.preprocessor, train.inputs.tokens)
    model = build_model(plugins, config, fitted.preprocessor, fitted.architecture, train.inputs.tokens)
    with plugin_call("loss", config.loss.name, "fitting to the training prices"):
        features = train.inputs.features[some_rows(len(train.price))]
        model.fit(torch.from_numpy(features), torch.from_numpy(train.price))
    return model


def _write_run(part: Pass, rows: Table, fitted: Fitted, job: Job) -> None:
    """Write the files of a new run, which is unfinished then."""
    out, config, split, preprocessor = part.folder, part.setup.config, part.split, fitted.preprocessor
    facts = part.source.facts(split)
    facts |= {"run": job.run, "plugins": [entry.facts() for entry in plugins_of(config)]}
    if part.first is not None:
        take_over(out, part.first)
        facts |= part.first.to_json()
    if fitted.init is not None:
        facts["init"] = fitted.init
    write_json(out / SOURCE, facts)
    write_text(out / "config.toml", config.to_toml())
    # Not as fitted, but as in the inputs: with the values of rows outside of the sample.
    names = preprocessor.features.names
    columns = {name: job.train.inputs.features[:, names.index(name)] for name in fitted.out_of_fold}
    seen = fitted.seen.with_rows(rows.text, columns)
    if job.valid is not None:
        features = job.valid.inputs.features
        seen = seen.with_rows(split.valid.text, {name: features[:, names.index(name)] for name in columns})
    write_seen(out, seen)
    if split.pseudo_labelled is not None:
        write_pseudo_labelled(out, split.pseudo_labelled)
    write_split(out, split, config.seed, preprocessor.columns.price)
    for name, text in preprocessor.files().items():
        write_text(out / name, text)
    assets = preprocessor.features.assets()
    for name, content in assets.items():
        with write_atomically(out / name) as temporary:
            temporary.write_bytes(content)
    if columns:
        write_parquet(out / OUT_OF_FOLD, pd.DataFrame(columns))
    listed = (*STARTED, *(TAKEN_OVER if part.first else ()), *assets)
    write_listed(out, BACKBONE, fitted.architecture, listed, indent=1)
    advance_to(out, "unfinished")


def prepare(
    source: Source, config: RunConfig, folder: Folder, started: float, trial: Trial = NO_TRIAL
) -> tuple[Pass, Job]:
    """Read the rows, then start a new run in a folder, or open the one that it contains; return what trains.

    Args:
        source: the tables.
        config: of the run.
        folder: of the run.
        started: `time.perf_counter()` when the work began, from which a time budget counts.
        trial: of a search.

    Raises:
        PricekitError: as of `pricekit.runs.train.train`.
    """
    setup, (path, first), reopened = Setup.create(config), open_pass(folder), folder.resumed
    if setup.processes.main and reopened:
        check_intact(path, (*STARTED, *(TAKEN_OVER if first else ()), *assets_in(path)))
        recover_checkpoint(path, run_id(path))
    elif setup.processes.main:
        check_rates(config, setup.plugins.backbone)
    resumed = (path, folder.path) if reopened else ()
    split = load_split(source, config, resumed, folder_for_files(path))
    split = add_pseudo_labels(source, split, config, path if reopened else None)
    setup = replace(setup, config=config.for_rows(len(split.train)))
    part = Pass(folder.path, path, source, setup, split, first, reopened)
    return _prepare(part, feature_seconds(config, started), trial)


def prepare_refit(before: Pass, first: FirstPass) -> tuple[Pass, Job]:
    """Start the second pass of a run, on all rows, with the plugins of the first one; errors as of `prepare`."""
    torch.manual_seed(before.setup.config.seed)
    part = replace(before, folder=before.run / REFIT, first=first, reopened=False)
    return _prepare(part, None, NO_TRIAL)


def prepare_fold(before: Pass, split: Split, folder: Path) -> tuple[Pass, Job]:
    """Start a first pass on another split of the same rows, in a folder of its own; errors as of `prepare`."""
    config = before.setup.config
    torch.manual_seed(config.seed)
    setup = replace(before.setup, config=config.with_training(save_epochs=NEVER))
    part = replace(before, run=folder, folder=folder, setup=setup, split=split, reopened=False)
    return _prepare(part, None, NO_TRIAL)


def _prepare(part: Pass, feature_limit: float | None, trial: Trial) -> tuple[Pass, Job]:
    """Prepare a pass: the first process starts a new one, and the others open it.

    A new folder is written after every plugin has processed a batch.

    Args:
        part: the pass.
        feature_limit: seconds for features that learn from prices; None: as long as they take.
        trial: of a search.
    """
    began, processes, init = time.perf_counter(), part.setup.processes, part.setup.config.init
    if not processes.main:
        processes.wait()  # for the main process, which writes the folder
    new = not part.reopened and processes.main
    part = replace(part, resumed=part.reopened and (part.folder / LAST).exists())
    warm = None if init is None or part.resumed else WarmStart.open(Path(init))
    with (
        InputFiles(part.folder, new) as files,
        progress("preparing", 5) as advance,
    ):
        advance(0, "tokenizer and features")
        rows = part.rows
        if new:
            part, fitted = _fit(part, rows, warm, feature_limit, trial.cache)
        else:
            fitted = reopen_parts(part)
        advance(2, "inputs of the training rows")
        train = inputs_of(fitted, rows, files, TRAIN)
        if init is not None:
            train = replace(train, new=~fitted.seen.earlier_rows(rows.text))
        advance(1, "inputs of the validation rows")
        valid = None if part.first else inputs_of(fitted, part.split.valid, files, VALID)
        for priced in [train, *([] if valid is None else [valid])]:
            check_inputs(priced, fitted.preprocessor.features.names)
        advance(1, "model")
        setup, model = part.setup, new_model(part, fitted, train, warm)
        identity = secrets.token_hex(16) if new else run_id(part.folder)
        job = Job(
            model,
            setup.policy,
            setup.config,
            train,
            valid,
            processes,
            setup.precision,
            identity,
            watch=trial.watch,
        )
        if new:
            check_storable(fitted.preprocessor)
            check_plugins(job)
            begin(part.folder, "run", second=part.first is not None)
            files.publish()
            _write_run(part, rows, fitted, job)
    if processes.main and part.reopened:
        unlist_files(part.folder, REFIT_FINISHED if part.first else FINISHED)  # they are written again
    if processes.main:
        processes.wait()
    if part.reopened and not part.resumed:
        logger.info(
            f"{part.folder} has no checkpoint: its first epoch is repeated, with the same rows and settings"
        )
    return replace(part, seconds=time.perf_counter() - began), job


def _fit(
    part: Pass, rows: Table, warm: WarmStart | None, feature_limit: float | None, cache: Path | None
) -> tuple[Pass, Fitted]:
    """Fit the parts of a new pass, or take them over; return the pass without features that would take too long.

    Args:
        part: the pass.
        rows: to train on.
        warm: the run that it continues, whose features are no slower than before.
        feature_limit: as of `_prepare`.
        cache: of a search.

    Raises:
        PluginError, ConfigError: a plugin or its settings are invalid.
        DataError: a feature reads a column that leaks the price.
    """
    known = known_columns(part.folder.parent, part.split) if part.first else {}
    if warm is not None:
        fitted = continue_parts(warm, part.split, known)
    else:
        sample = Sample.of(rows)
        if feature_limit is not None:
            config = without_slow_features(part.setup.config, sample, feature_limit)
            part = replace(part, setup=replace(part.setup, config=config))
        fitted = fit_parts(part.setup, sample, known, cache)
    preprocessor = fitted.preprocessor
    check_feature_leaks(preprocessor.features, part.split.leaks)
    check_after_fit(preprocessor.features, visible_rows(rows, preprocessor.columns))
    return part, fitted
