"""SMAPE of pricekit's models and of their peers on the folds of `pricekit cv`.

    pricekit cv TABLE --out cv/bag
    pricekit cv TABLE --out cv/minilm --policy minilm
    python benchmarks/accuracy.py cv/bag cv/minilm

All folders must use the same table, --folds and --seed. The peers are fitted on the training rows of the same folds,
and select their settings on them. Peers with features use `optimized22` and `columns` like the models, fitted on those
rows. Means and standard deviations are over the folds. With several folders, the last line is their ensemble, as from
`pricekit ensemble`: weights fitted on the other folds predict each fold.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import peers

from pricekit import smape
from pricekit.cli.terminal import show_table
from pricekit.evaluation.held_out import HeldOut, read_held_out
from pricekit.features.fit import fit_features
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.runs.ensemble import cross_fitted, fit_weights
from pricekit.table import table_of_texts

Texts = Sequence[str]
Peer = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function of the numbers of the training and the held-out rows; returns the prices of the latter."""


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv")
    parser.add_argument(
        "--minilm", action="store_true", help="also use frozen MiniLM embeddings as a peer; takes minutes"
    )
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the peers' prices; existing ones are reused")
    options = parser.parse_args()
    own = [_in_order(path) for path in options.cv]
    first = own[0]
    for path, other in zip(options.cv, own, strict=True):
        same = (
            len(other) == len(first)
            and (other.price == first.price).all()
            and (other.fold == first.fold).all()
        )
        if not same:
            raise SystemExit(f"{path} has other rows or folds than {options.cv[0]}")
    scores: dict[str, np.ndarray] = {}
    if not options.without_peers:
        for name, peer in _peers(first, minilm=options.minilm).items():
            scores[name] = _per_fold(_out_of_fold(name, peer, first, options.keep), first)
            logger.warning(f"{name}: SMAPE {scores[name].mean():.2f}")
    best = min((found.mean() for found in scores.values()), default=np.nan)
    for path, held_out in zip(options.cv, own, strict=True):
        scores[str(path)] = _per_fold(held_out.predicted, first)
    if len(own) > 1:
        predicted = np.stack([held_out.predicted for held_out in own], 1)
        weights = " ".join(f"{weight:.2f}" for weight in fit_weights(predicted, first.price))
        scores[f"ensemble, weights {weights}"] = _per_fold(
            cross_fitted(predicted, first.price, first.fold), first
        )
    _show(scores, best, first)


def _show(scores: dict[str, np.ndarray], best: float, rows: HeldOut) -> None:
    """Print mean and standard deviation of each model's folds, and its distance to the best peer."""
    lines = [
        [
            name,
            f"{found.mean():.2f} ± {found.std(ddof=1):.2f}",
            "" if np.isnan(best) else f"{best - found.mean():+.2f}",
        ]
        for name, found in scores.items()
    ]
    title = f"{len(rows):,} rows, {len(np.unique(rows.fold))} folds"
    show_table(title, ["model", "SMAPE", "over best peer"], lines, stderr=False)


def _in_order(path: Path) -> HeldOut:
    held_out = read_held_out(path)
    return held_out.take(np.argsort(held_out.rows, kind="stable"))


def _peers(rows: HeldOut, *, minilm: bool) -> dict[str, Peer]:
    texts, price = rows.text.tolist(), rows.price

    def of(numbers: np.ndarray) -> Texts:
        return [texts[number] for number in numbers]

    def with_features(train: np.ndarray, held: np.ndarray) -> np.ndarray:
        tables = [table_of_texts(of(part)) for part in (train, held)]
        fitted, _ = fit_features(["optimized22", "columns"], {}, tables[0])
        features = fitted.transform(tables[0]), fitted.transform(tables[1])
        return peers.svd_lightgbm(of(train), price[train], of(held), features)

    found: dict[str, Peer] = {
        "constant": lambda train, held: peers.constant(price[train], len(held)),
        "TF-IDF + Ridge": lambda train, held: peers.ridge(of(train), price[train], of(held)),
        "TF-IDF + SVD + LightGBM": lambda train, held: peers.svd_lightgbm(of(train), price[train], of(held)),
        "TF-IDF + SVD + LightGBM, with features": with_features,
    }
    if minilm:
        embeddings = peers.minilm_embeddings(texts)
        found["frozen MiniLM + LightGBM"] = lambda train, held: peers.boosted(
            embeddings[train], price[train], embeddings[held]
        )
    return found


def _out_of_fold(name: str, peer: Peer, rows: HeldOut, keep: Path | None) -> np.ndarray:
    kept = None if keep is None else keep / f"{len(rows)} rows, {name}.npy"
    if kept is not None and kept.is_file():
        return np.load(kept, allow_pickle=False)
    prices = np.empty(len(rows))
    folds = np.unique(rows.fold)
    with progress(name, len(folds)) as advance:
        for fold in folds:
            held = np.flatnonzero(rows.fold == fold)
            prices[held] = peer(np.flatnonzero(rows.fold != fold), held)
            advance(1, "")
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, prices, allow_pickle=False)
    return prices


def _per_fold(predicted: np.ndarray, rows: HeldOut) -> np.ndarray:
    return np.array(
        [smape(predicted[rows.fold == fold], rows.price[rows.fold == fold]) for fold in np.unique(rows.fold)]
    )


if __name__ == "__main__":
    main()
