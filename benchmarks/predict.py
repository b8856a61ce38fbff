"""Prices a table file to file with a bundle, in separate processes: rows per second and peak memory.

    python benchmarks/predict.py BUNDLE TABLE [--rows 20000] [--runs 5] [--no-peer] [--no-plugins] [--ridge TRAIN]

The table's rows are repeated up to --rows in a CSV. The peer is a plain loop over the same bundle, as in a notebook:
the whole table in memory, batches of 64 in file order, tokenised, padded and run one after the other. With `--ridge`,
a pickled pipeline of scikit-learn also prices the rows: TF-IDF of words and word pairs and a ridge regression of the
log price, fitted on the table TRAIN. With `--no-plugins`, pricekit also runs without installed plugins, such as
pricekit-fast. All alternate. The results are medians, including the start of the process.
"""

import argparse
import csv
import itertools
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from pricekit.cli.terminal import show_table

PEER = """
import sys; from pathlib import Path; import numpy as np, onnxruntime, pandas as pd
from pricekit.predict.bundle import open_bundle
from pricekit.features.preprocess import load_preprocessor; from pricekit.table import table_of_texts
bundle = open_bundle(Path(sys.argv[1])); prepare = load_preprocessor(bundle.files, bundle.path)
session = onnxruntime.InferenceSession(bundle.files["model.onnx"]); table = pd.read_csv(sys.argv[2]); prices = []
for start in range(0, len(table), 64):
    inputs = prepare(table_of_texts(table["catalog_content"][start:start + 64].tolist()))
    prices.append(session.run(["price"], dict(inputs.batch(np.arange(len(inputs)))))[0])
pd.DataFrame({"sample_id": table["sample_id"], "price": np.concatenate(prices)}).to_csv(sys.argv[3], index=False)
"""

RIDGE = """
import pickle, sys; import numpy as np, pandas as pd
model = pickle.load(open(sys.argv[1], "rb")); table = pd.read_csv(sys.argv[2])
prices = np.exp(model.predict(table["catalog_content"].fillna("")))
pd.DataFrame({"sample_id": table["sample_id"], "price": prices}).to_csv(sys.argv[3], index=False)
"""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-plugins", action="store_true")
    parser.add_argument("--ridge", type=Path, metavar="TRAIN")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _repeat(options.table, folder / "table.csv", options.rows)
        commands = _commands(options, folder)
        runs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                runs[name].append(_measure(command))
                _check(folder / "prices.csv", options.rows)
    show_table(
        f"{options.rows:,} rows, median of {options.runs}",
        ["way", "s", "rows/s", "peak MB"],
        [_summary(name, measured, options.rows) for name, measured in runs.items()],
        stderr=False,
    )


def _commands(options: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    """Return the command of each way to price folder/table.csv into folder/prices.csv."""
    table, out = str(folder / "table.csv"), str(folder / "prices.csv")
    pricekit = str(Path(sys.executable).with_name("pricekit"))
    commands = {"pricekit predict": [pricekit, "predict", str(options.bundle), table, "--out", out]}
    if options.no_plugins:
        commands["without plugins"] = ["env", "PRICEKIT_LOAD_PLUGINS=", *commands["pricekit predict"]]
    if not options.no_peer:
        commands["plain loop, file order"] = [sys.executable, "-c", PEER, str(options.bundle), table, out]
    if options.ridge:
        model = folder / "ridge.pickle"
        _fit_ridge(options.ridge, model)
        commands["pickled TF-IDF and ridge"] = [sys.executable, "-c", RIDGE, str(model), table, out]
    return commands


def _summary(name: str, measured: list[tuple[float, float]], rows: int) -> list[str]:
    seconds = statistics.median(s for s, _ in measured)
    memory = max(m for _, m in measured)
    return [name, f"{seconds:.1f}", f"{rows / seconds:,.0f}", f"{memory:,.0f}"]


def _fit_ridge(table: Path, target: Path) -> None:
    rows = pd.read_csv(table)
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\b\w+\b")
    model = make_pipeline(words, Ridge()).fit(rows["catalog_content"].fillna(""), np.log(rows["price"]))
    target.write_bytes(pickle.dumps(model))


def _repeat(source: Path, target: Path, rows: int) -> None:
    with source.open(newline="", encoding="utf-8") as file:
        header, *body = csv.reader(file)
    text = header.index("catalog_content")
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for number, row in enumerate(itertools.islice(itertools.cycle(body), rows)):
            writer.writerow([f"{number} {cell}" if i == text else cell for i, cell in enumerate(row)])


def _measure(command: list[str]) -> tuple[float, float]:
    """Return wall seconds and peak resident MB of one run."""
    started = time.perf_counter()
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command[:2])} ...")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def _check(out: Path, rows: int) -> None:
    with out.open(newline="") as file:
        found = sum(1 for _ in csv.reader(file)) - 1
    if found != rows:
        sys.exit(f"{found} prices for {rows} rows")


if __name__ == "__main__":
    main()
