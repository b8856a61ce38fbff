"""SMAPE on two forms of one table, with the same rows in the same folds.

    pricekit cv sizes/title.csv --folds 3 --text name,category --out cv/title
    python benchmarks/same_folds.py cv/title sizes/title.csv sizes/column.csv --text name,category \\
        --text name,size,category

`pricekit cv` chooses folds by the texts, so two forms of a table may have different folds. This script trains the
policy `quick` on the folds of a cross-validation of the first form. The rows of both tables must be in the same order.
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
    parser.add_argument("cv", type=Path, help="folder of pricekit cv with the folds")
    parser.add_argument("table", type=Path, nargs=2)
    parser.add_argument(
        "--text", action="append", required=True, help="columns, once for both or once for each"
    )
    parser.add_argument("--price", default="price")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    folds = read_held_out(options.cv)
    columns = options.text * 2 if len(options.text) == 1 else options.text
    tables = [pd.read_csv(path, dtype="str", keep_default_na=False) for path in options.table]
    rows = []
    for seed in options.seeds:
        forms = {
            name: trained(table, folds, text.split(","), options.price, seed)
            for name, table, text in zip(("first", "second"), tables, columns, strict=True)
        }
        first, second = compare(forms).runs
        low, high = second.interval or (np.nan, np.nan)
        difference = f"{second.difference:+.2f}, {low:+.2f} to {high:+.2f}"
        rows.append([str(seed), f"{first.score:.2f}", f"{second.score:.2f}", difference])
    show_table("SMAPE", ["seed", "first", "second", "difference, 95% interval"], rows, stderr=False)


def trained(table: pd.DataFrame, folds: HeldOut, text: list[str], price: str, seed: int) -> HeldOut:
    """Return the held-out rows with the prices of models that saw the other folds."""
    found = np.empty(len(folds))
    for fold in np.unique(folds.fold):
        held = folds.fold == fold
        with tempfile.TemporaryDirectory() as folder:
            given = {"text": text, "price": price, "seed": seed, "settings": {"speed.progress": False}}
            run = pk.train(table.iloc[folds.rows[~held]], out=Path(folder) / "run", **given)
            found[held] = run.predict(table.iloc[folds.rows[held]])
    return replace(folds, predicted=found)


if __name__ == "__main__":
    main()
