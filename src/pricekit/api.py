"""The public functions of pricekit: `import pricekit as pk`. Each command calls the function with the same name.

Functions import heavy libraries only when they need them. So `import pricekit` is fast, and prediction from a bundle
works without torch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from pricekit.errors import ConfigError, DataError, ExportError, path_of
from pricekit.options import (
    ModelOptions,
    PretrainingOptions,
    PricedOptions,
    ReadingOptions,
    WeighedOptions,
    clear_errors,
    columns_over,
    names_of,
    read_options_of,
    with_options,
)
from pricekit.results import CrossValidation, PathLike, Run, delete_with
from pricekit.support.leftovers import restore
from pricekit.support.log import logger
from pricekit.support.staging import continued
from pricekit.training.time_budget import began

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.evaluation.compare import Comparison
    from pricekit.evaluation.errors import ErrorReport
    from pricekit.evaluation.scores import Scores
    from pricekit.evaluation.table_report import TableReport
    from pricekit.exporting.verify import VerificationReport
    from pricekit.prediction.predictor import Predictor
    from pricekit.prediction.sandbox import Inspection
    from pricekit.table import TableSource


PRECISIONS = ("fp32", "fp16", "int8")

Handle = TypeVar("Handle", Run, CrossValidation)


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
        _path_or_frame(table),
        text=names_of(options.get("text"), "text"),
        price=options.get("price"),
        id=options.get("id"),
        read_options=read_options_of(options),
        limit=options.get("limit"),
    )


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
    from pricekit.runs.source import Source

    started = began()
    source = Source(
        _path_or_frame(table),
        None if valid is None else _path_or_frame(valid),
        read_options_of(options),
        tuple(map(_path_or_frame, _several(unpriced))),
        _paths(teacher, "teacher"),
    )
    if resume:
        _check_resumable(out, overwrite)
    with _folder(out) as folder:
        from pricekit.workflows.members import config_to_train, train_model

        given = None if init is None else _model_path(init, "init")
        config, resume = config_to_train(folder, source, options, given, resume=resume)
        flags: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "allow_leak": allow_leak}
        train_model(source, config, folder, started=started, **flags)
        return _handle(Run(folder), out)


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
    from pricekit.runs.source import Source

    source = Source(
        _path_or_frame(table),
        read_options=read_options_of(options),
        unpriced=tuple(map(_path_or_frame, _several(unpriced))),
        teachers=_paths(teacher, "teacher"),
    )
    if resume:
        _check_resumable(out, overwrite)
    with _folder(out) as folder:
        from pricekit.runs.resume import check_agreement, check_tables, has_begun
        from pricekit.workflows.cross_validation import CONFIG, config_of_folds, is_cv, resumed_config
        from pricekit.workflows.cross_validation import cross_validate as run_folds
        from pricekit.workflows.folds import PLAN

        begun = continued(folder, is_cv)
        resume = resume and has_begun(folder, is_cv(begun), "cross-validation")
        config = resumed_config(begun, options.get("time_budget")) if resume else config_of_folds(options)
        if resume:
            check_agreement(begun / CONFIG, options)
            check_tables(source, begun / PLAN)
        run_folds(source, config, folder, folds, resume=resume, overwrite=overwrite, allow_leak=allow_leak)
        return _handle(CrossValidation(folder), out)


@clear_errors
def load(path: PathLike, engine: str | None = None) -> Predictor:
    """Open a model to predict with: a bundle, a run or an ensemble.

    Args:
        path: its folder, or the object that a function of pricekit returned.
        engine: the engine that runs a bundle's graph, such as `ort-cpu`; default: `auto`, the fastest on this machine
            by a benchmark, which runs the first time. A run or an ensemble runs in torch.

    Raises:
        BundleError: the folder contains no model, or the bundle is damaged or was changed.
        PluginError: a feature or an engine is not installed.
        ConfigError: an engine is given for a run.

    Example:
        >>> import pricekit as pk
        >>> model = pk.load(pk.train(pk.make_catalog(200), epochs=1))
        >>> model.predict(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
        (1,)
    """
    from pricekit.runs.load import load_model

    return load_model(_model_path(path, "path"), engine)


@with_options(ReadingOptions)
def predict(
    model: PathLike,
    table: PathLike,
    out: PathLike,
    *,
    engine: str | None = None,
    interval: float | None = None,
    resume: bool = False,
    **options: Unpack[ReadingOptions],
) -> int:
    """Price every row of table files in bounded memory, and write the prices into one file.

    The file has one row per input row, in the same order, and appears when it is complete. Use `load` for rows in
    memory.

    Args:
        model: a bundle, a run or an ensemble.
        table: a file, a folder of Parquet files, or a pattern such as "new/*.csv".
        out: the file to write: CSV, TSV, Parquet or JSON lines.
        engine: as for `load`.
        interval: also write `price_low` and `price_high`, an interval with this share of true prices, such as 0.9.
        resume: continue an interrupted prediction into `out`.
        **options: see below.

    Returns:
        The number of rows.

    Raises:
        DataError: the table cannot be read, or `out` cannot be written.
        BundleError, PluginError, ConfigError: as for `load`; or the model has no interval of that level.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> pk.make_catalog(300).to_csv(f"{folder}/products.csv", index=False)
        >>> run = pk.train(f"{folder}/products.csv", epochs=1)
        >>> pk.predict(run, f"{folder}/products.csv", f"{folder}/prices.csv")
        300
    """
    from pricekit.runs.load import read_model
    from pricekit.table import check_columns

    if not isinstance(table, str | os.PathLike):
        raise DataError(
            f"predict prices files, but the table is a {type(table).__name__}; load the model and pass it the frame",
            parameters=("table",),
        )
    source, target = path_of(table, "table"), path_of(out, "out")
    reader = read_model(_model_path(model, "model"), engine)
    columns = replace(columns_over(reader.columns, options), price=None)
    check_columns(
        source, columns, read_options_of(options)
    )  # before `auto` measures the engines, which takes seconds
    given = {name: value for name, value in options.items() if value is not None}
    predictor = reader.open()
    started = time.perf_counter()
    rows = predictor.predict_file(source, target, interval=interval, resume=resume, **given)  # type: ignore[arg-type]
    speed = "" if resume else f", {rows / (time.perf_counter() - started):,.0f} rows/s"
    logger.info(f"engine {predictor.engine}{speed}")
    return rows


@with_options(WeighedOptions)
def evaluate(
    model: PathLike,
    table: TableSource | None = None,
    *,
    metric: str | None = None,
    **options: Unpack[WeighedOptions],
) -> Scores:
    """Score a model on the rows of a table that have a price, or on its held-out rows.

    Scores on rows that the model was trained on are too optimistic.

    Args:
        model: a bundle, a run, an ensemble or, without a table, a cross-validation.
        table: a file or a frame; default: the held-out rows of the model.
        metric: the metric that counts, such as `rmsle`; default: that which the model was trained to minimise.
        **options: see below.

    Returns:
        That metric with its 95% bootstrap interval, other metrics, and the metric by group.

    Raises:
        DataError: the table cannot be used, or the model has no held-out rows.
        BundleError, PluginError: the model cannot be opened.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> pk.evaluate(run).rows, pk.evaluate(run, pk.make_catalog(50, seed=1)).rows
        (30, 50)
    """
    from pricekit.workflows.evaluate import evaluate_model

    return evaluate_model(_model_path(model, "model"), _table_or_none(table), options, metric)


@with_options(WeighedOptions)
def worst_rows(
    model: PathLike,
    table: TableSource | None = None,
    *,
    by: str | None = None,
    out: PathLike | None = None,
    metric: str | None = None,
    **options: Unpack[WeighedOptions],
) -> ErrorReport:
    """List the rows with the largest errors, and what they have in common.

    Args:
        model: as for `evaluate`.
        table: as for `evaluate`.
        by: group only by this column of the table.
        out: also write all rows, worst first, as CSV, TSV, Parquet or JSON lines.
        metric: as for `evaluate`.
        **options: see below.

    Raises:
        DataError, BundleError, PluginError: as for `evaluate`.

    Example:
        >>> import pricekit as pk
        >>> report = pk.worst_rows(pk.train(pk.make_catalog(200), epochs=1))
        >>> len(report.worst(3))
        3
    """
    from pricekit.workflows.evaluate import worst_rows_of

    target = None if out is None else path_of(out, "out")
    source = _table_or_none(table)
    return worst_rows_of(_model_path(model, "model"), source, options, by=by, out=target, metric=metric)


@clear_errors
def compare(*runs: PathLike, metric: str | None = None) -> Comparison:
    """Compare runs or cross-validations with the first one, on the rows that all of them hold out.

    Args:
        runs: at least two runs on the same table with the same seed, or cross-validations.
        metric: by which to compare, such as `rmsle`; default: that of the first run.

    Returns:
        For each run: its score, the difference from the first run with its 95% paired bootstrap interval, and a
        verdict: better, worse or cannot tell.

    Raises:
        DataError: they hold out no common rows.
        ConfigError: there are fewer than two.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> old, new = (pk.train(table, loss=loss, epochs=1) for loss in ("smape", "focal-smape"))
        >>> pk.compare(old, new).rows
        30
    """
    from pricekit.evaluation.compare import compare_folders

    if len(runs) < 2:
        raise ConfigError(f"compare needs at least two runs, got {len(runs)}", parameters=("runs",))
    return compare_folders([_model_path(run, "runs") for run in runs], metric)


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

    paths = tuple(_model_path(run, "runs") for run in _several(runs))
    if len({path.resolve() for path in paths}) < 2:
        raise ConfigError("an ensemble needs at least two different runs", parameters=("runs",))
    with _folder(out) as folder:
        make_ensemble(paths, folder, overwrite=overwrite, metric=metric)
        return _handle(Run(folder), out)


@clear_errors
def export(
    run: PathLike,
    out: PathLike,
    *,
    precision: Literal["fp32", "fp16", "int8"] = "fp32",
    triton: PathLike | None = None,
    overwrite: bool = False,
) -> VerificationReport:
    """Export a run or an ensemble into a bundle, which predicts with ONNX Runtime, without torch.

    The export compares the graph with the model on real rows first. If they differ, it writes no bundle.

    Args:
        run: the run or the ensemble.
        out: the folder of the bundle.
        precision: the precision of the graph: `fp32`, `fp16` for GPUs, or `int8` for CPUs.
        triton: also write the graph into this model repository of Triton Inference Server.
        overwrite: replace the bundle in `out` when the new one is complete.

    Raises:
        ExportError: `out` is not empty, or the model cannot be exported, or its graph differs from it.
        TrainingError: `run` is not a finished run.

    Example:
        >>> import pricekit as pk, tempfile
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> report = pk.export(run, tempfile.mkdtemp())
        >>> report.smape_change < 0.01
        True
    """
    from pricekit.bundle import open_bundle
    from pricekit.exporting.export import export_run
    from pricekit.exporting.triton import model_folder, write_triton
    from pricekit.support.locks import owned

    if precision not in PRECISIONS:
        raise ConfigError(
            f"the precision is {precision!r}; expected {', '.join(PRECISIONS)}", parameters=("precision",)
        )
    source, bundle = _model_path(run, "run"), path_of(out, "out")
    if triton is None:
        return export_run(source, bundle, precision=precision, overwrite=overwrite)
    folder = model_folder(path_of(triton, "triton"), source, bundle, overwrite=overwrite)
    with owned(folder, "Triton model", ExportError):
        report = export_run(source, bundle, precision=precision, overwrite=overwrite)
        write_triton(open_bundle(bundle), folder)
    logger.info(f"the model for Triton is in {folder}")
    return report


@clear_errors
def inspect(bundle: PathLike) -> Inspection:
    """Check a bundle, which may be a stranger's, and return its manifest and files.

    The function checks every file against its hash and the limits of docs/bundle-format.md. Then another process, with
    10 seconds of time and 2 GiB of memory, opens the bundle and prices a few generated rows. Only Linux can limit a
    process in this way; elsewhere the `note` of the result says that this did not happen.

    Args:
        bundle: its folder.

    Raises:
        BundleError: the bundle is damaged, was changed, is newer than this version of pricekit, or cannot be used
            within the limits.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = pk.train(pk.make_catalog(200), epochs=1).export(folder)
        >>> pk.inspect(folder).manifest["precision"]
        'fp32'
    """
    from pricekit.bundle import open_bundle
    from pricekit.prediction.sandbox import inspect_bundle

    return inspect_bundle(open_bundle(_model_path(bundle, "bundle")))


@with_options(ReadingOptions)
def compute_features(
    table: TableSource,
    *,
    features: str | Sequence[str] = "optimized22",
    out: PathLike | None = None,
    **options: Unpack[ReadingOptions],
) -> pd.DataFrame:
    """Compute the engineered features of a table, fitted on all of its rows, for inspection.

    Training fits them on the training rows only, and prediction uses that state.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        features: feature plugins by name.
        out: also write them as CSV, TSV, Parquet or JSON lines.
        **options: see below.

    Returns:
        The ids, then one float32 column for each feature, (N, 1 + K).

    Raises:
        DataError: the table cannot be read, or `out` cannot be written.
        PluginError: a feature is unknown or fails.

    Example:
        >>> import pricekit as pk
        >>> pk.compute_features(pk.make_catalog(100), features="fast15").shape
        (100, 16)
    """
    import pandas as pd

    from pricekit.features.fitted import fit_features
    from pricekit.table import Columns, check_output, read_table, write_frame

    source = _path_or_frame(table)
    target = None if out is None else path_of(out, "out")
    if target is not None:
        check_output(target, [source] if isinstance(source, Path) else [])
    columns = columns_over(Columns(price=None), options)
    rows = read_table(source, columns, limit=options.get("limit"), read_options=read_options_of(options))
    fitted, _ = fit_features(names_of(features, "features"), {}, rows)
    frame = pd.concat([rows.ids, pd.DataFrame(fitted.transform(rows), columns=fitted.names)], axis=1)
    if target is not None:
        write_frame(target, frame)
    return frame


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
    from pricekit.workflows.pretraining.pretrain import pretrain as run
    from pricekit.workflows.pretraining.start import pretraining_of

    paths, target = _paths(tables, "tables"), path_of(out, "out")
    settings, read_options = pretraining_of(backbone, options), read_options_of(options)
    run(
        paths,
        settings,
        target,
        read_options=read_options,
        resume=resume,
        overwrite=overwrite,
    )
    return target


def _several(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple; a frame, a path or a run is one value."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _paths(given: Any, parameter: str) -> tuple[Path, ...]:
    return tuple(path_of(path, parameter) for path in _several(given))


def _model_path(given: Any, parameter: str) -> Path:
    """Return the path of a model to read; a folder that a killed process was replacing is brought back."""
    return restore(path_of(given, parameter))


def _path_or_frame(table: Any) -> Any:
    """Return a path as a Path, and anything else as it is."""
    return path_of(table, "table") if isinstance(table, str | os.PathLike) else table


def _table_or_none(table: Any) -> Any:
    return None if table is None else _path_or_frame(table)


@contextmanager
def _folder(out: PathLike | None) -> Iterator[Path]:
    """Yield the folder to write: `out`, or a temporary folder, which is deleted on failure."""
    if out is not None:
        yield path_of(out, "out")
        return
    if "RANK" in os.environ:
        raise ConfigError("processes that train together need the same output folder", parameters=("out",))
    folder = Path(tempfile.mkdtemp(prefix="pricekit-"))
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _handle(handle: Handle, out: PathLike | None) -> Handle:
    """Return the handle; a temporary folder is deleted with it."""
    if out is None:
        delete_with(handle, handle.path)
    return handle


def _check_resumable(out: PathLike | None, overwrite: bool) -> None:
    if out is None:
        raise ConfigError("resume needs the folder of the run to continue", parameters=("out",))
    if overwrite:
        raise ConfigError("a run is either resumed or overwritten; choose one", parameters=("overwrite",))
