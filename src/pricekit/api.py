"""The public functions of pricekit: `import pricekit as pk`. Each command calls the function or the method of its name.

Functions import heavy libraries only when they need them. So `import pricekit` is fast, and prediction from a bundle
works without torch.

Tables, files to write and models that are read may be at addresses such as `s3://shop/new.csv` (docs/remote.md).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pricekit.errors import ConfigError, path_of
from pricekit.io.imports import slow_import
from pricekit.io.log import logger, silence
from pricekit.io.record import Mode, kind_of
from pricekit.io.storage import location_of
from pricekit.model import CrossValidation, Model, Tuning, load_folder, owning, trained_path
from pricekit.options import (
    CompareOptions,
    CrossValidationOptions,
    EnsembleOptions,
    OpenOptions,
    PathLike,
    PretrainingOptions,
    PricedOptions,
    TrainOptions,
    TrustOptions,
    TuneOptions,
    check_columns_soon,
    model_path,
    names_of,
    path_or_frame,
    read_options_of,
    several,
    with_options,
)
from pricekit.training.launched import launched_count, launched_rank
from pricekit.training.time_budget import began

if TYPE_CHECKING:
    from pricekit.answers.leaderboard import Leaderboard
    from pricekit.evaluation.comparison import Comparison
    from pricekit.evaluation.table_report import TableReport
    from pricekit.runs.split import Source
    from pricekit.table import Table, TableSource


@with_options(PricedOptions)
def check(table: TableSource, **options: Unpack[PricedOptions]) -> TableReport:
    """Report how pricekit reads a table and which problems it has. Nothing is trained.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Returns:
        Columns with their kinds, usable rows, prices, duplicates, leaks, and notes.

    Raises:
        DataError: the table cannot be read, or a named column is missing.

    Example:
        >>> import pricekit as pk
        >>> report = pk.check(pk.make_catalog(100))
        >>> report.text, report.price
        (('catalog_content',), 'price')
    """
    from pricekit.evaluation.table_report import profile_table

    return profile_table(
        path_or_frame(table),
        text=names_of(options.get("text"), "text"),
        price=options.get("price"),
        id=options.get("id"),
        read_options=read_options_of(options),
        limit=options.get("limit"),
    )


@with_options(PricedOptions)
def read_table(table: TableSource, **options: Unpack[PricedOptions]) -> Table:
    """Read a table as all other functions do, to look at the rows, or for a plugin's own test.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Returns:
        Ids, texts, prices and other columns of all rows; unusable prices are NaN.

    Raises:
        DataError: the table cannot be read, or a named column is missing.

    Example:
        >>> import pricekit as pk
        >>> table = pk.read_table(pk.make_catalog(100))
        >>> len(table), table.ids.name
        (100, 'sample_id')
    """
    from pricekit.table import guess_columns, read_table
    from pricekit.table.source import open_table

    read_options = read_options_of(options)
    guess = guess_columns(
        open_table(path_or_frame(table), read_options, logger.warning),
        text=names_of(options.get("text"), "text"),
        price=options.get("price"),
        id=options.get("id"),
        read_options=read_options,
    )
    return read_table(guess.file, guess.columns, limit=options.get("limit"), read_options=read_options)


@with_options(TrainOptions)
def train(table: TableSource, **options: Unpack[TrainOptions]) -> Model:
    """Train a model on a table of texts and prices, or an ensemble if the settings or the policy name members.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Raises:
        DataError: the table cannot be used, or it leaks the price.
        ConfigError: an option or a setting is invalid.
        TrainingError: `out` is not empty, or training failed.
        PluginError: a plugin is unknown or fails.

    Example:
        >>> import pricekit as pk
        >>> model = pk.train(pk.make_catalog(200), epochs=1)
        >>> model.metrics["smape"] < 200
        True
    """
    started = began()
    source, mode, out, init = source_of(table, options), mode_of(options), options["out"], options["init"]
    with output_folder(out) as folder, one_speaks():
        from pricekit.runs.chosen_columns import with_rows

        before = None if init is None else model_path(init, "init")
        source, named = with_rows(source, options, folder, mode)
        slow_import("pricekit.runs.ensemble")
        from pricekit.runs.ensemble import config_to_train, train_model

        config = config_to_train(folder, source, named, before, mode)
        train_model(source, config, folder, mode, started=started)
        return owning(Model(folder), out)


@with_options(CrossValidationOptions)
def cross_validate(table: TableSource, **options: Unpack[CrossValidationOptions]) -> CrossValidation:
    """Train one run per fold on the rows of the other folds, and score it on that fold.

    Rows with nearly equal texts are in the same fold. No choice depends on the fold that scores it: with a refit, a
    part of the other folds chooses the epoch, and the run is then trained on all rows of the other folds, as `train`
    does; otherwise it keeps its last weights. Each `teacher` is a cross-validation with the same folds: a fold learns
    from the run that has not seen its rows.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Raises:
        DataError, ConfigError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.

    Example:
        >>> import pricekit as pk
        >>> cv = pk.cross_validate(pk.make_catalog(200), folds=2, epochs=1)
        >>> len(cv.held_out)
        200
    """
    source, mode, out = source_of(table, options), mode_of(options), options["out"]
    with output_folder(out) as folder, one_speaks():
        check_columns_soon(table, options)
        slow_import("pricekit.runs.cross_validation")
        from pricekit.runs.cross_validation import config_to_validate
        from pricekit.runs.cross_validation import cross_validate as run_folds

        config = config_to_validate(folder, source, options, mode)
        run_folds(source, config, folder, options["folds"], mode)
        return owning(CrossValidation(folder), out)


@with_options(EnsembleOptions)
def ensemble(runs: Sequence[PathLike], **options: Unpack[EnsembleOptions]) -> Model:
    """Combine several runs or cross-validations into one model, with weights fitted on their held-out rows.

    Args:
        runs: at least two models, cross-validations or searches, which hold out the same rows.
        **options: see below.

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
    from pricekit.runs.ensemble import make_ensemble

    paths = tuple(trained_path(run, "runs") for run in several(runs))
    if len({path.resolve() for path in paths}) < 2:
        raise ConfigError("an ensemble needs at least two different runs", parameters=("runs",))
    mode, out = mode_of(options), options["out"]
    with output_folder(out) as folder:
        make_ensemble(paths, folder, mode, metric=options["metric"])
        return owning(Model(folder), out)


@with_options(TuneOptions)
def tune(table: TableSource, **options: Unpack[TuneOptions]) -> Tuning:
    """Search for better settings with Optuna, among those that the plugins declare, and train with the best ones.

    A part of the rows, 15%, is set aside. Each trial trains a run for each fold of the other rows and is scored on the
    fold; trials that fall behind are stopped early. The best settings are chosen if they are better on the folds beyond
    chance than those that the search starts from. At the end, a model with each of both is trained as `train` does, and
    both are scored, once, on the rows that no trial saw. `time_budget`, by default one hour, is that of all of this.

    With several processes, call it from a module's `if __name__ == "__main__":`, because they import the module.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Returns:
        The chosen configuration, its model, all trials, and the importance of each setting.

    Raises:
        ConfigError: Optuna is not installed, nothing can be searched, or the time is too short.
        DataError, TrainingError, PluginError: as for `train`; or there are too few rows for the folds.

    Example:
        >>> import pricekit as pk
        >>> tuning = pk.tune(pk.make_catalog(200), trials=2, folds=2, epochs=1, features="fast15")
        >>> tuning.trials["state"].tolist()
        ['finished', 'finished']
    """
    started = began()
    source, mode, out = source_of(table, options), mode_of(options), options["out"]
    with output_folder(out) as folder:
        check_columns_soon(table, options)
        slow_import("pricekit.runs.tuning")
        from pricekit.runs.tuning import Order, config_to_search
        from pricekit.runs.tuning import tune as run_search

        config = config_to_search(folder, source, options, mode)
        order = Order(options["folds"], options["trials"], options["processes"], started)
        run_search(source, config, folder, order, mode)
        return owning(Tuning(folder), out)


@with_options(PretrainingOptions)
def pretrain(
    tables: PathLike | Sequence[PathLike],
    out: PathLike,
    **options: Unpack[PretrainingOptions],
) -> Path:
    """Adapt the encoder of a backbone to texts, with or without prices: train it to fill in masked tokens.

    Args:
        tables: one file or several.
        out: a new or empty folder for the weights, which `train` takes as `weights`.
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
    from pricekit.runs.chosen_columns import with_columns
    from pricekit.runs.pretraining import pretrain as run
    from pricekit.runs.pretraining import pretraining_of
    from pricekit.runs.split import Source

    paths = tuple(location_of(table, "tables") for table in several(tables))
    target, read_options = path_of(out, "out"), read_options_of(options)
    first = Source(paths[0], read_options=read_options)
    named = with_columns(first, {"text": options["text"], "limit": options["limit"]}, priced=False)
    settings = pretraining_of(options | {"text": named["text"]})
    run(paths, settings, target, mode_of(options | {"out": out}), read_options)
    return target


@with_options(OpenOptions)
def load(  # noqa: D417 (engine is one of the options)
    path: PathLike, engine: str | None = None, **options: Unpack[TrustOptions]
) -> Model | CrossValidation | Tuning:
    """Return what pricekit has written into a folder: a model, a cross-validation or a search.

    A model is a run, an ensemble or a bundle. It is opened when it is first used; `Model.self_test` opens a bundle at
    once.

    Args:
        path: the folder, or its address such as "s3://shop/bundle".
        **options: see below.

    Raises:
        BundleError: the folder contains nothing of pricekit, or no trusted key has signed the bundle. When the model is
            first used: the bundle is damaged or was changed.
        TrainingError: a training, a cross-validation or a search is not finished.
        PluginError: when the model is first used: a feature or an engine is not installed.
        ConfigError: an engine is given for a run, or a key cannot be used.

    Example:
        >>> import pricekit as pk
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> pk.load("bundle").predict(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
        (1,)
    """
    return load_folder(path, engine, options["trust"])


@with_options(CompareOptions)
def compare(*models: PathLike, **options: Unpack[CompareOptions]) -> Comparison | Leaderboard:
    """Compare models or cross-validations of one table, on the rows that all of them hold out.

    Of two, the second is compared with the first. More than two are ranked, and so are those with `latency`, or in a
    folder such as `runs/`, which stands for all finished models directly inside it. Models that share no rows with the
    others are left out of a ranking, with a warning.

    Args:
        models: runs, ensembles, cross-validations or searches on the same table with the same seed, or folders that
            contain them. Cross-validations hold out every row.
        **options: see below.

    Returns:
        Of two: the score of each, and the difference with its 95% paired bootstrap interval and a verdict: better,
        worse or cannot tell. Of others, the best first: the same in comparison with the best, the time of the training,
        the size of the files, and the settings in which the models differ.

    Raises:
        DataError: no two models hold out the same rows, or a folder is no model and contains none.
        TrainingError: a model is unfinished or damaged.
        ConfigError: there are fewer than two, without `latency`; or there is no metric of that name.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> models = [pk.train(table, loss=loss, epochs=1, features="fast15") for loss in ("smape", "log-l1", "log-l2")]
        >>> pk.compare(*models[:2]).rows
        30
        >>> sorted(entry.settings["loss"] for entry in pk.compare(*models).entries)
        ['log-l1', 'log-l2', 'smape']
    """
    from pricekit.evaluation.comparison import compare_folders

    metric, latency = options["metric"], options["latency"]
    paths = [trained_path(model, "models") for model in models]
    ranked = latency or any(path.is_dir() and not kind_of(path) for path in paths)
    if len(paths) < 2 and not ranked:
        raise ConfigError(
            f"compare needs at least two models, or a folder that contains them; got {len(paths)}",
            parameters=("models",),
        )
    if len(paths) == 2 and not ranked:
        return compare_folders(paths, metric)
    from pricekit.answers.leaderboard import rank_models

    return rank_models(paths, metric, latency=latency)


def source_of(table: Any, options: Mapping[str, Any]) -> Source:
    """Return the tables of a training and the models that price some of them; raises ConfigError, DataError."""
    from pricekit.runs.split import Source

    return Source(
        path_or_frame(table),
        path_or_frame(options.get("valid")),
        read_options_of(options),
        tuple(map(path_or_frame, several(options.get("unpriced", ())))),
        tuple(model_path(path, "teacher") for path in several(options.get("teacher", ()))),
        options["allow_leak"],
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


def mode_of(options: Mapping[str, Any]) -> Mode:
    """Return how to write `out`; raises ConfigError if there is none to resume, or it is to be overwritten, too."""
    resume = options.get("resume", False)
    if resume and options["out"] is None:
        raise ConfigError("resume needs the folder of the run to continue", parameters=("out",))
    if resume and options["overwrite"]:
        raise ConfigError("a run is either resumed or overwritten; choose one", parameters=("overwrite",))
    return "resume" if resume else "overwrite" if options["overwrite"] else "new"
