"""What the share of the trees' own estimate in the price is worth, on the folds of `pricekit cv`.

    pricekit cv TABLE --folds 3 --out cv/default
    python benchmarks/estimate_share.py cv/default

The runs of the folds price their held-out rows twice: with the share that their validation rows chose, and with the
network's price alone. A difference above 0 means that the network alone is worse.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from pricekit.cli.terminal import show_table
from pricekit.evaluation.comparison import compare
from pricekit.evaluation.held_out import read_held_out
from pricekit.runs.opened import open_run


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv")
    options = parser.parse_args()
    rows = []
    for path in options.cv:
        own, shares = read_held_out(path), []
        alone = np.empty(len(own))
        for fold in np.unique(own.fold):
            run, held = open_run(path / f"fold-{fold}"), own.fold == fold
            shares.append(f"{run.model.estimate_share:.1f}")
            run.model.estimate_share = 0.0
            alone[held] = run.predictor().predict(own.text[held].tolist())
        first, second = compare({"share": own, "alone": replace(own, predicted=alone)}).runs
        low, high = second.interval or (np.nan, np.nan)
        difference = f"{second.difference:+.2f}, {low:+.2f} to {high:+.2f}"
        rows.append([path.name, ", ".join(shares), f"{first.score:.2f}", f"{second.score:.2f}", difference])
    heads = ["folds", "shares", "SMAPE", "network alone", "difference, 95% interval"]
    show_table("the share of the trees' own estimate", heads, rows, stderr=False)


if __name__ == "__main__":
    main()
