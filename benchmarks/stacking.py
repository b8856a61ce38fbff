"""SMAPE of another model with the columns of `PriceFeatures`, and with text features of its own.

    python benchmarks/stacking.py ../shared/data
    python benchmarks/stacking.py ../shared/data --tables wine scotch --rows 1000 --folds 2
    python benchmarks/stacking.py ../shared/data --peer autogluon-medium --python peers/bin/python

Every table is divided into three folds that keep near-duplicates together. The other model is fitted on at most
`--rows` rows of two of them, and prices at most `--held` rows of the third. The numbers and categories of the columns
are those of benchmarks/column_peers.py, and so are the settings and the fit of LightGBM; its own features are 100
dimensions of the TF-IDF of the text. AutoGluon makes features of the text itself; it runs in the environment that
benchmarks/column_peers.py describes, and sees the text in both cases. "pricekit" is the first column of `PriceFeatures`
alone. With `--leaking`, the columns are also replaced by the 16 principal components of the vectors of one model, which
has seen the prices of the training rows. A difference below 0 means better than the model's own features.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import column_peers
import numpy as np
import pandas as pd
import peers
from sklearn.decomposition import PCA

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.evaluation.comparison import ComparedRun, compare
from pricekit.evaluation.held_out import held_out_of
from pricekit.features.cells import columns_of
from pricekit.runs.split import duplicates_in, stratified_folds
from pricekit.table import Columns, ReadOptions, Table, read_usable

TABLES = {
    "wine": ("wine.csv", "title,description,designation,country,province,region_1,variety,winery,points"),
    "ebay_autos_de": (
        "ebay_autos_de.csv",
        "name,vehicleType,yearOfRegistration,gearbox,powerPS,model,odometer,fuelType,brand,notRepairedDamage",
    ),
    "scotch": ("scotch.csv", "name,category,review.point,description"),
    "tiki_vn": ("tiki_vn.csv", "name,brand,badge,sold,rating"),
    "mercari": ("mercari.tsv", "name,category_name,brand_name,item_description,item_condition_id,shipping"),
    "myntra": ("myntra.csv", "ProductName,ProductBrand,Gender,Description,PrimaryColor"),
    "reference": ("amazon2025/train.csv", "catalog_content"),
}
PRICES = {"myntra": "Price (INR)"}
"""The price columns that are not called price."""
NAMES = {"tiki_vn": ("url", "image", "badge", "price", "brand", "name", "sold", "rating", "delivery", "more")}
"""The columns of a file without a header."""

OWN, STACKED, PRICEKIT, LEAKING = "own features", "PriceFeatures", "pricekit", "leaking"
SETTINGS = {"training.folds": 1, "speed.progress": False}
"""Few rows choose the epoch on one part of them, not on all, which takes a fifth of the time."""

Blocks = tuple[np.ndarray, np.ndarray]
"""Columns of the training rows and of the others, (N, D) and (n, D)."""
Peer = Callable[[Blocks | None], np.ndarray]
"""A function of columns in place of the model's own features of the text, or beside them; returns prices, (n,)."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of the tables")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--rows", type=int, default=4000, help="maximum number of training rows")
    parser.add_argument("--held", type=int, default=3000, help="maximum number of rows to price")
    parser.add_argument("--folds", type=int, default=3, help="of PriceFeatures")
    parser.add_argument("--peer", choices=column_peers.NAMES, default="lightgbm")
    parser.add_argument("--python", type=Path, help="the interpreter of the environment of AutoGluon")
    parser.add_argument("--minutes", type=float, default=3, help="time limit of each fit of AutoGluon")
    parser.add_argument("--leaking", action="store_true", help="also measure vectors that leak")
    options = parser.parse_args()
    lines = []
    for name in options.tables:
        began = time.perf_counter()
        figures = measure(name, options)
        lines.append([name, *figures, f"{time.perf_counter() - began:.0f}"])
        print(*lines[-1], sep="; ", flush=True)
    names = [OWN, STACKED, PRICEKIT, *[LEAKING] * options.leaking]
    show_table("SMAPE, and the difference", ["table", "rows", *names, "s"], lines, stderr=False)


def measure(name: str, options: argparse.Namespace) -> list[str]:
    """Return the numbers of rows, the SMAPE of the own features, and that of the others with the difference."""
    train, held = rows_of(name, options)
    text = TABLES[name][1].split(",")
    features = pk.PriceFeatures(folds=options.folds, settings={"columns.text": text, **SETTINGS})
    learned = features.fit_transform(train.frame[text], train.known_price)
    new = features.transform(held.frame[text])
    peer = lightgbm(train, held) if options.peer == "lightgbm" else outside(train, held, options)
    prices = {OWN: peer(None), STACKED: peer((learned, new)), PRICEKIT: np.exp(new[:, 0])}
    if options.leaking:
        prices[LEAKING] = peer(leaking(train, held, text))
    rows = held_out_of(held, prices[OWN])
    runs = {each: replace(rows, predicted=predicted) for each, predicted in prices.items()}
    first, *others = compare(runs).runs
    return [f"{len(train):,}/{len(held):,}", f"{first.score:.2f}", *map(described, others)]


def lightgbm(train: Table, held: Table) -> Peer:
    """Return LightGBM on numbers and categories, and on 100 dimensions of the words unless there are other columns."""
    columns = columns_of(train.text)
    (block, categorical), (held_block, _) = (
        column_peers.numbers_and_codes(part.text, columns) for part in (train, held)
    )

    def prices(others: Blocks | None) -> np.ndarray:
        learned, new = others or peers.svd_of(train.text.tolist(), held.text.tolist())
        inputs = np.hstack([block, learned]), np.hstack([held_block, new])
        return column_peers.boosted(inputs[0], train.known_price, inputs[1], categorical)

    return prices


def outside(train: Table, held: Table, options: argparse.Namespace) -> Peer:
    """Return a model of another environment on the cells of the columns, beside which there may be other columns."""
    cells = column_peers.columns_frame(pd.concat([train.text, held.text], ignore_index=True))
    first, second = np.split(np.arange(len(cells)), [len(train)])
    price = np.concatenate([train.known_price, np.full(len(held), np.nan)])

    def prices(others: Blocks | None) -> np.ndarray:
        frame = cells
        if others is not None:
            frame = cells.join(pd.DataFrame(np.vstack(others)).add_prefix("pricekit_"))
        return column_peers.outside_prices(frame, price, first, second, options, options.minutes)

    return prices


def described(run: ComparedRun) -> str:
    """Return a score, and its difference to the own features with the interval."""
    low, high = run.interval or (np.nan, np.nan)
    return f"{run.score:.2f} ({run.difference:+.2f}, {low:+.2f} to {high:+.2f})"


def rows_of(name: str, options: argparse.Namespace) -> tuple[Table, Table]:
    """Return the rows to train on, and those to price."""
    file, text = TABLES[name]
    columns = Columns(tuple(text.split(",")), PRICES.get(name, "price"))
    read = ReadOptions(names=NAMES.get(name, ()))
    table, _ = read_usable(options.data / file, columns, read_options=read, notices=lambda _: None)
    fold = stratified_folds(table.known_price, duplicates_in(table)[0], 3, 0)
    random = np.random.default_rng(0)
    parts = ((fold != 0, options.rows), (fold == 0, options.held))
    chosen = [np.sort(random.permutation(np.flatnonzero(part))[:most]) for part, most in parts]
    return table.take(chosen[0]), table.take(chosen[1])


def leaking(train: Table, held: Table, text: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return components of the vectors of a model that was trained on the training rows."""
    frame = train.frame[list(text)].assign(**{"the price": train.known_price})
    model = pk.train(frame, text=list(text), price="the price", allow_leak=True, settings=SETTINGS)
    vectors = [model.embed(part.frame[list(text)]) for part in (train, held)]
    components = PCA(16, svd_solver="full").fit(vectors[0])
    return components.transform(vectors[0]), components.transform(vectors[1])


if __name__ == "__main__":
    main()
