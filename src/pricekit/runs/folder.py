"""The folders of runs and ensembles: their files, how they are written, and what a resumed run keeps.

`pricekit.io.record` has their states.

A run:

pricekit.json             kind, format, state and pass; written first and last
source.json               tables that the run was started with, and its plugins
config.toml               the complete configuration
split.parquet             ids of the training and validation rows
seen.parquet              texts that this run and those that it continues were trained on (`pricekit.runs.seen`)
rejected.parquet          unusable rows, with the reason
sample.parquet            some validation rows, to verify an exported graph on
out_of_fold.parquet       training columns of features that use the price; only with such features
pseudo_labelled.parquet   training rows that a teacher priced; only with a teacher
tokenizer.json, preprocess.json    turn a table into model inputs
asset-HASH.onnx, asset-HASH.bin    files that features need; only with such features (`pricekit.features.assets`)
backbone.json             values that the backbone stored to rebuild its encoder
metrics.jsonl             one line per epoch
train.inputs, valid.inputs    model inputs of a large table (`pricekit.runs.inputs`); deleted when the run is finished
last.safetensors          checkpoint to resume from
last-1.safetensors, …     earlier checkpoints, in case the last one is damaged; deleted when the run is finished
best.safetensors          weights with the lowest validation SMAPE, or the last ones
intervals.json            what intervals and quantiles of prices are made of (`pricekit.predict.intervals`)
held_out.parquet          validation rows with their predicted prices
sketch.json               what tables are compared with (`pricekit.insight`)
run.json                  table, rows, plugins, metrics of the best weights
files.json                size and SHA-256 of the files that are read again, except checkpoints to resume from
refit                     the same files of a second pass, on all rows, until it is complete and replaces the first one

An ensemble:

pricekit.json             kind, format and state; written first and last
members.toml              the settings of each member, if the ensemble was trained as one
members/NAME              the run of each member; its name is a number if the run was copied from elsewhere;
                          those of weight 0 are deleted at the end
ensemble.json             the folder and the weight of each member, and the run that it is, or is a copy of
held_out.parquet          rows that no member was trained on, with the ensemble's predictions
intervals.json            as that of a run, with the spreads of all members
sketch.json               that of the first member, with the ensemble's predictions
run.json                  table, rows, plugins, metrics on the held-out rows
files.json                size and SHA-256 of these files, and of each member's files.json
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.config.layers import by_dotted_name, read_saved_config
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, TrainingError
from pricekit.evaluation.held_out import HELD_OUT
from pricekit.features.assets import assets_in
from pricekit.features.preprocess import FILES_OF_PREPROCESSOR, Preprocessor, load_preprocessor
from pricekit.insight.sketch import SKETCH, Sketch, read_sketch
from pricekit.io.digests import is_listed
from pricekit.io.files import read_json, write_parquet
from pricekit.io.locks import owned
from pricekit.io.log import logger, silence
from pricekit.io.progress import use_reporter_here
from pricekit.io.record import (
    ABSENT,
    Mode,
    State,
    begin,
    check_intact,
    check_output,
    continued,
    read_intact,
    staging_of,
    state_of,
)
from pricekit.io.staging import can_stage, replacing
from pricekit.options import RESUMABLE, layers_of
from pricekit.predict.intervals import INTERVALS
from pricekit.runs.seen import SEEN
from pricekit.runs.split import Source, Split
from pricekit.table import source_name, write_rejected
from pricekit.table.table import texts_in_parts
from pricekit.training.checkpoint import BEST
from pricekit.training.parallel import Processes

SOURCE = "source.json"
BACKBONE = "backbone.json"
OUT_OF_FOLD = "out_of_fold.parquet"
PSEUDO_LABELLED = "pseudo_labelled.parquet"

SAMPLE_ROWS = 512
"""Maximum number of validation rows in the sample of a run."""

STARTED = (
    *(BACKBONE, "config.toml", "split.parquet", SEEN, "rejected.parquet", "sample.parquet"),
    *(*FILES_OF_PREPROCESSOR, OUT_OF_FOLD, PSEUDO_LABELLED, SOURCE),
)
FINISHED = (BEST, INTERVALS, HELD_OUT, SKETCH, "run.json")
TAKEN_OVER = (INTERVALS, HELD_OUT)
"""Files of the first pass that the second one keeps unchanged."""
REFIT_FINISHED = tuple(name for name in FINISHED if name not in TAKEN_OVER)
"""What `files.json` lists: STARTED when a run is started; FINISHED or REFIT_FINISHED when it, or its second pass, is
finished. Checkpoints hold `metrics.jsonl`, and inputs have a checksum of their own.
"""

ENSEMBLE, MEMBERS, CONFIG = "ensemble.json", "members", "members.toml"
ENSEMBLE_FINISHED = (ENSEMBLE, "run.json", INTERVALS, HELD_OUT, SKETCH)
"""The files that make an ensemble of its members."""


def read_source(path: Path) -> dict[str, Any]:
    """Return the content of a run's `source.json`."""
    return dict(read_json(path / SOURCE))


def run_id(path: Path) -> str:
    """Return the id that a run got when it was started."""
    return str(read_source(path)["run"])


def read_sketch_of(path: Path) -> Sketch:
    """Return the sketch of a run or an ensemble; raises TrainingError, BundleError if it is missing or damaged."""
    return read_sketch(read_kept(path, SKETCH), path)


def read_kept(path: Path, name: str) -> bytes:
    """Return the content of a file of a run or an ensemble; raises TrainingError if it cannot be read."""
    try:
        return (path / name).read_bytes()
    except OSError as error:
        raise TrainingError(
            f"{path / name} is missing or damaged ({error}); train again", path=str(path)
        ) from None


def check_same_rows(path: Path, same: bool) -> None:
    """Raise TrainingError if the rows are not the same as those that a folder was started with."""
    if not same:
        raise TrainingError(
            f"the rows differ from those that {path} was started with; use the same tables and the same options for "
            "reading them, or choose a new folder",
            parameters=("table", "valid", "encoding", "decimal", "out"),
            path=str(path),
        )


def require_plugins(path: Path) -> None:
    """Raise PluginError if a plugin of a run is not loaded."""
    for plugin in read_source(path)["plugins"]:
        registry().require(plugin["kind"], plugin["name"], plugin["package"], plugin["version"])


def read_preprocessor(path: Path) -> Preprocessor:
    """Open the preprocessor of a run; raises BundleError, PluginError."""
    names = (*FILES_OF_PREPROCESSOR, *assets_in(path))
    return load_preprocessor({name: (path / name).read_bytes() for name in names}, path)


def write_split(out: Path, split: Split, seed: int, price: str | None) -> None:
    """Write the ids of both parts, the rejected rows, and the sample.

    Args:
        out: folder of the run.
        split: its rows.
        seed: of the sample.
        price: name of the price column.
    """
    parts = [
        pd.DataFrame({"id": pd.concat([ids.astype(str) for ids in texts_in_parts(part.ids)]), "part": name})
        for name, part in (("train", split.train), ("valid", split.valid))
    ]
    chosen = np.random.default_rng(seed).permutation(len(split.valid))[:SAMPLE_ROWS]
    sample = split.valid.take(np.sort(chosen))
    write_rejected(out / "rejected.parquet", split.rejected)
    write_parquet(out / "split.parquet", pd.concat(parts))
    frame = sample.frame.copy()
    frame[str(price)] = sample.known_price
    write_parquet(out / "sample.parquet", frame)


def read_out_of_fold(out: Path) -> dict[str, np.ndarray]:
    """Read the out-of-fold columns of the training rows, float32 (N,) by name; empty if there are none."""
    if not is_listed(out, OUT_OF_FOLD):
        return {}
    frame = pd.read_parquet(out / OUT_OF_FOLD)
    return {str(name): column.to_numpy(np.float32) for name, column in frame.items()}


@dataclass(frozen=True)
class Folder:
    """A folder that is being written.

    Attributes:
        path: where its files are written: the output, or beside it if a finished one stays until then.
        kind: of the folder.
        state: what is continued; absent for a new folder, whatever else is there.
    """

    path: Path
    kind: str
    state: State = ABSENT

    @property
    def resumed(self) -> bool:
        """Whether it is continued."""
        return self.state.begun

    def begin(self) -> None:
        """Delete what pricekit had written in the folder, and write its record."""
        begin(self.path, self.kind)


def folder_to_write(out: Path, kind: str, mode: Mode) -> Folder:
    """Return the folder to write for an output: itself, or the one beside it.

    Raises:
        TrainingError: it may not be written.
    """
    if mode == "resume":
        path = continued(out)
        state = check_output(path, kind, mode, resumable=True)
        return Folder(path, kind, state)
    state = check_output(out, kind, mode, resumable=True)
    return Folder(staging_of(out) if state.name == "finished" and can_stage(out) else out, kind)


@contextmanager
def writing(out: Path, kind: str, mode: Mode, *, shown: bool) -> Iterator[Folder]:
    """Lock a folder, and yield the one to write; when the block ends, it is in the place of `out`.

    Several processes that train together begin and end the block together; the first one locks, replaces and logs.

    Args:
        out: the folder of a run or of several.
        kind: what it contains.
        mode: how to write it.
        shown: show progress bars in the block.

    Raises:
        TrainingError: it may not be written, or another process writes it.
    """
    processes, reporter = Processes(), nullcontext() if shown else use_reporter_here(None)
    if not processes.main:
        silence()
    with reporter, owned(out, kind, TrainingError, enabled=processes.main):
        processes.wait()
        folder = folder_to_write(out, kind, mode)
        processes.wait()
        with replacing(out, folder.path, enabled=processes.main):
            yield folder
        processes.wait()


def check_tables(source: Source, saved: Path) -> None:
    """Raise ConfigError if unpriced tables or teachers are given that differ from those of the run to resume.

    Raises:
        TrainingError: the file with the names of the tables is damaged.
    """
    facts = read_intact(saved.parent, saved.name)
    for parameter, key in (("unpriced", "unpriced"), ("teacher", "teachers")):
        before = [Path(name).name for name in facts.get(key, [])]
        now = [Path(source_name(one)).name for one in getattr(source, key)]
        if now and now != before:
            raise ConfigError(
                f"a resumed run keeps its original {key}: {', '.join(before) or 'none'}; leave out {parameter}, or "
                "train into a new folder",
                parameters=(parameter,),
            )


def saved_config(file: Path, options: Mapping[str, Any], remedy: str = "train again") -> RunConfig:
    """Return the configuration with which something to resume was started, with a new time budget if one is given.

    Args:
        file: the configuration, such as the `config.toml` of a run.
        options: as of `config_of`.
        remedy: what to do if the file is damaged, for the message.

    Raises:
        TrainingError: the file is damaged.
        ConfigError: an option differs from it.
    """
    check_intact(file.parent, [file.name], remedy)
    time_budget = options.get("time_budget")
    config = read_saved_config(file, *([{"training": {"time_budget": time_budget}}] if time_budget else []))
    own, differences = by_dotted_name(read_saved_config(file).model_dump(mode="json")), dict[str, str]()
    for name, value in options.items():
        layers = [] if name in RESUMABLE else list(filter(None, layers_of({name: value})))
        changed = read_saved_config(file, *layers).model_dump(mode="json") if layers else {}
        for key, new in by_dotted_name(changed).items():
            if new not in (own.get(key), "auto"):
                differences.setdefault(name, f"{key} is {own.get(key)!r} there and {new!r} here")
    if differences:
        raise ConfigError(
            f"a resumed run keeps its original settings, and some differ: {'; '.join(differences.values())}. Leave out "
            f"{', '.join(differences)}, or train into a new folder",
            parameters=tuple(differences),
            differences=differences,
        )
    return config


def to_resume(out: Path, mode: Mode, *kinds: str) -> Path | None:
    """Return the folder to resume: `out`, or its unfinished replacement; None, with a log, if nothing has begun.

    Raises:
        TrainingError: it is damaged, or of another kind.
    """
    if mode != "resume":
        return None
    folder = continued(out)
    state = state_of(folder)
    if state.name == "absent":
        logger.info(f"there is no {kinds[0]} in {out} to resume yet; a new one starts")
        return None
    check_output(folder, state.kind if state.kind in kinds else kinds[0], "resume")
    return folder
