"""Milliseconds to price 1, 8 and 100 texts with a loaded bundle.

    python benchmarks/latency.py BUNDLE TABLE [--text COLUMN] [--against OTHER/src]

BUNDLE is a bundle from `pricekit export`, TABLE a CSV file whose texts are priced in consecutive calls. Each round is
a separate process: it loads the bundle, warms up, and times the calls. With --against, rounds of this checkout and of
another one alternate. The numbers are medians over the rounds. Run the script on an idle machine; it also prints the
load average.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

SIZES = {1: 500, 8: 200, 100: 50}
"""Texts of a call, and calls of a round."""

WARM_UP = 20
HERE = Path(__file__).parents[1] / "src"


def measure(bundle: str, texts: list[str], engine: str) -> dict[int, list[float]]:
    """Return p50 and p90 of one call, in milliseconds, by texts of the call."""
    from pricekit.predict.predictor import Predictor

    predictor = Predictor.load(bundle, engine)
    found = {}
    for size, calls in SIZES.items():
        seconds = []
        for call in range(-WARM_UP, calls):
            some = [texts[(call * size + i) % len(texts)] for i in range(size)]
            start = time.perf_counter()
            predictor.predict(some)
            seconds.append(time.perf_counter() - start)
        found[size] = (1e3 * np.percentile(seconds[WARM_UP:], [50, 90])).tolist()
    return found


def one_round(source: Path, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Measure in a fresh process that imports pricekit from a folder."""
    command = [sys.executable, __file__, arguments.bundle, arguments.table, "--round"]
    command += ["--text", arguments.text, "--engine", arguments.engine]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("table", help="a CSV file")
    parser.add_argument("--text", default="catalog_content", help="the column of texts")
    parser.add_argument("--engine", default="ort-cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout")
    parser.add_argument("--round", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.round:
        texts = pd.read_csv(arguments.table)[arguments.text].fillna("").astype(str).tolist()
        print(json.dumps(measure(arguments.bundle, texts, arguments.engine)))
        return
    sources = {"this checkout": HERE} | ({"the other": arguments.against} if arguments.against else {})
    rounds: dict[str, list[dict[str, list[float]]]] = {name: [] for name in sources}
    load = os.getloadavg()[0]
    for _ in range(arguments.rounds):
        for name, source in sources.items():
            rounds[name].append(one_round(source, arguments))
    print(f"engine {arguments.engine}, medians of {arguments.rounds} rounds, load average {load:.1f} before")
    print(f"{'texts':>5} {'checkout':15} {'p50 ms':>8} {'p90 ms':>8}")
    for size in SIZES:
        for name, found in rounds.items():
            p50, p90 = np.median([values[str(size)] for values in found], axis=0)
            print(f"{size:5} {name:15} {p50:8.2f} {p90:8.2f}")


if __name__ == "__main__":
    main()
