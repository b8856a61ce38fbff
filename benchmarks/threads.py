"""Training speed with one thread, with pricekit's default, and with OpenMP threads that wait without spinning.

    python benchmarks/threads.py [TABLE] [--busy 2] [--rounds 5] [--rows 4000] [--epochs 4] [--set KEY=VALUE ...]

Each run is a `pricekit train` in a separate process; the configurations alternate. A run's speed is the median of its
epochs without the first, from `metrics.jsonl`. The table shows medians over the rounds, and the median ratio of each
configuration to one thread in the same round. `--busy N` starts N processes that each keep a CPU busy. Without TABLE,
the script generates a catalogue.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from pricekit.cli.terminal import show_table
from pricekit.datasets import make_catalog

WAYS = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "default": {},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "GOMP_SPINCOUNT=300000": {"GOMP_SPINCOUNT": "300000"},  # the default of GNU's library
}
VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS")
"""A run gets none of these from the shell."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    settings = [f"training.epochs={options.epochs}", "training.patience=none", *options.set]
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder, busy_processes(options.busy):
        table = Path(folder) / "table.csv"
        rows = make_catalog(options.rows) if options.table is None else pd.read_csv(options.table)
        rows.head(options.rows).to_csv(table, index=False)
        for number in range(options.rounds):
            for way, variables in WAYS.items():
                run = Path(folder) / f"{way}-{number}".replace(" ", "-")
                found[way].append(measure(table, run, settings, variables))
    show(
        found,
        f"{' '.join(options.set) or 'bag'}, beside {options.busy} busy processes, {options.rounds} rounds",
    )


def measure(table: Path, run: Path, settings: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Return the rows per second of a training, and the CPU seconds of its process."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables
    command = [sys.executable, "-m", "pricekit", "train", str(table), "--out", str(run), "--quiet"]
    for setting in settings:
        command += ["--set", setting]
    child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    lines = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    speeds = [json.loads(line)["rows_per_second"] for line in lines]
    return statistics.median(speeds[1:] or speeds), usage.ru_utime + usage.ru_stime


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep `count` CPUs busy while the block runs."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def show(found: dict[str, list[tuple[float, float]]], title: str) -> None:
    """Print a line for each way."""
    base = [speed for speed, _ in found["one thread"]]
    rows = []
    for way, measured in found.items():
        speeds = [speed for speed, _ in measured]
        ratios = [speed / one for speed, one in zip(speeds, base, strict=True)]
        cpu = statistics.median(seconds for _, seconds in measured)
        rows.append(
            [way, f"{statistics.median(speeds):,.0f}", f"{statistics.median(ratios):.2f}", f"{cpu:.1f}"]
        )
    show_table(title, ["way", "rows/s", "times one thread", "CPU s"], rows, stderr=False)


if __name__ == "__main__":
    main()
