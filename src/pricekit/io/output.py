"""Whether a folder may be written or read: its format, its kind and its state, as its `pricekit.json` tells."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pricekit.errors import PricekitError, TrainingError
from pricekit.io.digests import DamagedError, check_files
from pricekit.io.files import read_json
from pricekit.io.record import FORMAT, Record, State, read_record, state_of

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
    if state.name == "absent":
        return state
    if state.name == "foreign":
        raise error(
            f"{out} exists and pricekit did not make it, so it is not overwritten; choose another folder",
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
        raise error(f"{damage}; restore it from a copy, or {remedy}", path=str(folder)) from None


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
