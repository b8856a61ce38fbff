"""Prediction with repeated texts, its memory over many rows, and its start time.

    python benchmarks/streaming.py BUNDLE TABLE [--rows 20000] [--runs 5]

Texts are generated from the table's words, so that they are distinct and have the desired length. Repeated texts: a
fifth of the rows of one table repeat others, no row of the other does, and equal texts must have equal prices; the two
tables alternate. Memory: rows of 1 to 2,000 words; the median resident size in the last quarter of the run divided by
that in the quarter before. Start: a process that imports pricekit.predict.predictor and loads the bundle, compared
with one that does nothing.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.cli.terminal import show_table

REPEATED, LONGEST, EVERY = 0.2, 2000, 0.05
"""Share of repeated rows; words of the longest text; seconds between two looks at the memory."""

START = "import sys; from pricekit.predict.predictor import Predictor; Predictor.load(sys.argv[1], 'ort-cpu')"


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--long-rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    texts = pd.read_csv(options.table)["catalog_content"].str.slice(0, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            ["a fifth repeated, times as fast", f"{_repeated(options, texts, Path(folder)):.2f}"],
            ["import and load, s", f"{_start(options):.2f}"],
            ["memory, last quarter over the third", f"{_memory(options, texts, Path(folder)):.3f}"],
        ]
    show_table("streaming", ["what", "measured"], rows, stderr=False)


def _repeated(options: argparse.Namespace, texts: pd.Series, folder: Path) -> float:
    rng = np.random.default_rng(0)
    few = int(options.rows * (1 - REPEATED))
    distinct = [f"{number} {texts.iloc[number % len(texts)]}" for number in range(options.rows)]
    order = rng.permutation(np.concatenate([np.arange(few), rng.integers(0, few, options.rows - few)]))
    tables = {"distinct": distinct, "repeated": [distinct[i] for i in order]}
    seconds: dict[str, list[float]] = {name: [] for name in tables}
    for name, made in tables.items():
        _write(folder / f"{name}.csv", made)
    for _ in range(options.runs):
        for name, times in seconds.items():
            times.append(_predict(options.bundle, folder / f"{name}.csv", folder / f"{name}-prices.csv")[0])
    prices = {name: pd.read_csv(folder / f"{name}-prices.csv")["price"].to_numpy() for name in tables}
    if not np.allclose(prices["repeated"], prices["distinct"][order], rtol=1e-5):
        sys.exit("repeated texts have other prices")
    return statistics.median(a / b for a, b in zip(seconds["distinct"], seconds["repeated"], strict=True))


def _start(options: argparse.Namespace) -> float:
    def timed(*arguments: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", *arguments], check=True)
        return time.perf_counter() - started

    timed(START, str(options.bundle))  # measures the engine, the first time
    return statistics.median(timed(START, str(options.bundle)) - timed("pass") for _ in range(options.runs))


def _memory(options: argparse.Namespace, texts: pd.Series, folder: Path) -> float:
    rng = np.random.default_rng(0)
    words = np.array(" ".join(texts).split(), dtype=object)
    lengths = np.exp(rng.uniform(0, np.log(LONGEST), options.long_rows)).astype(int)
    starts = rng.integers(0, len(words) - LONGEST, options.long_rows)
    _write(folder / "long.csv", [" ".join(words[a : a + n]) for a, n in zip(starts, lengths, strict=True)])
    _, resident = _predict(options.bundle, folder / "long.csv", folder / "long-prices.csv")
    half, last = len(resident) // 2, 3 * len(resident) // 4
    return statistics.median(resident[last:]) / statistics.median(resident[half:last])


def _predict(bundle: Path, table: Path, out: Path) -> tuple[float, list[int]]:
    """Return the wall seconds of a process that prices a table, and its resident kB over time."""
    pricekit = str(Path(sys.executable).with_name("pricekit"))
    command = [pricekit, "predict", str(bundle), str(table), "--out", str(out), "--engine", "ort-cpu"]
    started, resident = time.perf_counter(), []
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while child.poll() is None:
        lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        resident += [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
        time.sleep(EVERY)
    if child.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    return time.perf_counter() - started, resident


def _write(path: Path, texts: Sequence[str]) -> None:
    pd.DataFrame({"sample_id": range(len(texts)), "catalog_content": texts}).to_csv(path, index=False)


if __name__ == "__main__":
    main()
