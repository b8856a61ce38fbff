"""Price the rows of a file, or of each file of a folder, with a model in a folder."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from pricekit.errors import ConfigError, DataError
from pricekit.io.log import logger
from pricekit.io.storage import Location, is_folder, is_table, location_of
from pricekit.options import PredictOptions, columns_over, read_options_of
from pricekit.predict.files import Request, predict_file
from pricekit.predict.folders import (
    Job,
    Workers,
    is_folder_output,
    predict_folder,
    predict_with_runner,
)
from pricekit.predict.intervals import Uncertainty
from pricekit.predict.workers import check_processes
from pricekit.runs.load import ModelReader
from pricekit.table import check_columns
from pricekit.table.many_files import fixed_part


def predict_table(reader: ModelReader, table: Any, out: Any, options: PredictOptions) -> int:
    """Price table files, and return the number of rows; see `pricekit.Model.predict_file`."""
    if not isinstance(table, str | os.PathLike):
        raise DataError(
            f"predict_file prices files, but the table is a {type(table).__name__}; pass it to predict",
            parameters=("table",),
        )
    source, target = location_of(table, "table"), location_of(out, "out")
    folder, resume = is_folder_output(target, source), options["resume"]
    by_runner = options["runner"] is not None and is_table(target)
    _check_options(options, folder=folder, by_runner=by_runner)
    if by_runner:
        _check_source(source, options)
    if options["on_conflict"] is not None and not is_table(target):
        raise ConfigError(
            f"ids are compared with those of a table of a database, but the output is {target}; leave on_conflict out",
            parameters=("on_conflict", "out"),
        )
    workers = Workers(options["processes"], options["runner"], options["address"])
    watch = options["watch"]
    uncertainty = Uncertainty.of_options(options)
    columns = replace(columns_over(reader.columns, options), price=None)
    read_options = read_options_of(options)
    if not folder:  # before `auto` measures the engines, which takes seconds
        check_columns(source, columns, read_options)
    predictor = reader.open()
    check_processes(predictor, workers.processes)
    started = time.perf_counter()
    limit, on_conflict = options.get("limit"), options["on_conflict"] or "update"
    job = Job.of(predictor, columns, read_options, uncertainty)
    if folder:
        rows = predict_folder(job, source, target, workers, resume=resume)
    elif by_runner:
        request = Request(source, target, columns, read_options, limit, uncertainty, None, on_conflict)
        rows = predict_with_runner(job, request, workers, resume=resume)
    else:
        sketch = None
        if watch is not None:
            from pricekit.insight.priced_rows import watch_file  # slow to import

            sketch = watch_file(watch)
        request = Request(source, target, columns, read_options, limit, uncertainty, sketch, on_conflict)
        rows = predict_file(predictor, request, resume=resume, processes=workers.processes)
    speed = "" if resume else f", {rows / (time.perf_counter() - started):,.0f} rows/s"
    logger.info(f"engine {predictor.engine}{speed}")
    return rows


def _check_source(source: Location, options: PredictOptions) -> None:
    """Raise ConfigError unless a runner can price a source into a table."""
    if is_table(source):
        return
    runner = options["runner"]
    if fixed_part(source) == source and not is_folder(source):
        raise ConfigError(
            f"the runner {runner} prices a folder or a table into a table, but {source} is one file; leave the runner "
            "out, or name a folder",
            parameters=("runner", "table"),
        )
    if options.get("limit") is not None:
        raise ConfigError(
            f"a limit counts the rows of one table, but the runner {runner} prices the files of {source}; leave one of "
            "them out",
            parameters=("limit", "runner"),
        )


def _check_options(options: PredictOptions, *, folder: bool, by_runner: bool) -> None:
    """Raise ConfigError for options that do not go together."""
    runner, address = options["runner"], options["address"]
    if folder and options["watch"] is not None:
        raise ConfigError(
            "a sketch of priced rows is kept for one output file, but the output is a folder; name a file, or leave "
            "the sketch out",
            parameters=("watch", "out"),
        )
    if by_runner and options["watch"] is not None:
        raise ConfigError(
            f"a sketch of priced rows is kept by one process, but the runner {runner} has workers; leave one of them "
            "out",
            parameters=("watch", "runner"),
        )
    if folder and options.get("limit") is not None:
        raise ConfigError(
            "a limit counts the rows of one output, but the output is a folder; name a file, or leave the limit out",
            parameters=("limit", "out"),
        )
    if runner is not None and not folder and not by_runner:
        raise ConfigError(
            f"the runner {runner} prices the files of a folder into a folder, but the output is one file; name a "
            "folder, or a table of a database",
            parameters=("runner", "out"),
        )
    if address is not None and runner is None:
        raise ConfigError(
            f"the address {address} is that of a cluster, but no runner is named; name one, such as ray",
            parameters=("address", "runner"),
        )
