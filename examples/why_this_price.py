"""Why a product has its price: factors of words, a picture, and a report for colleagues.

python examples/why_this_price.py
"""

import argparse
import tempfile
from pathlib import Path

import pricekit as pk
from pricekit import plots


def main(epochs: int = 10) -> None:
    """Train, explain a row, draw, and write the report."""
    catalog = pk.make_catalog(1500)
    run = pk.train(catalog[:1400], epochs=epochs)
    model = run.load()

    # price = base × all factors, exactly
    (reasons,) = model.explain(catalog[1400:1401])
    print(f"{reasons.price:.2f} = {reasons.base:.2f}", end="")
    for phrase in reasons.phrases()[:4]:
        print(f" × {phrase.factor:.2f} ({phrase.text})", end="")
    print(" × …")

    picture = plots.PredictionDisplay.from_model(run)
    print(f"{picture.within:.0f}% of the held-out rows are within a factor of 2")

    with tempfile.TemporaryDirectory() as folder:
        picture.figure_.savefig(Path(folder) / "prices.svg")
        page = pk.report(run, out=Path(folder) / "report.html")
        print(f"the report has {page.stat().st_size / 1000:.0f} kB; it needs no network")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args().epochs)
