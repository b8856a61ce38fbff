"""Functions that predict: open a model, and price the rows of files."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from pricekit.errors import ConfigError, DataError
from pricekit.options import (
    ReadingOptions,
    clear_errors,
    columns_over,
    model_path,
    read_options_of,
    with_options,
)
from pricekit.results import Keys, PathLike
from pricekit.storage import Location, location_of
from pricekit.support.log import logger

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor


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
    from pricekit.prediction.folders.job import Job
    from pricekit.prediction.folders.parts import is_folder_output
    from pricekit.prediction.folders.run import predict_folder
    from pricekit.runs.load import read_model
    from pricekit.table import check_columns

    source, target = _source(table), location_of(out, "out")
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
    _log_speed(predictor, rows, None if resume else time.perf_counter() - started)
    return rows


def _source(table: Any) -> Location:
    if not isinstance(table, str | os.PathLike):
        raise DataError(
            f"predict prices files, but the table is a {type(table).__name__}; load the model and pass it the frame",
            parameters=("table",),
        )
    return location_of(table, "table")


def _log_speed(predictor: Predictor, rows: int, seconds: float | None) -> None:
    speed = "" if seconds is None else f", {rows / seconds:,.0f} rows/s"
    logger.info(f"engine {predictor.engine}{speed}")


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
