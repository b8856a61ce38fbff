"""A competition: cross-validate, compare, combine, and write a submission.

python examples/competition.py
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd

import pricekit as pk


def main(epochs: int = 8) -> None:
    """Find out what helps, train an ensemble, and price the test rows."""
    catalog = pk.make_catalog(900)
    train, test = catalog[:700], catalog[700:].drop(columns="price")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        # Which settings are better on rows that no model has seen? The difference needs its interval.
        plain = pk.cross_validate(train, folds=2, epochs=epochs, features="optimized22", out=folder / "plain")
        trees = pk.cross_validate(train, folds=2, epochs=epochs, out=folder / "trees")
        print(pk.compare(plain, trees).to_frame()[["score", "difference", "low", "high", "verdict"]])

        # The runs of both cross-validations become one model, weighed by their predictions of held-out rows.
        both = pk.ensemble([plain, trees], out=folder / "both")
        print(
            f"the ensemble: SMAPE {both.metrics['smape']:.2f} on held-out rows, of {len(both.members)} runs"
        )

        submission = pd.DataFrame({"sample_id": test["sample_id"], "price": both.predict(test)})
        submission.to_csv(folder / "submission.csv", index=False)
        print(submission.head(3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args().epochs)
