"""SMAPE with and without a refit, on rows that no pass sees.

    python benchmarks/refit.py TABLE [--seeds 0 1] [--text title,brand] [--limit 7000]

A fifth of the rows is held out, stratified by price, with equal texts in one part. The policy `quick` trains on the
others, without a refit and with one.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from pricekit.cli.terminal import show_table
from pricekit.config import RunConfig
from pricekit.evaluation.duplicates import split_groups_of
from pricekit.metrics import smape
from pricekit.options import config_of
from pricekit.runs.folder import open_run
from pricekit.runs.source import Source, Split, load_rows, split_table
from pricekit.runs.train import train
from pricekit.table import Table
from pricekit.training.batches import split_groups

HELD_OUT = 0.2


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--text", default="catalog_content")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        given = {"text": options.text.split(","), "limit": options.limit, "seed": seed}
        rows.append([str(seed), *measure(Source(options.table), given, seed)])
    heads = ["seed", "best epoch", "no refit", "refit"]
    show_table("SMAPE of held-out rows", heads, rows, stderr=False)


def measure(source: Source, given: dict[str, Any], seed: int) -> list[str]:
    """Return the best epoch, and the SMAPE of each training on the held-out rows."""
    config = config_of({**given, "settings": {"speed.progress": False}})
    table, rejected = load_rows(source, config)
    groups = split_groups_of(table.text, table.known_price, near=False)
    kept, held = split_groups(table.known_price, groups, HELD_OUT, seed)
    split = Split(*split_table(table.take(kept), groups[kept], config), [rejected])
    plain = config.model_copy(update={"training": config.training.model_copy(update={"refit": False})})
    best, without = score(source, plain, split, table.take(held))
    _, refitted = score(source, config, split, table.take(held))
    return [str(best), f"{without:.2f}", f"{refitted:.2f}"]


def score(source: Source, config: RunConfig, split: Split, held: Table) -> tuple[int, float]:
    """Train a run; return its best epoch and its SMAPE on held-out rows."""
    with tempfile.TemporaryDirectory() as folder:
        facts = train(source, config, Path(folder) / "run", split=split)
        prices = open_run(Path(folder) / "run").predictor().predict(held)
    return facts["best_epoch"], smape(prices, held.known_price)


if __name__ == "__main__":
    main()
