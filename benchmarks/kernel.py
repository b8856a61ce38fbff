"""Compares the inputs of models with an installed kernel, such as that of pricekit-fast, with those of Python.

    python benchmarks/kernel.py BUNDLE=TABLE ... [--random 1000000]

BUNDLE is a bundle or a run, TABLE a file that it can price. The script reads the table, and random texts of all
characters, into the inputs of the model in both ways. The result are the rows, those with other tokens or features,
and the CPU microseconds per row. It fails if there is a difference.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.core.loader import registry
from pricekit.features.preprocess import Inputs, Preprocessor
from pricekit.table import Table, iter_table, table_of_texts
from pricekit.text.kernel import Kernel, kernel, using

WINDOW = 8192
PIECES = [
    "tea",
    "Green",
    "12 oz",
    "3 x 200 g",
    "\n",
    "Value: 12\n",
    "Unit: ",
    ", ",
    ". ",
    "½",
    "é",
    "e\u0301",
]


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+", metavar="BUNDLE=TABLE")
    parser.add_argument("--random", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for pair in options.pairs:
        bundle, _, table = pair.partition("=")
        ways = opened(bundle)
        columns = replace(ways[0].columns, price=None, others=ways[0].features.columns)
        windows = [each[0] if isinstance(each, tuple) else each for each in iter_table(Path(table), columns)]
        rows.append([Path(table).name, *compare(ways, windows)])
    random = np.random.default_rng(0)
    for start in range(0, options.random, 20 * WINDOW):
        some = min(20 * WINDOW, options.random - start)
        windows = [invented(random, min(WINDOW, some - first)) for first in range(0, some, WINDOW)]
        rows.append([f"random texts from {start:,}", *compare(ways, windows)])
    headers = ["table", "rows", "that differ", "CPU us per row, with", "without"]
    show_table(f"kernel: {type(installed()).__name__}", headers, rows, stderr=False)
    if any(row[2] != "0" for row in rows):
        sys.exit("the kernel differs from Python")


def opened(bundle: str) -> list[Preprocessor]:
    """Return what makes the inputs of a bundle, opened with the kernel and without: what is opened stays as it is."""
    ways = []
    for each in (installed(), None):
        with using(each):
            ways.append(pk.bundles.read(bundle).preprocessors[0])
    return ways


def installed() -> Kernel:
    """Return the kernel."""
    registry()
    return kernel() or sys.exit("no kernel is installed: pip install pricekit-fast")


def compare(ways: list[Preprocessor], windows: list[Table]) -> list[str]:
    """Return the number of rows, of those that differ, and the CPU time with the kernel and without."""
    seconds, differ = [0.0, 0.0], 0
    for window in windows:
        inputs = []
        for place, each in enumerate((installed(), None)):
            with using(each):
                began = time.process_time()
                inputs.append(ways[place](copied(window)))
                seconds[place] += time.process_time() - began
        differ += differences(*inputs)
    rows = sum(map(len, windows))
    return [f"{rows:,}", f"{differ:,}", *(f"{1e6 * each / rows:.0f}" for each in seconds)]


def copied(table: Table) -> Table:
    """Return a table whose texts share nothing with the other way."""
    return replace(table, text=table.text.astype(object).astype(table.text.dtype))


def differences(one: Inputs, other: Inputs) -> int:
    """Return the number of rows with other tokens or features."""
    same = (one.features.view(np.uint32) == other.features.view(np.uint32)).all(1)
    tokens = [np.split(each.tokens.ids, each.tokens.offsets[1:-1]) for each in (one, other)]
    return sum(
        not (equal and np.array_equal(first, second))
        for equal, first, second in zip(same, *tokens, strict=True)
    )


def invented(random: np.random.Generator, rows: int) -> Table:
    """Return random texts of pieces and of characters of all planes."""
    codes = random.integers(0, 0x110000, (rows, 8))
    codes[(codes >= 0xD800) & (codes < 0xE000)] = ord("a")
    common = random.integers(0, 0x3000, (rows, 8))
    pieces = random.integers(0, len(PIECES), (rows, 24))
    texts = []
    for row in range(rows):
        parts = [PIECES[number] for number in pieces[row]]
        parts[::3] = map(chr, codes[row])
        parts[1::3] = map(chr, common[row])
        texts.append("".join(parts))
    return table_of_texts(texts)


if __name__ == "__main__":
    main()
