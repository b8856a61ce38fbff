"""Times `train`, `export` and `predict` of two source trees alternately, in separate processes.

    python benchmarks/before_after.py OLD/src NEW/src [TABLE] [--rounds 5] [--rows 4000] [--epochs 4]

A round runs the three commands with each tree; the next round begins with the other tree. The table shows the median
seconds of each command, start of the process included, and the median of the ratios new to old of the same round: the
target is at most 1.03. Without TABLE, the script generates a catalogue. Both trees use the packages of this Python.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from pricekit.cli.terminal import show_table
from pricekit.datasets import make_catalog

COMMANDS = ("train", "export", "predict")


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    trees = {"old": options.old, "new": options.new}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        rows = make_catalog(options.rows) if options.table is None else pd.read_csv(options.table)
        rows.head(options.rows).to_csv(table, index=False)
        for number in range(options.rounds):
            for name in list(trees)[:: 1 if number % 2 == 0 else -1]:
                out = Path(folder) / f"{name}-{number}"
                found[name].append(time_tree(trees[name], table, out, options.epochs))
    show(found, f"{options.rows:,} rows, {options.epochs} epochs, {options.rounds} rounds")


def time_tree(tree: Path, table: Path, out: Path, epochs: int) -> dict[str, float]:
    """Return the seconds of each command with one source tree."""
    run, bundle, prices = (str(out / name) for name in ("run", "bundle", "prices.csv"))
    out.mkdir()
    settings = ["--set", f"training.epochs={epochs}", "--set", "training.patience=none"]
    arguments = {
        "train": [str(table), "--out", run, "--quiet", *settings],
        "export": [run, "--out", bundle],
        "predict": [bundle, str(table), "--out", prices],
    }
    return {name: time_command(tree, [name, *arguments[name]]) for name in COMMANDS}


def time_command(tree: Path, arguments: list[str]) -> float:
    """Return the wall seconds of a command."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pricekit", *arguments],
        env=os.environ | {"PYTHONPATH": str(tree.resolve())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{tree}: pricekit {' '.join(arguments)} failed:\n{done.stderr}")
    return time.perf_counter() - started


def show(found: dict[str, list[dict[str, float]]], title: str) -> None:
    """Print a line for each command."""
    rows = []
    for command in COMMANDS:
        old, new = ([times[command] for times in found[name]] for name in ("old", "new"))
        ratio = statistics.median(n / o for n, o in zip(new, old, strict=True))
        rows.append(
            [command, f"{statistics.median(old):.2f}", f"{statistics.median(new):.2f}", f"{ratio:.2f}"]
        )
    show_table(title, ["command", "old, s", "new, s", "new / old"], rows, stderr=False)


if __name__ == "__main__":
    main()
