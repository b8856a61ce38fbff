"""Seconds until `pricekit train` prints its first byte on stderr: idle, and with four other busy processes.

    python benchmarks/first_line.py

Prints the median of five starts for each. The targets are 0.3 s and 1 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pricekit.cli.terminal import show_table
from pricekit.datasets import make_catalog

STARTS, BUSY = 5, 4
SPIN = "while True: pass"


def first_byte(table: Path, out: Path) -> float:
    """Return the seconds from the start of the process to its first byte on stderr."""
    command = [sys.executable, "-m", "pricekit", "train", str(table), "--out", str(out)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.read(1)
    seconds = time.perf_counter() - started
    process.kill()
    process.communicate()
    return seconds


def measure(folder: Path, busy: int) -> list[float]:
    """Return the times of several starts while this many other processes are busy."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
    try:
        return [first_byte(folder / "products.csv", folder / "run") for _ in range(STARTS)]
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> None:
    """Measure both and print a table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_catalog(100).to_csv(folder / "products.csv", index=False)
        rows = []
        for title, busy in (("idle", 0), (f"{BUSY} busy processes", BUSY)):
            times = measure(folder, busy)
            rows.append([title, f"{statistics.median(times):.2f}", f"{max(times):.2f}"])
    show_table("first line of pricekit train", ["machine", "median, s", "slowest, s"], rows, stderr=False)


if __name__ == "__main__":
    main()
