"""Peak memory and time of training `bag` for one epoch on generated tables of several sizes.

    python benchmarks/large_tables.py --rows 10000 --rows 100000 [--quick | --short] [--in-memory | --stored]

Each training is a process of its own. Its memory is looked at every 50 ms: all resident pages, and those that are not
of files; the system can take back the others. `--in-memory` keeps each table in memory, whatever its size, `--stored`
keeps none, and `--quick` trains with the features of the default policy. `--short` shows what rows alone cost: texts of
six words, a small `bag`, and another table to validate on, so that near-duplicates are not searched.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit import make_catalog
from pricekit.cli.terminal import show_table

SHORT = [
    *("backbone.members=1", "backbone.width=8", "backbone.vocab_size=2000", "backbone.buckets=4096"),
    *("max_length=16", "training.batch_size=1024"),
]
WORDS = np.array(
    ["tea", "coffee", "pasta", "rice", "oil", "soap", "candle", "lamp", "ink", "pen", "book", "cup"]
)
EVERY, PART, VALID_ROWS = 0.05, 100_000, 10_000
"""Seconds between two looks at the memory; rows that are generated at once; rows to validate on."""

TRAIN = """
import sys
import pricekit.table.source as source
if int(sys.argv[1]) >= 0:
    source.LARGE_BYTES = int(sys.argv[1])
sys.argv = ["pricekit", *sys.argv[2:]]
from pricekit.cli.main import main
main()
"""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, action="append", help="[default: 10,000 and 100,000]")
    parser.add_argument("--features", default="optimized22", help="[default: optimized22]")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--in-memory", action="store_true")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--folder", type=Path, help="where tables are generated and kept")
    parser.add_argument("--quick", action="store_true", help="the features of the default policy")
    parser.add_argument("--short", action="store_true", help="short texts and a small model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        lines = [_line(rows, options, Path(folder)) for rows in options.rows or (10_000, 100_000)]
    header = ["rows", "table, MB", "s", "resident, GB", "not of files, GB", "SMAPE"]
    show_table("training one epoch", header, lines, stderr=False)


def _line(rows: int, options: argparse.Namespace, folder: Path) -> list[str]:
    kind, make = ("short", short_rows) if options.short else ("catalog", catalog_rows)
    table, valid = ((options.folder or folder) / f"{kind}-{count}.csv" for count in (rows, VALID_ROWS))
    for path, count in ((table, rows), (valid, VALID_ROWS)):
        if not path.exists():
            write_table(path, count, make)
    limit = 1 << 60 if options.in_memory else 0 if options.stored else -1
    words = [table, "--out", folder / f"run-{rows}", "--epochs", options.epochs, "--no-refit"]
    if not options.quick:
        words += ["--features", options.features]
    if options.short:
        words += ["--valid", valid, *(f"--set={setting}" for setting in SHORT)]
    found = train(limit, [str(word) for word in words])
    run = json.loads((folder / f"run-{rows}" / "run.json").read_text("utf-8"))
    size = table.stat().st_size / 1e6
    smape = run["metrics"]["smape"]
    return [
        f"{rows:,}",
        f"{size:,.0f}",
        f"{found[0]:,.0f}",
        *(f"{peak / 1e9:.2f}" for peak in found[1:]),
        f"{smape:.2f}",
    ]


def write_table(path: Path, rows: int, make: Callable[[int, int], pd.DataFrame]) -> None:
    """Write a generated table, part by part, in bounded memory."""
    temporary = path.with_suffix(".part")
    for start in range(0, rows, PART):
        part = make(start, min(PART, rows - start))
        part.to_csv(temporary, index=False, mode="a" if start else "w", header=not start)
    temporary.rename(path)


def catalog_rows(start: int, count: int) -> pd.DataFrame:
    """Return products of `make_catalog`, each with its own model number, because many texts would be equal."""
    part = make_catalog(count, seed=start // PART)
    part["sample_id"] += start
    part["catalog_content"] = part["catalog_content"] + "Model: " + part["sample_id"].map(_code) + "\n"
    return part


def short_rows(start: int, count: int) -> pd.DataFrame:
    """Return rows of six words."""
    rng, number = np.random.default_rng(start), np.arange(start, start + count)
    first, second = (pd.Series(WORDS[rng.integers(len(WORDS), size=count)]) for _ in range(2))
    size = rng.integers(1, 50, count)
    text = first + " " + second + " " + pd.Series(size).astype(str) + " oz " + pd.Series(number).map(_code)
    price = np.round(np.exp(rng.normal(2, 0.5, count) + size / 40), 2)
    return pd.DataFrame({"sample_id": number, "catalog_content": text, "price": price})


def _code(number: int) -> str:
    """Return two words of letters that identify a row."""
    letters = [chr(ord("a") + number // 26**place % 26) for place in range(6)]
    return f"{''.join(letters[:3])} {''.join(letters[3:])}"


def train(limit: int, words: list[str]) -> tuple[float, int, int]:
    """Train in a process; return its seconds, and its peak bytes: resident, and not of files."""
    began, peaks = time.perf_counter(), [0, 0]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(limit), "train", *words], env=environment, stderr=sys.stderr
    )
    while child.poll() is None:
        try:
            text = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        for place, name in enumerate(("VmRSS", "RssAnon")):
            found = [int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:")]
            peaks[place] = max(peaks[place], *found, 0)
        time.sleep(EVERY)
    if child.wait():
        sys.exit(f"failed: pricekit train {' '.join(words)}")
    return time.perf_counter() - began, 1024 * peaks[0], 1024 * peaks[1]


if __name__ == "__main__":
    main()
