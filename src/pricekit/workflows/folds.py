"""Cross-validation folds: alike in price, with whatever belongs together on one side."""

from __future__ import annotations

import numpy as np

from pricekit.errors import ConfigError, DataError

PRICE_BINS = 20


def check_folds(folds: int, rows: int) -> None:
    """Raise ConfigError for a number of folds that no grouping of so many rows could give."""
    if folds < 2:
        raise ConfigError(f"{folds} fold is no cross-validation; use at least --folds 2")
    if folds > rows:
        raise ConfigError(f"{rows:,} rows cannot be cut into {folds:,} folds; use fewer --folds")


def folds_of(price: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row, int64 (N,), from 0: stratified by price bin, each group in one fold.

    scikit-learn's StratifiedGroupKFold over bins of the price's rank.

    Args:
        price: (N,).
        groups: which rows belong together, int64 (N,).
        folds: how many, at least 2.
        seed: makes them.

    Raises:
        ConfigError: fewer than 2 folds, or more than rows.
        DataError: there are fewer groups than folds, or so few large ones that a fold is empty.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    check_folds(folds, len(price))
    distinct = len(np.unique(groups))
    if distinct < folds:
        raise DataError(
            f"{len(price):,} rows make {distinct:,} groups of different texts, too few for {folds} folds; use fewer "
            "--folds or more rows"
        )
    rank = np.argsort(np.argsort(price, kind="stable"), kind="stable")
    bins = rank * min(PRICE_BINS, len(price) // folds) // len(price)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    found = np.full(len(price), -1, np.int64)
    for fold, (_, held) in enumerate(splitter.split(price[:, None], bins, groups)):
        found[held] = fold
    if len(np.unique(found)) < folds:
        raise DataError(
            f"the rows belong to groups of equal texts so large that they fill fewer than {folds} folds; use fewer "
            "--folds"
        )
    return found
