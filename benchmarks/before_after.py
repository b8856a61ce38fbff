"""CPU seconds of `train`, `export` and `predict` of two source trees alternately, in separate processes.

    python benchmarks/before_after.py OLD/src NEW/src [TABLE] [--rounds 11] [--rows 4000] [--epochs 4]
    python benchmarks/before_after.py OLD/src NEW/src TABLE --bundle BUNDLE --rows 40000

A round runs the three commands with each tree; the next round begins with the other tree. The table shows the median
CPU seconds of each command, start of the process included, the median of the ratios new to old of the same round, and
its 95% interval, by order statistics. Without TABLE, the script generates a catalogue. Both trees use the packages of
this Python, without plugins, and write bytecode in a first round that does not count.

With `--bundle`, only `predict` runs, with that bundle. The rows of the table are repeated with a number in front of the
text, and a third way is the new tree with the installed plugins, such as pricekit-fast. The last column is the largest
relative difference of a price from that of the old tree.
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
    parser.add_argument("--bundle", type=Path)
    options = parser.parse_args()
    if options.bundle:
        predict_only(options)
        return
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


def predict_only(options: argparse.Namespace) -> None:
    """Price a table with a bundle in three ways, and print the table."""
    ways = {"old": (options.old, ""), "new": (options.new, ""), "new, with plugins": (options.new, None)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "table.csv", {way: Path(folder) / f"{way}.csv" for way in ways}
        rows = pd.read_csv(options.table)
        rows = rows.iloc[[number % len(rows) for number in range(options.rows)]]
        text = "catalog_content" if "catalog_content" in rows else rows.columns[0]
        numbers = pd.Series(range(len(rows)), rows.index).astype(str)
        rows.assign(**{text: numbers + " " + rows[text].fillna("")}).to_csv(table, index=False)
        for number in range(-1, options.rounds):
            for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
                out[way].unlink(missing_ok=True)
                tree, plugins = ways[way]
                arguments = ["predict", str(options.bundle), str(table), "--out", str(out[way]), "--quiet"]
                spent = time_command(tree, arguments, plugins, Path(folder) / f"cache of {way}")
                if number >= 0:
                    seconds[way].append(spent)
        prices = {way: pd.read_csv(path)["price"] for way, path in out.items()}
    lines = []
    for way, spent in seconds.items():
        ratios = [new / old for new, old in zip(spent, seconds["old"], strict=True)]
        low, high = interval(ratios)
        each = 1e6 * statistics.median(spent) / options.rows
        differs = (prices[way] / prices["old"] - 1).abs().max()
        shown = [
            f"{each:.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{differs:.1e}",
        ]
        lines.append([way, *shown])
    headers = ["predict", "CPU us per row", "to old", "95% interval", "largest difference"]
    show_table(f"{options.rows:,} rows, {options.rounds} rounds", headers, lines, stderr=False)


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


def time_command(
    tree: Path, arguments: list[str], plugins: str | None = "", cache: Path | None = None
) -> float:
    """Return the CPU seconds of a command and the processes that it starts; `plugins`: only these; None: all."""
    before = sum(os.times()[2:4])
    chosen = {} if plugins is None else {"PRICEKIT_LOAD_PLUGINS": plugins}
    chosen |= {} if cache is None else {"PRICEKIT_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "pricekit", *arguments],
        env=os.environ | {"PYTHONPATH": str(tree.resolve()), "PYTHONDONTWRITEBYTECODE": ""} | chosen,
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
