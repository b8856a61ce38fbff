"""`pricekit.json`, the record in every folder that pricekit makes: what kind of folder it is, and in which state.

The record is written first and last. While a folder has it, every file of its kind's `LAYOUT` is pricekit's: it may be
replaced and deleted. All other files are of the user or of observers, and stay.

    starting      nothing in the folder is worth keeping yet, or its files are being deleted
    unfinished    everything is there that continuing needs
    finished      complete
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pricekit.errors import PricekitError, TrainingError
from pricekit.io.digests import DamagedError, check_files, tells_damage
from pricekit.io.files import RECORD, is_free, is_temporary, read_json, write_json

FORMAT = 10
"""The format of runs and bundles. Until the first release, every change of what they mean raises it."""

Step = Literal["starting", "unfinished", "finished"]

REFIT = "refit"
"""The folder of the second pass of a run, until its files replace those of the first one."""

KEPT = ".kept"
"""A list of the files of others that a replacement contains, see `pricekit.io.staging`."""

OBSERVERS = "observers"
"""The folder of a run below which plugins that observe it write."""

WHOLE = "*"
"""The kind of a folder in which everything is pricekit's."""

_MOST_BYTES = 4096
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_ASSET = "asset-[0-9a-f]{64}.(onnx|bin)"
LAYOUT: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "run": (
        "source.json config.toml split.parquet seen.parquet rejected.parquet sample.parquet out_of_fold.parquet "
        "pseudo_labelled.parquet tokenizer.json preprocess.json backbone.json metrics.jsonl (train|valid).inputs "
        "(last|last-[1-9][0-9]*|best).safetensors intervals.json held_out.parquet sketch.json run.json files.json "
        + _ASSET,
        {REFIT: ("run",)},
    ),
    "ensemble": (
        "members.toml ensemble.json run.json intervals.json held_out.parquet sketch.json files.json",
        {"members": ("members",)},
    ),
    "members": ("", {"[^/]+": ("run",)}),
    "cross-validation": (
        "cv.toml plan.json folds.parquet held_out.parquet cv.json files.json",
        {"fold-[0-9]+": ("run", "ensemble")},
    ),
    "search": (
        "tune.toml search.json study.log(.lock[^/]*)? config.toml trials.csv importance.csv final.parquet tune.json "
        "files.json",
        {"run|default": ("run",), "trials|prices|cache": (WHOLE,)},
    ),
    "pretraining": (
        "config.json model.safetensors tokenizer.json pretrain.json files.json start.json",
        {"checkpoints": (WHOLE,)},
    ),
    "bundle": (
        "manifest.json signature.json ([0-9]+-)?(model.onnx|tokenizer.json|preprocess.json) intervals.json sketch.json "
        "comparables.(parquet|json) self_test.json README.md inventory.cdx.json " + _ASSET,
        {},
    ),
    "demo": ("(products|new|prices).csv", {"run": ("run",), "bundle": ("bundle",)}),
}
"""Of each kind: patterns of its files' names, and by patterns of the names of the folders in it, their kinds.

Patterns are regular expressions in which a dot is a dot.
"""

_OF_DAMAGED = [kind for kind in LAYOUT if kind not in ("demo", "members", "search", "pretraining")]
"""The kinds whose files are deleted where a damaged record does not tell the kind."""


FACTS = {
    "run": "run.json",
    "ensemble": "run.json",
    "cross-validation": "cv.json",
    "search": "tune.json",
    "pretraining": "pretrain.json",
    "bundle": "manifest.json",
}
"""The file with the results of a folder, by its kind."""


@dataclass(frozen=True)
class Record:
    """The content of `pricekit.json`.

    Attributes:
        kind: a key of `LAYOUT`.
        state: as the module describes it.
        second: of a run: it is, or ends with, a second pass.
        replaces: the folder is complete, and is about to take the place of another one, or has just done so.
        format: of the folder's files.
    """

    kind: str
    state: Step
    second: bool = False
    replaces: bool = False
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        record: dict[str, Any] = {"kind": self.kind, "format": self.format, "state": self.state}
        if self.kind == "run":
            record["pass"] = "second" if self.second else "first"
        return record | ({"replaces": True} if self.replaces else {})


def read_record(folder: Path) -> Record | None:
    """Return the record of a folder; None if it has none, or a file of that name that is none.

    Raises:
        DamagedError: it cannot be read, or says what no record says.
    """
    file = folder / RECORD
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return None
        with file.open("rb") as stream:
            content = json.loads(stream.read(_MOST_BYTES))
        if isinstance(content, dict) and not content.keys() & {"kind", "format", "state"}:
            return None  # of another program
        second, replaces = content.get("pass") == "second", content.get("replaces", False)
        record = Record(content["kind"], content["state"], second, replaces, content["format"])
        known = record.kind in LAYOUT and record.state in get_args(Step)
        if known and isinstance(record.format, int) and record.to_json() == content:
            return record
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return None
        if not tells_damage(error):
            raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise DamagedError(f"{file} was altered or damaged")


def write_record(folder: Path, record: Record) -> None:
    """Write the record of a folder atomically."""
    write_json(folder / RECORD, record.to_json())


def record_of(kind: str) -> bytes:
    """Return the content of the record of a finished folder, which is written at once with its other files."""
    return (json.dumps(Record(kind, "finished").to_json(), indent=2) + "\n").encode()


def begin(folder: Path, kind: str, *, second: bool = False) -> None:
    """Begin a folder: delete what pricekit wrote in it before, of whatever kind, and write its record."""
    clear(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder, Record(kind, "starting", second))


def advance_to(folder: Path, state: Step) -> None:
    """Write that a folder has reached a state."""
    record = read_record(folder)
    if record is None:
        raise DamagedError(f"{folder / RECORD} is missing")
    if record.state != state:
        write_record(folder, replace(record, state=state))


def clear(folder: Path) -> None:
    """Delete the files that pricekit wrote in a folder, and nothing else; what is left is a folder that is starting."""
    if not (folder / RECORD).exists():
        return
    try:
        record = read_record(folder)
    except DamagedError:
        record = None
    if record is not None:
        write_record(folder, replace(record, state="starting", replaces=False))
    kinds = _OF_DAMAGED if record is None else [record.kind]
    own = [file for file in files_in(folder) if is_temporary(file) or is_own(file.relative_to(folder), kinds)]
    for file in own:
        if file.parent != folder or file.name not in (RECORD, KEPT):
            file.unlink(missing_ok=True)
    for inner in sorted({parent for file in own for parent in file.parents}, reverse=True):
        if folder in inner.parents and not any(inner.iterdir()):
            inner.rmdir()


def clear_away(folder: Path) -> None:
    """Delete the files that pricekit wrote in a folder, and the folder if nothing else is in it."""
    clear(folder)
    (folder / RECORD).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the files and links in a folder and those below it, in order."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_dir():
            yield file


def is_own(file: Path, kinds: Iterable[str]) -> bool:
    """Return whether a path relative to a folder of one of these kinds is a file of pricekit's."""
    head, *rest = file.parts
    for names, inner in (LAYOUT[kind] for kind in kinds):
        if not rest:
            locks = head.startswith(".") and head.endswith(".lock")
            if head in (RECORD, KEPT) or locks or any(_fits(head, name) for name in names.split()):
                return True
        elif any(
            _fits(head, name) and (WHOLE in parts or is_own(Path(*rest), parts))
            for name, parts in inner.items()
        ):
            return True
    return False


def _fits(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern.replace(".", r"\."), name) is not None


def others_in(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder of pricekit's that pricekit did not write: those of the user and of observers."""
    try:
        record = read_record(folder)
        kinds: Iterable[str] = () if record is None else (record.kind,)
    except DamagedError:
        kinds = _OF_DAMAGED
    for file in files_in(folder):
        if not (is_temporary(file) or is_own(file.relative_to(folder), kinds)):
            yield file


def staging_of(out: Path) -> Path:
    """Return the folder in which a replacement of `out` is written."""
    path = Path(os.path.realpath(out))
    return path.with_name(f".{path.name}.new")


def continued(out: Path) -> Path:
    """Return the folder to continue: the unfinished replacement of `out` if there is one, otherwise `out`."""
    return staging_of(out) if state_of(out).replacement else out


@dataclass(frozen=True)
class State:
    """What a folder is, in facts that do not depend on each other.

    Attributes:
        name: absent (nothing in it is worth keeping), foreign (pricekit did not make it), unfinished, finished, or
            damaged (its record cannot be read).
        kind: a key of `LAYOUT`; "" where there is no record.
        phase: of a run: its pass, first or second; or publishing, while the files of the second one replace those of
            the first one.
        checkpoint: of a run: there are weights.
        replacement: there is an unfinished replacement beside it.
        format: of its files.
    """

    name: Literal["absent", "foreign", "unfinished", "finished", "damaged"]
    kind: str = ""
    phase: Literal["first", "second", "publishing"] = "first"
    checkpoint: bool = False
    replacement: bool = False
    format: int = FORMAT

    @property
    def begun(self) -> bool:
        """Whether there is something to continue."""
        return self.name in ("unfinished", "finished")


ABSENT = State("absent")


def state_of(folder: Path) -> State:
    """Return the state of a folder."""
    beside = _record_or_none(staging_of(folder)) if folder.resolve().name else None  # the root has no name
    replacement = beside is not None and beside.state != "starting"
    try:
        record = read_record(folder)
    except DamagedError:
        return State("damaged", replacement=replacement)
    if record is None:
        return State("absent" if is_free(folder) else "foreign", replacement=replacement)
    later = _record_or_none(folder / REFIT) if record.kind == "run" else None
    second = record.second or (later is not None and later.state == "unfinished")
    return State(
        "absent" if record.state == "starting" else record.state,
        record.kind,
        "publishing" if later is not None and later.state == "finished" else "second" if second else "first",
        any(file.name.startswith(("last", "best")) for file in folder.glob("*.safetensors")),
        replacement and not record.replaces,
        record.format,
    )


def _record_or_none(folder: Path) -> Record | None:
    try:
        return read_record(folder)
    except (DamagedError, OSError):  # such as a folder of another user
        return None


Mode = Literal["new", "resume", "overwrite"]
"""How to write a folder: a new one, a continued one, or one that replaces what is there."""


def check_format(record: Record | State, folder: Path) -> None:
    """Raise TrainingError unless a folder has this format."""
    if record.format != FORMAT:
        raise TrainingError(
            f"{folder} has the format {record.format}, but this pricekit reads the format {FORMAT}; train again",
            path=str(folder),
        )


def check_output(
    out: Path, kind: str, mode: Mode, error: type[PricekitError] = TrainingError, *, resumable: bool = False
) -> State:
    """Return the state of a folder to write; raise an error unless it may be written.

    A new folder is absent, or a run without a checkpoint. Any folder that pricekit made may be overwritten, of whatever
    kind, and one of the same kind may be resumed.

    Args:
        out: the folder.
        kind: the kind of folder to write, such as "run".
        mode: how to write it.
        error: the class of the error.
        resumable: a folder of this kind can be resumed.
    """
    state = state_of(out)
    if mode == "new" and resumable and state.replacement:
        raise error(
            f"there is an unfinished replacement of {out} in {staging_of(out)}; resume it, or overwrite it",
            parameters=("resume", "overwrite", "out"),
            path=str(out),
        )
    if state.name == "absent":
        return state
    if state.name == "foreign":
        raise error(
            f"{out} exists and its pricekit.json is missing, or of another program, so it is not overwritten; choose "
            "another folder",
            parameters=("out",),
            path=str(out),
        )
    if mode == "overwrite":
        return state
    if state.name == "damaged":
        raise error(
            f"{out} is damaged: its pricekit.json cannot be read; restore it from a copy, or overwrite the folder",
            parameters=("overwrite", "out"),
            path=str(out),
        )
    if mode == "resume":
        if state.kind != kind:
            raise error(
                f"{out} is {with_article(state.kind)}, not {with_article(kind)} to resume; choose another folder, or "
                "overwrite it",
                parameters=("out", "overwrite"),
                path=str(out),
            )
        check_format(state, out)
        return state
    if kind == state.kind == "run" and state.name == "unfinished" and not state.checkpoint:
        return state
    resume = ("resume",) if resumable and state.kind == kind else ()
    raise error(
        f"the {state.kind} {out} already exists; {'resume it, ' if resume else ''}overwrite it, or choose another "
        "folder",
        parameters=(*resume, "overwrite", "out"),
        path=str(out),
    )


def finished_record(folder: Path, *kinds: str) -> Record:
    """Return the record of a finished folder of one of these kinds, in this format; raise TrainingError for others."""
    expected = " or ".join(map(with_article, kinds))
    record = _record_of(folder, TrainingError)
    if record is None:
        raise TrainingError(f"{folder} is not {expected}: it has no pricekit.json", path=str(folder))
    if record.kind not in kinds:
        raise TrainingError(f"{folder} is {with_article(record.kind)}; expected {expected}", path=str(folder))
    if record.state != "finished":
        raise TrainingError(
            f"{folder} is not a finished {record.kind}; resume it to finish it",
            parameters=("resume",),
            path=str(folder),
        )
    check_format(record, folder)
    return record


def kind_of(folder: Path, error: type[PricekitError] = TrainingError) -> str:
    """Return the kind of a folder, "" if pricekit did not make it; raises an error if its record is damaged."""
    record = _record_of(folder, error)
    return "" if record is None else record.kind


def _record_of(folder: Path, error: type[PricekitError]) -> Record | None:
    try:
        return read_record(folder)
    except DamagedError as damage:
        raise error(f"{damage}; restore it from a copy, or train again", path=str(folder)) from None


def check_intact(
    folder: Path,
    names: Iterable[str] | None,
    remedy: str = "train again",
    error: type[PricekitError] = TrainingError,
) -> None:
    """Compare files with the list of digests in their folder, if it has one.

    Args:
        folder: of the files.
        names: of the files; None: all that are listed.
        remedy: what to do, for the message.
        error: the class of the error.

    Raises:
        PricekitError: a file is damaged or missing.
    """
    try:
        check_files(folder, names)
    except DamagedError as damage:
        raise error(
            f"{damage}; restore it from a copy, or {remedy}{_told_of_others(folder)}", path=str(folder)
        ) from None


def _told_of_others(folder: Path) -> str:
    """Return a sentence on the files of others in a damaged folder, or ""."""
    names = [file.relative_to(folder).as_posix() for file in others_in(folder)]
    if not (names := [name for name in names if not name.startswith(f"{OBSERVERS}/")]):
        return ""
    more = " and others" if len(names) > 3 else ""
    return (
        f". pricekit did not write {', '.join(names[:3])}{more}: if a plugin did, it may have done the damage, and "
        f"must write below {OBSERVERS}/NAME"
    )


def read_intact(folder: Path, name: str) -> dict[str, Any]:
    """Return the content of a JSON file after `check_intact`; raises TrainingError if it is missing or damaged."""
    check_intact(folder, [name])
    try:
        return dict(read_json(folder / name))
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"{folder / name} is missing or damaged ({error}); train again", path=str(folder)
        ) from None


def check_apart(out: Path, inputs: Iterable[Path], error: type[PricekitError] = TrainingError) -> None:
    """Raise an error if an output is or contains the folder of an input, which it would replace."""
    place = out.resolve()
    for each in inputs:
        source = each.resolve()
        if place == source or place in source.parents:
            raise error(
                f"the output {out} would replace {each}, from which it is made; choose another folder",
                parameters=("out",),
                path=str(out),
            )


def with_article(kind: str) -> str:
    """Return a kind of folder with its article, such as "a run" or "an ensemble"."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
