"""A finished run, opened with its best weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig, read_saved_config
from pricekit.engines.loaded import LoadedEngine
from pricekit.errors import TrainingError, check_intact
from pricekit.features.assets import assets_in
from pricekit.formats import check_run_format
from pricekit.model.inference import torch_engine
from pricekit.model.network import ModelPlugins, PriceModel, build_model
from pricekit.monitoring.sketch import FILE as SKETCH
from pricekit.monitoring.sketch import Sketch
from pricekit.prediction.intervals import Intervals, read_intervals
from pricekit.prediction.members import Member
from pricekit.prediction.predictor import Predictor
from pricekit.prediction.shipped import Origin
from pricekit.preprocess import FILES as FILES_OF_PREPROCESSOR
from pricekit.preprocess import Preprocessor
from pricekit.runs.folder.contents import (
    read_architecture,
    read_kept,
    read_preprocessor,
    read_sketch_of,
    require_plugins,
)
from pricekit.runs.folder.names import BACKBONE, INTERVALS, SOURCE
from pricekit.runs.folder.states import is_run, run_id
from pricekit.runs.load import load_model
from pricekit.support.staging import read_whole
from pricekit.table import Table, read_table
from pricekit.training.checkpoint import BEST, load_checkpoint

_READ = (SOURCE, "config.toml", *FILES_OF_PREPROCESSOR, BACKBONE, BEST, INTERVALS, SKETCH, "run.json")


@dataclass(frozen=True)
class LoadedRun:
    """A finished run, opened.

    Attributes:
        path: its folder.
        config: its configuration.
        preprocessor: turns a table into model inputs.
        model: with the best weights, on the CPU.
        facts: the content of `run.json`.
        intervals: calibrated on the validation rows.
        sketch: of the training table.
    """

    path: Path
    config: RunConfig
    preprocessor: Preprocessor
    model: PriceModel
    facts: dict[str, Any]
    intervals: Intervals
    sketch: Sketch

    def predictor(self) -> Predictor:
        """Return a predictor that runs the model in torch."""
        origin = Origin(self.path.absolute(), None, load_model)
        currency = self.facts["currency"]
        return Predictor((self.member(),), self.digest(), self.intervals, currency, origin, self.sketch)

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        names = (BEST, BACKBONE, "config.toml", INTERVALS, *FILES_OF_PREPROCESSOR)
        return files_digest([self.path / name for name in names])

    def member(self, weight: float = 1.0) -> Member:
        """Return the model as a member of a predictor; it runs in torch.

        Args:
            weight: of its log prices in the ensemble.
        """
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


def open_run(path: Path) -> LoadedRun:
    """Open a finished run of this format with its best weights.

    Args:
        path: the folder of the run.

    Raises:
        TrainingError: the folder is not a finished run, it has another format, or a file is damaged.
        PluginError, ConfigError: a plugin is missing, or rejects the options of the run.
    """
    return read_whole(path, _open_run)


def _open_run(path: Path) -> LoadedRun:
    if not (path / "run.json").is_file():
        if is_run(path):
            raise TrainingError(
                f"{path} is not a finished run: it has no run.json; resume the training to finish it",
                parameters=("resume",),
                path=str(path),
            )
        raise TrainingError(
            f"{path} is not a run: expected the folder that training wrote, with {SOURCE}", path=str(path)
        )
    check_intact(path, (*_READ, *assets_in(path)))
    facts = json.loads((path / "run.json").read_text("utf-8"))
    check_run_format(facts, path)
    require_plugins(path)
    config = read_saved_config(path / "config.toml")
    preprocessor = read_preprocessor(path)
    model = build_model(ModelPlugins.create(config), config, preprocessor, read_architecture(path), None)
    load_checkpoint(path / BEST, model, run=run_id(path))
    model.estimate_share = float(facts["estimate_share"])
    intervals = read_intervals(read_kept(path, INTERVALS).decode(), path)
    return LoadedRun(path, config, preprocessor, model, facts, intervals, read_sketch_of(path))


def read_sample(run: LoadedRun) -> Table:
    """Return the sample rows of a run, with their prices; raises TrainingError if the file is damaged."""
    check_intact(run.path, ["sample.parquet"])
    return read_table(run.path / "sample.parquet", run.preprocessor.columns, notices=lambda _: None)
