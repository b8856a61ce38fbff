"""First prices from a DataFrame: train, score, predict with intervals, export.

python examples/first_prices.py
"""

import argparse
import tempfile
from pathlib import Path

import pricekit as pk


def main(epochs: int | str = 10) -> None:
    """Train, score and predict."""
    catalog = pk.make_catalog(2000)  # a DataFrame with the columns sample_id, catalog_content and price
    known, new = catalog[:1800], catalog[1800:]

    run = pk.train(known, epochs=epochs)
    print(f"SMAPE of the held-out rows: {run.metrics['smape']:.1f}%")
    print(f"SMAPE of new products: {run.evaluate(new).metrics['smape']:.1f}%")

    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        run.export(bundle)
        model = pk.load(bundle)  # needs no torch
        prices = model.predict(new, interval=0.9)
    print(prices.head())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args().epochs)
