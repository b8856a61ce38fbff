"""Prediction from folder to folder: one output file for each input file, by any number of workers.

A part is an input file and its output. A job prices parts; workers on any machine receive it. A record remembers a
finished part, so that it is not priced again. Who works is this process, several processes, or a runner: a cluster
through a plugin package.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pandas as pd
from pydantic import BaseModel

from pricekit import __version__
from pricekit.core.registry import load_provided, provided
from pricekit.errors import BundleError, DataError, NoRowsError, PluginError, PricekitError
from pricekit.io.causes import causes, is_temporary
from pricekit.io.files import delete_abandoned, describe_failure
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.io.sources import copy_table
from pricekit.io.storage import (
    Address,
    Location,
    delete,
    exists,
    files_below,
    fingerprint,
    for_all,
    is_folder,
    is_table,
    read_text,
    size_of,
    working_path,
    write_text,
)
from pricekit.predict.files import (
    WINDOW,
    Request,
    check_ids,
    check_request,
    check_table,
    priced,
    write_prices,
)
from pricekit.predict.intervals import CERTAIN, Uncertainty
from pricekit.predict.predictor import Shipped
from pricekit.predict.workers import (
    Opened,
    Priced,
    Pricing,
    Wanted,
    in_new_processes,
    kept,
    worthwhile,
)
from pricekit.table import (
    Columns,
    PredictionWriter,
    ReadOptions,
    Table,
    check_columns,
    iter_table,
    read_predictions,
    table_files,
)
from pricekit.table.formats import format_of, named_format, output_name
from pricekit.table.many_files import fixed_part, ids_without_rows, warn_of_other_formats
from pricekit.table.source import DEFAULT_READ_OPTIONS
from pricekit.table.table import Notices
from pricekit.wording import counted, did_you_mean, shorten

if TYPE_CHECKING:
    from pricekit.predict.predictor import Predictor


RECORDS = "_pricekit"
"""The folder of records in an output folder. Readers of tables leave out names that begin with "_"."""


@dataclass(frozen=True)
class Part:
    """One file of a folder.

    Attributes:
        source: the table.
        target: the file for its prices, which has the same place below its folder, and the name of `output_name`.
        record: the file for its record.
        name: that of the table, relative to its folder, such as "day=1/products.csv".
    """

    source: Location
    target: Location
    record: Location
    name: str


def parts_of(source: Location, out: Location) -> list[Part]:
    """Return the parts of a folder of Parquet files or of a pattern, sorted by name.

    Raises:
        DataError: there are no files, or the outputs would be among the inputs.
    """
    fixed = fixed_part(source)
    if _contains(fixed, out):
        raise DataError(
            f"the folder of prices, {out}, is inside of {fixed}, whose files are priced. Name another folder.",
            parameters=("out",),
            path=str(out),
        )
    files = table_files(source)
    warn_of_other_formats(source)
    names = [str(file)[len(str(fixed)) :].lstrip("/\\").replace("\\", "/") for file in files]
    return [
        Part(file, out / output_name(name), out / RECORDS / f"{name}.json", name)
        for file, name in zip(files, names, strict=True)
    ]


def is_folder_output(out: Location, source: Location) -> bool:
    """Return whether prices go to a folder: the output has no suffix of a format, and the table is several files."""
    if isinstance(out, Address) and (out.is_stream or out.is_table):
        return False
    try:
        format_of(out)
    except DataError:
        return fixed_part(source) != source or is_folder(source)
    return is_folder(out)


def _contains(folder: Location, other: Location) -> bool:
    if isinstance(folder, Path) and isinstance(other, Path):
        return other.resolve().is_relative_to(folder.resolve())
    return str(other) == str(folder) or str(other).startswith(f"{str(folder).rstrip('/')}/")


class Record(BaseModel):
    """What is remembered of a file of prices.

    Attributes:
        table: what changes when the input file is replaced (`storage.fingerprint`).
        model: the digest of the model.
        request: everything else on which the output depends: columns, ways of reading, intervals, version.
        rows: the number of rows.
        bytes: the size of the file of prices.
    """

    table: list[Any]
    model: str
    request: dict[str, Any]
    rows: int
    bytes: int


@dataclass(frozen=True)
class Outcome:
    """What became of a part.

    Attributes:
        name: of the part.
        rows: the number of its rows; 0 if it failed.
        problem: why it failed, as one clear message; "" if its prices are complete.
        seconds: the time that it took.
        preparing, pricing: the seconds for tokens and features of its first window, and those of the engine.
        notices: sentences for the user about how it was read; whoever receives the outcome logs them.
    """

    name: str
    rows: int = 0
    problem: str = ""
    seconds: float = 0.0
    preparing: float = 0.0
    pricing: float = 0.0
    notices: Sequence[str] = ()


@dataclass(frozen=True)
class Job:
    """Prices the files of a folder.

    A job can be pickled, also for other machines: then `model` must open the bundle there.

    Attributes:
        model: opens the predictor, in each process once.
        digest: of the model.
        columns: the columns to read.
        read_options: how to read them.
        uncertainty: also write how sure the prices are.

    Example:
        >>> import pricekit as pk
        >>> from pricekit.predict.folders import Job
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> predictor = pk.load("bundle", engine="ort-cpu")
        >>> Job.of(predictor).digest == predictor.digest
        True
    """

    model: Callable[[], Predictor] = field(repr=False)
    digest: str
    columns: Columns
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    uncertainty: Uncertainty = CERTAIN

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        columns: Columns | None = None,
        read_options: ReadOptions = DEFAULT_READ_OPTIONS,
        uncertainty: Uncertainty = CERTAIN,
    ) -> Job:
        """Return the job of a predictor, for this process and its children."""
        read = replace(columns or predictor.columns, price=None)
        return cls(Opened(predictor), predictor.digest, read, read_options, uncertainty)

    def shipped(self) -> Job:
        """Return a job that contains the bundle, for workers that do not see its folder.

        Raises:
            ConfigError: the model is no bundle.
            BundleError: the bundle has changed since it was loaded.
        """
        return replace(self, model=Shipped.of(self.model()))

    def check(self) -> None:
        """Open the model; raises PluginError or BundleError, with the reason why a worker cannot work."""
        digest = self.model().digest
        if digest != self.digest:
            raise BundleError(
                f"the worker has another bundle, with the digest {digest}; expected {self.digest}"
            )

    @property
    def request(self) -> dict[str, Any]:
        """Everything on which prices depend beside table and model, as plain JSON values."""
        return {
            "columns": str(self.columns),
            "read options": str(self.read_options),
            "uncertainty": str(self.uncertainty),
            "pricekit version": [WINDOW, __version__],
        }

    def finished(self, part: Part) -> Record | None:
        """Return the record of a part that need not be priced again; None if it is not finished."""
        try:
            text = read_text(part.record) if exists(part.record) else ""
            record = Record.model_validate_json(text)
        except (DataError, OSError, ValueError):  # it is missing or damaged
            return None
        same = (record.table, record.model, record.request) == (
            fingerprint(part.source),
            self.digest,
            self.request,
        )
        complete = same and exists(part.target) and size_of(part.target) == record.bytes
        return record if complete else None

    def __call__(self, part: Part, processes: int | None = 1) -> Outcome:
        """Price one part: its file appears when it is complete, then its record.

        A problem of this file is part of the outcome, because other files may have none.

        Args:
            part: the file.
            processes: the number of processes; None: several if that is faster.

        Raises:
            PricekitError: the model cannot be used.
            OSError: the disk is full.
        """
        began, notices = time.perf_counter(), list[str]()
        pricing = Pricing(wanted=Wanted(spread=bool(self.uncertainty)))
        try:
            rows = self._price(part, processes, pricing, notices.append)
        except (DataError, OSError) as error:
            if any(map(is_temporary, causes(error))):
                raise
            problem = str(error) if isinstance(error, PricekitError) else describe_failure(error)
            return Outcome(part.name, 0, problem, time.perf_counter() - began, notices=notices)
        seconds = time.perf_counter() - began
        return Outcome(part.name, rows, "", seconds, pricing.preparing, pricing.pricing, notices)

    def _price(self, part: Part, processes: int | None, pricing: Pricing, notices: Notices) -> int:
        predictor, before, rows = self.model(), fingerprint(part.source), 0
        if isinstance(part.target, Path):
            part.target.parent.mkdir(parents=True, exist_ok=True)
        with PredictionWriter(part.target) as writer:
            size = size_of(part.source)
            tables = self._tables(part, notices)
            for table, window in priced(predictor, tables, size, pricing, processes=processes):
                assert window is not None
                write_prices(writer, table.ids, window, predictor, self.uncertainty)
                rows += len(table)
            if not rows:  # readers of the folder expect the columns of the other files
                ids = ids_without_rows(part.source, self.columns, self.read_options)
                nothing = Priced(np.empty(0), np.empty(0))
                write_prices(writer, ids, nothing, predictor, self.uncertainty)
            if fingerprint(part.source) != before:
                raise DataError(
                    f"{part.source} changed during the prediction; predict again when the file is complete."
                )
            delete(part.record)  # so that it never describes another file, even if this process is killed
        if isinstance(part.record, Path):
            part.record.parent.mkdir(parents=True, exist_ok=True)
        size = size_of(part.target)
        record = Record(table=before, model=self.digest, request=self.request, rows=rows, bytes=size)
        write_text(part.record, record.model_dump_json(indent=1) + "\n")
        return rows

    def _tables(self, part: Part, notices: Notices) -> Iterator[Table]:
        try:
            yield from iter_table(
                part.source,
                self.columns,
                rows=WINDOW,
                read_options=self.read_options,
                notices=notices,
            )
        except NoRowsError:
            logger.debug(f"{part.source} has no rows")


GROUP = "pricekit.runners"
"""The entry-point group in which a package names its runner."""

PACKAGES = frozenset({"ray", "spark"})
"""Runners in packages that this project publishes as pricekit-NAME."""


class Runner(Protocol):
    """A function that lets workers price the parts of a folder, and yields what became of each, in any order.

    A package names it in the entry-point group `pricekit.runners`. Each part may be priced more than once, because its
    file is replaced as a whole.
    """

    def __call__(
        self, job: Job, parts: Sequence[Part], *, address: str | None, workers: int | None
    ) -> Iterator[Outcome]:
        """Price the parts.

        Args:
            job: call it with a part, in a worker; pickle it to get there.
            parts: at least one.
            address: of the cluster; None: the usual one.
            workers: the number of workers; None: as many as suit.

        Raises:
            PricekitError: no worker can work, such as one without pricekit, or with another bundle.
        """


def runner_of(name: str) -> Runner:
    """Return the runner that a package provides; raises PluginError."""
    runners = provided(GROUP)
    if name not in runners:
        names = sorted(runners)
        hint = f" Install pricekit-{name}." if name in PACKAGES else did_you_mean(name, names)
        raise PluginError(
            f"there is no runner '{name}'; available: {', '.join(names) or 'none'}.{hint}",
            parameters=("runner",),
            candidates=names,
        )
    return cast(Runner, load_provided(runners[name], "runner", ("runner",)))


SHOWN = 20
"""Failures that the error at the end quotes."""


@dataclass(frozen=True)
class Workers:
    """Who prices the files of a folder.

    Attributes:
        processes: the number of workers; None: as many as suit.
        runner: the name of a package's runner, whose workers price the files; None: this process and its children.
        address: where the runner finds its cluster.
    """

    processes: int | None = None
    runner: str | None = None
    address: str | None = None


def predict_folder(
    job: Job, source: Location, out: Location, workers: Workers = Workers(), *, resume: bool = False
) -> int:
    """Price every file of a folder or a pattern into a file of the same name; return the number of rows.

    A file of prices appears when it is complete, and then its record. So whoever repeats the work, after a kill or at
    the same time, replaces files by equal ones.

    Args:
        job: prices one file.
        source: a folder of Parquet files, or a pattern.
        out: the folder of prices.
        workers: who prices them.
        resume: skip files whose prices are complete.

    Raises:
        DataError: some files failed; the others are priced. Or the folders cannot be used.
        PluginError, BundleError: the workers or the model cannot be used.
    """
    processes = workers.processes
    run = None
    if workers.runner is not None:
        run = partial(runner_of(workers.runner), address=workers.address, workers=processes)
    check_request(job.model(), job.columns, job.uncertainty)
    parts = parts_of(source, out)
    _check_folder(out)
    if isinstance(out, Path):
        (out / RECORDS).mkdir(parents=True, exist_ok=True)
    with (
        working_path(out) as place,
        owned(place, "predictions", DataError, shown=out),
        ExitStack() as at_end,
    ):
        if isinstance(out, Path):
            files = [file for part in parts for file in (part.target, part.record)]
            folders = sorted({file.parent for file in files if isinstance(file, Path)})
            # What killed workers left is deleted here, because one that left something may still have been alive when
            # another one priced its file again: now that of an earlier prediction, and at the end that of this one.
            delete_abandoned(folders, out)
            at_end.callback(delete_abandoned, folders, out)
        finished = {}
        if resume:
            records = zip(parts, for_all(job.finished, parts), strict=True)
            finished = {part.name: record.rows for part, record in records if record}
            if finished:
                logger.info(f"{len(finished):,} of {len(parts):,} files were finished before.")
        left = [part for part in parts if part.name not in finished]
        rows, failed = sum(finished.values()), dict[str, str]()
        if left:
            outcomes = _outcomes(job, left, processes) if run is None else run(job, left)
            rows, failed = _follow(outcomes, left, rows)
    if failed:
        raise _failure(failed, len(parts))
    return rows


PART_ROWS = 100_000
"""Rows of each file into which a table is split for a runner."""


def predict_with_runner(job: Job, request: Request, workers: Workers, *, resume: bool = False) -> int:
    """Price a table, or a folder of Parquet files, into a table with a runner; return the number of rows.

    A table becomes files in the working folder of the output, where the workers also put their prices, so they must
    see it. All prices are written at the end, as a whole if the output can.

    Args:
        job: prices one file.
        request: what is priced, and the table of the prices.
        workers: who prices it.
        resume: keep the files and the prices of an interrupted prediction.

    Raises:
        DataError: as of `predict_folder`; or an id stands for several rows; or the table cannot be written.
        PluginError, BundleError: the workers or the model cannot be used.
    """
    out, source = request.out, request.source
    check_request(job.model(), job.columns, job.uncertainty)
    key = json.dumps([str(source), request.limit, job.digest, job.request])
    with working_path(out) as place, owned(place, "predictions", DataError, shown=out):
        folder = place.with_name(f".{place.name}.{workers.runner}")
        known, prices = folder / "key.json", folder / "prices"
        if not (resume and known.is_file() and known.read_text("utf-8") == key):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            write_text(known, key)
        if is_table(source):
            files: Location = folder / "rows"
            if not is_folder(files):
                with progress(f"reading {source.name}", 0):
                    _split(source, folder, job.columns.wanted, request.limit)
        else:
            files = source
        parts = parts_of(files, prices)
        if others := [part.name for part in parts if named_format(part.target) != "parquet"]:
            raise DataError(
                f"{source} contains {others[0]}, but a runner that prices into a table reads only Parquet files. "
                "Convert it, or leave the runner out.",
                parameters=("table", "runner"),
            )
        check_columns(files, job.columns, job.read_options)
        check_table(request, parts[0].source)
        rows = predict_folder(job, files, prices, workers, resume=True)
        priced_parts = _PricedParts([prices / output_name(part.name) for part in parts])
        check_ids(priced_parts, out)
        with PredictionWriter(out, request.on_conflict, priced_parts.job(request)) as writer:
            for ids, columns in priced_parts:
                writer.write(ids, columns.pop("price"), columns)
        shutil.rmtree(folder)
    return rows


def _split(table: Address, folder: Path, wanted: frozenset[str] | None, limit: int | None) -> None:
    """Write the rows of a table into the Parquet files of the new folder `rows`, which appears as a whole."""
    import pyarrow.parquet as pq  # slow to import

    copy, written = folder / "table.parquet", folder / "rows.tmp"
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir()
    copy_table(table.text, copy, wanted, limit)
    with pq.ParquetFile(copy) as file:
        batches = file.iter_batches(WINDOW)
        for number in range(max(1, -(-file.metadata.num_rows // PART_ROWS))):
            with pq.ParquetWriter(written / f"part-{number:06d}.parquet", file.schema_arrow) as part:
                rows = 0
                while rows < PART_ROWS and (batch := next(batches, None)) is not None:
                    part.write_batch(batch)
                    rows += len(batch)
    written.rename(folder / "rows")
    copy.unlink()


@dataclass(frozen=True)
class _PricedParts:
    """Local files of prices; iterating yields ids and the other columns, file by file."""

    files: Sequence[Path]

    def __iter__(self) -> Iterator[tuple[pd.Series, dict[str, np.ndarray]]]:
        import pyarrow.parquet as pq  # slow to import

        types = {pq.read_schema(file).field(0).type for file in self.files}
        for file in self.files:
            yield read_predictions(file, text_ids=len(types) > 1)

    def job(self, request: Request) -> str:
        """Return a name of the rows, and of what is written of them: 64 hexadecimal digits."""
        name = hashlib.sha256(f"{request.out}\n{request.uncertainty}".encode())
        for file in self.files:
            with file.open("rb") as opened:
                name.update(hashlib.file_digest(opened, "sha256").digest())
        return name.hexdigest()


def _outcomes(job: Job, parts: Sequence[Part], processes: int | None) -> Iterator[Outcome]:
    """Price the parts in this process, large ones in several; or several parts at a time, each in a process."""
    if processes is None:
        yield (first := job(parts[0], None))
        parts = parts[1:]
        at_a_time = 1
        if len(parts) > 1 and first.rows:
            measured = first.preparing + first.pricing
            times = len(parts) * first.seconds / measured if measured else 0.0
            seconds = Pricing(first.preparing, first.pricing)
            at_a_time = min(len(parts), worthwhile(job.model(), seconds, times))
    else:
        at_a_time = min(processes, len(parts))
    if at_a_time <= 1:
        for part in parts:
            yield job(part, processes)
        return
    with in_new_processes(at_a_time, job) as pool:
        waiting = [pool.submit(_price, part) for part in parts]
        for future in as_completed(waiting):
            yield future.result()


def _price(part: Part) -> Outcome:
    job: Job = kept()
    return job(part)


def _follow(outcomes: Iterator[Outcome], parts: Sequence[Part], rows: int) -> tuple[int, dict[str, str]]:
    """Show progress in bytes; return the number of rows, added to `rows`, and the problems of failed parts by name."""
    failed = {}
    sizes = dict(
        zip([part.name for part in parts], for_all(size_of, [part.source for part in parts]), strict=True)
    )
    with progress("pricing", sum(sizes.values())) as advance:
        for number, outcome in enumerate(outcomes, start=1):
            rows += outcome.rows
            for sentence in outcome.notices:
                logger.warning(sentence)
            if outcome.problem:
                failed[outcome.name] = outcome.problem
                logger.warning(f"{outcome.name} failed: {outcome.problem}")
            advance(sizes[outcome.name], f"{number:,} of {len(parts):,} files  {rows:,} rows")
    return rows, failed


def _check_folder(out: Location) -> None:
    """Refuse a folder that contains other things, which would be mixed with prices."""
    if isinstance(out, Path) and out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file. Name a folder for the prices.", parameters=("out",))
    if is_folder(out) and not is_folder(out / RECORDS) and files_below(out):
        raise DataError(
            f"the folder {out} contains files that pricekit did not write; name an empty or a new folder",
            parameters=("out",),
            path=str(out),
        )


def _failure(failed: dict[str, str], count: int) -> DataError:
    lines = [f"\n  {name}: {shorten(problem, 300)}" for name, problem in sorted(failed.items())[:SHOWN]]
    more = f"\n  and {len(failed) - SHOWN:,} more" if len(failed) > SHOWN else ""
    rest = "the others are priced" if len(failed) < count else "none is priced"
    return DataError(
        f"{len(failed):,} of {counted(count, 'file')} failed, and {rest}. Correct them, and predict again with resume:"
        f"{''.join(lines)}{more}",
        parameters=("table",),
        failed=failed,
    )
