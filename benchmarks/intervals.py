"""Coverage of the predicted intervals on held-out rows, with `bag` trained on the other rows.

    python benchmarks/intervals.py TABLE [--splits 0 1 2]

A fifth of the rows is held out, stratified by price. `pricekit train` sees only the other rows, and fits the
intervals on its validation rows among them.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pricekit.cli.terminal import show_table
from pricekit.runs.folder import open_run
from pricekit.support.log import logger
from pricekit.table import Columns, read_usable
from pricekit.training.batches import split_rows

LEVELS, HELD_OUT = (0.5, 0.8, 0.9, 0.95), 0.2


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    table, _ = read_usable(options.table, Columns(), limit=None, notices=logger.warning)
    rows = []
    for split in options.splits:
        train, held = split_rows(table.known_price, HELD_OUT, split)
        with tempfile.TemporaryDirectory() as folder:
            source, run = Path(folder) / "train.csv", Path(folder) / "run"
            table.take(train).frame.to_csv(source, index=False)
            pricekit = str(Path(sys.executable).with_name("pricekit"))
            subprocess.run([pricekit, "train", str(source), "--out", str(run)], check=True)
            predictor = open_run(run).predictor()
            price, actual = predictor.predict(table.take(held)), table.take(held).known_price
        within = []
        for level in LEVELS:
            low, high = predictor.interval(price, level)
            within.append(f"{100 * np.mean((low <= actual) & (actual <= high)):.1f}")
        rows.append([str(split), *within])
    heads = ["split", *(f"{100 * level:.0f}%" for level in LEVELS)]
    show_table("held-out prices within the interval, percent", heads, rows, stderr=False)


if __name__ == "__main__":
    main()
