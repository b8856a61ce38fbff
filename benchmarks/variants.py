"""Time `train` and `predict` of several configurations alternately, in separate processes.

    python benchmarks/variants.py ../shared/data/amazon2025/train.csv --rounds 5 \\
        --variant "" --variant "--features optimized22,columns" --variant "--policy best"

A variant is a string of options of `pricekit train`. The first is the base of the ratios. `predict` prices the table
repeated to `--rows` rows from file to file; the start of the process, timed on ten rows, is subtracted. Numbers are
medians of the rounds, and ratios are medians of the rounds' ratios.
"""

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.cli.terminal import show_table

FEW_ROWS = 10


def main() -> None:
    """Parse the command line and print the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--variant", action="append", required=True)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--training-rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pd.read_csv(options.table)
        for file, count in (("many.csv", options.rows), ("few.csv", FEW_ROWS)):
            table.iloc[np.arange(count) % len(table)].to_csv(folder / file, index=False)
        training = [
            [seconds(["train", options.table, "--out", folder / f"{k}-{n}", "--quiet", *shlex.split(variant)])
             for k, variant in enumerate(options.variant)]
            for n in range(options.training_rounds)
        ]  # fmt: skip
        for k in range(len(options.variant)):
            seconds(["export", folder / f"{k}-0", "--out", folder / f"bundle-{k}"])
        prediction = [
            [predicted(folder, k) for k in in_turn(len(options.variant), n)] for n in range(options.rounds)
        ]
        prediction = [found[:: 1 if n % 2 == 0 else -1] for n, found in enumerate(prediction)]
    show("train", options.variant, training)
    show(f"predict, {options.rows - FEW_ROWS:,} rows", options.variant, prediction)


def in_turn(count: int, number: int) -> range:
    """Return the variants in the order of a round; every second round is reversed."""
    return range(count) if number % 2 == 0 else range(count - 1, -1, -1)


def predicted(folder: Path, variant: int) -> float:
    """Return the seconds of a prediction without those of its start."""
    bundle, prices = folder / f"bundle-{variant}", folder / "prices.csv"
    many, few = (
        seconds(["predict", bundle, folder / file, "--out", prices]) for file in ("many.csv", "few.csv")
    )
    return many - few


def seconds(arguments: list[object]) -> float:
    """Return the wall seconds of a command."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pricekit", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stderr}")
    return time.perf_counter() - started


def show(title: str, variants: list[str], found: list[list[float]]) -> None:
    """Print a line for each variant."""
    rows = []
    for k, variant in enumerate(variants):
        times, base = [one[k] for one in found], [one[0] for one in found]
        ratio = statistics.median(t / b for t, b in zip(times, base, strict=True))
        rows.append([variant or "default", f"{statistics.median(times):.1f}", f"{ratio:.2f}"])
    show_table(title, ["variant", "seconds", "time / first"], rows, stderr=False)


if __name__ == "__main__":
    main()
