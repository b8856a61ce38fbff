"""What a model in a folder does: open, predict, score, compare, export, inspect, report."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from pricekit.errors import ConfigError, DataError, ExportError, path_of
from pricekit.options import (
    Keys,
    PathLike,
    ReadingOptions,
    WeighedOptions,
    clear_errors,
    columns_over,
    model_path,
    path_or_frame,
    read_options_of,
    with_options,
)
from pricekit.storage import Location, location_of
from pricekit.support.log import logger

if TYPE_CHECKING:
    from pricekit.evaluation.comparison import Comparison
    from pricekit.evaluation.error_report import ErrorReport
    from pricekit.evaluation.scores import Scores
    from pricekit.exporting.verify import VerificationReport
    from pricekit.prediction.predictor import Predictor
    from pricekit.table import TableSource
    from pricekit.workflows.leaderboard import Leaderboard


PRECISIONS = ("fp32", "fp16", "int8")


@with_options(WeighedOptions)
def evaluate(
    model: PathLike,
    table: TableSource | None = None,
    *,
    metric: str | None = None,
    trust: Keys | None = None,
    **options: Unpack[WeighedOptions],
) -> Scores:
    """Score a model on the rows of a table that have a price, or on its held-out rows.

    Scores on rows that the model was trained on are too optimistic.

    Args:
        model: a bundle, a run, an ensemble or, without a table, a cross-validation.
        table: a file or a frame; default: the held-out rows of the model.
        metric: the metric that counts, such as `rmsle`; default: that which the model was trained to minimise.
        trust: as for `load`.
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
    from pricekit.bundle.keys import read_trust
    from pricekit.workflows.evaluate import evaluate_model

    keys = read_trust(trust)
    return evaluate_model(model_path(model, "model", keys), path_or_frame(table), options, metric, keys)


@with_options(WeighedOptions)
def worst_rows(
    model: PathLike,
    table: TableSource | None = None,
    *,
    by: str | None = None,
    out: PathLike | None = None,
    metric: str | None = None,
    among: TableSource | None = None,
    **options: Unpack[WeighedOptions],
) -> ErrorReport:
    """List the rows with the largest errors, and what they have in common.

    Args:
        model: as for `evaluate`.
        table: as for `evaluate`.
        by: group only by this column of the table.
        out: also write all rows, worst first, as CSV, TSV, Parquet or JSON lines.
        metric: as for `evaluate`.
        among: a file or a frame of products with prices, to mark prices that are far from those of similar products;
            default: those of the bundle, if it contains any.
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

    target = None if out is None else location_of(out, "out")
    return worst_rows_of(
        model_path(model, "model"),
        path_or_frame(table),
        options,
        by=by,
        out=target,
        metric=metric,
        among=path_or_frame(among),
    )


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
    from pricekit.evaluation.comparison import compare_folders

    if len(runs) < 2:
        raise ConfigError(f"compare needs at least two runs, got {len(runs)}", parameters=("runs",))
    return compare_folders([model_path(run, "runs") for run in runs], metric)


@clear_errors
def leaderboard(*runs: PathLike, metric: str | None = None, latency: bool = False) -> Leaderboard:
    """Rank runs, ensembles and cross-validations of one table, on the rows that all of them hold out.

    Models that share no such rows with the others are left out, with a warning. One model alone is a ranking, too.

    Args:
        runs: models, or folders such as `runs/`, which stand for all finished models directly inside them.
        metric: by which to rank, such as `rmsle`; default: that which most of the models were trained to minimise.
        latency: also measure the time that a prediction of one row takes, in torch on this machine. This takes
            seconds for each model.

    Returns:
        For each model, the best first: its score, the difference from the best with its 95% paired bootstrap interval,
        a verdict, the time of its training, the size of its files, and the settings in which the models differ.

    Raises:
        DataError: a folder is no model and contains none, or no two models hold out the same rows.
        TrainingError: a model is unfinished or damaged.
        ConfigError: there is no metric of that name.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> runs = [pk.train(table, loss=loss, epochs=1, features="fast15") for loss in ("smape", "log-l1")]
        >>> board = pk.leaderboard(*runs)
        >>> board.rows, sorted(entry.settings["loss"] for entry in board.entries)
        (30, ['log-l1', 'smape'])
    """
    from pricekit.workflows.leaderboard import rank_models

    return rank_models([model_path(run, "runs") for run in runs], metric, latency=latency)


@clear_errors
def export(
    run: PathLike,
    out: PathLike,
    *,
    precision: Literal["fp32", "fp16", "int8"] = "fp32",
    triton: PathLike | None = None,
    with_comparables: TableSource | None = None,
    sign: PathLike | None = None,
    overwrite: bool = False,
) -> VerificationReport:
    """Export a run or an ensemble into a bundle, which predicts with ONNX Runtime, without torch.

    The export compares the graph with the model on real rows first. If they differ, it writes no bundle.

    Args:
        run: the run or the ensemble.
        out: the folder of the bundle.
        precision: the precision of the graph: `fp32`, `fp16` for GPUs, or `int8` for CPUs.
        triton: also write a model that reads texts into this model repository of Triton Inference Server, as a new
            version of the model with the name of the bundle.
        with_comparables: a table of products with prices, such as the training table. The bundle will contain their
            ids, texts and prices, for `comparables`; by default it contains none.
        sign: a PEM file with a private key that signs the bundle; see `sign`.
        overwrite: replace the bundle in `out` when the new one is complete.

    Raises:
        ExportError: `out` is not empty, or the model cannot be exported, or its graph differs from it.
        TrainingError: `run` is not a finished run.
        DataError: the table of comparables cannot be used.
        ConfigError: the key cannot be used.

    Example:
        >>> import pricekit as pk, tempfile
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> report = pk.export(run, tempfile.mkdtemp())
        >>> report.smape_change < 0.01
        True
    """
    from pricekit.bundle.keys import read_signing_key
    from pricekit.exporting.export import export_run
    from pricekit.exporting.triton import add_version, interface_of, model_folder
    from pricekit.support.locks import owned

    if precision not in PRECISIONS:
        raise ConfigError(
            f"the precision is {precision!r}; expected {', '.join(PRECISIONS)}", parameters=("precision",)
        )
    source, bundle = model_path(run, "run"), path_of(out, "out")
    write = partial(
        export_run,
        precision=precision,
        overwrite=overwrite,
        comparables=path_or_frame(with_comparables),
        key=None if sign is None else read_signing_key(sign, "sign"),
    )
    if triton is None:
        return write(source, bundle)
    interface = interface_of(source)
    folder = model_folder(path_of(triton, "triton"), bundle, interface)
    with owned(folder, "Triton model", ExportError):
        report = write(source, bundle)
        version = add_version(bundle, folder, interface)
    logger.info(f"the model for Triton is in {version}")
    return report


@clear_errors
def load(
    path: PathLike, engine: str | None = None, *, self_test: bool = False, trust: Keys | None = None
) -> Predictor:
    """Open a model to predict with: a bundle, a run or an ensemble.

    Args:
        path: its folder, or its address such as "s3://shop/bundle", or the object that a function of pricekit returned.
        engine: the engine that runs a bundle's graph, such as `ort-cpu`; default: `auto`, the fastest on this machine
            by a benchmark, which runs the first time. A run or an ensemble runs in torch.
        self_test: also check that this engine gives the invented rows in the bundle the prices that they had at its
            export; see `Predictor.self_test`.
        trust: a PEM file with a public key, or several: open only a bundle that one of them has signed (see `sign`).
            Of any other, nothing but its manifest and its signature is read.

    Raises:
        BundleError: the folder contains no model, or the bundle is damaged or was changed, or no trusted key has signed
            it; or the self-test fails, or there is none.
        PluginError: a feature or an engine is not installed.
        ConfigError: an engine is given for a run, or a key cannot be used.

    Example:
        >>> import pricekit as pk
        >>> model = pk.load(pk.train(pk.make_catalog(200), epochs=1))
        >>> model.predict(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
        (1,)
    """
    from pricekit.bundle.keys import read_trust
    from pricekit.runs.load import load_model

    keys = read_trust(trust)
    model = load_model(model_path(path, "path", keys), engine, keys)
    if self_test:
        model.self_test()
    return model


@with_options(ReadingOptions)
def predict(
    model: PathLike,
    table: PathLike,
    out: PathLike,
    *,
    engine: str | None = None,
    interval: float | None = None,
    resume: bool = False,
    processes: int | None = None,
    runner: str | None = None,
    address: str | None = None,
    watch: PathLike | None = None,
    trust: Keys | None = None,
    **options: Unpack[ReadingOptions],
) -> int:
    """Price every row of table files in bounded memory, and write the prices into one file or one for each.

    A file has one row per input row, in the same order, and appears when it is complete. Use `load` for rows in
    memory.

    Args:
        model: a bundle, a run or an ensemble.
        table: a file, a folder of Parquet files, or a pattern such as "new/*.csv", each also at an address such as
            "s3://shop/new"; or "-" for standard input.
        out: the file to write: CSV, TSV, Parquet or JSON lines, also at an address; "-" is CSV on standard output,
            "-.jsonl" JSON lines. Or a folder: then each file of `table` gets a file of the same name there, also in
            subfolders. A file that fails does not stop the others.
        engine: as for `load`.
        interval: also write `price_low` and `price_high`, an interval with this share of true prices, such as 0.9.
        resume: continue an interrupted prediction into `out`. In a folder, skip files whose prices are complete, unless
            their table, the model or the options have changed.
        processes: the number of processes that price rows, each with a copy of the model; default: several, one for
            each CPU, if they are faster than threads, as with many rows and a small model.
        runner: the name of a package's runner, such as `ray`, whose workers price the files of a folder.
        address: where the runner finds its cluster; default: as usual for it.
        watch: also add the rows to a sketch in this local file, which `drift` compares with the training table in place
            of a table. It contains counts of rows and no row. A prediction that is interrupted adds nothing, and one
            that is resumed adds each row once. Not possible if `out` is a folder.
        trust: as for `load`.
        **options: see below.

    Returns:
        The number of rows.

    Raises:
        DataError: the table cannot be read, or `out` cannot be written; in a folder, after all other files are priced.
        BundleError, PluginError, ConfigError: as for `load`; or the model has no interval of that level, or no
            sketch to `watch` with.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> pk.make_catalog(300).to_csv(f"{folder}/products.csv", index=False)
        >>> run = pk.train(f"{folder}/products.csv", epochs=1)
        >>> pk.predict(run, f"{folder}/products.csv", f"{folder}/prices.csv")
        300
    """
    from pricekit.bundle.keys import read_trust
    from pricekit.prediction.folders import Job, is_folder_output, predict_folder
    from pricekit.runs.load import read_model
    from pricekit.table import check_columns

    if not isinstance(table, str | os.PathLike):
        raise DataError(
            f"predict prices files, but the table is a {type(table).__name__}; load the model and pass it the frame",
            parameters=("table",),
        )
    source, target = location_of(table, "table"), location_of(out, "out")
    folder = is_folder_output(target, source)
    _check_request(folder, runner, address, watch, options)
    keys = read_trust(trust)
    reader = read_model(model_path(model, "model", keys), engine, keys)
    columns = replace(columns_over(reader.columns, options), price=None)
    read_options = read_options_of(options)
    if not folder:  # before `auto` measures the engines, which takes seconds
        check_columns(source, columns, read_options)
    predictor = reader.open()
    workers: dict[str, Any] = {"resume": resume, "processes": processes}
    started = time.perf_counter()
    if folder:
        job = Job.of(predictor, columns, read_options, interval)
        rows = predict_folder(job, source, target, runner=runner, address=address, **workers)
    else:
        given = {name: value for name, value in options.items() if value is not None}
        workers |= {"interval": interval, "watch": watch}
        rows = predictor.predict_file(source, target, **workers, **given)  # type: ignore[arg-type]
    speed = "" if resume else f", {rows / (time.perf_counter() - started):,.0f} rows/s"
    logger.info(f"engine {predictor.engine}{speed}")
    return rows


def _check_request(
    folder: bool, runner: str | None, address: str | None, watch: object, options: Mapping[str, Any]
) -> None:
    """Raise ConfigError for options that do not go together."""
    if folder and watch is not None:
        raise ConfigError(
            "a sketch of priced rows is kept for one output file, but the output is a folder; name a file, or leave "
            "the sketch out",
            parameters=("watch", "out"),
        )
    if folder and options.get("limit") is not None:
        raise ConfigError(
            "a limit counts the rows of one output, but the output is a folder; name a file, or leave the limit out",
            parameters=("limit", "out"),
        )
    if runner is not None and not folder:
        raise ConfigError(
            f"the runner {runner} prices the files of a folder into a folder, but the output is one file; name a "
            "folder",
            parameters=("runner", "out"),
        )
    if address is not None and runner is None:
        raise ConfigError(
            f"the address {address} is that of a cluster, but no runner is named; name one, such as ray",
            parameters=("address", "runner"),
        )


@with_options(WeighedOptions)
def report(
    model: PathLike,
    table: TableSource | None = None,
    *,
    out: PathLike = "report.html",
    against: Sequence[PathLike] = (),
    metric: str | None = None,
    among: TableSource | None = None,
    **options: Unpack[WeighedOptions],
) -> Location:
    """Write a report on a model: one HTML file that needs no network.

    It shows how good the prices are, where they fail, with the words that made the worst of them, whether the price
    intervals hold, the data, and how to train the model again.

    Args:
        model: a bundle, a run, an ensemble or a cross-validation.
        table: a file or a frame; default: the held-out rows of the model. If it is the table of the training, the
            held-out rows are judged, and the report describes the table. It is the same for a cross-validation. A table
            without prices has a shorter report, which says so.
        out: the file to write, locally or at an address; an existing one is replaced.
        against: other runs or cross-validations on the same table, to compare with.
        metric: the metric that counts; default: that of the model.
        among: a file or a frame of products with prices, to show those that are similar to the worst rows; default:
            those of the bundle, or `table` if it is that of the training.
        **options: see below.

    Returns:
        The path or the address of the file.

    Raises:
        ConfigError: matplotlib or jinja2 is not installed.
        DataError: the table cannot be used, the model has no held-out rows, or `out` cannot be written.
        BundleError, PluginError: the model cannot be opened.

    Example:
        >>> import pricekit as pk, tempfile
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> pk.report(run, out=f"{tempfile.mkdtemp()}/report.html").name
        'report.html'
    """
    from pricekit.reporting.page import require_libraries, write_page

    require_libraries()
    from pricekit.reporting.sections import sections_for

    target = location_of(out, "out")
    source = model_path(model, "model")
    sections = sections_for(
        source,
        path_or_frame(table),
        options,
        against=tuple(model_path(run, "against") for run in against),
        metric=metric,
        among=path_or_frame(among),
    )
    write_page(target, f"Report on {source.name}", sections)
    return target
