"""Validation when products repeat in several sizes, and the rows to predict are new products.

    python benchmarks/new_products.py [TABLE --text name,brand --price price] [--rows 1200] [--cuts 0 1]

A cut is whole products, in random order, up to about `--rows` rows; another fifth as many are the new products. Without
a table, products of the benchmark are generated, each in one to six sizes. "before" keeps only near-duplicates on one
side of the split, "after" is the default, which also keeps products there. The ratio is that of the validation error
to the error on the new products.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.evaluation.duplicates import joined_groups, product_names, split_groups_of
from pricekit.io.log import logger
from pricekit.metrics import smape
from pricekit.table import Columns, ReadOptions, read_usable

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprstvz" for b in "aeiou" for c in "lmnrst"]
KINDS = ["rice", "flour", "lentils", "tea", "coffee", "sugar", "oats", "nuts", "salt", "pasta"]


def generated(seed: int, products: int = 4000) -> pd.DataFrame:
    """Return groceries of brands, each in one to six sizes, with a noise of 40% that all sizes of a product share."""
    rng = np.random.default_rng(seed)
    brand_level, kind_level = rng.normal(0, 0.5, 200), rng.normal(0, 0.6, len(KINDS))
    rows = []
    for _ in range(products):
        brand, kind, style = rng.integers(200), rng.integers(len(KINDS)), rng.choice(WORDS)
        level = 4 + brand_level[brand] + kind_level[kind] + rng.normal(0, 0.4)
        for size in rng.choice([100, 200, 250, 500, 1000, 2000, 5000], rng.integers(1, 7), replace=False):
            amount = f"{size // 1000} kg" if size >= 1000 else f"{size} g"
            price = np.exp(level + 0.8 * np.log(size / 500) + rng.normal(0, 0.08))
            rows.append((f"{WORDS[brand]} {style} {KINDS[kind]} {amount}", round(float(price), 2)))
    return pd.DataFrame(rows, columns=["title", "price"])


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--text", default="title")
    parser.add_argument("--price", default="price")
    parser.add_argument("--columns", help="names of the columns of a file without a header")
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--cuts", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args()
    columns = Columns(tuple(options.text.split(",")), options.price)
    names = tuple(options.columns.split(",")) if options.columns else ()
    rows = []
    for cut in options.cuts:
        source = generated(cut) if options.table is None else options.table
        table, _ = read_usable(source, columns, read_options=ReadOptions(names=names), notices=logger.warning)
        near = split_groups_of(table.text, table.known_price)
        named = pd.Series(product_names(table.text))
        named = named.where(named != "", [f"{row}" for row in range(len(table))])
        product = joined_groups(near, pd.factorize(named)[0])
        place = np.random.default_rng(cut).permutation(product.max() + 1)[product]
        order = np.argsort(place, kind="stable")
        train, new = order[: options.rows], order[options.rows : options.rows * 6 // 5]
        new = new[~np.isin(product[new], product[train])]
        frame = table.frame[[*columns.text, options.price]].assign(near=near)
        for name, more in (("before", {"group": "near"}), ("after", {})):
            with tempfile.TemporaryDirectory() as folder:
                model = pk.train(
                    frame.iloc[np.sort(train)],
                    out=Path(folder) / "run",
                    text=columns.text,
                    price=options.price,
                    **more,
                )
                row = measure(model, frame.iloc[new], table.known_price[new])
            rows.append([str(cut), name, *row])
    heads = ["cut", "split", "validation", "new products", "ratio", "inside 90%, %", "width, ×"]
    show_table("new products", heads, rows, stderr=False)


def measure(model: pk.Model, new: pd.DataFrame, price: np.ndarray) -> list[str]:
    """Return the SMAPE of validation and of new rows, their ratio, and the coverage of the latter."""
    held, priced = model.held_out, model.predict(new, interval=0.9)
    validation, error = smape(held["predicted"], held["price"]), smape(priced["price"], price)
    low, high = priced["price_low"].to_numpy(), priced["price_high"].to_numpy()
    inside = 100 * float(((low <= price) & (price <= high)).mean())
    width = float(np.exp(np.median(np.log(high / low))))
    return [f"{validation:.1f}", f"{error:.1f}", f"{validation / error:.2f}", f"{inside:.1f}", f"{width:.2f}"]


if __name__ == "__main__":
    main()
