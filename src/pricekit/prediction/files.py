"""Prediction of table files. While one window of rows is priced and stored, the next ones are read and prepared."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pricekit import __version__
from pricekit.errors import ConfigError, DataError
from pricekit.monitoring.differences import require_sketch
from pricekit.monitoring.priced_rows import PricedRows, Watch
from pricekit.prediction.checkpoint import PredictionCheckpoint
from pricekit.prediction.intervals import BOUNDS
from pricekit.prediction.windows import priced
from pricekit.storage import Address, Location, fingerprint, for_all, working_path
from pricekit.support.locks import owned
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.support.text import counted
from pricekit.table import (
    Columns,
    PredictionWriter,
    ReadOptions,
    Table,
    check_output,
    concat_tables,
    files_size,
    iter_files,
    table_files,
)
from pricekit.table.many_files import warn_of_other_formats

if TYPE_CHECKING:
    from pricekit.prediction.predictor import Predictor

WINDOW, WINDOW_BYTES = 8192, 64 << 20
"""Rows per window, in which batches are formed by length; bytes of text up to which small files share a window."""


def predict_file(
    predictor: Predictor,
    source: Location,
    out: Location,
    columns: Columns,
    read_options: ReadOptions,
    *,
    limit: int | None,
    interval: float | None,
    resume: bool,
    processes: int | None,
    watch: Path | None,
) -> int:
    """Price a table file; see `Predictor.predict_file`."""
    files = _files_of(source, out)
    check_request(predictor, columns, interval)
    watching = None if watch is None else Watch(watch, require_sketch(predictor.sketch), out)
    _check_resumable(resume, source, out)
    fingerprints = _fingerprints(files)
    key = _key(predictor.digest, columns, read_options, limit, fingerprints, watched=watch is not None)
    tables = _merge_small(iter_files(files, columns, rows=WINDOW, limit=limit, read_options=read_options))
    with (
        working_path(out) as place,
        owned(place, "predictions", DataError, shown=out),
        PredictionCheckpoint(place, key) as checkpoint,
    ):
        _resume_or_start(checkpoint, resume, watching)
        with _announcing_what_is_kept(checkpoint, resumable=not (_is_stream(source) or _is_stream(out))):
            size, done, counting = files_size(files), checkpoint.count, watching is not None
            windows = priced(predictor, tables, size, done=done, processes=processes, counting=counting)
            rows, empty = _store(windows, size, checkpoint, watching)
            if _fingerprints(files) != fingerprints:
                checkpoint.clear()
                raise DataError(
                    f"{source} changed during the prediction; predict again when the file is complete."
                )
            _write(out, checkpoint, predictor, interval)
        if watching is not None:
            watching.finish(checkpoint.prediction)
        checkpoint.clear()
    if empty:
        logger.warning(f"{empty:,} of {rows:,} rows have no text; they get a price nevertheless.")
    _warn_of_new_files(source, [*files, out])
    return rows


def _key(
    model: str,
    columns: Columns,
    read_options: ReadOptions,
    limit: int | None,
    table: list[list[object]],
    *,
    watched: bool,
) -> dict[str, object]:
    """Return what finished windows depend on."""
    key: dict[str, object] = {
        "model": model,
        "columns": str(columns),
        "read options": str(read_options),
        "limit": limit,
        "table": table,
        "pricekit version": [WINDOW, __version__],
    }
    return key | ({"sketch of priced rows": True} if watched else {})


def _files_of(source: Location, out: Location) -> list[Location]:
    files = table_files(source)
    warn_of_other_formats(source)
    check_output(out, files)
    return files


def _check_resumable(resume: bool, *locations: Location) -> None:
    if resume and any(map(_is_stream, locations)):
        raise ConfigError(
            "standard input and output cannot be resumed; read and write files, or predict from the first row",
            parameters=("resume",),
        )


def _is_stream(location: Location) -> bool:
    return isinstance(location, Address) and location.is_stream


def check_request(predictor: Predictor, columns: Columns, interval: float | None) -> None:
    """Raise errors that would otherwise occur at the end of the work."""
    if interval is not None:
        predictor.check_interval(interval)
    if columns.id in ("price", *(BOUNDS if interval is not None else ())):
        raise DataError(
            f"the id column has the name of an output column, '{columns.id}'; choose another id column",
            parameters=("id",),
            column=columns.id,
        )


def _resume_or_start(checkpoint: PredictionCheckpoint, resume: bool, watch: Watch | None) -> None:
    """Continue an interrupted prediction, or start from the first row."""
    windows, differences = checkpoint.found()
    if resume and not differences:
        checkpoint.keep_name()
    if watch is not None and resume and windows and not differences:
        differences = [] if watch.resume(checkpoint.folder, windows) else ["sketch of priced rows"]
    if resume and windows and not differences:
        logger.info(f"resuming after {counted(windows, 'window')} of {WINDOW:,} rows.")
        checkpoint.resume(windows)
        return
    if windows:
        reason = (
            f"it used a different {', a different '.join(differences)}"
            if differences
            else "resume would keep them"
        )
        logger.warning(f"deleting {counted(windows, 'window')} of an interrupted prediction: {reason}.")
    elif resume:
        logger.info("there is no interrupted prediction to resume; starting from the first row.")
    checkpoint.start()


@contextmanager
def _announcing_what_is_kept(checkpoint: PredictionCheckpoint, *, resumable: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if checkpoint.count and resumable:
            logger.warning(
                "finished windows are kept; predict again with resume to continue, unless a file changes."
            )
        raise


def _store(
    windows: Iterable[tuple[Table, np.ndarray | None, PricedRows | None]],
    size: int,
    checkpoint: PredictionCheckpoint,
    watch: Watch | None,
) -> tuple[int, int]:
    """Store windows as they are priced; return the number of rows, and of rows without text."""
    rows, done, empty, position = 0, 0, 0, 0
    started = time.perf_counter()
    with progress("pricing", size) as advance:
        for table, prices, counts in windows:
            if watch is not None and counts is not None:
                watch.add(counts, checkpoint.folder, checkpoint.count + 1)
            if prices is not None:
                checkpoint.add(table.ids, prices)
                done += len(table)
            rows += len(table)
            empty += int((table.text.str.strip() == "").sum())
            speed = done / (time.perf_counter() - started)
            advance(table.position - position, f"{rows:,} rows  {speed:,.0f} rows/s")
            position = table.position
    return rows, empty


def _write(
    out: Location, checkpoint: PredictionCheckpoint, predictor: Predictor, interval: float | None
) -> None:
    """Write all windows as one file."""
    with PredictionWriter(out) as writer:
        for ids, prices in checkpoint:
            bounds = () if interval is None else predictor.interval(prices, interval)
            writer.write(ids, prices, dict(zip(BOUNDS, bounds, strict=False)))


def _merge_small(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the tables, with consecutive small ones of the same columns merged into one window."""
    merged: list[Table] = []
    rows = size = 0
    for table in tables:
        rows, size = rows + len(table), size + _text_bytes(table)
        if merged and (rows > WINDOW or size > WINDOW_BYTES or not _same_columns(merged[-1], table)):
            yield concat_tables(merged)
            merged, rows, size = [], len(table), _text_bytes(table)
        merged.append(table)
    if merged:
        yield concat_tables(merged)


def _same_columns(one: Table, other: Table) -> bool:
    return one.ids.dtype == other.ids.dtype and one.frame.dtypes.equals(other.frame.dtypes)


def _text_bytes(table: Table) -> int:
    return int(table.text.memory_usage(index=False, deep=True))


def _warn_of_new_files(source: Location, known: Iterable[Location]) -> None:
    """Log the number of files that appeared in a folder or a pattern during the prediction, and one of their names."""
    with suppress(DataError):  # all files were deleted
        if new := {_absolute(file) for file in table_files(source)} - {_absolute(file) for file in known}:
            logger.warning(
                f"{counted(len(new), 'file')} of {source} appeared during the prediction, such as {min(new)}; the "
                "output does not include them."
            )


def _absolute(file: Location) -> str:
    return str(file.absolute() if isinstance(file, Path) else file)


def _fingerprints(files: list[Location]) -> list[list[object]]:
    """Return name, size and time or entity tag of each file that exists."""
    return [found for found in for_all(fingerprint, files) if found]
