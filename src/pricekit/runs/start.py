"""What training starts with: inputs and model, and the folder of the run.

The folder is written, and an older run in it deleted, only when every plugin has passed a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
from pricekit.errors import TrainingError
from pricekit.features.fitted import fit_features
from pricekit.files import is_free, write_atomically, write_text
from pricekit.model.network import PriceModel
from pricekit.preprocess import Preprocessor, without_price
from pricekit.runs.cache import cached_inputs
from pricekit.runs.folder import (
    BACKBONE,
    OUT_OF_FOLD,
    SOURCE,
    build_model,
    clear_run,
    is_run,
    plugins_of,
    read_architecture,
    read_preprocessor,
)
from pricekit.runs.leak_checks import check_feature_leaks
from pricekit.runs.preflight import check_plugins
from pricekit.runs.pseudo_labels import write_pseudo_labelled
from pricekit.runs.source import Source, Split, columns_of
from pricekit.table import Table, write_rejected
from pricekit.tokens import pad_id_of
from pricekit.training.batches import Examples
from pricekit.training.checkpoint import BEST, LAST

SAMPLE_ROWS = 512


@dataclass(frozen=True)
class Start:
    """What training starts with.

    Attributes:
        train: rows as the model takes them.
        valid: alike.
        model: its constants fitted; still empty where it is resumed.
        resumed: there is a checkpoint that it goes on from.
    """

    train: Examples
    valid: Examples
    model: PriceModel
    resumed: bool


def start_new(
    out: Path, source: Source, config: RunConfig, split: Split, policy: Policy, *, overwrite: bool
) -> Start:
    """Fit the preprocessor, make the model, try every plugin; then make the folder.

    Raises:
        TrainingError: `out` is taken.
        PluginError, ConfigError: a plugin or its settings are wrong; the folder is as it was.
        DataError: a feature reads a column that gives the price away.
    """
    _check_free(out, overwrite)
    preprocessor, architecture, out_of_fold = _fit_preprocessor(config, split.train)
    check_feature_leaks(preprocessor.features, without_price(split.train, preprocessor.columns), split.leaks)
    start = _start(config, preprocessor, architecture, split, out_of_fold, resumed=False)
    check_plugins(start.model, policy, config, start.train)
    clear_run(out)
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / SOURCE, json.dumps(_source_facts(source, config, split), indent=2) + "\n")
    write_text(out / "config.toml", config.to_toml())
    if split.pseudo_labelled is not None:
        write_pseudo_labelled(out, split.pseudo_labelled)
    _write_split(out, split, config.seed, preprocessor.columns.price)
    for name, text in preprocessor.files().items():
        write_text(out / name, text)
    if out_of_fold:
        _write_parquet(out / OUT_OF_FOLD, pd.DataFrame(out_of_fold))
    write_text(out / BACKBONE, json.dumps(architecture, indent=1) + "\n")
    return start


def _source_facts(source: Source, config: RunConfig, split: Split) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "table": source.table.name,
        "valid": source.valid.name if source.valid else None,
    }
    if split.pseudo_labelled is not None:
        facts["unpriced"] = [path.name for path in source.unpriced]
        facts["teachers"] = list(map(str, source.teachers))
    return {**facts, "digest": split.digest(), "plugins": [p.facts() for p in plugins_of(config)]}


def is_started(out: Path) -> bool:
    """Say whether a run's folder holds all that training needs to go on with it, a checkpoint or not."""
    return is_run(out) and (out / BACKBONE).is_file()  # which `start_new` writes last


def start_again(out: Path, config: RunConfig, split: Split) -> Start:
    """Open an unfinished run; its weights come from the checkpoint, or are new where it ended before the first.

    Raises:
        TrainingError: the rows are not those that it was started with.
    """
    check_same_rows(out, split)
    return join_start(out, config, split)


def check_same_rows(out: Path, split: Split) -> None:
    """Raise TrainingError where the rows are not those that a run was started with."""
    if json.loads((out / SOURCE).read_text("utf-8"))["digest"] != split.digest():
        raise TrainingError(
            f"the rows are not those that {out} was started with; give the same TABLE and --valid, and the same flags "
            "for how they are read (--encoding, --decimal and the like), or train into a new folder"
        )


def join_start(out: Path, config: RunConfig, split: Split) -> Start:
    """Open the run that the main process has just started or found."""
    fitted = read_preprocessor(out), read_architecture(out)
    return _start(config, *fitted, split, _read_out_of_fold(out), resumed=(out / LAST).exists())


def _check_free(out: Path, overwrite: bool) -> None:
    if is_free(out):
        return
    trained = [name for name in ("run.json", BEST, LAST) if (out / name).exists()]
    if not is_run(out) or (trained and not overwrite):
        raise TrainingError(
            f"{out} exists already; {_way_on(out)}start it anew with --overwrite, or name another folder"
            if is_run(out)
            else f"{out} exists already and is not a run, so it is not overwritten; name another folder"
        )


def _way_on(out: Path) -> str:
    return "go on with it with --resume, " if is_started(out) else ""


def _start(
    config: RunConfig,
    preprocessor: Preprocessor,
    architecture: State,
    split: Split,
    out_of_fold: Mapping[str, np.ndarray],
    *,
    resumed: bool,
) -> Start:
    train, valid = (
        Examples(cached_inputs(preprocessor, part, config.speed.cache), part.known_price)
        for part in (split.train, split.valid)
    )
    if out_of_fold:
        features = train.inputs.features.copy()
        for name, column in out_of_fold.items():
            features[:, preprocessor.features.names.index(name)] = column
        train = replace(train, inputs=replace(train.inputs, features=features))
    if resumed:
        return Start(train, valid, build_model(config, preprocessor, architecture, None), resumed)
    torch.manual_seed(config.seed)
    model = build_model(config, preprocessor, architecture, train.inputs)
    with guarded("loss", config.loss.name, "fitting to the training prices"):
        model.fit(torch.from_numpy(train.inputs.features), torch.from_numpy(train.price))
    return Start(train, valid, model, resumed)


def _fit_preprocessor(config: RunConfig, table: Table) -> tuple[Preprocessor, State, dict[str, np.ndarray]]:
    backbone = registry().create("backbone", config.backbone.name, config.backbone.options)
    with guarded("backbone", config.backbone.name, "making its tokenizer"):
        tokenizer = backbone.tokenizer(table.text.tolist())
        architecture = backbone.architecture(tokenizer)
    columns = replace(columns_of(config), id_required=False)
    features, out_of_fold = fit_features(
        config.features, config.feature_options, without_price(table, columns), table.known_price
    )
    preprocessor = Preprocessor(
        columns, tokenizer, config.max_length, pad_id_of(tokenizer), features, config.facts_first
    )
    return preprocessor, architecture, out_of_fold


def _read_out_of_fold(out: Path) -> dict[str, np.ndarray]:
    path = out / OUT_OF_FOLD
    if not path.is_file():
        return {}
    frame = pd.read_parquet(path)
    return {str(name): column.to_numpy(np.float32) for name, column in frame.items()}


def _write_split(out: Path, split: Split, seed: int, price: str | None) -> None:
    parts = [
        pd.DataFrame({"id": part.ids.astype(str), "part": name})
        for name, part in (("train", split.train), ("valid", split.valid))
    ]
    chosen = np.random.default_rng(seed).permutation(len(split.valid))[:SAMPLE_ROWS]
    sample = split.valid.take(np.sort(chosen))
    write_rejected(out / "rejected.parquet", split.rejected)
    _write_parquet(out / "split.parquet", pd.concat(parts))
    _write_parquet(out / "sample.parquet", sample.frame.assign(**{str(price): sample.known_price}))


def _write_parquet(path: Path, frame: pd.DataFrame) -> None:
    with write_atomically(path) as temporary:
        frame.to_parquet(temporary, index=False)
