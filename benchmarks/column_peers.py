"""SMAPE of models that read a table's columns, on the folds of `pricekit cv`.

    pricekit cv TABLE --folds 3 --out cv/default
    python benchmarks/column_peers.py cv/default --peer lightgbm
    python benchmarks/column_peers.py cv/default --peer catboost --python peers/bin/python
    python benchmarks/column_peers.py cv/default --peer autogluon-best --python peers/bin/python --folds 0

CatBoost and AutoGluon run in an environment of their own, `python -m venv peers` and

    peers/bin/python -m pip install "autogluon.tabular[lightgbm,catboost,xgboost]==1.6.3" torch==2.13.0

`autogluon-best-unstacked` does not first fit on a part of the rows to decide about stacking, which can use up its time.

The peers see the same columns and rows as pricekit. Each fold is fitted on the rows of the other folds. The output
compares the peer with the cross-validation on the rows of these folds: a difference above 0 means that the peer is
worse. `--keep` holds the prices, and a second call reads them.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import peers

from pricekit.evaluation.comparison import compare
from pricekit.evaluation.held_out import HeldOut, read_held_out
from pricekit.features.cells import Categories, Column, columns_of, cut, find_labels, values_of
from pricekit.features.trees import inputs_of
from pricekit.io.log import logger
from pricekit.text.labelled_lines import as_strings, join_texts

OUTSIDE = Path(__file__).with_name("outside_peers.py")
NAMES = ("lightgbm", "catboost", "autogluon-medium", "autogluon-best", "autogluon-best-unstacked")
NUMERIC = 0.9
"""A column is numeric if at least this share of its cells are numbers."""

Peer = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function of the places of the training and the held-out rows; returns the prices of the latter."""


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv, with the same folds")
    parser.add_argument("--peer", choices=NAMES, required=True)
    parser.add_argument("--folds", type=int, nargs="+", help="all of them by default")
    parser.add_argument("--python", type=Path, help="the interpreter of the peers' environment")
    parser.add_argument(
        "--minutes", type=float, help="time limit of AutoGluon for a fold; 5 or 10 by default"
    )
    parser.add_argument("--keep", type=Path, default=Path("peers-kept"), help="folder of the peers' prices")
    options = parser.parse_args()
    if options.peer != "lightgbm" and options.python is None:
        parser.error(f"{options.peer} needs --python")
    rows = read_held_out(options.cv[0])
    rows = rows.take(np.argsort(rows.rows, kind="stable"))
    folds = np.unique(rows.fold) if options.folds is None else np.array(options.folds)
    kept = options.keep / f"{options.cv[0].name}-{options.peer}.npy"
    prices = np.load(kept, allow_pickle=False) if kept.is_file() else np.full(len(rows), np.nan)
    peer = _peer(options, rows)
    for fold in folds:
        held = np.flatnonzero(rows.fold == fold)
        if np.isnan(prices[held]).any():
            prices[held] = peer(np.flatnonzero(rows.fold != fold), held)
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.save(kept, prices, allow_pickle=False)
    _show(options, rows, prices, np.flatnonzero(np.isin(rows.fold, folds)))


def _peer(options: argparse.Namespace, rows: HeldOut) -> Peer:
    if options.peer == "lightgbm":
        return lambda train, held: lightgbm_prices(rows, train, held)
    minutes = options.minutes or (5 if options.peer == "autogluon-medium" else 10)
    frame = columns_frame(rows.text)
    return lambda train, held: outside_prices(frame, rows.price, train, held, options, minutes)


def _show(options: argparse.Namespace, rows: HeldOut, prices: np.ndarray, used: np.ndarray) -> None:
    for path in options.cv:
        own = read_held_out(path)
        own = own.take(np.argsort(own.rows, kind="stable"))
        forms = {str(path): own.take(used), options.peer: replace(rows, predicted=prices).take(used)}
        first, second = compare(forms).runs
        low, high = second.interval or (np.nan, np.nan)
        print(
            f"{path}: {first.score:.2f}; {options.peer}: {second.score:.2f}; {len(used):,} rows; "
            f"{second.difference:+.2f}, {low:+.2f} to {high:+.2f}"
        )


def columns_frame(texts: pd.Series) -> pd.DataFrame:
    """Return the cells of texts by label, numbers where most cells are numbers, (N, L)."""
    joined = join_texts(as_strings(texts))
    labels = find_labels(joined)
    cells = cut(joined, labels)
    frame = {}
    for place, label in enumerate(labels):
        column = pd.Series(cells.column(place).to_pylist(), dtype="object")
        numbers = pd.to_numeric(column, errors="coerce")
        filled = int((column != "").sum())
        frame[label or "text"] = numbers if numbers.notna().sum() >= NUMERIC * max(1, filled) else column
    return pd.DataFrame(frame)


def outside_prices(
    frame: pd.DataFrame,
    price: np.ndarray,
    train: np.ndarray,
    held: np.ndarray,
    options: argparse.Namespace,
    minutes: float,
) -> np.ndarray:
    """Fit a peer in its own environment; return the prices of the held-out rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame.iloc[train].assign(log_price=np.log(price[train])).to_parquet(folder / "train.parquet")
        frame.iloc[held].to_parquet(folder / "held.parquet")
        command = [options.python, OUTSIDE, folder, options.peer, str(int(60 * minutes))]
        subprocess.run(list(map(str, command)), check=True)
        return np.exp(np.load(folder / "log_price.npy", allow_pickle=False))


def lightgbm_prices(rows: HeldOut, train: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Boosted trees on the numbers of pricekit's reader, native categories, and 100 dimensions of the text."""
    texts = [rows.text.iloc[part].reset_index(drop=True) for part in (train, held)]
    columns = columns_of(texts[0])
    blocks, categorical = zip(*(numbers_and_codes(part, columns) for part in texts), strict=True)
    words = peers.svd_of(*(part.tolist() for part in texts))
    inputs = [np.hstack([block, word]) for block, word in zip(blocks, words, strict=True)]
    return boosted(inputs[0], rows.price[train], inputs[1], categorical[0])


def boosted(train: np.ndarray, price: np.ndarray, held: np.ndarray, categorical: list[int]) -> np.ndarray:
    """Boosted trees with early stopping on an inner fifth, which also chooses the objective; then on all rows.

    Args:
        train: float (N, D).
        price: (N,).
        held: float (n, D).
        categorical: places of the columns that are codes.
    """
    log_price = np.log(price)
    fit, inner = peers.inner_split(len(train))

    def fitted(objective: str) -> tuple[float, int]:
        model = lightgbm.LGBMRegressor(**settings(objective), n_estimators=3000)
        model.fit(
            train[fit],
            log_price[fit],
            eval_set=[(train[inner], log_price[inner])],
            eval_metric="l1",
            categorical_feature=categorical,
            callbacks=[lightgbm.early_stopping(100, verbose=False)],
        )
        predicted = np.exp(np.asarray(model.predict(train[inner])))
        return peers.smape(predicted, price[inner]), model.best_iteration_

    (_, rounds), objective = min((fitted(objective), objective) for objective in ("l1", "l2"))
    logger.warning(f"lightgbm: {objective}, {rounds} rounds")
    model = lightgbm.LGBMRegressor(**settings(objective), n_estimators=rounds)
    model.fit(train, log_price, categorical_feature=categorical)
    return np.exp(np.asarray(model.predict(held), dtype=np.float64))


def numbers_and_codes(texts: pd.Series, columns: list[Column]) -> tuple[np.ndarray, list[int]]:
    """Return the numbers and the categories of the cells, (N, D), and the places of the categories."""
    values, known = values_of(texts, columns), Categories(columns)
    block, counts = inputs_of(values, columns, known, known.codes(values.cells))
    return block, [place for place, count in enumerate(counts) if count]


def settings(objective: str) -> dict[str, Any]:
    """Return the parameters of LightGBM with an objective."""
    parameters = {"learning_rate": 0.03, "num_leaves": 31, "min_child_samples": 10, "subsample": 0.8}
    return {**parameters, "objective": objective, "subsample_freq": 1, "colsample_bytree": 0.4, "verbose": -1}


if __name__ == "__main__":
    main()
