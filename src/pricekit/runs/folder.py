"""The run: a folder with all that training leaves behind.

source.json           the tables that it was started with, and the plugins
config.toml           the whole configuration
split.parquet         the ids of the training and validation rows
rejected.parquet      the rows that could not be used, with the reason
sample.parquet        some validation rows, on which an exported graph is checked
out_of_fold.parquet   of features that use the price, the training rows' columns; only where there are such
taught.parquet        rows that a teacher priced for the training; only where there is one
tokenizer.json, preprocess.json    what turns a table into model inputs
backbone.json         what it takes to build the encoder again
metrics.jsonl         one line an epoch
last.safetensors      to resume from
best.safetensors      lowest validation SMAPE, or the last weights
intervals.json        how far prices lie from the predicted ones
held_out.parquet      the validation rows with their predicted prices
run.json              table, rows, plugins, metrics of the best weights; written at the end
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig, build_config, read_toml
from pricekit.core.contracts import State
from pricekit.core.guard import guarded
from pricekit.core.loader import registry
from pricekit.core.registry import Entry
from pricekit.engines.loaded import LoadedEngine
from pricekit.errors import TrainingError
from pricekit.evaluation.held_out import FILE as HELD_OUT
from pricekit.files import is_free, leftovers
from pricekit.model.inference import torch_engine
from pricekit.model.network import PriceModel
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.members import Member
from pricekit.prediction.predictor import Origin, Predictor
from pricekit.preprocess import FILES as FILES_OF_PREPROCESSOR
from pricekit.preprocess import Inputs, Preprocessor, load_preprocessor
from pricekit.runs.load import load_model
from pricekit.table import Table, read_table
from pricekit.training.checkpoint import BEST, LAST, load_checkpoint

SOURCE = "source.json"
BACKBONE = "backbone.json"
INTERVALS = "intervals.json"
OUT_OF_FOLD = "out_of_fold.parquet"
PSEUDO_LABELLED = "taught.parquet"

# In the order of their deletion: a run is finished by the first, started by the second, known by the last.
FILES = (
    *("run.json", BACKBONE, "config.toml", "split.parquet", "rejected.parquet", "sample.parquet"),
    *("tokenizer.json", "preprocess.json", OUT_OF_FOLD, PSEUDO_LABELLED, "metrics.jsonl", LAST, BEST),
    *(INTERVALS, HELD_OUT, SOURCE),
)


@dataclass(frozen=True)
class Run:
    """A finished run, opened."""

    path: Path
    config: RunConfig
    preprocessor: Preprocessor
    model: PriceModel
    facts: dict[str, Any]
    intervals: Intervals | None = None

    def predictor(self) -> Predictor:
        """Return a predictor that runs the model in torch."""
        origin = Origin(self.path.absolute(), None, load_model)
        return Predictor((self.member(),), self.digest(), self.intervals, self.facts.get("currency"), origin)

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        names = (BEST, BACKBONE, "config.toml", INTERVALS, *FILES_OF_PREPROCESSOR)
        return files_digest([self.path / name for name in names])

    def member(self, weight: float = 1.0) -> Member:
        """Return the model, which runs in torch, as a predictor's member."""
        return Member(self.preprocessor, LoadedEngine("torch", torch_engine(self.model)), weight)


def files_digest(files: Iterable[Path]) -> str:
    """Return a hash of the contents of files, in order; a missing file counts as an empty one."""
    whole = hashlib.sha256()
    for file in files:
        content = hashlib.sha256()
        if file.is_file():
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256")
        whole.update(content.digest())
    return whole.hexdigest()


def is_run(path: Path) -> bool:
    """Say whether a folder looks like a run, be it one that was cut off while it was begun."""
    return names_rows(path / SOURCE)


def names_rows(file: Path) -> bool:
    """Say whether a JSON file holds the digest of rows, as what training was started with does, and others do not."""
    try:
        facts = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and "digest" in facts


def clear_run(path: Path) -> None:
    """Delete the files of a run and nothing else; raises TrainingError where the folder is no run."""
    if not path.exists():
        return
    if not is_free(path) and not is_run(path):
        raise TrainingError(f"{path} is not a run, so it is not overwritten; name another folder")
    for file in [*leftovers(path), *(path / name for name in FILES)]:
        file.unlink(missing_ok=True)


def open_run(path: Path) -> Run:
    """Open a finished run with its best weights; raises TrainingError, PluginError, ConfigError."""
    if not (path / "run.json").is_file():
        raise TrainingError(
            f"{path} is not a finished run: it has no run.json; finish it with pricekit train --resume"
            if is_run(path)
            else f"{path} is not a run: it has no {SOURCE} of one; make one with pricekit train"
        )
    require_plugins(path)
    config = build_config([read_toml(path / "config.toml")])
    preprocessor = read_preprocessor(path)
    model = build_model(config, preprocessor, read_architecture(path), None)
    load_checkpoint(path / BEST, model)
    facts, kept = json.loads((path / "run.json").read_text("utf-8")), path / INTERVALS
    intervals = read_intervals(kept.read_text("utf-8"), path) if kept.is_file() else None
    return Run(path, config, preprocessor, model, facts, intervals)


def require_plugins(path: Path) -> None:
    """Raise PluginError where a plugin that a run was started with is not loaded."""
    source = json.loads((path / SOURCE).read_text("utf-8"))
    for plugin in source.get("plugins", []):  # older runs do not say
        registry().require(plugin["kind"], plugin["name"], plugin["package"], plugin["version"])


def read_preprocessor(path: Path) -> Preprocessor:
    """Open the preprocessor that a run's folder holds; raises BundleError, PluginError."""
    return load_preprocessor({name: (path / name).read_bytes() for name in FILES_OF_PREPROCESSOR}, path)


def read_sample(run: Run) -> Table:
    """Return the run's sample rows, with their prices."""
    return read_table(run.path / "sample.parquet", run.preprocessor.columns, notices=lambda _: None)


def read_architecture(path: Path) -> State:
    """Return what the run's backbone said of its encoder; raises TrainingError."""
    try:
        return dict(json.loads((path / BACKBONE).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise TrainingError(f"{path / BACKBONE} is missing or damaged ({error}); train again") from None


def build_model(
    config: RunConfig, preprocessor: Preprocessor, architecture: State, train: Inputs | None
) -> PriceModel:
    """Make the model; `train` is None for one whose weights are loaded afterwards."""
    backbone = registry().create("backbone", config.backbone.name, config.backbone.options)
    with guarded("backbone", config.backbone.name, "making its encoder"):
        encoder = backbone.encoder(architecture, preprocessor.tokenizer, train.tokens if train else None)
    loss = registry().create("loss", config.loss.name, config.loss.options)
    return PriceModel(encoder, config.head, loss, len(preprocessor.features.names))


def plugins_of(config: RunConfig) -> list[Entry]:
    """Return the registered plugins that a configuration uses."""
    chosen = [("feature", name) for name in config.features]
    chosen += [("backbone", config.backbone.name), ("loss", config.loss.name), ("policy", config.policy.name)]
    return [registry().get(kind, name) for kind, name in chosen]
