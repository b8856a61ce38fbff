"""Write a table of invented products whose prices rise, and its later part, to see whether a validation foresees it.

    python benchmarks/drifting_prices.py drift
    pricekit train drift/past.csv --out runs/random
    pricekit train drift/past.csv --out runs/time --time day
    pricekit evaluate runs/random drift/future.csv
    pricekit evaluate runs/time drift/future.csv

Each product has a day within two years. Prices rise by `--growth` a year, and the newest fifth of the days is the
future.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit import make_catalog

YEARS, FUTURE = 2, 0.2


def main() -> None:
    """Parse the command line and write both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for past.csv and future.csv")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--growth", type=float, default=0.5, help="0.5: prices rise by half in a year")
    options = parser.parse_args()
    table = make_catalog(options.rows, seed=0)
    years = np.sort(np.random.default_rng(0).uniform(0, YEARS, options.rows))
    table["price"] = (table["price"] * (1 + options.growth) ** years).round(2)
    table["day"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(years * 365, unit="D")).strftime("%Y-%m-%d")
    options.out.mkdir(parents=True, exist_ok=True)
    cut = int((1 - FUTURE) * options.rows)
    table[:cut].to_csv(options.out / "past.csv", index=False)
    table[cut:].to_csv(options.out / "future.csv", index=False)


if __name__ == "__main__":
    main()
