"""Functions that train: a run, a cross-validation, an ensemble, the weights of a backbone."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from pricekit.api.results import CrossValidation, Run, Tuning
from pricekit.errors import ConfigError, path_of
from pricekit.options import (
    ModelOptions,
    PathLike,
    PretrainingOptions,
    clear_errors,
    model_path,
    path_or_frame,
    read_options_of,
    with_options,
)
from pricekit.output import Mode
from pricekit.storage import location_of
from pricekit.support.log import logger, silence
from pricekit.training.launched import launched_count, launched_rank
from pricekit.training.time_budget import began

if TYPE_CHECKING:
    from pricekit.runs.split import Source
    from pricekit.table import TableSource


Handle = TypeVar("Handle", Run, CrossValidation, Tuning)


def several(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; a frame, a path or a run is one value."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def source_of(
    table: Any, options: Mapping[str, Any], *, valid: Any = None, unpriced: Any = (), teacher: Any = ()
) -> Source:
    """Return the tables of a training and the models that price some of them; raises ConfigError, DataError."""
    from pricekit.runs.split import Source

    return Source(
        path_or_frame(table),
        path_or_frame(valid),
        read_options_of(options),
        tuple(map(path_or_frame, several(unpriced))),
        tuple(model_path(path, "teacher") for path in several(teacher)),
    )


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
    """Return the handle; a temporary folder is deleted when it is garbage-collected or its process ends."""
    owner, folder = os.getpid(), handle.path

    def delete() -> None:
        if os.getpid() == owner:  # a forked child also has the handle
            shutil.rmtree(folder, ignore_errors=True)

    if out is None:
        weakref.finalize(handle, delete)
    return handle


def mode_of(out: PathLike | None, *, resume: bool, overwrite: bool) -> Mode:
    """Return how to write a folder; raises ConfigError if there is none to resume, or it is to be overwritten, too."""
    if resume and out is None:
        raise ConfigError("resume needs the folder of the run to continue", parameters=("out",))
    if resume and overwrite:
        raise ConfigError("a run is either resumed or overwritten; choose one", parameters=("overwrite",))
    return "resume" if resume else "overwrite" if overwrite else "new"


@with_options(ModelOptions)
def train(
    table: TableSource,
    *,
    out: PathLike | None = None,
    valid: TableSource | None = None,
    unpriced: Sequence[TableSource] = (),
    teacher: Sequence[PathLike] = (),
    init: PathLike | None = None,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    **options: Unpack[ModelOptions],
) -> Run:
    """Train a model on a table of texts and prices, or an ensemble if the settings or the policy name members.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        out: a new or empty folder for the run. Without it, a temporary folder holds the run while its object exists.
        valid: a table to validate on; default: a part of `table`.
        unpriced: tables whose rows without a price are trained on, too, at the prices of `teacher`.
        teacher: models that price the rows of `unpriced`; the prices of several are averaged (geometric mean).
        init: a finished run, or an ensemble that was trained as one, to continue from: its tokenizer, its weights and
            its settings are kept, and it learns from the rows of `table`, new ones and, best, the earlier ones, too.
        resume: continue the run in `out` from its last checkpoint, with its original settings, or start it.
        overwrite: replace the run in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.
        **options: see below.

    Raises:
        DataError: the table cannot be used, or it leaks the price.
        ConfigError: an option or a setting is invalid.
        TrainingError: `out` is not empty, or training failed.
        PluginError: a plugin is unknown or fails.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> run.metrics["smape"] < 200
        True
    """
    started = began()
    source = source_of(table, options, valid=valid, unpriced=unpriced, teacher=teacher)
    source = replace(source, allow_leak=allow_leak)
    mode = mode_of(out, resume=resume, overwrite=overwrite)
    with output_folder(out) as folder, one_speaks():
        from pricekit.workflows.ensemble import config_to_train, train_model

        before = None if init is None else model_path(init, "init")
        config, mode = config_to_train(folder, source, options, before, mode)
        train_model(source, config, folder, mode, started=started)
        return handle_of(Run(folder), out)


@with_options(ModelOptions)
def cross_validate(
    table: TableSource,
    *,
    out: PathLike | None = None,
    folds: int | None = None,
    unpriced: Sequence[TableSource] = (),
    teacher: Sequence[PathLike] = (),
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    **options: Unpack[ModelOptions],
) -> CrossValidation:
    """Train one run per fold on the rows of the other folds, and score it on that fold.

    Rows with nearly equal texts are in the same fold. No choice depends on the fold that scores it: with a refit, a
    part of the other folds chooses the epoch, and the run is then trained on all rows of the other folds, as `train`
    does; otherwise it keeps its last weights.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        out: a new or empty folder. Without it, a temporary folder holds the runs while the object exists.
        folds: number of folds; default: 5, or the original number with `resume`.
        unpriced: tables whose rows without a price are trained on, too, at the prices of `teacher`.
        teacher: cross-validations with the same folds; each fold learns from the run that has not seen its rows.
        resume: continue the cross-validation in `out`; start it if there is none.
        overwrite: replace the cross-validation in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.
        **options: see below.

    Raises:
        DataError, ConfigError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.

    Example:
        >>> import pricekit as pk
        >>> cv = pk.cross_validate(pk.make_catalog(200), folds=2, epochs=1)
        >>> len(cv.held_out)
        200
    """
    source = replace(source_of(table, options, unpriced=unpriced, teacher=teacher), allow_leak=allow_leak)
    mode = mode_of(out, resume=resume, overwrite=overwrite)
    with output_folder(out) as folder, one_speaks():
        from pricekit.workflows.cross_validation import config_to_validate
        from pricekit.workflows.cross_validation import cross_validate as run_folds

        config, mode = config_to_validate(folder, source, options, mode)
        run_folds(source, config, folder, folds, mode)
        return handle_of(CrossValidation(folder), out)


@clear_errors
def ensemble(
    runs: Sequence[PathLike],
    *,
    out: PathLike | None = None,
    overwrite: bool = False,
    metric: str | None = None,
) -> Run:
    """Combine several runs or cross-validations into one model, with weights fitted on their held-out rows.

    Args:
        runs: at least two, which hold out the same rows.
        out: a new or empty folder. Without it, a temporary folder holds the ensemble while its object exists.
        overwrite: replace the ensemble in `out` when the new one is complete.
        metric: which the weights minimise, such as `rmsle`; default: that of the first run.

    Raises:
        TrainingError: `out` is not empty, or the runs cannot be combined.
        DataError: a folder has no held-out rows.
        ConfigError: there are fewer than two different runs.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> runs = [pk.train(table, loss=loss, epochs=1) for loss in ("smape", "focal-smape")]
        >>> both = pk.ensemble(runs)
        >>> round(sum(member["weight"] for member in both.members), 6)
        1.0
    """
    from pricekit.workflows.ensemble import make_ensemble

    paths = tuple(model_path(run, "runs") for run in several(runs))
    if len({path.resolve() for path in paths}) < 2:
        raise ConfigError("an ensemble needs at least two different runs", parameters=("runs",))
    with output_folder(out) as folder:
        make_ensemble(paths, folder, "overwrite" if overwrite else "new", metric=metric)
        return handle_of(Run(folder), out)


@with_options(ModelOptions)
def tune(
    table: TableSource,
    *,
    out: PathLike | None = None,
    trials: int | None = None,
    folds: int | None = None,
    processes: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    allow_leak: bool = False,
    **options: Unpack[ModelOptions],
) -> Tuning:
    """Search for better settings with Optuna, among those that the plugins declare, and train with the best ones.

    A part of the rows, 15%, is set aside. Each trial trains a run for each fold of the other rows and is scored on the
    fold; trials that fall behind are stopped early. The best settings are chosen if they are better on the folds beyond
    chance than those that the search starts from. At the end, a model with each of both is trained as `train` does, and
    both are scored, once, on the rows that no trial saw. `time_budget`, by default one hour, is that of all of this.

    With several processes, call it from a module's `if __name__ == "__main__":`, because they import the module.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        out: a new or empty folder. Without it, a temporary folder holds the result while its object exists.
        trials: the most trials; default: as many as fit into the time.
        folds: number of folds; default: 3, or the original number with `resume`.
        processes: run so many trials at a time, each on its part of the CPUs.
        resume: continue the search in `out`, with a new time budget; start it if there is none.
        overwrite: replace the search in `out`; a finished one stays until the new one is complete.
        allow_leak: train even if columns or texts leak the price.
        **options: see below.

    Returns:
        The chosen configuration, its run, all trials, and the importance of each setting.

    Raises:
        ConfigError: Optuna is not installed, nothing can be searched, or the time is too short.
        DataError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.

    Example:
        >>> import pricekit as pk
        >>> found = pk.tune(pk.make_catalog(200), trials=2, folds=2, epochs=1, features="fast15")
        >>> found.trials["state"].tolist()
        ['finished', 'finished']
    """
    started = began()
    source = replace(source_of(table, options), allow_leak=allow_leak)
    mode = mode_of(out, resume=resume, overwrite=overwrite)
    with output_folder(out) as folder:
        from pricekit.workflows.tuning import Order, config_to_search
        from pricekit.workflows.tuning import tune as run_search

        order = Order.checked(options.pop("time_budget", None), started, folds, trials, processes)
        config, mode = config_to_search(folder, options, mode)
        run_search(source, config, folder, order, mode)
        return handle_of(Tuning(folder), out)


@with_options(PretrainingOptions)
def pretrain(
    tables: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    backbone: str,
    resume: bool = False,
    overwrite: bool = False,
    **options: Unpack[PretrainingOptions],
) -> Path:
    """Adapt the encoder of a backbone to texts, with or without prices: train it to fill in masked tokens.

    Args:
        tables: one file or several.
        out: a new or empty folder for the weights, which `train` takes as `weights`.
        backbone: a pretrained backbone, or `transformer`.
        resume: continue from the last checkpoint.
        overwrite: replace the weights in `out`.
        **options: see below.

    Returns:
        The folder of the weights.

    Raises:
        DataError: a table cannot be read, or there are too few texts.
        ConfigError, PluginError: a setting is invalid, or the backbone cannot be pretrained.
        TrainingError: `out` is not empty, or training failed.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> pk.make_catalog(100).to_csv(f"{folder}/products.csv", index=False)
        >>> tiny = {"backbone.width": 16, "backbone.layers": 1, "backbone.heads": 2}
        >>> weights = pk.pretrain(
        ...     f"{folder}/products.csv", f"{folder}/weights", backbone="transformer", epochs=1, settings=tiny
        ... )
        >>> (weights / "model.safetensors").is_file()
        True
    """
    from pricekit.workflows.pretraining import pretrain as run
    from pricekit.workflows.pretraining import pretraining_of

    paths = tuple(location_of(table, "tables") for table in several(tables))
    target = path_of(out, "out")
    run(
        paths,
        pretraining_of(backbone, options),
        target,
        mode_of(out, resume=resume, overwrite=overwrite),
        read_options_of(options),
    )
    return target
