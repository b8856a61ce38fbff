"""What a sample costs that fits the tokenizer and the features, while the network trains on all rows of TABLE.

    python benchmarks/fit_sample.py TABLE --rows 725 --rows 1450 [--epochs 6] [--set backbone.members=2]

The first line is that of all rows. Seeds differ in the split and in the network, and are the same in each line.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import pricekit as pk
from pricekit.cli.terminal import logging_to_terminal, show_table
from pricekit.features import fit


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, action="append", required=True, help="of a sample; repeatable")
    parser.add_argument("--folds", type=int, action="append", help="of a sample; repeatable; by default 2")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of a run"
    )
    options = parser.parse_args()
    with logging_to_terminal():
        lines = [_line(1 << 40, fit.FOLDS, options)]
        lines += [_line(rows, each, options) for rows in options.rows for each in options.folds or [2]]
    header = ["rows", "folds", *(f"seed {seed}" for seed in range(options.seeds)), "mean SMAPE"]
    show_table("fitted to a sample", header, lines, stderr=False)


def _line(rows: int, count: int, options: argparse.Namespace) -> list[str]:
    fit.MOST_ROWS, fit.FEW_FOLDS, scores = rows, count, []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            run = pk.train(
                options.table,
                out=Path(folder) / "run",
                seed=seed,
                epochs=options.epochs,
                refit=False,
                settings=options.set,
            )
            scores.append(run.metrics["smape"])
    name = "all" if rows == 1 << 40 else f"{rows:,}"
    return [name, str(count), *(f"{score:.2f}" for score in scores), f"{statistics.mean(scores):.2f}"]


if __name__ == "__main__":
    main()
