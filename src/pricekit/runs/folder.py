"""The folders of runs and ensembles: their files and states, reading, overwriting and replacing them.

A run:

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
intervals.json            calibrated widths of price intervals
held_out.parquet          validation rows with their predicted prices
sketch.json               what tables are compared with (`pricekit.insight`)
run.json                  table, rows, plugins, metrics of the best weights; written last
files.json                size and SHA-256 of the files that are read again, except checkpoints to resume from
refit                     the same files of a second pass, on all rows, until it is complete and replaces the first one

An ensemble:

members.toml              the settings of each member, if the ensemble was trained as one
members/NAME              the run of each member; its name is a number if the run was copied from elsewhere;
                          those of weight 0 are deleted at the end
ensemble.json             the folder and the weight of each member, and the run that it is, or is a copy of
held_out.parquet          rows that no member was trained on, with the ensemble's predictions
intervals.json            half widths of the price intervals
sketch.json               that of the first member, with the ensemble's predictions
run.json                  table, rows, plugins, metrics on the held-out rows
files.json                size and SHA-256 of these files, and of each member's files.json
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.core.loader import registry
from pricekit.errors import PricekitError, TrainingError, check_intact
from pricekit.evaluation.held_out import HELD_OUT
from pricekit.features.assets import assets_in, is_asset
from pricekit.formats import check_run_format
from pricekit.insight.sketch import SKETCH, Sketch, read_sketch
from pricekit.preprocess import FILES_OF_PREPROCESSOR, Preprocessor, load_preprocessor
from pricekit.runs.inputs import INPUTS
from pricekit.runs.seen import SEEN
from pricekit.runs.split import Split
from pricekit.support.digests import LISTING, DamagedError, read_listing
from pricekit.support.files import is_free, leftovers, read_json, sync, write_parquet
from pricekit.support.locks import owned
from pricekit.support.log import logger, silence
from pricekit.support.progress import use_reporter_here
from pricekit.support.staging import can_stage, continued, replacing, staging_of
from pricekit.table import write_rejected
from pricekit.table.table import texts_in_parts
from pricekit.training.checkpoint import BEST, EARLIER, LAST, METRICS, checkpoints
from pricekit.training.parallel import Processes

SOURCE = "source.json"
BACKBONE = "backbone.json"
INTERVALS = "intervals.json"
OUT_OF_FOLD = "out_of_fold.parquet"
PSEUDO_LABELLED = "pseudo_labelled.parquet"

REFIT, COMPLETE = "refit", ".complete"
"""The folder in a run's folder in which a second pass trains, on all rows; a file in it says that it is complete."""

SAMPLE_ROWS = 512
"""Maximum number of validation rows in the sample of a run."""

# In the order of deletion: the first file marks a finished run, the second a started run, the last one any run.
FILES = (
    *(
        "run.json",
        LISTING,
        BACKBONE,
        "config.toml",
        "split.parquet",
        SEEN,
        "rejected.parquet",
        "sample.parquet",
    ),
    *("tokenizer.json", "preprocess.json", OUT_OF_FOLD, PSEUDO_LABELLED),
    *(METRICS, *INPUTS, LAST, BEST, INTERVALS, HELD_OUT, SKETCH, SOURCE),
)
FINISHED = (BEST, INTERVALS, HELD_OUT, SKETCH, "run.json")
TAKEN_OVER = (INTERVALS, HELD_OUT)
"""Files of the first pass that the second one keeps unchanged."""
REFIT_FINISHED = tuple(name for name in FINISHED if name not in TAKEN_OVER)
STARTED = tuple(name for name in FILES if name not in (*FINISHED, LAST, LISTING, *INPUTS, METRICS))
"""What `files.json` lists when a run is started; FINISHED or REFIT_FINISHED when it, or its second pass, is finished.

Checkpoints hold `metrics.jsonl`, and inputs have a checksum of their own.
"""

ENSEMBLE, MEMBERS, CONFIG = "ensemble.json", "members", "members.toml"
ENSEMBLE_FINISHED = (ENSEMBLE, "run.json", INTERVALS, HELD_OUT, SKETCH)
"""The files that make an ensemble of its members."""
_ENSEMBLE_FILES = (*ENSEMBLE_FINISHED, LISTING, CONFIG)  # in the order of deletion


def is_own(file: Path) -> bool:
    """Return whether a path relative to a run's folder is that of a file of the run or of its second pass."""
    if len(file.parts) > 1 and file.parts[0] == REFIT:
        file = Path(*file.parts[1:])
    own = file.name in (*FILES, COMPLETE) or EARLIER.fullmatch(file.name) or is_asset(file.name)
    return len(file.parts) == 1 and bool(own)


def is_run(path: Path) -> bool:
    """Return whether a folder is a run, finished or not; raises TrainingError if its `source.json` is damaged."""
    return names_rows(path / SOURCE)


def names_rows(file: Path) -> bool:
    """Return whether a JSON file contains a digest of training rows, as only the files of runs do.

    Raises:
        TrainingError: the file is damaged.
    """
    check_intact(file.parent, [file.name], "delete the folder and train again")
    try:
        facts = read_json(file)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        if not any((file.parent / name).is_file() for name in ("config.toml", "cv.toml")):
            return False  # a file of something else
        raise TrainingError(
            f"{file} is damaged ({error}); restore it from a copy, or train into another folder",
            parameters=("out",),
            path=str(file.parent),
        ) from None
    return isinstance(facts, dict) and "digest" in facts


def read_source(path: Path) -> dict[str, Any]:
    """Return the content of a run's `source.json`; raises TrainingError if the run has another format."""
    facts = dict(read_json(path / SOURCE))
    check_run_format(facts, path)
    return facts


def run_id(path: Path) -> str:
    """Return the id that a run got when it was started."""
    return str(read_source(path)["run"])


def is_started(out: Path) -> bool:
    """Return whether a run folder contains everything that resuming needs; a checkpoint may be missing.

    Raises:
        TrainingError: a file is damaged.
    """
    if not is_run(out) or not (out / BACKBONE).is_file():  # the last file that a new run writes
        return False
    check_intact(out, [BACKBONE])
    return True


def is_replaceable(path: Path) -> bool:
    """Return whether a folder is a run, with damaged files or not; what is no run is never overwritten.

    Raises:
        TrainingError: `source.json` or `files.json` is damaged, and the other one does not tell that it is a run.
    """
    try:
        return is_run(path)
    except TrainingError:
        if _has_source(path):
            return True
        raise


def _has_source(path: Path) -> bool:
    """Return whether a folder contains the `source.json` of a run: by its content, or by an intact list of digests."""
    if not (path / "config.toml").is_file():
        return False
    with suppress(OSError, ValueError):
        facts = read_json(path / SOURCE)
        if isinstance(facts, dict) and "digest" in facts:
            return True
    with suppress(DamagedError):
        return SOURCE in (read_listing(path) or {})
    return False


def was_started(out: Path) -> bool:
    """Return whether a folder is a run that was started, as `is_started`, but also if files of it are damaged.

    Raises:
        TrainingError: as of `is_replaceable`.
    """
    return is_replaceable(out) and (out / BACKBONE).is_file()


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
    write_parquet(out / "sample.parquet", sample.frame.assign(**{str(price): sample.known_price}))


def read_out_of_fold(out: Path) -> dict[str, np.ndarray]:
    """Read the out-of-fold columns of the training rows, float32 (N,) by name; empty if there are none."""
    path = out / OUT_OF_FOLD
    if not path.is_file():
        return {}
    frame = pd.read_parquet(path)
    return {str(name): column.to_numpy(np.float32) for name, column in frame.items()}


def check_replaceable(
    out: Path,
    kind: str,
    *,
    own: bool,
    overwrite: bool,
    resumable: bool = False,
    foreign: Sequence[str] = (),
    error: type[PricekitError] = TrainingError,
) -> None:
    """Raise an error unless the content of `out` may be overwritten; call it if `out` is not free.

    Args:
        out: an existing file or folder.
        kind: the kind of folder to write, such as "run".
        own: `out` is a folder of that kind.
        overwrite: the user asked to overwrite it.
        resumable: it can be resumed.
        foreign: names of files in it that belong to something else.
        error: the class of the error.
    """
    if not own:
        article = "an" if kind[0] in "aeiou" else "a"
        raise error(
            f"{out} exists and is not {article} {kind}, so it is not overwritten; choose another folder",
            parameters=("out",),
            path=str(out),
        )
    if foreign:
        raise error(
            f"{out} also contains {foreign[0]}, which is not part of the {kind} and would be lost; move it, or "
            "choose another folder",
            parameters=("out",),
            path=str(out),
            files=list(foreign),
        )
    if not overwrite:
        resume = ("resume",) if resumable else ()
        raise error(
            f"the {kind} {out} already exists; {'resume it, ' if resume else ''}overwrite it, or choose another folder",
            parameters=(*resume, "overwrite", "out"),
            path=str(out),
        )


def check_free(out: Path, overwrite: bool) -> None:
    """Raise TrainingError unless a new run can be written to a folder."""
    if is_free(out):
        return
    own = is_replaceable(out)
    untrained = own and not any([*checkpoints(out), (out / BEST).exists(), (out / "run.json").exists()])
    resumable = not overwrite and is_started(out)
    check_replaceable(out, "run", own=own, overwrite=overwrite or untrained, resumable=resumable)


def clear_run(path: Path) -> None:
    """Delete the files of a run and nothing else; raises TrainingError if the folder is not a run."""
    if not path.exists():
        return
    if (path / REFIT).is_dir() and is_replaceable(path):
        clear_refit(path)
    if not is_free(path) and not is_replaceable(path):
        raise TrainingError(
            f"{path} is not a run, so it is not overwritten; choose another folder",
            parameters=("out",),
            path=str(path),
        )
    _delete(path, FILES)


def clear_refit(path: Path) -> None:
    """Delete the files of the second pass of a run and nothing else."""
    _delete(path / REFIT, (COMPLETE, *FILES))
    _remove_if_empty(path / REFIT)


def _delete(folder: Path, names: Iterable[str]) -> None:
    """Delete files of a run, with its checkpoints, assets and what a kill left."""
    paths = (folder / name for name in (*names, *assets_in(folder)))
    for file in [*leftovers(folder), *checkpoints(folder), *paths]:
        file.unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def has_begun(folder: Path, begun: bool, kind: str) -> bool:
    """Return whether there is something to resume; otherwise log that a new one starts."""
    if not begun:
        logger.info(f"there is no {kind} in {folder} to resume yet; a new one starts")
    return begun


@contextmanager
def writing(
    out: Path,
    kind: str,
    begun: Callable[[Path], bool],
    finished: str,
    own: Callable[[Path], bool],
    *,
    resume: bool,
    overwrite: bool,
    shown: bool,
) -> Iterator[Path]:
    """Lock a folder, and yield the one to write: `out`, or beside it if a finished one stays until then.

    Several processes that train together begin and end the block together; the first one locks, replaces and logs.

    Args:
        out: the folder of a run or of several.
        kind: what it contains, for messages.
        begun: tells whether a folder contains something to resume or to replace.
        finished: name of the last file that is written.
        own: tells from a path relative to `out` whether pricekit wrote the file.
        resume: continue what has begun.
        overwrite: replace what is there.
        shown: show progress bars in the block.

    Raises:
        TrainingError: an unfinished replacement of `out` is neither to be resumed nor to be overwritten, or another
            process writes `out`.
    """
    processes, reporter = Processes(), nullcontext() if shown else use_reporter_here(None)
    if not processes.main:
        silence()
    with reporter, owned(out, kind, TrainingError, enabled=processes.main):
        processes.wait()
        folder = _folder_to_write(out, begun, finished, resume=resume, overwrite=overwrite)
        with replacing(out, folder, own, enabled=processes.main):
            yield folder
        processes.wait()


def _folder_to_write(
    out: Path, begun: Callable[[Path], bool], finished: str, *, resume: bool, overwrite: bool
) -> Path:
    if resume:
        return continued(out, begun)
    staging = staging_of(out)
    if overwrite:
        return staging if begun(out) and (out / finished).is_file() and can_stage(out) else out
    if begun(staging):
        raise TrainingError(
            f"there is an unfinished replacement of {out} in {staging}; resume it, or overwrite it",
            parameters=("resume", "overwrite", "out"),
            path=str(out),
        )
    return out


def publish_refit(out: Path) -> None:
    """Put the files of a finished second pass into the places of those of the first one."""
    (out / REFIT / COMPLETE).touch()
    sync(out / REFIT)
    settle_refit(out)


def settle_refit(out: Path) -> None:
    """Continue `publish_refit` after a kill at any moment.

    Meanwhile the run has no `run.json`, so it is not finished, and no digests, so nothing in it counts as damaged.
    """
    part = out / REFIT
    if not part.is_dir():
        return
    if (part / COMPLETE).exists():
        if (part / LISTING).exists():
            (out / LISTING).unlink(missing_ok=True)
        for name in assets_in(part):
            os.replace(part / name, out / name)
        for name in reversed(FILES):  # `files.json` and `run.json` are the last
            if (part / name).exists():
                os.replace(part / name, out / name)
        for name in set(assets_in(out)) - (read_listing(out) or {}).keys():  # of the first pass only
            (out / name).unlink()
        for earlier in [*checkpoints(out)[1:], *checkpoints(part), *leftovers(part)]:
            earlier.unlink(missing_ok=True)
        sync(out)
        (part / COMPLETE).unlink()
    _remove_if_empty(part)


def is_ensemble(path: Path) -> bool:
    """Return whether a folder looks like an ensemble."""
    return (path / ENSEMBLE).is_file()


def is_own_of_ensemble(file: Path) -> bool:
    """Return whether a path relative to an ensemble's folder is one of its files or of its members'."""
    if len(file.parts) > 2 and file.parts[0] == MEMBERS:
        return is_own(Path(*file.parts[2:]))
    return file.as_posix() in _ENSEMBLE_FILES


def clear_ensemble(path: Path) -> None:
    """Delete the files of an ensemble, finished or not, and of its members, and nothing else."""
    members = path / MEMBERS
    for file in [*leftovers(path), *(path / name for name in _ENSEMBLE_FILES)] if path.is_dir() else ():
        file.unlink(missing_ok=True)
    for folder in [folder for folder in members.glob("*") if is_replaceable(folder)]:
        clear_run(folder)
        _remove_if_empty(folder)
    _remove_if_empty(members)
