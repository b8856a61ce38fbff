"""Prediction from folder to folder: this process and its children against the workers of a local Ray cluster.

    python benchmarks/cluster.py BUNDLE TABLE [--rows 40000] [--files 16] [--runs 5]

The rows of the table, repeated as needed, become Parquet files of equal size. One process, two processes, one worker
and two workers take turns. The cluster starts first, and prices the folder once before the clock runs, so its workers
are started, too. Each run starts its own processes, as `pricekit predict` does.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pandas as pd
import ray

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.support.cpus import usable_cpus

WAYS = {
    "one process": {"processes": 1},
    "two processes": {"processes": 2},
    "ray, one worker": {"processes": 1, "runner": "ray"},
    "ray, two workers": {"processes": 2, "runner": "ray"},
}


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    ray.init("local", num_cpus=usable_cpus(), include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(options, folder / "new")
        _seconds(options, folder, "ray, two workers")
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(options.runs):
            for way, times in seconds.items():
                times.append(_seconds(options, folder, way))
    plain = seconds["one process"]
    rows = [
        [
            way,
            f"{options.rows / statistics.median(times):,.0f}",
            f"{statistics.median(a / b for a, b in zip(plain, times, strict=True)):.2f}",
        ]
        for way, times in seconds.items()
    ]
    show_table("a folder", ["way", "rows/s", "times as fast"], rows, stderr=False)


def _write(options: argparse.Namespace, folder: Path) -> None:
    table = pd.read_csv(options.table)
    rows = table.iloc[[number % len(table) for number in range(options.rows)]].drop(
        columns="price", errors="ignore"
    )
    rows["sample_id"] = range(options.rows)
    folder.mkdir()
    size = -(-options.rows // options.files)
    for number, start in enumerate(range(0, options.rows, size)):
        rows.iloc[start : start + size].to_parquet(folder / f"{number:04}.parquet", index=False)


def _seconds(options: argparse.Namespace, folder: Path, way: str) -> float:
    began = time.perf_counter()
    pk.predict(options.bundle, folder / "new", folder / "prices", engine="ort-cpu", **WAYS[way])
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
