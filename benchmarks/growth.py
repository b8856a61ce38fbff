"""Time, peak memory and disk of training and prediction as tables grow, with fitted exponents.

    python benchmarks/growth.py [--rows 10000 --rows 100000 --rows 1000000] [--short] [--processes N]

For each size, a generated table trains `bag` for one epoch and is priced with the bundle of the smallest one, each in a
process of its own with its children. An exponent is the slope of log time against log rows by least squares: 1 means
that ten times as many rows take ten times as long. `--short` gives rows six words instead of some fifty.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from large_tables import catalog_rows, short_rows, write_table

from pricekit.cli.terminal import show_table

EVERY = 0.1
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Cost:
    """What a command needs: seconds, and bytes of memory at the peak and of its output."""

    rows: int
    seconds: float
    memory: int
    disk: int


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, action="append", help="[default: 10,000 to 1,000,000]")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--processes", type=int, help="of the prediction")
    parser.add_argument("--folder", type=Path, help="where tables and models are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        trained, priced = measure(options, Path(folder))
    for title, costs in (("training, one epoch", trained), ("prediction", priced)):
        show_table(title, ["rows", "s", "rows/s", "peak, GB", "output, MB"], lines(costs), stderr=False)


def measure(options: argparse.Namespace, folder: Path) -> tuple[list[Cost], list[Cost]]:
    """Return the costs of training and of prediction by size."""
    trained, priced = [], []
    workers = ["--processes", str(options.processes)] if options.processes else []
    for rows in sorted(options.rows or (10_000, 100_000, 1_000_000)):
        table, run = folder / f"{rows}.csv", folder / f"run-{rows}"
        write_table(table, rows, short_rows if options.short else catalog_rows)
        trained.append(cost(rows, run, "train", table, "--out", run, "--epochs", 1, "--no-refit"))
        if not priced:
            cost(rows, folder / "bundle", "export", run, "--out", folder / "bundle")
        out = folder / f"{rows}-prices.parquet"
        words = (folder / "bundle", table, "--out", out, "--engine", "ort-cpu", *workers)
        priced.append(cost(rows, out, "predict", *words))
        table.unlink()
    return trained, priced


def cost(rows: int, out: Path, *words: object) -> Cost:
    """Run a command and watch it with its children."""
    began, peak = time.perf_counter(), 0
    child = psutil.Popen([sys.executable, "-m", "pricekit", *map(str, words)], stdout=subprocess.DEVNULL)
    while child.poll() is None:
        peak = max(peak, _memory(child))
        time.sleep(EVERY)
    if child.returncode:
        sys.exit(f"failed: pricekit {' '.join(map(str, words))}")
    files = [out] if out.is_file() else [file for file in out.rglob("*") if file.is_file()]
    return Cost(rows, time.perf_counter() - began, peak, sum(file.stat().st_size for file in files))


def _memory(process: psutil.Process) -> int:
    """Return the bytes that a process and its children occupy alone; shared pages count once where that is known."""
    total = 0
    try:
        for each in (process, *process.children(recursive=True)):
            total += getattr(each.memory_full_info(), "pss", 0) or each.memory_info().rss
    except psutil.Error:  # it has just ended
        return total
    return total


def lines(costs: Sequence[Cost]) -> list[list[str]]:
    """Return a line for each size, and one with the exponents."""
    found = [
        [
            f"{one.rows:,}",
            f"{one.seconds:,.1f}",
            f"{one.rows / one.seconds:,.0f}",
            f"{one.memory / 1e9:.2f}",
            f"{one.disk / 1e6:,.1f}",
        ]
        for one in costs
    ]
    if len(costs) > 1:
        values = [[one.seconds for one in costs], [one.memory for one in costs], [one.disk for one in costs]]
        seconds, memory, disk = (f"{exponent([one.rows for one in costs], some):.2f}" for some in values)
        found.append(["exponent", seconds, "", memory, disk])
    return found


def exponent(rows: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log values against log rows."""
    return float(np.polyfit(np.log(rows), np.log(values), 1)[0])


if __name__ == "__main__":
    main()
