"""Models of few rows of a table, and of its columns, on other rows of it.

    python benchmarks/few_rows.py mercari.tsv --text name,category_name --price price --rows 1200 --cuts 2
    python benchmarks/few_rows.py ebay_autos_de.csv --text name,... --price price --rows 2700 --cuts 10 \\
        --models default lightgbm autogluon-medium --minutes 4 --python peers/bin/python

A cut is `--rows` random rows to train on and up to 3,000 others. "one-part" is the default with a part of the rows to
validate on, whatever their number; "lightgbm" is LightGBM with the L1 loss on the cells alone, numbers and categories
(600 rounds, rate 0.03, 10 rows a leaf), without the column of the titles, `--without`. The environment of AutoGluon is
that of benchmarks/column_peers.py. The score is that of 90% intervals of the log price (benchmarks/intervals.py).
"""

import argparse
import tempfile
import time
from pathlib import Path

import column_peers
import lightgbm
import numpy as np
import pandas as pd
from intervals import LEVEL, score

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.io.log import logger
from pricekit.metrics import smape
from pricekit.table import Columns, ReadOptions, Table, read_usable

MOST_HELD = 3000
OWN = {
    "default": {},
    "one-part": {"settings": {"training.folds": 1}},
    "best": {"policy": "best"},
}


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--price", default="price")
    parser.add_argument("--columns", help="names of the columns of a file without a header")
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--cuts", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=["one-part", "default"])
    parser.add_argument("--without", default="", help="column that LightGBM does not read")
    parser.add_argument("--python", type=Path, help="the interpreter of AutoGluon's environment")
    parser.add_argument("--minutes", type=float, default=4, help="time limit of AutoGluon")
    options = parser.parse_args()
    columns = Columns(tuple(options.text.split(",")), options.price)
    names = tuple(options.columns.split(",")) if options.columns else ()
    table, _ = read_usable(
        options.table, columns, read_options=ReadOptions(names=names), notices=logger.warning
    )
    rows: list[list[str]] = []
    for cut in range(options.cuts):
        order = np.random.default_rng(cut).permutation(len(table))
        train, held = (
            np.sort(order[part])
            for part in (slice(options.rows), slice(options.rows, options.rows + MOST_HELD))
        )
        for name in options.models:
            began = time.perf_counter()
            figures = measure(name, table, train, held, options)
            seconds = time.perf_counter() - began
            rows.append([name, str(cut), *figures, f"{seconds:.0f}"])
            print(*rows[-1], flush=True)
    means = []
    for name in options.models:
        figures = np.array([row[2:] for row in rows if row[0] == name], float)
        means.append([name, *(f"{value:.2f}" for value in figures.mean(0))])
    show_table(
        f"means of {options.cuts} cuts", ["model", "SMAPE", "inside", "score", "s"], means, stderr=False
    )


def measure(
    name: str, table: Table, train: np.ndarray, held: np.ndarray, options: argparse.Namespace
) -> list[str]:
    """Return SMAPE, the share of rows inside of the 90% intervals in percent, and their score; nan without any."""
    price = table.known_price
    if name not in OWN:
        frame = column_peers.columns_frame(table.text)
        if name == "lightgbm":
            predicted = _lightgbm(frame.drop(columns=options.without or []), price, train, held)
        else:
            options.peer = name
            predicted = column_peers.outside_prices(frame, price, train, held, options, options.minutes)
        return [f"{smape(predicted, price[held]):.2f}", "nan", "nan"]
    text = options.text.split(",")
    frame = table.frame[text].assign(price=price)
    with tempfile.TemporaryDirectory() as folder:
        model = pk.train(frame.iloc[train], out=Path(folder) / "run", text=text, price="price", **OWN[name])
        prices = model.predict(frame.iloc[held][text], interval=LEVEL)
    low, high, actual = prices["price_low"], prices["price_high"], price[held]
    inside = 100 * np.mean((low <= actual) & (actual <= high))
    mean_score = score(actual, low, high).mean()
    return [f"{smape(prices['price'], actual):.2f}", f"{inside:.1f}", f"{mean_score:.3f}"]


def _lightgbm(frame: pd.DataFrame, price: np.ndarray, train: np.ndarray, held: np.ndarray) -> np.ndarray:
    texts = frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]
    frame = frame.assign(**{name: frame[name].astype("category") for name in texts})
    settings = {
        "objective": "l1",
        "learning_rate": 0.03,
        "min_child_samples": 10,
        "n_jobs": 1,
        "verbosity": -1,
    }
    sampled = {"colsample_bytree": 0.8, "subsample": 0.8, "subsample_freq": 1, "random_state": 0}
    model = lightgbm.LGBMRegressor(n_estimators=600, **settings, **sampled)
    return np.exp(model.fit(frame.iloc[train], np.log(price[train])).predict(frame.iloc[held]))


if __name__ == "__main__":
    main()
