"""CPU time per row of reading a table, and of reading and features, by two source trees alternately.

    python benchmarks/reading.py OLD/src NEW/src wine.csv --price price --text title,description,country
    python benchmarks/reading.py OLD/src NEW/src train.csv --price price --text catalog_content

Each round starts a process for each tree, the next round in the other order. A process reads the table several times as
training does, then several times for the same columns as prediction does, each time with the default features of
`quick` except trees, fitted on 2,000 rows. The table shows the medians over rounds of the process's medians, and the
median ratio of new to old of the same round with its range. Both trees use the packages of this Python.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from pricekit.cli.terminal import show_table

MEASURE = """
import json, logging, statistics, sys, time
from dataclasses import replace
import numpy as np
from pricekit.features.fit import fit_features
from pricekit.table import Columns, read_table
logging.disable(logging.CRITICAL)
path, price, text, repeats = json.loads(sys.argv[1])
columns = Columns(tuple(text), price, None)
table = read_table(path, columns)
some = table.take(np.flatnonzero(np.isfinite(table.price) & (table.price > 0))[:2000])
features, _ = fit_features(["optimized22", "columns"], {}, some)
known = replace(columns, price=None)
if hasattr(table, "formats"):
    known = replace(known, formats=table.formats)
seconds = {"training: reading": [], "prediction: reading": [], "prediction: reading and features": []}
for _ in range(repeats):
    began = time.process_time()
    read_table(path, columns)
    seconds["training: reading"].append(time.process_time() - began)
    began = time.process_time()
    table = read_table(path, known)
    seconds["prediction: reading"].append(time.process_time() - began)
    features.transform(table)
    seconds["prediction: reading and features"].append(time.process_time() - began)
print(json.dumps({name: 1e6 * statistics.median(all) / len(table) for name, all in seconds.items()}))
"""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--price", default="price")
    parser.add_argument("--text", required=True, help="columns")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=5, help="in each process")
    options = parser.parse_args()
    work = json.dumps([str(options.table), options.price, options.text.split(","), options.repeats])

    def measured(tree: Path) -> dict[str, float]:
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", MEASURE, work]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        return dict(json.loads(done.stdout))

    rounds = []
    for number in range(options.rounds):
        order = (options.old, options.new) if number % 2 == 0 else (options.new, options.old)
        times = {tree: measured(tree) for tree in order}
        rounds.append((times[options.old], times[options.new]))
    rows = []
    for name in rounds[0][0]:
        old, new = (statistics.median(pair[which][name] for pair in rounds) for which in (0, 1))
        ratios = sorted(pair[1][name] / pair[0][name] for pair in rounds)
        spread = f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        rows.append([name, f"{old:.1f}", f"{new:.1f}", spread])
    headers = ["work", "old, µs a row", "new, µs a row", "new / old"]
    show_table(f"{options.table.name}, CPU time", headers, rows, stderr=False)


if __name__ == "__main__":
    main()
