"""Prediction from folder to folder: this process and its children against the workers of a local Ray or Spark cluster.

    python benchmarks/cluster.py BUNDLE TABLE [--runner ray] [--rows 40000] [--files 16] [--runs 5]

The rows of the table, repeated as needed, become Parquet files of equal size. One process, two processes, one worker
and two workers take turns. The cluster starts first, and prices the folder once before the clock runs, so its workers
are started, too; the one process has also priced it. Two processes start in each round, as with `pricekit predict`.

Every process that prices has one thread for each of its steps, also the one process: the comparison is about processes,
and a cluster gives a task one CPU. A worker's driver, and Ray's or Spark's own processes, use what else is free.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table

ONE_THREAD = {"PRICEKIT_CPUS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--runner", choices=["ray", "spark"], default="ray")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ |= ONE_THREAD  # the cluster's processes inherit it
    with tempfile.TemporaryDirectory() as name, started(options.runner):
        folder = Path(name)
        write_folder(options.table, folder / "new", options.rows, options.files)

        def seconds(way: dict[str, object]) -> float:
            began = time.perf_counter()
            pk.load(options.bundle, engine="ort-cpu").predict_file(folder / "new", folder / "prices", **way)
            return time.perf_counter() - began

        found = in_turn(ways_of(options.runner), seconds, options.runs)
    show_table(
        f"{options.rows:,} rows in {options.files} files, median of {options.runs}",
        ["way", "rows/s", "times one process", "times one worker"],
        lines(found, options.rows),
        stderr=False,
    )


def ways_of(runner: str) -> dict[str, dict[str, object]]:
    """Return the options of each way."""
    return {
        "one process": {"processes": 1},
        "one worker": {"processes": 1, "runner": runner},
        "two processes": {"processes": 2},
        "two workers": {"processes": 2, "runner": runner},
    }


@contextmanager
def started(runner: str) -> Iterator[None]:
    """Start a cluster of two CPUs, to which this process is connected."""
    if runner == "ray":
        import ray

        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield
        ray.shutdown()
    else:
        from pricekit_spark.session import session_of

        with session_of(None, 2):
            yield


def write_folder(table: Path, folder: Path, rows: int, files: int) -> None:
    """Write rows of a table, repeated as needed, into Parquet files of equal size in Hive partitions."""
    read = pd.read_csv(table)
    repeated = read.iloc[[number % len(read) for number in range(rows)]].drop(
        columns="price", errors="ignore"
    )
    repeated["sample_id"] = range(rows)
    for number in range(files):
        file = folder / f"day={number % 4}" / f"{number:04}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        repeated.iloc[number * rows // files : (number + 1) * rows // files].to_parquet(file, index=False)


def in_turn(
    ways: dict[str, dict[str, object]], seconds: Callable[[dict[str, object]], float], runs: int
) -> dict[str, list[float]]:
    """Return the seconds of each way; all of them run once before, which does not count."""
    for options in ways.values():
        seconds(options)
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(runs):
        for way, options in ways.items():
            found[way].append(seconds(options))
    return found


def lines(found: dict[str, list[float]], rows: int) -> list[list[str]]:
    """Return the speed of each way, and the medians of its ratios within the same round."""

    def times(way: str, other: str) -> str:
        return f"{statistics.median(b / a for a, b in zip(found[way], found[other], strict=True)):.2f}"

    return [
        [
            way,
            f"{rows / statistics.median(seconds):,.0f}",
            times(way, "one process"),
            times(way, "one worker"),
        ]
        for way, seconds in found.items()
    ]


if __name__ == "__main__":
    main()
