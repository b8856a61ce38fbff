"""Overwriting a folder: whether its content may be lost, and deleting the files of a run and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pricekit.errors import PricekitError, TrainingError
from pricekit.features.assets import assets_in
from pricekit.runs.folder.names import COMPLETE, FILES, REFIT
from pricekit.runs.folder.states import is_replaceable
from pricekit.support.files import is_free, leftovers
from pricekit.training.checkpoint import checkpoints


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
    names = (*FILES, *assets_in(path))
    for file in [*leftovers(path), *checkpoints(path), *(path / name for name in names)]:
        file.unlink(missing_ok=True)


def clear_refit(path: Path) -> None:
    """Delete the files of the second pass of a run and nothing else."""
    part = path / REFIT
    names = (COMPLETE, *FILES, *assets_in(part))
    for file in [*leftovers(part), *checkpoints(part), *(part / name for name in names)]:
        file.unlink(missing_ok=True)
    if not any(part.iterdir()):
        part.rmdir()
