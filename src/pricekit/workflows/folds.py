"""Cross-validation folds: stratified by price, with each group of duplicates in one fold."""

from __future__ import annotations

import numpy as np

from pricekit.errors import ConfigError, DataError

PRICE_BINS = 20


def check_folds(folds: int, rows: int) -> None:
    """Raise ConfigError for fewer than two folds or more folds than rows."""
    if folds < 2:
        raise ConfigError(
            f"cross-validation needs at least 2 folds; found {folds}", parameters=("folds",), folds=folds
        )
    if folds > rows:
        raise ConfigError(
            f"{rows:,} rows cannot be divided into {folds:,} folds; use fewer folds",
            parameters=("folds",),
            folds=folds,
            rows=rows,
        )


def assign_folds(price: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row, int64 (N,), from 0: stratified by price bin, each group in one fold.

    Uses the StratifiedGroupKFold of scikit-learn with bins of the price's rank.

    Args:
        price: (N,).
        groups: of duplicate rows, int64 (N,).
        folds: how many, at least 2.
        seed: of the random assignment.

    Raises:
        ConfigError: fewer than 2 folds, or more than rows.
        DataError: there are fewer groups than folds, or the groups are so large that a fold would be empty.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    check_folds(folds, len(price))
    distinct = len(np.unique(groups))
    if distinct < folds:
        raise DataError(
            f"{len(price):,} rows form {distinct:,} groups of different texts, too few for {folds} folds; use fewer "
            "folds or more rows",
            parameters=("folds",),
            groups=distinct,
        )
    rank = np.argsort(np.argsort(price, kind="stable"), kind="stable")
    bins = rank * min(PRICE_BINS, len(price) // folds) // len(price)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    found = np.full(len(price), -1, np.int64)
    for fold, (_, held) in enumerate(splitter.split(price[:, None], bins, groups)):
        found[held] = fold
    if len(np.unique(found)) < folds:
        raise DataError(
            f"the groups of equal texts are so large that they fill fewer than {folds} folds; use fewer folds",
            parameters=("folds",),
        )
    return found
