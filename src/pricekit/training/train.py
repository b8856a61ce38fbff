"""From a table to a finished run."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pricekit.config import RunConfig
from pricekit.core.contracts import Policy, State
from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, DataError, PluginError, TrainingError
from pricekit.features.fitted import fit_features
from pricekit.files import write_atomically, write_text
from pricekit.metrics import price_metrics, smape
from pricekit.preprocess import Preprocessor, without_price
from pricekit.screen import mute, notice, say
from pricekit.table import Columns, Table, count_reasons, read_usable, write_rejected
from pricekit.tokens import pad_id_of
from pricekit.training.batches import split_rows
from pricekit.training.cache import cached_inputs
from pricekit.training.checkpoint import LAST
from pricekit.training.engine import predict
from pricekit.training.examples import Examples
from pricekit.training.loop import fit
from pricekit.training.machine import choose_precision
from pricekit.training.model import PriceModel
from pricekit.training.preflight import check_plugins
from pricekit.training.processes import Processes
from pricekit.training.run import (
    BACKBONE,
    build_model,
    clear_run,
    is_run,
    open_run,
    plugins_of,
    read_architecture,
    read_preprocessor,
    read_sample,
)

MIN_ROWS = 10
SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    table: Path
    valid: Path | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Split:
    """The usable rows, in two parts, and those that were set aside."""

    train: Table
    valid: Table
    rejected: list[pd.DataFrame]


def columns_of(config: RunConfig) -> Columns:
    """Return the columns that training reads."""
    named = config.columns.id
    return Columns(tuple(config.columns.text), config.columns.price, named or Columns().id, named is not None)


def load_split(source: Source, config: RunConfig) -> Split:
    """Read the tables, set unusable rows aside, split the rest; raises DataError."""
    table, rejected = _read(source.table, source, config)
    if source.valid:
        valid, more = _read(source.valid, source, config)
        return Split(table, valid, [rejected, more])
    if len(table) < MIN_ROWS:
        raise DataError(
            f"{source.table} has {len(table)} usable rows, training needs at least {MIN_ROWS}; "
            f"{count_reasons(rejected) or 'no row was set aside'}"
        )
    train, valid_rows = split_rows(table.known_price, config.validation_fraction, config.seed)
    return Split(table.take(train), table.take(valid_rows), [rejected])


def train(
    source: Source, config: RunConfig, out: Path, *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Train a model into the folder `out`; returns what `run.json` says.

    Args:
        source: the tables.
        config: from `configure`, which also resolves the options of plugins.
        out: a new or empty folder.
        resume: go on with the run in `out` from its last checkpoint.
        overwrite: delete the run in `out` once the new one can start.

    Raises:
        DataError: the table cannot be used.
        TrainingError: `out` is taken, training failed, or the table is not the one to resume with.
        ConfigError, PluginError: a setting or a plugin is wrong.
    """
    started = time.perf_counter()
    plugins = plugins_of(config)
    policy: Policy = registry().create("policy", config.policy.name, config.policy.options)
    _check_length(config)
    processes = Processes()
    choose_precision(config.speed, processes.device)
    if not processes.main:
        mute()
    split = load_split(source, config)
    resume = resume and (out / LAST).exists()
    if processes.main:
        preprocessor = _resumed(out, split) if resume else _start(out, source, config, split, overwrite)
    processes.wait()
    if not processes.main:
        preprocessor = read_preprocessor(out)
    say(f"{len(split.train):,} rows to train on, {len(split.valid):,} to validate on")
    cache = config.speed.cache
    rows, valid = (
        Examples(cached_inputs(preprocessor, part, cache), part.known_price)
        for part in (split.train, split.valid)
    )
    model = (
        _resumed_model(out, config, preprocessor) if resume else _new_model(out, config, preprocessor, rows)
    )
    if not resume:
        check_plugins(model, policy, config, rows)
    at = fit(model, policy, config, rows, valid, out, resume=resume, started=started)
    with _eagerly(config):
        prices = predict(model, valid.inputs, config.training.eval_batch_size)
        facts = {
            "table": source.table.name,
            "rows": _count(split),
            "best_epoch": at.best_epoch,
            "seconds": round(time.perf_counter() - started, 1),
            "metrics": price_metrics(prices, valid.price),
            "constant_smape": smape(np.full_like(valid.price, best_constant(rows.price)), valid.price),
            "plugins": [
                {"kind": p.kind, "name": p.name, "package": p.package, "version": p.version} for p in plugins
            ],
        }
        if processes.main:
            write_text(out / "run.json", json.dumps(facts, indent=2) + "\n")
            _check_reopened(out, model)
    processes.wait()
    return facts


def _eagerly(config: RunConfig) -> AbstractContextManager[object]:
    """Run a few batches without compiling the encoder for them."""
    if not config.speed.compile:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _count(split: Split) -> dict[str, int]:
    return {
        "train": len(split.train),
        "valid": len(split.valid),
        "rejected": sum(map(len, split.rejected)),
    }


def _new_model(out: Path, config: RunConfig, preprocessor: Preprocessor, rows: Examples) -> PriceModel:
    torch.manual_seed(config.seed)
    model = build_model(config, preprocessor, read_architecture(out), rows.inputs)
    with guarded("loss", config.loss.name, "fitting to the training prices"):
        model.fit(torch.from_numpy(rows.inputs.features), torch.from_numpy(rows.price))
    return model


def _resumed_model(out: Path, config: RunConfig, preprocessor: Preprocessor) -> PriceModel:
    """Make the model as for prediction; its weights and constants come from the checkpoint."""
    return build_model(config, preprocessor, read_architecture(out), None)


def _check_reopened(out: Path, model: PriceModel) -> None:
    """Compare the run as prediction will open it with the model in memory, on the sample rows."""
    run = open_run(out)
    inputs = run.preprocessor(read_sample(run))
    expected, found = predict(model, inputs, SAMPLE_ROWS), predict(run.model, inputs, SAMPLE_ROWS)
    if not np.allclose(found, expected, rtol=1e-4):
        (out / "run.json").unlink()
        raise PluginError(
            f"the run {out}, opened again, gives other prices than the model that was trained: the backbone or the "
            "loss keeps something fitted outside of its parameters and buffers; report it to the plugin's author"
        )


def best_constant(price: np.ndarray) -> float:
    """Return the one price, of 200 quantiles, with the lowest SMAPE over prices (N,)."""
    candidates = np.quantile(price, np.linspace(0.0, 1.0, 200))
    return float(min(candidates, key=lambda c: smape(np.full_like(price, c), price)))


def _read(path: Path, source: Source, config: RunConfig) -> tuple[Table, pd.DataFrame]:
    columns = columns_of(config)
    return read_usable(path, columns, limit=config.limit, encoding=source.encoding, notices=notice)


def _check_length(config: RunConfig) -> None:
    backbone = registry().create("backbone", config.backbone.name, config.backbone.options)
    if backbone.max_length is not None and config.max_length > backbone.max_length:
        raise ConfigError(
            f"max_length is {config.max_length}, '{config.backbone.name}' takes at most {backbone.max_length}; "
            f"use --max-length {backbone.max_length}"
        )


def _start(out: Path, source: Source, config: RunConfig, split: Split, overwrite: bool) -> Preprocessor:
    """Make the folder, write what is known before training, fit the preprocessor."""
    if overwrite or (is_run(out) and not (out / LAST).exists()):  # what never finished a step is started anew
        clear_run(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TrainingError(
            f"{out} exists already; go on with it with --resume, start it anew with --overwrite, or name another folder"
        )
    preprocessor, architecture = _fit_preprocessor(config, split.train)
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "config.toml", config.to_toml())
    tables = {"table": source.table.name, "valid": source.valid.name if source.valid else None}
    write_text(out / "source.json", json.dumps({**tables, "digest": _digest(split)}, indent=2) + "\n")
    _write_split(out, split, config.seed)
    for name, text in preprocessor.files().items():
        write_text(out / name, text)
    write_text(out / BACKBONE, json.dumps(architecture, indent=1) + "\n")
    return preprocessor


def _fit_preprocessor(config: RunConfig, table: Table) -> tuple[Preprocessor, State]:
    backbone = registry().create("backbone", config.backbone.name, config.backbone.options)
    with guarded("backbone", config.backbone.name, "making its tokenizer"):
        tokenizer = backbone.tokenizer(table.text.tolist())
        architecture = backbone.architecture(tokenizer)
    columns = replace(columns_of(config), id_required=False)
    features = fit_features(config.features, config.feature_options, without_price(table, columns))
    return Preprocessor(columns, tokenizer, config.max_length, pad_id_of(tokenizer), features), architecture


def _write_split(out: Path, split: Split, seed: int) -> None:
    parts = [
        pd.DataFrame({"id": part.ids.astype(str), "part": name})
        for name, part in (("train", split.train), ("valid", split.valid))
    ]
    chosen = np.random.default_rng(seed).permutation(len(split.valid))[:SAMPLE_ROWS]
    sample = split.valid.frame.iloc[np.sort(chosen)]
    write_rejected(out / "rejected.parquet", split.rejected)
    for name, frame in (("split", pd.concat(parts)), ("sample", sample)):
        with write_atomically(out / f"{name}.parquet") as path:
            frame.to_parquet(path, index=False)


def _digest(split: Split) -> str:
    """Return a hash of the texts and prices of both parts, in order."""
    digest = hashlib.sha256()
    for part in (split.train, split.valid):
        digest.update(pd.util.hash_pandas_object(part.text, index=False).to_numpy().tobytes())
        digest.update(part.known_price.tobytes())
    return digest.hexdigest()


def _resumed(out: Path, split: Split) -> Preprocessor:
    """Open the preprocessor of an unfinished run, after checking that the rows are still the same."""
    if json.loads((out / "source.json").read_text("utf-8"))["digest"] != _digest(split):
        raise TrainingError(
            f"the rows are not those that {out} was started with; give the same TABLE, --valid and --encoding, "
            "or train into a new folder"
        )
    return read_preprocessor(out)
