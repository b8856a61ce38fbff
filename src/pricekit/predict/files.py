"""Prediction of table files. While one window of rows is priced and stored, the next ones are read and prepared."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd

from pricekit import __version__
from pricekit.errors import ConfigError, DataError
from pricekit.insight.sketch import require_sketch
from pricekit.io.digests import tells_damage
from pricekit.io.files import behind_link, read_json, write_text
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.io.sources import OnConflict, copy_table
from pricekit.io.storage import Address, Location, fingerprint, for_all, is_table, working_path
from pricekit.predict.intervals import CERTAIN, Uncertainty
from pricekit.predict.predictor import Predictor
from pricekit.predict.workers import Priced, Pricing, Wanted, price_in_processes, worthwhile
from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    Columns,
    PredictionWriter,
    ReadOptions,
    Table,
    check_output,
    check_table_output,
    concat_tables,
    files_size,
    iter_files,
    read_predictions,
    table_files,
)
from pricekit.table.many_files import ids_without_rows, warn_of_other_formats
from pricekit.table.read import columns_found
from pricekit.table.source import queried
from pricekit.wording import counted

if TYPE_CHECKING:
    from pricekit.insight.priced_rows import Watch

WINDOW, WINDOW_BYTES = 8192, 64 << 20
"""Rows per window, in which batches are formed by length; bytes of text up to which small files share a window."""

_WINDOWS = "part-" + 6 * "[0-9]" + "*.parquet"
_NAME = re.compile(r"part-(?P<number>\d{6})-(?P<digest>[0-9a-f]{16})\.parquet")
"""The name of a finished window ends with the beginning of its SHA-256."""

_COPY = "table.parquet"
"""The copy of a table of a database."""

_PREDICTION = "prediction"
"""What key.json calls the name of the prediction."""

_SPREAD = "spread"
"""The column of a window."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Request:
    """What is priced, and where the prices go.

    Attributes:
        source: a table file, a folder of Parquet files, or a pattern.
        out: the file or the folder of the prices.
        columns: the columns to read.
        read_options: how to read them.
        limit: read only the first rows; None: all.
        uncertainty: also write how sure the prices are.
        watch: the file of a sketch, to which the rows are added.
        on_conflict: what happens to a row of a table of a database whose id has another price.
    """

    source: Location
    out: Location
    columns: Columns
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    limit: int | None = None
    uncertainty: Uncertainty = CERTAIN
    watch: Path | None = None
    on_conflict: OnConflict = "update"


def predict_file(predictor: Predictor, request: Request, *, resume: bool, processes: int | None) -> int:
    """Price tables into one file; return the number of rows. See `pricekit.Model.predict_file`."""
    out, columns, read_options = request.out, request.columns, request.read_options
    source = queried(request.source, read_options)
    files = table_files(source)
    warn_of_other_formats(source)
    _check_out(out, files)
    check_request(predictor, columns, request.uncertainty)
    watching = None if request.watch is None else _watch(request.watch, predictor, out)
    resumable = not any(isinstance(place, Address) and place.is_stream for place in (source, out))
    if resume and not resumable:
        raise ConfigError(
            "standard input and output cannot be resumed; read and write files, or predict from the first row",
            parameters=("resume",),
        )
    fingerprints = _fingerprints(files)
    key: dict[str, object] = {
        "model": predictor.digest,
        "columns": str(columns),
        "read options": str(read_options),
        "limit": request.limit,
        "table": fingerprints,
        "pricekit version": [WINDOW, __version__],
        **({"spread of each price": True} if request.uncertainty else {}),
        **({} if watching is None else {"sketch of priced rows": True}),
    }
    with (
        working_path(out) as place,
        owned(place, "predictions", DataError, shown=out),
        PredictionCheckpoint(place, out, key) as checkpoint,
    ):
        _resume_or_start(checkpoint, resume, watching)
        try:
            files = [checkpoint.with_copy(file, columns.wanted, request.limit) for file in files]
            if is_table(out):
                check_table(request, files[0])
            tables = _merge_small(
                iter_files(files, columns, rows=WINDOW, limit=request.limit, read_options=read_options)
            )
            wanted = Wanted(spread=bool(request.uncertainty), counts=watching is not None)
            size, pricing = files_size(files), Pricing(wanted=wanted)
            windows = priced(predictor, tables, size, pricing, done=checkpoint.count, processes=processes)
            rows, empty = _store(windows, size, checkpoint, watching)
            if _fingerprints(files) != fingerprints:
                checkpoint.clear()
                raise DataError(
                    f"{source} changed during the prediction; predict again when the file is complete."
                )
            if is_table(out):
                check_ids(checkpoint, out)
            with PredictionWriter(out, request.on_conflict, checkpoint.job(request.uncertainty)) as writer:
                for ids, priced_rows in checkpoint:
                    write_prices(writer, ids, priced_rows, predictor, request.uncertainty)
        except BaseException:
            if checkpoint.count and resumable:
                logger.warning(
                    "finished windows are kept; predict again with resume to continue, unless a file changes."
                )
            raise
        if watching is not None:
            watching.finish(checkpoint.prediction)
        checkpoint.clear()
    if empty:
        logger.warning(f"{empty:,} of {rows:,} rows have no text; they are priced anyway.")
    _warn_of_new_files(source, [*files, out])
    return rows


def check_request(predictor: Predictor, columns: Columns, uncertainty: Uncertainty) -> None:
    """Raise errors that would otherwise occur at the end of the work."""
    predictor.check_uncertainty(uncertainty)
    if columns.id in ("price", *uncertainty.names):
        raise DataError(
            f"the id column has the name of an output column, '{columns.id}'; choose another id column",
            parameters=("id",),
            column=columns.id,
        )


def _check_out(out: Location, files: Sequence[Location]) -> None:
    """Raise DataError if the output cannot be written; a table of a database is checked when the ids are known."""
    if not is_table(out):
        check_output(out, files)
    elif out in files:
        raise DataError(f"{out} is the table itself. Name another table.", parameters=("out",), path=str(out))


def check_table(request: Request, file: Location) -> None:
    """Check that the prices of files, of which one is given, can be written into the table of a request.

    Raises:
        DataError: the file has no id column, or the table has other columns or types.
    """
    columns, out = request.columns, request.out
    assert is_table(out)
    if columns_found(file, columns, request.read_options).id is None:
        raise DataError(
            f"{file} has no id column{'' if columns.id is None else f' {columns.id!r}'}, by which rows are found in a "
            "table of a database. Name the column of its ids.",
            parameters=("id",),
            column=columns.id,
        )
    ids = ids_without_rows(file, columns, request.read_options)
    check_table_output(out, ids, request.uncertainty.of_no_rows(), request.on_conflict)


def check_ids(priced_rows: Iterable[tuple[pd.Series, object]], out: Location) -> None:
    """Raise DataError if an id is missing, or stands for two rows; iterates over the rows, and again in that case."""
    hashes = []
    for ids, _ in priced_rows:
        if ids.isna().any():
            raise DataError(
                f"an id is missing, but {out} finds its rows by their ids. Add it to the table.",
                parameters=("id",),
            )
        hashes.append(pd.util.hash_pandas_object(ids, index=False).to_numpy())
    order = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
    twice = np.unique(order[1:][order[1:] == order[:-1]])
    if not len(twice):
        return
    same = [ids[np.isin(hashed, twice)] for (ids, _), hashed in zip(priced_rows, hashes, strict=True)]
    counts = pd.concat(same).value_counts()
    if (several := counts[counts > 1]).empty:  # equal hashes of different ids
        return
    raise DataError(
        f"{counted(len(several), 'id')} of the table stand for several rows, such as {str(several.index[0])!r} for "
        f"{several.iloc[0]}, but {out} has one price for each id. Name a column of different ids, or remove "
        "the repeated rows.",
        parameters=("id",),
        ids=len(several),
    )


def _watch(file: Path, predictor: Predictor, out: Location) -> Watch:
    from pricekit.insight.priced_rows import Watch  # slow to import

    return Watch(file, require_sketch(predictor.sketch), out)


def _resume_or_start(checkpoint: PredictionCheckpoint, resume: bool, watch: Watch | None) -> None:
    """Continue an interrupted prediction, or start from the first row."""
    earlier = checkpoint.earlier()
    windows, differences = len(earlier.windows), earlier.differences
    if resume and not differences:
        checkpoint.prediction = earlier.prediction or checkpoint.prediction
    if watch is not None and resume and windows and not differences:
        differences = [] if watch.resume(checkpoint.folder, windows) else ["sketch of priced rows"]
    if resume and windows and not differences:
        logger.info(f"resuming after {counted(windows, 'window')} of {WINDOW:,} rows.")
        checkpoint.windows = earlier.windows
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


def _store(
    windows: Iterable[tuple[Table, Priced | None]],
    size: int,
    checkpoint: PredictionCheckpoint,
    watch: Watch | None,
) -> tuple[int, int]:
    """Store windows as they are priced; return the number of rows, and of rows without text."""
    rows, done, empty, position = 0, 0, 0, 0
    started = time.perf_counter()
    with progress("pricing", size) as advance:
        for table, window in windows:
            if window is not None:
                if watch is not None and window.counts is not None:
                    watch.add(window.counts, checkpoint.folder, checkpoint.count + 1)
                checkpoint.add(table.ids, window)
                done += len(table)
            rows += len(table)
            empty += int((table.text.str.strip() == "").sum())
            speed = done / (time.perf_counter() - started)
            advance(table.position - position, f"{rows:,} rows  {speed:,.0f} rows/s")
            position = table.position
    return rows, empty


def write_prices(
    writer: PredictionWriter,
    ids: pd.Series,
    rows: Priced,
    predictor: Predictor,
    uncertainty: Uncertainty,
) -> None:
    """Write the ids and the prices of N rows, and how sure they are if that is wanted."""
    more = {}
    if uncertainty:
        assert rows.spread is not None
        more = uncertainty.columns(predictor.require_intervals(), rows.price, rows.spread)
    writer.write(ids, rows.price, more)


def _merge_small(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the tables, with consecutive small ones of the same columns merged into one window."""
    merged: list[Table] = []
    rows = size = 0
    for table in tables:
        text = int(table.text.memory_usage(index=False, deep=True))
        if merged:
            last = merged[-1]
            same = last.ids.dtype == table.ids.dtype and last.frame.dtypes.equals(table.frame.dtypes)
            if rows + len(table) > WINDOW or size + text > WINDOW_BYTES or not same:
                yield concat_tables(merged)
                merged, rows, size = [], 0, 0
        merged.append(table)
        rows, size = rows + len(table), size + text
    if merged:
        yield concat_tables(merged)


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
    return [facts for facts in for_all(fingerprint, files) if facts]


def priced(
    predictor: Predictor,
    tables: Iterable[Table],
    size: int,
    pricing: Pricing,
    *,
    done: int = 0,
    processes: int | None,
) -> Iterator[tuple[Table, Priced | None]]:
    """Yield each table with its prices.

    Args:
        predictor: the model.
        tables: consecutive windows of rows.
        size: the final `Table.position`.
        pricing: learns from the first window how long rows take.
        done: the number of tables at the beginning that are not priced; they come with None.
        processes: the number of processes; None: several if that is faster.
    """
    tables = prefetched(tables)
    for table in islice(tables, done):
        yield table, None
    for first in islice(tables, 1):
        yield first, pricing.price(predictor, first)
        if processes is None:
            windows_left = (size - first.position) / max(1, first.position) * (done + 1)
            processes = worthwhile(predictor, pricing, windows_left)
    if processes is not None and processes > 1:
        yield from price_in_processes(predictor, tables, processes, pricing.wanted)
        return
    for table, inputs in prefetched((table, predictor.prepare(table)) for table in tables):
        yield table, pricing.wanted.of(predictor, table, inputs)


def prefetched(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items; another thread computes the next one while the last one is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item


class Earlier(NamedTuple):
    """What an interrupted prediction has left.

    Attributes:
        windows: its windows before the first one that is missing or damaged.
        differences: names of the values of the key that differ.
        prediction: its name; "" if that is damaged.
    """

    windows: list[Path]
    differences: list[str]
    prediction: str


class PredictionCheckpoint:
    """Windows of ids, prices and spreads, one Parquet file each, in a hidden folder next to the output.

    As a context manager, it deletes the folder at the end unless it contains windows. Whoever uses it owns the output
    (`pricekit.io.locks`).

    Args:
        out: the output file, or the place of the windows of one that is not local.
        shown: the output, for messages.
        key: everything that the windows depend on, such as model, table and columns, as JSON values by name. Windows
            with a different key are not used.

    Attributes:
        windows: the finished ones.
        prediction: a name for this prediction, which those that continue it have, too, so that its rows are added to a
            sketch once: 32 hexadecimal digits.

    Raises:
        DataError: the folder cannot be written.
    """

    def __init__(self, out: Path, shown: Location, key: dict[str, object]) -> None:
        self.out, self.shown = out, shown
        target = behind_link(out)
        self.folder = target.with_name(f".{target.name}.parts")
        self.key: dict[str, object] = json.loads(json.dumps(key))
        self.windows: list[Path] = []
        self.prediction = secrets.token_hex(16)

    @property
    def count(self) -> int:
        """The number of finished windows."""
        return len(self.windows)

    def __enter__(self) -> Self:
        if self.folder.is_symlink():
            raise DataError(
                f"{self.folder}, the folder of unfinished predictions, is a link; delete the link."
            )
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder.is_dir() and not any(self.folder.glob(_WINDOWS)):
            self.clear()
            with suppress(OSError):
                self.folder.rmdir()

    def earlier(self) -> Earlier:
        """Return what an interrupted prediction has left; raises DataError if it cannot be read."""
        file = self.folder / "key.json"
        try:
            known = dict(read_json(file)) if file.is_file() else {}
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror or error}.") from None
        except (ValueError, TypeError):
            known = {}
        differences = [name for name, value in self.key.items() if known.get(name, ...) != value]
        prediction = str(known.get(_PREDICTION, ""))
        named = re.fullmatch("[0-9a-f]{32}", prediction)
        return Earlier(self._intact_windows(), differences, prediction if named else "")

    def start(self) -> None:
        """Delete the windows of an earlier prediction, and write the key."""
        self.clear()
        try:
            write_text(self.folder / "key.json", json.dumps(self.key | {_PREDICTION: self.prediction}))
        except OSError as error:
            raise DataError(f"{self.out} cannot be written: {error.strerror or error}.") from None

    def with_copy(self, location: Location, wanted: frozenset[str] | None, limit: int | None) -> Location:
        """Return a table of a database with a copy of its rows in the folder; any other location as it is.

        The copy stays until all is priced, so an interrupted prediction continues with the same rows.
        """
        if not is_table(location):
            return location
        copy = self.folder / _COPY
        if not copy.exists():
            if self.windows:
                logger.warning(f"{copy}, the copy of the table, is missing; all rows are priced again")
                self.start()
            with progress(f"reading {location.name}", 0):
                copy_table(location.text, copy, wanted, limit)
        return replace(location, copy=copy)

    def job(self, uncertainty: Uncertainty) -> str:
        """Return a name of the rows, with ids and prices, and of what is written of them: 64 hexadecimal digits."""
        words = [str(self.shown), str(uncertainty), *(window.name for window in self.windows)]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()

    def add(self, ids: pd.Series, rows: Priced) -> None:
        """Store a window: ids (N,), prices and spreads."""
        written = self.folder / f"part-{self.count:06d}.parquet"
        with PredictionWriter(written) as writer:
            writer.write(ids, rows.price, {} if rows.spread is None else {_SPREAD: rows.spread})
        self.windows.append(written.replace(written.with_stem(f"{written.stem}-{_digest(written)}")))

    def __iter__(self) -> Iterator[tuple[pd.Series, Priced]]:
        """Yield ids, prices and spreads of all windows in order; ids of several types become text."""
        import pyarrow.parquet as pq  # slow to import

        types = {pq.read_schema(window).field(0).type for window in self.windows}
        for window in self.windows:
            ids, values = read_predictions(window, text_ids=len(types) > 1)
            yield ids, Priced(values["price"], values.get(_SPREAD))

    def clear(self) -> None:
        """Delete all windows, their counts and the key."""
        names = (_WINDOWS, "counts-*.json", ".*.tmp", "key.json", _COPY)
        for path in [path for name in names for path in self.folder.glob(name)]:
            path.unlink(missing_ok=True)
        self.windows = []

    def _intact_windows(self) -> list[Path]:
        """Return the windows before the first one that is missing or damaged; that and later ones are priced again."""
        names = sorted(self.folder.glob(_WINDOWS))
        named = [(path, parts) for path in names if (parts := _NAME.fullmatch(path.name))]
        intact: list[Path] = []
        for path, parts in named:
            if _digest(path) != parts["digest"]:
                logger.warning(f"{path} was altered or damaged; it and later windows are priced again")
            elif int(parts["number"]) == len(intact):
                intact.append(path)
        return intact


def _digest(window: Path) -> str:
    """Return the beginning of the SHA-256 of a file; "" if it cannot be read because of damage."""
    try:
        with window.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        if not tells_damage(error):
            raise
        return ""
