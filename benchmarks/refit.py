"""SMAPE of `pricekit train` without a refit, on the folds of `pricekit cv`, compared with that of the refitted models.

    pricekit cv TABLE --folds 3 --out cv/default
    python benchmarks/refit.py cv/default

`pricekit cv --no-refit` trains on all rows of the other folds, and `pricekit train --no-refit` leaves out its
validation rows. This script does the latter on the rows of the other folds. A difference above 0 means that the models
without a refit are worse.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.evaluation.comparison import compare
from pricekit.evaluation.held_out import HeldOut, read_held_out


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv with the default policy")
    options = parser.parse_args()
    rows = []
    for path in options.cv:
        refitted = read_held_out(path)
        first, second = compare({"refit": refitted, "no refit": without_refit(refitted)}).runs
        low, high = second.interval or (np.nan, np.nan)
        difference = f"{second.difference:+.2f}, {low:+.2f} to {high:+.2f}"
        rows.append([path.name, f"{first.score:.2f}", f"{second.score:.2f}", difference])
    show_table("SMAPE", ["folds", "refit", "no refit", "difference, 95% interval"], rows, stderr=False)


def without_refit(rows: HeldOut) -> HeldOut:
    """Return the held-out rows with the prices of models of one pass, trained on the rows of the other folds."""
    rows = rows.take(np.argsort(rows.rows, kind="stable"))
    table = pd.DataFrame({"text": rows.text.to_numpy(), "price": rows.price})
    found = np.empty(len(rows))
    for fold in np.unique(rows.fold):
        held = rows.fold == fold
        with tempfile.TemporaryDirectory() as folder:
            given = {"text": "text", "price": "price", "settings": {"speed.progress": False}}
            run = pk.train(table[~held], out=Path(folder) / "run", refit=False, **given)
            found[held] = run.predict(table[held])
    return replace(rows, predicted=found)


if __name__ == "__main__":
    main()
