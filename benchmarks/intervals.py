"""Coverage of the predicted intervals on held-out rows, with `bag` trained on the other rows, with and without a refit.

    python benchmarks/intervals.py TABLE [--splits 0 1 2] [--text title,brand] [--limit 7000]

A fifth of the rows is held out, stratified by price, with equal texts in one part. `pricekit train` sees only the other
rows, and fits the intervals on its validation rows among them, in the first pass. With a refit, a second pass trains on
the validation rows, too; no pass sees the held-out ones.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pricekit.cli.terminal import show_table
from pricekit.io.log import logger
from pricekit.metrics import smape
from pricekit.runs.opened import open_run
from pricekit.runs.split import split_groups
from pricekit.table import Columns, Table, read_usable
from pricekit.text.likeness import equal_texts

LEVELS, HELD_OUT = (0.5, 0.8, 0.9, 0.95), 0.2


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--text", default="catalog_content")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    columns = Columns(tuple(options.text.split(",")))
    table, _ = read_usable(options.table, columns, limit=options.limit, notices=logger.warning)
    rows = []
    for split in options.splits:
        train, held = split_groups(table.known_price, equal_texts(table.text), HELD_OUT, split)
        for flag in ("--no-refit", "--refit"):
            with tempfile.TemporaryDirectory() as folder:
                measured = measure(table.take(train), table.take(held), Path(folder), options.text, flag)
            rows.append([str(split), flag, *measured])
    heads = ["split", "training", "SMAPE", *(f"{100 * level:.0f}%" for level in LEVELS)]
    show_table("held-out prices within the interval, percent", heads, rows, stderr=False)


def measure(train: Table, held: Table, folder: Path, text: str, flag: str) -> list[str]:
    """Train in a folder; return the SMAPE of the held-out rows and the coverage of each level."""
    source, run = folder / "train.csv", folder / "run"
    train.frame.assign(price=train.known_price).to_csv(source, index=False)
    pricekit = str(Path(sys.executable).with_name("pricekit"))
    command = [pricekit, "train", str(source), "--out", str(run), "--text", text, flag, "--quiet"]
    subprocess.run(command, check=True)
    predictor = open_run(run).predictor()
    price, actual = predictor.predict(held), held.known_price
    found = [f"{smape(price, actual):.2f}"]
    for level in LEVELS:
        low, high = predictor.interval(price, level)
        found.append(f"{100 * np.mean((low <= actual) & (actual <= high)):.1f}")
    return found


if __name__ == "__main__":
    main()
