"""How much of the gain of training again a warm start reaches, and in how much of its time.

    python benchmarks/warm_start.py wine.csv --seeds 2 --text title,description --id id
    python benchmarks/warm_start.py drift/past.csv --future drift/future.csv

For each seed, a quarter of the rows is a test set, which no model is trained on. A fifth of the others is new. Three
models price the test set: the one of the earlier rows, one that is trained on all rows from the start, and one that
continues the first with `init`. The last two are trained one after the other, so that both have the same machine. With
`--future`, the rows of TABLE stay in their order, its last fifth is new, and the other table is the test set.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.evaluation.scores import facts_of

TEST, NEW = 0.25, 0.2


def main() -> None:
    """Parse the command line, train, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="+")
    parser.add_argument(
        "--future", type=Path, help="table to test on; the newest rows of TABLE are the new ones"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--text", type=lambda names: names.split(","), default=None)
    parser.add_argument("--price", default=None)
    parser.add_argument("--id", default=None)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--only-new", action="store_true", help="continue on the new rows alone")
    options = parser.parse_args()
    given = {"text": options.text, "price": options.price, "id": options.id}
    lines, gains, seconds = [], [], []
    for table in options.table:
        for seed in range(options.seeds):
            earlier, new, test = split(table, options.future, options.limit, seed)
            scores, times = measure(earlier, new, test, given, only_new=options.only_new)
            lines.append(
                [f"{table.stem}, {seed}", *(f"{score:.2f}" for score in scores), f"{times[1] / times[0]:.2f}"]
            )
            gains.append([scores[0] - scores[1], scores[0] - scores[2]])
            seconds.append(times[1] / times[0])
    again, warm = np.mean(gains, axis=0)
    heads = [
        "table, seed",
        "earlier rows",
        "all rows, from the start",
        "warm start",
        "time of the warm start",
    ]
    title = f"gain of training again {again:.2f}, of a warm start {warm:.2f}, share {warm / again:.2f}; "
    show_table(f"{title}median time {np.median(seconds):.2f}", heads, lines, stderr=False)


def split(table: Path, future: Path | None, limit: int | None, seed: int) -> tuple[pd.DataFrame, ...]:
    """Return the earlier rows, the new rows and the test rows."""
    separator = "\t" if table.suffix == ".tsv" else ","
    plain: dict[str, Any] = {
        "sep": separator,
        "dtype": str,
        "keep_default_na": False,
        "encoding_errors": "replace",
    }
    frame = pd.read_csv(table, nrows=limit, **plain)
    if future is not None:
        cut = int((1 - NEW) * len(frame))
        return frame[:cut], frame[cut:], pd.read_csv(future, **plain)
    order = np.random.default_rng(seed).permutation(len(frame))
    test = int(TEST * len(frame))
    new = test + int(NEW * (len(frame) - test))
    return tuple(frame.iloc[np.sort(rows)] for rows in (order[new:], order[test:new], order[:test]))


def measure(
    earlier: pd.DataFrame, new: pd.DataFrame, test: pd.DataFrame, given: dict[str, Any], *, only_new: bool
) -> tuple[list[float], list[float]]:
    """Return the SMAPE of the three models on the test rows, and the seconds of the last two trainings."""
    everything = pd.concat([earlier, new])
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {**given, "allow_leak": True, "settings": {"speed.progress": False}}
        old = pk.train(earlier, out=f"{folder}/old", **options)
        again = pk.train(everything, out=f"{folder}/again", **options)
        warm = pk.train(new if only_new else everything, out=f"{folder}/warm", init=old, **options)
        scores = [pk.load(run).evaluate(test, **given).metrics["smape"] for run in (old, again, warm)]
        return scores, [facts_of(run.path)["seconds"] for run in (again, warm)]


if __name__ == "__main__":
    main()
