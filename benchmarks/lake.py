"""Kills predictions into tables of Delta Lake and Iceberg, and checks that each is committed once.

    python benchmarks/lake.py BUNDLE [--kills 50] [--rows 20000] [--seed 0]

In each trial, `pricekit predict` prices a Parquet file into a table, and is killed with `kill -9` at a random moment
around the commit; then the prediction is repeated. In every second trial, the table has old prices for half of the
ids, so that the commit changes rows, too. At the end, the table must have one new version, and the rows of an
undisturbed prediction, each once. The exit code is 1 if a trial fails.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import pricekit as pk
from pricekit.cli.terminal import show_table

AFTER_SECONDS = 0.3
"""A kill happens at most so long after the rows are collected for their commit."""


@dataclass(frozen=True)
class Place:
    """Where tables are.

    Attributes:
        address: that of a table, with `{}` for its number.
        versions: returns the number of versions of a table; 0 if there is none.
        create: makes a table with rows.
    """

    address: str
    versions: Callable[[int], int]
    create: Callable[[int, pa.Table], object]


def main() -> None:
    """Parse the command line, run the trials and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PRICEKIT_CACHE"] = str(folder / "cache")
        os.environ["PYICEBERG_CATALOG__SHOP__URI"] = f"sqlite:///{folder}/catalogue.db"
        os.environ["PYICEBERG_CATALOG__SHOP__WAREHOUSE"] = f"file://{folder}/warehouse"
        table = folder / "new.parquet"
        write_products(table, options.rows)
        chance = random.Random(options.seed)
        places = {"Delta Lake": delta(folder), "Iceberg": iceberg()}
        trials = {
            kind: killed_commits(options.bundle, table, place, options.kills, chance)
            for kind, place in places.items()
        }
    columns = ["before the commit", "after it", "ended", "one version", "equal rows"]
    show_table(
        f"kill -9 around the commit, {options.rows:,} rows",
        ["table", "trials", *columns],
        [
            [kind, str(options.kills), *(str(counts[column]) for column in columns)]
            for kind, counts in trials.items()
        ],
        stderr=False,
    )
    sys.exit(any(counts[column] < options.kills for counts in trials.values() for column in columns[3:]))


def write_products(file: Path, rows: int) -> None:
    """Write a table of products that never stood in a shop."""
    frame = pk.make_catalog(1000, seed=1).drop(columns="price")
    frame = pd.concat([frame] * -(-rows // 1000), ignore_index=True).head(rows)
    frame["sample_id"] = [f"P{number:07d}" for number in range(rows)]
    frame.to_parquet(file)


def delta(folder: Path) -> Place:
    """Return the place of tables of Delta Lake."""
    from deltalake import DeltaTable, write_deltalake

    def versions(number: int) -> int:
        path = f"{folder}/delta-{number}"
        return DeltaTable(path).version() + 1 if DeltaTable.is_deltatable(path) else 0

    def create(number: int, rows: pa.Table) -> None:
        write_deltalake(f"{folder}/delta-{number}", rows)

    return Place(f"delta:///{folder}/delta-{{}}", versions, create)


def iceberg() -> Place:
    """Return the place of tables of Iceberg."""
    from pyiceberg.catalog import load_catalog

    catalogue = load_catalog("shop")
    catalogue.create_namespace("sales")

    def versions(number: int) -> int:
        name = f"sales.prices{number}"
        return len(catalogue.load_table(name).snapshots()) if catalogue.table_exists(name) else 0

    def create(number: int, rows: pa.Table) -> None:
        catalogue.create_table(f"sales.prices{number}", rows.schema).append(rows)

    return Place("iceberg://shop/sales.prices{}", versions, create)


def killed_commits(
    bundle: Path, table: Path, place: Place, kills: int, chance: random.Random
) -> Counter[str]:
    """Kill predictions of a table, and repeat them; return how many were killed when, and what is right at the end."""
    model, outcomes = pk.load(bundle, engine="ort-cpu"), Counter[str]()
    model.predict_file(table, table.with_name("undisturbed.parquet"))
    expected = pq.read_table(table.with_name("undisturbed.parquet")).sort_by("sample_id")
    old = expected.slice(0, len(expected) // 2)
    old = old.set_column(1, "price", pa.array([1.0] * len(old)))
    for number in range(kills):
        address = place.address.format(number)
        if number % 2:
            place.create(number, old)
        before = place.versions(number)
        running = killed_prediction(bundle, table, address, chance)
        when = "before the commit" if place.versions(number) == before else "after it" if running else "ended"
        model.predict_file(table, address, resume=True)
        rows = pk.read_table(address, text="sample_id", id="sample_id").frame
        actual = rows[["sample_id", "price"]].sort_values("sample_id", ignore_index=True)
        outcomes[when] += 1
        outcomes["one version"] += place.versions(number) == before + 1
        outcomes["equal rows"] += actual.equals(expected.to_pandas()[["sample_id", "price"]])
    return outcomes


def killed_prediction(bundle: Path, table: Path, address: str, chance: random.Random) -> bool:
    """Kill a prediction at a random moment around its commit; return whether it was running."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pricekit", "predict", str(bundle), str(table), "--out", address]
        process = subprocess.Popen(
            [*command, "--engine", "ort-cpu"],
            env=os.environ | {"TMPDIR": temporary},
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and not any(Path(temporary).rglob("rows.duckdb")):
            time.sleep(0.001)
        time.sleep(chance.uniform(0, AFTER_SECONDS))
        running = process.poll() is None
        process.kill()
        process.wait()
    return running


if __name__ == "__main__":
    main()
