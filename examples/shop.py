"""A shop with several columns: check the table, train on titles and brands, inspect the largest errors.

python examples/shop.py
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd

import pricekit as pk


def make_shop(rows: int) -> pd.DataFrame:
    """Return a generated shop with columns for title, brand, size and a price as text."""
    catalog = pk.make_catalog(rows)
    names = catalog["catalog_content"].str.extract(r"Item Name: ([^\n]*)")[0].fillna("")
    return pd.DataFrame(
        {
            "sku": [f"S{number:05}" for number in range(rows)],
            "title": names,
            "brand": names.str.split().str[0],
            "size": catalog["catalog_content"].str.extract(r"Value: ([\d.]+)")[0],
            "eur": [f"{price:.2f} €".replace(".", ",") for price in catalog["price"]],
        }
    )


def main(epochs: int = 10) -> None:
    """Check, train, inspect the largest errors, price a file."""
    shop = make_shop(1500)
    columns = {"text": ["title", "brand", "size"], "price": "eur", "id": "sku"}

    report = pk.check(shop, **columns)
    print(f"{report.usable} of {report.rows} rows can be used; notes: {list(report.notes)}")

    run = pk.train(shop[:1200], epochs=epochs, **columns)
    print(run)

    print(pk.worst_rows(run).worst(3)[["id", "error", "price", "predicted"]])

    with tempfile.TemporaryDirectory() as folder:
        new, prices = Path(folder) / "new.csv", Path(folder) / "prices.csv"
        shop[1200:].drop(columns="eur").to_csv(new, index=False)
        count = pk.predict(run, new, prices, interval=0.9)
        print(f"{count} prices, the first lines of the file:", *prices.read_text().splitlines()[:3], sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args().epochs)
