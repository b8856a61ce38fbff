"""What the public functions do with their arguments: paths, frames, output folders."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pricekit.errors import ConfigError, path_of
from pricekit.options import model_path
from pricekit.results import CrossValidation, PathLike, Run, Tuning, delete_with
from pricekit.support.log import logger, silence
from pricekit.training.launched import launched_count, launched_rank

Handle = TypeVar("Handle", Run, CrossValidation, Tuning)


def several(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; a frame, a path or a run is one value."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def models_of(given: Any, parameter: str) -> tuple[Path, ...]:
    """Return the local paths of one model or several; raises ConfigError."""
    return tuple(model_path(path, parameter) for path in several(given))


@contextmanager
def output_folder(out: PathLike | None) -> Iterator[Path]:
    """Yield the folder to write: `out`, or a temporary folder, which is deleted on failure."""
    if out is not None:
        yield path_of(out, "out")
        return
    if launched_count() > 1:
        raise ConfigError("processes that train together need the same output folder", parameters=("out",))
    folder = Path(tempfile.mkdtemp(prefix="pricekit-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def one_speaks() -> Iterator[None]:
    """Log only errors while the block runs, unless this process is the first of those that train together."""
    before = logger.level
    if launched_rank():
        silence()
    try:
        yield
    finally:
        logger.setLevel(before)


def handle_of(handle: Handle, out: PathLike | None) -> Handle:
    """Return the handle; a temporary folder is deleted with it."""
    if out is None:
        delete_with(handle, handle.path)
    return handle


def check_resumable(out: PathLike | None, overwrite: bool) -> None:
    """Raise ConfigError if there is no folder to resume, or it is to be overwritten, too."""
    if out is None:
        raise ConfigError("resume needs the folder of the run to continue", parameters=("out",))
    if overwrite:
        raise ConfigError("a run is either resumed or overwritten; choose one", parameters=("overwrite",))
