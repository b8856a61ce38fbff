"""Price intervals on rows that took part neither in training nor in calibration, against bins of the predicted price.

    python benchmarks/intervals.py TABLE [--splits 0 1 2] [--text title,brand] [--limit 7000] [--refit | --no-refit]

A fifth of the rows is held out, stratified by price, with equal texts in one part. `pricekit train` sees only the other
rows, and calibrates on its validation rows among them. "bins" are the intervals before rows had a width of their own:
split conformal half widths in ten bins of the predicted price, from the same validation rows and the same prices. The
score is that of the log price (Gneiting and Raftery 2007, section 6.2), in percent of that of the bins. A second table
has the coverage of the 90% interval in tenths of the rows by their spread, and in thirds by their predicted price.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pricekit.cli.terminal import show_table
from pricekit.evaluation.held_out import HeldOut, held_out_of, read_held_out
from pricekit.io.log import logger
from pricekit.metrics import smape
from pricekit.runs.opened import open_run
from pricekit.runs.split import split_groups
from pricekit.table import Columns, Table, read_usable
from pricekit.text.likeness import equal_texts

LEVELS, SHOWN, HELD_OUT = (0.5, 0.8, 0.9, 0.95), 0.9, 0.2


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--text", default="catalog_content")
    parser.add_argument("--price", default="price")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--refit", action=argparse.BooleanOptionalAction)
    options = parser.parse_args()
    columns = Columns(tuple(options.text.split(",")), options.price)
    table, _ = read_usable(options.table, columns, limit=options.limit, notices=logger.warning)
    flags = [] if options.refit is None else ["--refit" if options.refit else "--no-refit"]
    rows, groups = [], []
    for split in options.splits:
        train, held = split_groups(table.known_price, equal_texts(table.text), HELD_OUT, split)
        with tempfile.TemporaryDirectory() as folder:
            named = [*flags, "--text", options.text]
            scores, coverage = measure(table.take(train), table.take(held), Path(folder), named)
        rows.append([str(split), *scores])
        groups.append(coverage)
    heads = ["split", "SMAPE", *(f"{100 * level:.0f}%" for level in LEVELS), "score", "of bins", "ratio, %"]
    show_table("held-out prices within the interval, percent; score at 90%", heads, rows, stderr=False)
    mean = [f"{100 * share:.1f}" for share in np.mean(groups, axis=0)]
    names = [*(f"{tenth}/10" for tenth in range(1, 11)), "cheap", "middle", "dear"]
    show_table("inside 90%: tenths by spread, thirds by price", names, [mean], stderr=False)


def measure(train: Table, held: Table, folder: Path, flags: list[str]) -> tuple[list[str], list[float]]:
    """Train in a folder; return a row of the first table, and the shares of the second one."""
    source, run = folder / "train.csv", folder / "run"
    train.frame.assign(price=train.known_price).to_csv(source, index=False)
    pricekit = str(Path(sys.executable).with_name("pricekit"))
    command = [pricekit, "train", str(source), "--out", str(run), "--price", "price", *flags, "--quiet"]
    subprocess.run(command, check=True)
    predictor = open_run(run).predictor()
    inputs = predictor.prepare(held)
    rows = held_out_of(held, predictor.price(inputs), spread=predictor.spread(inputs))
    shares, bounds = [], {}
    for level in LEVELS:
        bounds[level] = predictor.require_intervals().bounds(rows.predicted, rows.spread, level)
        shares.append(inside(rows, bounds[level]).mean())
    own, other = (score(rows, each) for each in (bounds[SHOWN], bins(read_held_out(run), rows)))
    hit = inside(rows, bounds[SHOWN])
    parts = np.array_split(np.argsort(rows.spread, kind="stable"), 10)
    parts += np.array_split(np.argsort(rows.predicted, kind="stable"), 3)
    written = [f"{smape(rows.predicted, rows.price):.2f}", *(f"{100 * share:.1f}" for share in shares)]
    ratio = [f"{own:.3f}", f"{other:.3f}", f"{100 * own / other:.1f}"]
    return [*written, *ratio], [float(hit[part].mean()) for part in parts]


def inside(rows: HeldOut, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return whether each true price is between its bounds, bool (N,)."""
    return (rows.price >= bounds[0]) & (rows.price <= bounds[1])


def score(rows: HeldOut, bounds: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the mean score of the 90% intervals of the log price."""
    low, price, high = map(np.log, (bounds[0].astype(float), rows.price, bounds[1].astype(float)))
    outside = np.maximum(np.maximum(low - price, price - high), 0)
    return float(np.mean(high - low + 2 / (1 - SHOWN) * outside))


def bins(valid: HeldOut, rows: HeldOut) -> tuple[np.ndarray, np.ndarray]:
    """Return the 90% intervals of rows whose half widths depend on the predicted price alone."""
    parts = int(np.clip(len(valid) // 100, 1, 10))
    edges = np.quantile(valid.predicted, np.arange(1, parts) / parts)
    part = np.searchsorted(edges, valid.predicted, side="right")
    width = np.empty(parts)
    for number in range(parts):
        error = np.sort(np.abs(np.log(valid.price / valid.predicted))[part == number])
        width[number] = error[min(int(np.ceil(SHOWN * (len(error) + 1))), len(error)) - 1]
    factor = np.exp(width[np.searchsorted(edges, rows.predicted, side="right")])
    return rows.predicted / factor, rows.predicted * factor


if __name__ == "__main__":
    main()
