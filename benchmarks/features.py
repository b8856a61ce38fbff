"""Speed of the two parsers of the catalogue features: many texts together, and one text after the other.

    python benchmarks/features.py TABLE [--rows 75000]

TABLE is a CSV file; its texts are repeated up to that many rows. On a sample, both parsers must return bitwise equal
float32 numbers. Both run five times alternately, in one thread; the script prints the medians. The row-by-row parser
runs on fewer rows, and its time is scaled, because it is proportional to their number.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from pricekit.features.catalog import COLUMNS, OPTIMIZED22, State, compute, fit_names
from pricekit.features.parsed import RowwiseTexts
from pricekit.text.labelled_lines import as_strings

REPEATS = 5
FEW_ROWS = 5000
SAMPLE_ROWS = 2000


def row_by_row(texts: list[str], state: State) -> np.ndarray:
    """Compute the 22 features of each text separately, float32 (N, 22)."""
    rows = [RowwiseTexts(pd.Series([text]), state) for text in texts]
    return np.array([[COLUMNS[name](row)[0] for name in OPTIMIZED22] for row in rows], np.float32)


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Read the arguments, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", help="a CSV file")
    parser.add_argument("--rows", type=int, default=75_000, help="repeat the texts up to this many rows")
    parser.add_argument("--text", default="catalog_content", help="the column of texts")
    arguments = parser.parse_args()
    read = pd.read_csv(arguments.table)[arguments.text].fillna("").astype("str")
    texts = np.resize(read.to_numpy(object), arguments.rows)
    series = pd.Series(texts, dtype="str")
    state = fit_names(as_strings(series))
    sample = np.random.default_rng(0).choice(texts, min(SAMPLE_ROWS, len(texts)), replace=False)
    _check(sample.tolist(), state)
    few = texts[:FEW_ROWS].tolist()
    fast, slow = [], []
    for _ in range(REPEATS):
        fast.append(seconds(lambda: compute(series, OPTIMIZED22, state)))
        slow.append(seconds(lambda: row_by_row(few, state)) * len(texts) / len(few))
    _print(len(texts), {"vectorised": fast, "row by row": slow})


def _check(sample: list[str], state: State) -> None:
    """Stop unless both parsers return the same numbers."""
    together, alone = compute(pd.Series(sample, dtype="str"), OPTIMIZED22, state), row_by_row(sample, state)
    for place, name in enumerate(OPTIMIZED22):
        differ = np.flatnonzero(together[:, place] != alone[:, place])
        if len(differ):
            row = differ[0]
            raise SystemExit(
                f"{name} differs in {len(differ)} of {len(sample)} rows, first {together[row, place]} against "
                f"{alone[row, place]} in:\n{sample[row][:500]}"
            )
    print(f"both parsers give the same {len(OPTIMIZED22)} features on {len(sample):,} rows")


def _print(rows: int, times: dict[str, list[float]]) -> None:
    print(f"{rows:,} rows, {', '.join(times)} in turn, median of {REPEATS}")
    print(f"{'':12} {'seconds':>8} {'rows/s':>9}")
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"{name:12} {value:8.2f} {rows / value:9,.0f}")
    print(f"{'ratio':12} {median['row by row'] / median['vectorised']:8.1f}")


if __name__ == "__main__":
    main()
