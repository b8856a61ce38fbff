"""SMAPE of variants of the feature `trees` alone, on the folds of `pricekit cv`.

    pricekit cv TABLE --folds 3 --out cv/default
    python benchmarks/tree_variants.py cv/default

Each variant is fitted on the rows of the other folds; its prices are the exponentials of the log prices. A difference
below 0 means that the variant is better than the feature as it is. The variants:

- seeds: the mean of two models with different seeds
- leaves: the mean of the model and one with 63 leaves
- losses: the mean of the model and one with the L2 loss
- stopping: as many trees as an inner held-out fifth wants, at most 1,500, instead of 300
- no linear: without the log price of the linear model of words as an input
- no crosses: without that of crosses, if there are enough rows for one
- l1: with the L1 loss
- slow: 600 rounds with a learning rate of 0.03
- neighbours: with the prices of similar rows as inputs
- pairs: the mean log prices of pairs of categories as further inputs, out of fold for the training rows
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import peers
from scipy.sparse import csr_matrix, hstack

from pricekit.cli.terminal import show_table
from pricekit.evaluation.comparison import compare
from pricekit.evaluation.held_out import HeldOut, read_held_out
from pricekit.features.cells import Categories, values_of
from pricekit.features.trees import PRIOR_ROWS, Inputs, Trees, inputs_of
from pricekit.table import Table, table_of_texts

MOST_ROUNDS = 1500
INNER_FOLDS = 5


@dataclass
class Fold:
    """The inputs of the training and the held-out rows of a fold, and the log prices of the former.

    The first of the inputs are the log prices of linear models, of words and of crosses if there are enough rows. The
    next three are the prices of similar rows.
    """

    every: tuple[csr_matrix, csr_matrix]
    codes: tuple[np.ndarray, np.ndarray]
    log_price: np.ndarray
    linear: int

    def without(self, *columns: int) -> tuple[csr_matrix, csr_matrix]:
        """Return the inputs of both parts without some columns, and without the prices of similar rows."""
        left_out = {*columns, *range(self.linear, self.linear + 3)}
        kept = [column for column in range(self.every[0].shape[1]) if column not in left_out]
        return self.every[0][:, kept], self.every[1][:, kept]

    @property
    def train(self) -> csr_matrix:
        """The inputs of the feature as it is."""
        return self.without()[0]

    @property
    def held(self) -> csr_matrix:
        """The same for the held-out rows."""
        return self.without()[1]


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv")
    options = parser.parse_args()
    rows = []
    for path in options.cv:
        own = read_held_out(path)
        found = {name: np.empty(len(own)) for name in VARIANTS}
        for held, fold in _folds(own):
            for name, variant in VARIANTS.items():
                found[name][held] = np.exp(variant(fold))
        forms = {name: replace(own, predicted=predicted) for name, predicted in found.items()}
        for name, run in zip(forms, compare(forms).runs, strict=True):
            row = [path.name, name, f"{run.score:.2f}", ""]
            if run.interval is not None:
                row[-1] = "{:+.2f}, {:+.2f} to {:+.2f}".format(run.difference, *run.interval)
            rows.append(row)
    show_table("trees alone", ["folds", "variant", "SMAPE", "difference, 95% interval"], rows, stderr=False)


def _folds(own: HeldOut) -> Iterator[tuple[np.ndarray, Fold]]:
    options = Trees.Options()
    for number in np.unique(own.fold):
        held = own.fold == number
        tables = [table_of_texts(own.text[part].reset_index(drop=True)) for part in (~held, held)]
        price = own.price[~held]
        inputs = Inputs.fit(tables[0], price, options.words, options.leaf_rows, neighbours=True)
        train = _matrix(inputs, tables[0], inputs.dense(tables[0], price))
        other = _matrix(inputs, tables[1], inputs.dense(tables[1]))
        codes = tuple(_codes(inputs, table) for table in tables)
        yield held, Fold((train, other), codes, np.log(price), 1 + (inputs.crosses is not None))


def _matrix(inputs: Inputs, table: Table, dense: np.ndarray) -> csr_matrix:
    row, word = inputs.word_counts(table)
    counts = csr_matrix((np.ones(len(row), np.float32), (row, word)), shape=(len(table), len(inputs.words)))
    return hstack([csr_matrix(dense), counts], format="csr")


def _codes(inputs: Inputs, table: Table) -> np.ndarray:
    """Return the categories of the rows, int64 (N, C)."""
    values, known = values_of(table.text, inputs.columns), Categories(inputs.columns)
    block, counts = inputs_of(values, inputs.columns, known, known.codes(values.cells))
    return block[:, np.flatnonzero(counts)].astype(np.int64)


def grown(matrix: Any, log_price: np.ndarray, rounds: int = 300, **changes: Any) -> lightgbm.Booster:
    """Return the trees of the feature, with changed parameters."""
    parameters = Trees(Trees.Options()).parameters() | changes
    return lightgbm.train(parameters, lightgbm.Dataset(matrix, log_price, params=parameters), rounds)


def plain(fold: Fold, **changes: Any) -> np.ndarray:
    """Return the log prices of the held-out rows."""
    return np.asarray(grown(fold.train, fold.log_price, **changes).predict(fold.held))


def _grown_from(fold: Fold, inputs: Sequence[csr_matrix]) -> np.ndarray:
    return np.asarray(grown(inputs[0], fold.log_price).predict(inputs[1]))


def stopping(fold: Fold) -> np.ndarray:
    """Take the number of trees from an inner held-out fifth."""
    fit, inner = peers.inner_split(len(fold.log_price))
    parameters = Trees(Trees.Options()).parameters()
    rows = lightgbm.Dataset(fold.train[fit], fold.log_price[fit], params=parameters)
    checked = lightgbm.Dataset(fold.train[inner], fold.log_price[inner], reference=rows, params=parameters)
    stop = lightgbm.early_stopping(100, verbose=False)
    first = lightgbm.train(parameters, rows, MOST_ROUNDS, valid_sets=[checked], callbacks=[stop])
    return plain(fold, rounds=first.best_iteration)


def pairs(fold: Fold) -> np.ndarray:
    """Add the mean log price of each pair of categories; training rows get the means of the other inner folds."""
    inner = np.random.default_rng(0).integers(INNER_FOLDS, size=len(fold.log_price))
    found = []
    for first, second in combinations(range(fold.codes[0].shape[1]), 2):
        width = max(int(part[:, second].max()) for part in fold.codes) + 1
        train, held = (part[:, first] * width + part[:, second] for part in fold.codes)
        own = np.empty(len(train))
        for number in range(INNER_FOLDS):
            there = inner == number
            own[there] = _means(train[~there], fold.log_price[~there], train[there])
        found.append((own, _means(train, fold.log_price, held)))
    if not found:
        return plain(fold)
    train, held = (csr_matrix(np.column_stack(part)) for part in zip(*found, strict=True))
    matrices = hstack([train, fold.train], format="csr"), hstack([held, fold.held], format="csr")
    return np.asarray(grown(matrices[0], fold.log_price).predict(matrices[1]))


def _means(codes: np.ndarray, log_price: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    count = int(max(codes.max(), wanted.max())) + 1
    rows, total = np.bincount(codes, minlength=count), np.bincount(codes, log_price, minlength=count)
    return ((total + PRIOR_ROWS * log_price.mean()) / (rows + PRIOR_ROWS))[wanted]


VARIANTS: dict[str, Callable[[Fold], np.ndarray]] = {
    "as it is": plain,
    "seeds": lambda fold: (plain(fold) + plain(fold, seed=1)) / 2,
    "leaves": lambda fold: (plain(fold) + plain(fold, num_leaves=63)) / 2,
    "losses": lambda fold: (plain(fold) + plain(fold, objective="regression")) / 2,
    "stopping": stopping,
    "no linear": lambda fold: _grown_from(fold, fold.without(0)),
    "no crosses": lambda fold: _grown_from(fold, fold.without(*range(1, fold.linear))),
    "l1": lambda fold: plain(fold, objective="regression_l1"),
    "slow": lambda fold: plain(fold, rounds=600, learning_rate=0.03),
    "neighbours": lambda fold: _grown_from(fold, fold.every),
    "pairs": pairs,
}

if __name__ == "__main__":
    main()
