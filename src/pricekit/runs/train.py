"""From a table to a finished run."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pricekit.config import RunConfig
from pricekit.core.contracts import Policy
from pricekit.core.events import observed_run
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, PluginError
from pricekit.evaluation.held_out import held_out_of, write_held_out
from pricekit.files import write_text
from pricekit.log import logger, mute
from pricekit.metrics import best_constant, price_metrics, smape
from pricekit.model.inference import predict
from pricekit.model.network import PriceModel
from pricekit.runs.calibration import fit_intervals
from pricekit.runs.folder import INTERVALS, open_run, plugins_of, read_sample
from pricekit.runs.pseudo_labels import with_teachers
from pricekit.runs.source import Source, Split, load_split
from pricekit.runs.start import SAMPLE_ROWS, Start, is_started, join_start, start_again, start_new
from pricekit.text import counted
from pricekit.training.loop import fit
from pricekit.training.machine import choose_precision
from pricekit.training.processes import Processes


def train(
    source: Source,
    config: RunConfig,
    out: Path,
    *,
    split: Split | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
) -> dict[str, Any]:
    """Train a model into the folder `out`; returns what `run.json` says.

    Args:
        source: the tables.
        config: from `configure`, which also resolves the options of plugins.
        out: a new or empty folder.
        split: the rows of `source`, where they have been read, looked at and split before.
        resume: go on with the run in `out` from its last checkpoint, from its start where it has none.
        overwrite: delete the run in `out` once the new one can start.
        allow_leak: train on what gives the price away, too.

    Raises:
        DataError: the table cannot be used, or the price leaks.
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
    split = split or load_split(source, config, allow_leak=allow_leak, looked=resume)
    resume = resume and is_started(out)
    split = with_teachers(source, split, config, out if resume else None)
    config = config.for_rows(len(split.train))
    if not processes.main:
        processes.wait()
        start = join_start(out, config, split)
    elif resume:
        start = start_again(out, config, split)
    else:
        start = start_new(out, source, config, split, policy, overwrite=overwrite)
    if processes.main:
        processes.wait()
    if resume and not start.resumed:
        logger.info(
            f"{out} has no checkpoint yet: its first epoch begins again, with the same rows and settings"
        )
    logger.info(f"{counted(len(split.train), 'row')} to train on, {len(split.valid):,} to validate on")
    model, valid = start.model, start.valid
    rows = {"train": len(split.train), "valid": len(split.valid)}
    plain = config.model_dump(mode="json", exclude_none=True)
    with observed_run(out, told=processes.main, config=plain, rows=rows, resumed=resume) as facts:
        state = fit(model, policy, config, start.train, valid, out, resume=start.resumed, started=started)
        with _eagerly(config):
            prices = predict(model, valid.inputs, config.training.eval_batch_size, processes=processes)
            model.cpu()
            facts |= {
                "table": source.table.name,
                "currency": split.train.currency,
                "rows": split.count(),
                "best_epoch": state.best_epoch,
            }
            facts |= {"seconds": round(state.seconds + time.perf_counter() - started, 1)}
            facts |= _scores(prices, start) | {"plugins": [plugin.facts() for plugin in plugins]}
            if processes.main:
                intervals = fit_intervals(prices, valid.price).to_json()
                write_text(out / INTERVALS, json.dumps(intervals) + "\n")
                write_held_out(out, held_out_of(split.valid, prices))
                write_text(out / "run.json", json.dumps(facts, indent=2) + "\n")
                _check_reopened(out, model)
    processes.wait()
    return facts


def _scores(prices: np.ndarray, start: Start) -> dict[str, Any]:
    """Return the metrics on the validation rows, and the SMAPE of a constant price on them."""
    constant = np.full_like(start.valid.price, best_constant(start.train.price))
    return {
        "metrics": price_metrics(prices, start.valid.price),
        "constant_smape": smape(constant, start.valid.price),
    }


def _eagerly(config: RunConfig) -> AbstractContextManager[object]:
    """Run a few batches without compiling the encoder for them."""
    if not config.speed.compile:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


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


def _check_length(config: RunConfig) -> None:
    backbone = registry().create("backbone", config.backbone.name, config.backbone.options)
    if backbone.max_length is not None and config.max_length > backbone.max_length:
        raise ConfigError(
            f"max_length is {config.max_length}, '{config.backbone.name}' takes at most {backbone.max_length}; "
            f"use --max-length {backbone.max_length}"
        )
