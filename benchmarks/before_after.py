"""CPU seconds of `train`, `export` and `predict` of two source trees alternately, in separate processes.

    python benchmarks/before_after.py OLD/src NEW/src [TABLE] [--rounds 11] [--rows 4000] [--epochs 4]

A round runs the three commands with each tree; the next round begins with the other tree. The table shows the median
CPU seconds of each command, start of the process included, the median of the ratios new to old of the same round, and
its 95% interval, by order statistics. Without TABLE, the script generates a catalogue. Both trees use the packages of
this Python, and write bytecode in a first round that does not count.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
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
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    trees = {"old": options.old, "new": options.new}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        rows = make_catalog(options.rows) if options.table is None else pd.read_csv(options.table)
        rows.head(options.rows).to_csv(table, index=False)
        for number in range(-1, options.rounds):
            for name in list(trees)[:: 1 if number % 2 == 0 else -1]:
                out = Path(folder) / f"{name}-{number}"
                seconds = time_tree(trees[name], table, out, options.epochs)
                if number >= 0:
                    found[name].append(seconds)
    show(found, f"{options.rows:,} rows, {options.epochs} epochs, {options.rounds} rounds")


def time_tree(tree: Path, table: Path, out: Path, epochs: int) -> dict[str, float]:
    """Return the CPU seconds of each command with one source tree."""
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
    """Return the CPU seconds of a command and the processes that it starts."""
    before = sum(os.times()[2:4])
    done = subprocess.run(
        [sys.executable, "-m", "pricekit", *arguments],
        env=os.environ | {"PYTHONPATH": str(tree.resolve()), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{tree}: pricekit {' '.join(arguments)} failed:\n{done.stderr}")
    return sum(os.times()[2:4]) - before


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return an interval that holds the median with at least 95% confidence, or all ratios if they are too few."""
    count, below, rank = len(ratios), 0.5 ** len(ratios), 0
    while (below := below + math.comb(count, rank + 1) * 0.5**count) <= 0.025:
        rank += 1
    return sorted(ratios)[rank], sorted(ratios)[-rank - 1]


def show(found: dict[str, list[dict[str, float]]], title: str) -> None:
    """Print a line for each command."""
    rows = []
    for command in COMMANDS:
        old, new = ([times[command] for times in found[name]] for name in ("old", "new"))
        ratios = [n / o for n, o in zip(new, old, strict=True)]
        low, high = interval(ratios)
        medians = [f"{statistics.median(values):.2f}" for values in (old, new, ratios)]
        rows.append([command, *medians, f"{low:.2f} to {high:.2f}"])
    headers = ["command", "old, CPU s", "new, CPU s", "new / old", "95% interval"]
    show_table(title, headers, rows, stderr=False)


if __name__ == "__main__":
    main()
