"""Speed of the feature `neighbours`: fitting, opening, many rows, one row.

    python benchmarks/neighbours.py TABLE [--rows 75000]

TABLE is a CSV file. Its texts become that many others: each is the first half of one text and the second half of
another one, with a tenth of its words replaced. So terms are about as frequent as in the table, and no two texts are
equal. Times are medians of 5 rounds, in one thread: seconds, and seconds of the processor, which other work on the
machine changes less. The script stops if a row has other values alone than among others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from pricekit.features.neighbours import Neighbours
from pricekit.table import table_of_texts

ROUNDS = 5
NEW_ROWS, SINGLE_ROWS = 2_000, 100
REPLACED = 0.1


def mixed(texts: Sequence[str], rows: int) -> list[str]:
    """Return that many different texts, made of the given ones."""
    random = np.random.default_rng(0)
    split = [text.split(" ") for text in texts]
    words = [word for one in split for word in one]
    found = []
    for _ in range(rows):
        first, second = (split[number] for number in random.integers(len(split), size=2))
        text = first[: len(first) // 2 + 1] + second[len(second) // 2 :]
        for place in np.flatnonzero(random.random(len(text)) < REPLACED):
            text[place] = words[random.integers(len(words))]
        found.append(" ".join(text))
    return found


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> str:
    """Return the median time of a call, and that of the processor, as words."""
    found = []
    for _ in range(rounds):
        start, processor = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - start, time.process_time() - processor))
    elapsed, processor = (statistics.median(times) for times in zip(*found, strict=True))
    return f"{elapsed:8.3f} s, {processor:8.3f} s of the processor"


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", help="a CSV file")
    parser.add_argument("--rows", type=int, default=75_000, help="training rows")
    parser.add_argument("--text", default="catalog_content", help="the column of texts")
    arguments = parser.parse_args()
    texts = mixed(pd.read_csv(arguments.table)[arguments.text].dropna().tolist(), arguments.rows + NEW_ROWS)
    table, new = table_of_texts(texts[:-NEW_ROWS]), table_of_texts(texts[-NEW_ROWS:])
    singles = [table_of_texts([text]) for text in texts[-SINGLE_ROWS:]]
    price = np.random.default_rng(0).lognormal(3, 1, arguments.rows)
    plugin = Neighbours(Neighbours.Options())
    print(f"fitting {arguments.rows:,} rows:   {seconds(lambda: plugin.fit(table, price), 1)}")
    state = json.loads(json.dumps(plugin.fit(table, price)))
    print(f"state:                {len(json.dumps(state)) / 1e6:8.1f} MB")

    def opened() -> Neighbours:
        fresh = Neighbours(Neighbours.Options())
        fresh.transform(singles[0], state)
        return fresh

    def priced_alone() -> list[np.ndarray]:
        return [plugin.transform(single, state) for single in singles]

    print(f"opening:              {seconds(opened)}")
    check(plugin.transform(new, state)[-SINGLE_ROWS:], priced_alone())
    print(f"{NEW_ROWS:,} rows together:  {seconds(lambda: plugin.transform(new, state))}")
    print(f"{SINGLE_ROWS} rows, each alone: {seconds(priced_alone)}")


def check(together: np.ndarray, alone: list[np.ndarray]) -> None:
    """Stop if the bits differ."""
    if together.tobytes() != np.vstack(alone).tobytes():
        raise SystemExit("a row has other values alone than among others")


if __name__ == "__main__":
    main()
