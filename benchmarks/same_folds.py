"""SMAPE of two ways to train on one table, with the same rows in the same folds.

    pricekit cv sizes/title.csv --folds 3 --text name,category --out cv/title
    python benchmarks/same_folds.py cv/title sizes/title.csv sizes/column.csv --text name,category \\
        --text name,size,category
    python benchmarks/same_folds.py cv/wine wine.csv --text title,points --source OLD/src --source NEW/src
    python benchmarks/same_folds.py cv/wine wine.csv --text title,points --text "" --jobs 2

`pricekit cv` chooses folds by the texts, so two forms of a table, or two versions of pricekit, may have different
folds. This script trains the policy `quick` on the folds of one cross-validation. The ways differ in the table, whose
rows must be in the same order, in the columns (without any, pricekit chooses them) or in the source tree, which another
process imports. With several seeds, a last line has the means.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.cli.terminal import show_table
from pricekit.evaluation.comparison import compare
from pricekit.evaluation.held_out import HeldOut, read_held_out

TRAIN_AND_PREDICT = """
import json, sys, pandas as pd, pricekit as pk
work = json.loads(sys.argv[1])
seen, new = (pd.read_csv(work[name], dtype="str", keep_default_na=False) for name in ("seen", "new"))
run = pk.train(seen, out=work["run"], **work["options"])
pd.DataFrame({"price": run.predict(new)}).to_csv(work["prices"], index=False)
"""
"""A process of its own trains and predicts with the source tree that it imports."""


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, help="folder of pricekit cv with the folds")
    parser.add_argument("table", type=Path, nargs="+", help="one for both ways or one for each")
    parser.add_argument("--text", action="append", required=True, help="columns, for both or for each")
    parser.add_argument("--source", action="append", type=Path, help="source tree, for both or for each")
    parser.add_argument("--price", default="price")
    parser.add_argument("--columns", help="names of all columns of a table without a header")
    parser.add_argument("--encoding", default="utf-8")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    options = parser.parse_args()
    folds = read_held_out(options.cv)
    names = options.columns.split(",") if options.columns else None
    tables = [
        pd.read_csv(
            path,
            sep="\t" if path.suffix == ".tsv" else ",",
            names=names,
            dtype="str",
            keep_default_na=False,
            encoding=options.encoding,
        )
        for path in options.table
    ]
    ways = list(zip(_two(tables), _two(options.text), _two(options.source or [None]), strict=True))
    rows, differences, scores = [], [], []
    for seed in options.seeds:
        trained = {
            name: _trained(way, folds, options.price, seed, options.jobs)
            for name, way in zip(("first", "second"), ways, strict=True)
        }
        first, second = compare(trained).runs
        low, high = second.interval or (np.nan, np.nan)
        difference = f"{second.difference:+.2f}, {low:+.2f} to {high:+.2f}"
        rows.append([str(seed), f"{first.score:.2f}", f"{second.score:.2f}", difference])
        print(*rows[-1], file=sys.stderr, flush=True)
        one, other = (_errors(held_out) for held_out in trained.values())
        differences.append(other - one)
        scores.append((one.mean(), other.mean()))
    if len(options.seeds) > 1:  # the rows are drawn, not the seeds
        mean = np.mean(differences, axis=0)
        draws = np.random.default_rng(0).integers(len(mean), size=(2000, len(mean)))
        low, high = np.quantile(mean[draws].mean(axis=1), [0.025, 0.975])
        first, second = np.mean(scores, axis=0)
        interval = f"{mean.mean():+.2f}, {low:+.2f} to {high:+.2f}"
        rows.append(["mean", f"{first:.2f}", f"{second:.2f}", interval])
    show_table("SMAPE", ["seed", "first", "second", "difference, 95% interval"], rows, stderr=False)


def _errors(held_out: HeldOut) -> np.ndarray:
    """Return the SMAPE of each row, (N,)."""
    price, predicted = held_out.price, held_out.predicted
    return np.asarray(200 * np.abs(price - predicted) / (np.abs(price) + np.abs(predicted)))


def _two(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of the two ways, of which there are one or two."""
    return [values[0], values[-1]]


def _trained(
    way: tuple[pd.DataFrame, str, Path | None], folds: HeldOut, price: str, seed: int, jobs: int
) -> HeldOut:
    """Return the held-out rows with the prices of models that saw the other folds."""
    table, text, source = way
    options: dict[str, Any] = {"price": price, "seed": seed, "settings": {"speed.progress": False}}
    if text:
        options["text"] = text.split(",")
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    predicted = np.empty(len(folds))

    def price_fold(fold: int) -> None:
        held = folds.fold == fold
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: str(Path(folder) / name) for name in ("seen", "new", "run", "prices")}
            table.iloc[folds.rows[~held]].to_csv(paths["seen"], index=False)
            table.iloc[folds.rows[held]].to_csv(paths["new"], index=False)
            work = json.dumps(paths | {"options": options})
            subprocess.run([sys.executable, "-c", TRAIN_AND_PREDICT, work], check=True, env=environment)
            predicted[held] = pd.read_csv(paths["prices"])["price"]

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(price_fold, np.unique(folds.fold)))
    return replace(folds, predicted=predicted)


if __name__ == "__main__":
    main()
