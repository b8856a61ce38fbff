"""Functions of trained models: score, compare, export and inspect them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack

from pricekit.errors import ConfigError, ExportError, path_of
from pricekit.options import (
    WeighedOptions,
    clear_errors,
    model_path,
    table_or_none,
    with_options,
)
from pricekit.results import Keys, PathLike
from pricekit.storage import location_of
from pricekit.support.log import logger

if TYPE_CHECKING:
    from pricekit.evaluation.comparison import Comparison
    from pricekit.evaluation.error_report import ErrorReport
    from pricekit.evaluation.scores import Scores
    from pricekit.exporting.verify import VerificationReport
    from pricekit.prediction.sandbox import Inspection
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
    return evaluate_model(model_path(model, "model", keys), table_or_none(table), options, metric, keys)


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
    source = table_or_none(table)
    return worst_rows_of(
        *(model_path(model, "model"), source, options),
        by=by,
        out=target,
        metric=metric,
        among=table_or_none(among),
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
        comparables=table_or_none(with_comparables),
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
def inspect(
    bundle: PathLike, *, self_test: bool = False, engine: str | None = None, trust: Keys | None = None
) -> Inspection:
    """Check a bundle, which may be a stranger's, and return its manifest and files.

    The function checks every file against its hash and the limits of docs/bundle-format.md. Then another process, with
    10 seconds of time and 2 GiB of memory, opens the bundle and prices a few generated rows. Only Linux can limit a
    process in this way; elsewhere the `note` of the result says that this did not happen.

    Args:
        bundle: its folder.
        self_test: then also open the bundle in this process, without limits, and check that the engine gives the
            invented rows in it the prices that they had at its export; see `Predictor.self_test`.
        engine: for the self-test, as for `load`.
        trust: as for `load`.

    Raises:
        BundleError: the bundle is damaged, was changed, is newer than this version of pricekit, or cannot be used
            within the limits; or no trusted key has signed it; or the self-test fails, or there is none.
        ConfigError: an engine is given without the self-test.
        PluginError: the self-test needs a feature or an engine that is not installed.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = pk.train(pk.make_catalog(200), epochs=1).export(folder)
        >>> pk.inspect(folder).manifest["precision"]
        'fp32'
    """
    from pricekit.bundle import open_bundle
    from pricekit.bundle.keys import read_trust
    from pricekit.prediction.sandbox import inspect_bundle, with_self_test

    if engine is not None and not self_test:
        raise ConfigError(
            f"the engine {engine} is for the self-test, which was not asked for; ask for it, or leave the engine out",
            parameters=("self_test", "engine"),
        )
    keys = read_trust(trust)
    found = inspect_bundle(open_bundle(model_path(bundle, "bundle", keys), keys))
    return with_self_test(found, engine) if self_test else found
