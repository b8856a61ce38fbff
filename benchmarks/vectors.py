"""What columns of vectors add to prices, and the time that they take.

    python benchmarks/vectors.py [--rows 2500] [--width 128] [--seeds 0 1 2] [--what mixed|linear|curved|noise]

Prices of generated products are multiplied by a hidden function of 24 factors, of which the vectors are noisy mixtures.
It is `linear` in the factors, `curved` (a product, an absolute value and a sine), or `mixed`, half of each; of `noise`,
the numbers of the vectors are independent, and the function is linear. A model is trained without and with the vectors,
and prices 3,000 other products.
"""

from __future__ import annotations

import argparse
import logging
import time

import numpy as np
import pandas as pd

import pricekit as pk
from pricekit.metrics import SMAPE

FACTORS, HELD_OUT = 24, 3000
EFFECT = 0.6
"""Standard deviation of the log price that the vectors explain."""


def products(rows: int, width: int, what: str, seed: int) -> pd.DataFrame:
    """Return generated products with vectors."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, FACTORS))
    mixtures = (factors / np.sqrt(1 + np.arange(FACTORS))) @ rng.normal(size=(FACTORS, width))
    vectors = mixtures + 0.3 * rng.normal(size=(rows, width))
    linear = factors @ rng.normal(size=FACTORS)
    curved = factors[:, 0] * factors[:, 1] + np.abs(factors[:, 2]) + np.sin(2 * factors[:, 3])
    if what == "noise":
        vectors = rng.normal(size=(rows, width))
        linear = vectors @ rng.normal(size=width)
    linear, curved = (each / each.std() for each in (linear, curved))
    effect = {"curved": curved, "mixed": linear + curved}.get(what, linear)
    table = pk.make_catalog(rows, seed=seed)
    table["price"] = table["price"].astype(float) * np.exp(EFFECT * (effect - effect.mean()) / effect.std())
    return table.assign(seen=list(vectors.astype(np.float32)))


def main() -> None:
    """Print the error and the seconds without and with the vectors for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--what", choices=["mixed", "linear", "curved", "noise"], default="mixed")
    options = parser.parse_args()
    logging.getLogger("pricekit").setLevel(logging.ERROR)
    print(f"{'seed':>4} {'vectors':>8} {'SMAPE':>6} {'seconds of training':>20}")
    for seed in options.seeds:
        table = products(options.rows + HELD_OUT, options.width, options.what, seed)
        new = table.iloc[options.rows :].reset_index(drop=True)
        for vectors in ([], ["seen"]):
            began = time.perf_counter()
            model = pk.train(table.iloc[: options.rows], settings={"columns.vectors": vectors}, seed=seed)
            seconds = time.perf_counter() - began
            prices = np.asarray(model.predict(new.drop(columns="price")))
            error = SMAPE.terms(prices, new["price"].to_numpy()).mean()
            print(f"{seed:4} {'with' if vectors else 'without':>8} {error:6.2f} {seconds:20.0f}", flush=True)


if __name__ == "__main__":
    main()
