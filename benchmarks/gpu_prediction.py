"""Prediction on this machine's GPU with fp16 bundles: the graph alone, and file to file.

    python benchmarks/gpu_prediction.py TABLE [--rows 74923] [--repeats 5] [--backbone distilroberta ...] [--jobs 1]

For each backbone, with random weights and the true architecture, the script trains a run for one epoch on a few rows
and exports it. The table has prices; its rows are repeated up to --rows, each copy with its number, because equal rows
are priced once. `--tiny` tests the script on a CPU; its numbers are meaningless.
"""

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
from speed.timing import interleaved

from pricekit.cli.terminal import show_table
from pricekit.errors import PluginError
from pricekit.model import opened_model
from pricekit.predict.loaded_engine import for_each
from pricekit.predict.predictor import Predictor
from pricekit.table import read_table

BACKBONES = ("transformer", "distilroberta", "roberta-base", "deberta-v3-small", "deberta-v3-base")
ENGINES = ("ort-cuda", "ort-tensorrt", "ort-tensorrt-rtx")
TINY = ("--set", "backbone.layers=1", "--set", "backbone.width=16", "--set", "backbone.heads=2")


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, help="CSV with prices")
    parser.add_argument("--rows", type=int, default=74_923)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--backbone", nargs="+", default=BACKBONES)
    parser.add_argument("--engine", nargs="+", default=ENGINES)
    parser.add_argument("--jobs", type=int, default=1, help="bundles that are made at once")
    parser.add_argument("--folder", type=Path, help="keeps the bundles, for the next time")
    parser.add_argument("--tiny", action="store_true", help="one tiny backbone and ort-cpu")
    options = parser.parse_args()
    if options.tiny:
        options.rows, options.repeats, options.backbone = 64, 1, ("transformer",)
        options.engine = ("ort-cpu",)
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        known = pd.read_csv(options.table, nrows=options.rows)
        texts = known["catalog_content"].astype(str)
        copies = range(-(-options.rows // len(known)))
        copied = pd.concat([known.assign(catalog_content=texts + f"\n{number}") for number in copies])
        copied.head(options.rows).to_csv(folder / "table.csv", index=False)
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda backbone: _export(backbone, options, folder), options.backbone))
        for backbone in options.backbone:
            for engine in options.engine:
                lines.append(_line(backbone, engine, options, folder))
                print(*lines[-1], flush=True)
    headers = ["backbone", "engine", "graph, rows/s", "file to file, rows/s", "s", "tokens a batch"]
    show_table(f"fp16, {options.rows:,} rows", headers, lines, stderr=False)


def _export(backbone: str, options: argparse.Namespace, folder: Path) -> None:
    """Make a run and its bundle."""
    weights = TINY if options.tiny else () if backbone == "transformer" else ("--random-weights",)
    run, bundle = str(folder / backbone), str(folder / f"{backbone}-bundle")
    train = ["train", str(options.table), "--limit", "200", "--epochs", "1", "--backbone", backbone, *weights]
    if Path(bundle, "manifest.json").exists():
        return
    for command in (
        [*train, "--out", run, "--overwrite", "--quiet"],
        ["export", run, "--precision", "fp16", "--out", bundle, "--overwrite"],
    ):
        subprocess.run([sys.executable, "-m", "pricekit", *command], check=True)


def _line(backbone: str, engine: str, options: argparse.Namespace, folder: Path) -> list[str]:
    try:
        return [backbone, engine, *_measured(folder / f"{backbone}-bundle", engine, options, folder)]
    except PluginError as error:
        return [backbone, engine, str(error).split(";", maxsplit=1)[0], "", "", ""]


def _measured(bundle: Path, engine: str, options: argparse.Namespace, folder: Path) -> list[str]:
    predictor = Predictor.load(bundle, engine)
    opened = predictor.members[0].engine
    source, out = folder / "table.csv", folder / "prices.csv"
    inputs = predictor.members[0].preprocessor(read_table(source, replace(predictor.columns, price=None)))
    batches = [opened.batch(inputs, rows) for rows in opened.batches(inputs)][::-1]
    runs = {
        "graph": lambda: for_each(opened.price_batch, batches, opened.streams),
        "files": lambda: opened_model(predictor).predict_file(source, out) and None,
    }
    times = interleaved(runs, options.repeats)
    graph, files = times["graph"].median, times["files"].median
    speeds = [f"{len(inputs) / graph:,.0f}", f"{options.rows / files:,.0f}", f"{files:.2f}"]
    return [*speeds, f"{opened.batch_tokens:,}"]


if __name__ == "__main__":
    main()
