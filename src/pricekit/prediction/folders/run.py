"""Predict from folder to folder: find what is left to do, let a runner do it, and list what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pricekit.errors import DataError
from pricekit.prediction.files import check_request
from pricekit.prediction.folders.job import Job, Outcome
from pricekit.prediction.folders.parts import RECORDS, Part, parts_of
from pricekit.prediction.folders.runners import in_processes, in_turn, runner_of
from pricekit.prediction.workers import worthwhile
from pricekit.storage import Location, exists, files_below, for_all, is_folder, size_of, working_path
from pricekit.support.files import delete_abandoned
from pricekit.support.locks import owned
from pricekit.support.log import logger
from pricekit.support.progress import progress
from pricekit.support.text import counted, shorten

AT_A_TIME = 16
"""Records that are read at a time."""

SHOWN = 20
"""Failures that the error at the end quotes."""


@dataclass
class Tally:
    """What became of the parts so far.

    Attributes:
        rows: of the priced parts and of those that were finished before.
        failed: the problems by the name of the part.
    """

    rows: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def predict_folder(
    job: Job,
    source: Location,
    out: Location,
    *,
    resume: bool = False,
    processes: int | None = None,
    runner: str | None = None,
    address: str | None = None,
) -> int:
    """Price every file of a folder or a pattern into a file of the same name; return the number of rows.

    A file of prices appears when it is complete, and then its record. So whoever repeats the work, after a kill or at
    the same time, replaces files by equal ones.

    Args:
        job: prices one file.
        source: a folder of Parquet files, or a pattern.
        out: the folder of prices.
        resume: skip files whose prices are complete.
        processes: the number of workers; None: as many as suit.
        runner: the name of a package's runner, whose workers price the files; None: this process and its children.
        address: where the runner finds its cluster.

    Raises:
        DataError: some files failed; the others are priced. Or the folders cannot be used.
        PluginError, BundleError: the workers or the model cannot be used.
    """
    run = None if runner is None else partial(runner_of(runner), address=address, workers=processes)
    check_request(job.model(), job.columns, job.interval)
    parts = parts_of(source, out)
    _check_folder(out)
    with (
        _working_folder(out) as place,
        owned(place, "predictions", DataError, shown=out),
        _cleared(parts, out),
    ):
        finished = _finished(job, parts) if resume else {}
        left = [part for part in parts if part.name not in finished]
        if resume:
            logger.info(f"{len(finished):,} of {counted(len(parts), 'file')} were finished before.")
        tally = Tally(sum(finished.values()))
        if left:
            outcomes = _outcomes(job, left, processes) if run is None else run(job, left)
            _follow(outcomes, left, tally)
    if tally.failed:
        raise _failure(tally.failed, len(parts))
    return tally.rows


def _finished(job: Job, parts: Sequence[Part]) -> dict[str, int]:
    """Return the rows of the parts that need not be priced again, by name."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:  # remote files answer slowly
        records = pool.map(job.finished, parts)
        return {part.name: found.rows for part, found in zip(parts, records, strict=True) if found}


def _outcomes(job: Job, parts: Sequence[Part], processes: int | None) -> Iterator[Outcome]:
    if processes is None:
        first = job(parts[0], None)
        yield first
        parts = parts[1:]
        processes = _worthwhile(job, first, parts)
        if processes == 1:
            yield from in_turn(job, parts, None)
            return
    if processes == 1 or len(parts) == 1:
        yield from in_turn(job, parts, processes)
    elif parts:
        yield from in_processes(job, parts, processes)


def _worthwhile(job: Job, first: Outcome, left: Sequence[Part]) -> int:
    """Return the number of processes that price the other parts faster than threads, at most one for each part."""
    if len(left) < 2 or not first.rows:
        return 1
    measured = first.preparing + first.pricing
    times = len(left) * first.seconds / measured if measured else 0.0
    return min(len(left), worthwhile(job.model(), first.preparing, first.pricing, times))


def _follow(outcomes: Iterator[Outcome], parts: Sequence[Part], tally: Tally) -> None:
    """Count outcomes and show progress in bytes."""
    sizes = dict(
        zip([part.name for part in parts], for_all(size_of, [part.source for part in parts]), strict=True)
    )
    with progress("pricing", sum(sizes.values())) as advance:
        for number, outcome in enumerate(outcomes, start=1):
            tally.rows += outcome.rows
            for sentence in outcome.notices:
                logger.warning(sentence)
            if outcome.problem:
                tally.failed[outcome.name] = outcome.problem
                logger.warning(f"{outcome.name} failed: {outcome.problem}")
            advance(sizes[outcome.name], f"{number:,} of {len(parts):,} files  {tally.rows:,} rows")


def _check_folder(out: Location) -> None:
    """Refuse a folder that contains other things, which would be mixed with prices."""
    if isinstance(out, Path) and out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file. Name a folder for the prices.", parameters=("out",))
    known = exists(out / RECORDS) if isinstance(out, Path) else is_folder(out / RECORDS)
    if is_folder(out) and not known and files_below(out):
        raise DataError(
            f"the folder {out} contains files that pricekit did not write; name an empty or a new folder",
            parameters=("out",),
            path=str(out),
        )


@contextmanager
def _working_folder(out: Location) -> Iterator[Path]:
    """Yield the local path whose neighbour is the lock of the output; create a local output."""
    if isinstance(out, Path):
        (out / RECORDS).mkdir(parents=True, exist_ok=True)
    with working_path(out) as place:
        yield place


@contextmanager
def _cleared(parts: Sequence[Part], out: Location) -> Iterator[None]:
    """Delete what killed workers left: before the block that of an earlier prediction, and after it that of this one.

    Whoever prices a file again cannot do it, because the worker that left something may still have been alive then.
    """

    def clear() -> None:
        if isinstance(out, Path):
            delete_abandoned(sorted(folders), out)

    files = [file for part in parts for file in (part.target, part.record)]
    folders = {file.parent for file in files if isinstance(file, Path)}
    clear()
    try:
        yield
    finally:
        clear()


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
