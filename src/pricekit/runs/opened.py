"""Finished runs and ensembles, opened with their weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pricekit.config import RunConfig, read_saved_config
from pricekit.errors import TrainingError
from pricekit.features.assets import assets_in
from pricekit.features.preprocess import FILES_OF_PREPROCESSOR, Preprocessor
from pricekit.insight.sketch import SKETCH, Sketch
from pricekit.io.digests import LISTING
from pricekit.io.files import read_json
from pricekit.io.record import check_intact, finished_record, read_intact
from pricekit.io.staging import read_whole
from pricekit.nets.inference import torch_embedding, torch_engine
from pricekit.nets.mlp import NoEncoder
from pricekit.nets.network import ModelPlugins, PriceModel, build_model
from pricekit.predict.embedding import Embedding
from pricekit.predict.intervals import INTERVALS, Intervals, read_intervals
from pricekit.predict.loaded_engine import LoadedEngine
from pricekit.predict.members import Member
from pricekit.predict.predictor import Predictor
from pricekit.runs.folder import (
    BACKBONE,
    ENSEMBLE,
    MEMBERS,
    SOURCE,
    read_kept,
    read_preprocessor,
    read_sketch_of,
    require_plugins,
    run_id,
)
from pricekit.table import Table, read_table
from pricekit.training.checkpoint import BEST, Parts, load_checkpoint

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
        return _predictor(self, [self.member()])

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        names = (BEST, BACKBONE, "config.toml", INTERVALS, *FILES_OF_PREPROCESSOR)
        return files_digest([self.path / name for name in names])

    def member(self, weight: float = 1.0) -> Member:
        """Return the model as a member of a predictor; it runs in torch.

        Args:
            weight: of its log prices in the ensemble.
        """
        engine, width = LoadedEngine("torch", torch_engine(self.model)), self.embedding_width
        embedding = Embedding(width, partial(torch_embedding, self.model)) if width else None
        return Member(self.preprocessor, engine, weight, embedding)

    @property
    def embedding_width(self) -> int | None:
        """Numbers in the vector of a text; None if the backbone reads no text."""
        encoder = self.model.encoder
        return None if isinstance(encoder, NoEncoder) else int(encoder.hidden_size)


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
    """Open the finished run in a folder, of this format, with its best weights.

    Raises:
        TrainingError: the folder is not a finished run, it has another format, or a file is damaged.
        PluginError, ConfigError: a plugin is missing, or rejects the options of the run.
    """
    return read_whole(path, _open_run)


def _open_run(path: Path) -> LoadedRun:
    finished_record(path, "run")
    return open_files(path)


def open_files(path: Path) -> LoadedRun:
    """Open the files of a run, or of its second pass, that is complete; errors as of `open_run`."""
    check_intact(path, (*_READ, *assets_in(path)))
    facts = read_json(path / "run.json")
    require_plugins(path)
    config = read_saved_config(path / "config.toml")
    preprocessor = read_preprocessor(path)
    model = build_model(ModelPlugins.create(config), config, preprocessor, read_intact(path, BACKBONE), None)
    load_checkpoint(path / BEST, Parts(model), run=run_id(path))
    model.estimate_share = float(facts["estimate_share"])
    intervals = read_intervals(read_kept(path, INTERVALS), path, [len(preprocessor.features.names)])
    return LoadedRun(path, config, preprocessor, model, facts, intervals, read_sketch_of(path))


def read_sample(run: LoadedRun) -> Table:
    """Return the sample rows of a run, with their prices; raises TrainingError if the file is damaged."""
    check_intact(run.path, ["sample.parquet"])
    return read_table(run.path / "sample.parquet", run.preprocessor.columns, notices=lambda _: None)


@dataclass(frozen=True, repr=False)
class Ensemble:
    """An opened ensemble.

    Attributes:
        path: the folder.
        members: the runs and the weights of their log prices, which sum to 1.
        facts: the contents of `run.json`.
        intervals: fitted on the held-out rows.
        sketch: of the training table.
    """

    path: Path
    members: tuple[tuple[LoadedRun, float], ...]
    facts: dict[str, Any]
    intervals: Intervals
    sketch: Sketch

    def predictor(self) -> Predictor:
        """Return a predictor that runs all members in torch."""
        return _predictor(self, [run.member(weight) for run, weight in self.members])

    def digest(self) -> str:
        """Return a hash of the files that prices depend on."""
        own = files_digest([self.path / ENSEMBLE, self.path / INTERVALS])
        return hashlib.sha256(
            " ".join([own, *(run.digest() for run, _ in self.members)]).encode()
        ).hexdigest()

    def __repr__(self) -> str:
        """Return one line: the members' models have thousands of characters."""
        return f"Ensemble('{self.path}', members={len(self.members)})"


def _predictor(opened: LoadedRun | Ensemble, members: Sequence[Member]) -> Predictor:
    currency = opened.facts["currency"]
    return Predictor(tuple(members), opened.digest(), opened.intervals, currency, None, opened.sketch)


def open_ensemble(path: Path) -> Ensemble:
    """Open an ensemble; raises TrainingError, PluginError, ConfigError, BundleError."""
    return read_whole(path, _open_ensemble)


def _open_ensemble(path: Path) -> Ensemble:
    finished_record(path, "ensemble")
    listed_members = [f"members/{folder.name}/{LISTING}" for folder in (path / "members").glob("*")]
    check_intact(
        path, [ENSEMBLE, "run.json", INTERVALS, SKETCH, *listed_members], "create the ensemble again"
    )
    try:
        listed = read_json(path / ENSEMBLE)["members"]
        members = [(str(member["folder"]), float(member["weight"])) for member in listed]
        for name, _ in members:
            if name in ("", ".", "..") or Path(name).name != name:
                raise ValueError(f"{name!r} is not the name of a folder")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"the ensemble {path} is damaged ({error}); create it again") from None
    runs = tuple((open_run(path / MEMBERS / name), weight) for name, weight in members)
    columns = [len(run.preprocessor.features.names) for run, _ in runs]
    intervals = read_intervals(read_kept(path, INTERVALS), path, columns)
    return Ensemble(path, runs, read_intact(path, "run.json"), intervals, read_sketch_of(path))
