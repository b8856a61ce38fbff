"""Price intervals and quantiles of the models of `pricekit cv` on the rows that their fold held out.

    pricekit cv TABLE --folds 5 --out cv/wine
    python benchmarks/intervals.py cv/wine cv/mercari
    python benchmarks/intervals.py cv/wine --peer lightgbm
    python benchmarks/intervals.py cv/wine --peer autogluon --python peers/bin/python

Each fold's intervals were calibrated on validation rows among the rows of the other folds, in the first pass; a refit
may have followed. "bins" are the intervals before rows had a width of their own: split conformal half widths in up to
ten bins of the predicted price, from the same validation rows and prices. The score is that of the log price (Gneiting
and Raftery 2007, section 6.2), divided by that of the bins, with the 95% interval of the paired bootstrap over rows.
A second table has the coverage of the 90% intervals in tenths of the rows by their spread, pooled over the tables.

`--release` counts the prices that may go out within some factors, and how many of these hold, by table and pooled;
and pooled by the width of the bins instead of the spread, with the same rule.

`--peer` compares the mean quantile loss of the log price at five quantiles, on the first fold: with LightGBM models of
these quantiles, which read the columns, categories and text of benchmarks/column_peers.py and stop early; or with
AutoGluon for quantiles, from the environment of that benchmark, within the time that the fold took, at least a minute.
"""

import argparse
import json
from pathlib import Path

import column_peers
import lightgbm
import numpy as np
import peers

from pricekit.cli.terminal import show_table
from pricekit.evaluation.held_out import HeldOut, read_held_out
from pricekit.features.cells import columns_of
from pricekit.predict.intervals import Intervals, SurestFirst, intervals_in

LEVEL = 0.9
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SAMPLES = 1000
TOLERANCES = [(within, confidence) for within in (1.2, 1.5, 2.0) for confidence in (0.9, 0.95)]


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cv", type=Path, nargs="+", help="folders of pricekit cv")
    parser.add_argument("--peer", choices=["lightgbm", "autogluon"], help="compare quantiles with its own")
    parser.add_argument("--python", type=Path, help="the interpreter of AutoGluon's environment")
    parser.add_argument("--release", action="store_true", help="count the prices that may go out")
    options = parser.parse_args()
    if options.release:
        tables = {path.name: released(path) for path in options.cv}
        heads = ["factor, confidence", *(["all tables", *tables] if len(tables) > 1 else tables), "by bins"]
        show_table(
            "share of rows that may go out, and of these within the factor, %",
            heads,
            release_rows(tables),
            stderr=False,
        )
        return
    if options.peer:
        heads = ["table", "pricekit", options.peer, "difference, 95% interval", f"{options.peer} inside 90%"]
        show_table("mean quantile loss", heads, [against(path, options) for path in options.cv], stderr=False)
        return
    rows, tenths, counts = [], [], []
    for path in options.cv:
        row, tenth, count = measure(path)
        rows.append(row)
        tenths.append(tenth)
        counts.append(count)
    heads = ["table", "score", "of bins", "ratio, 95% interval", "inside 90%", "folds", "thirds by price"]
    show_table("90% intervals of held-out rows", heads, rows, stderr=False)
    pooled = [f"{100 * share:.1f}" for share in np.average(tenths, axis=0, weights=counts)]
    names = [f"{tenth}/10" for tenth in range(1, 11)]
    show_table("inside 90%, by tenth of the spread, pooled", names, [pooled], stderr=False)


def measure(path: Path) -> tuple[list[str], list[float], int]:
    """Return a row of the first table, the coverage by tenth of the spread, and the number of rows."""
    every = read_held_out(path)
    scores, covered, tenths, thirds = [], [], [], []
    for fold in np.unique(every.fold):
        rows = every.take(np.flatnonzero(every.fold == fold))
        folder = path / f"fold-{fold}"
        bounds = intervals_in(folder).bounds(rows.predicted, rows.spread, LEVEL)
        other = bins(read_held_out(folder), rows)
        scores.append(np.column_stack([score(rows.price, *bounds), score(rows.price, *other)]))
        inside = (rows.price >= bounds[0]) & (rows.price <= bounds[1])
        covered.append(inside.mean())
        tenths.append(shares(inside, rows.spread, 10))
        thirds.append(shares(inside, rows.predicted, 3))
    both = np.concatenate(scores)
    own, of_bins = both.mean(0)
    ratios = [mean[0] / mean[1] for mean in resampled(both)]
    low, high = np.quantile(ratios, [0.025, 0.975])
    folds = f"{100 * min(covered):.1f} to {100 * max(covered):.1f}"
    third = " ".join(f"{100 * share:.1f}" for share in np.mean(thirds, axis=0))
    ratio = f"{own / of_bins:.3f}, {low:.3f} to {high:.3f}"
    row = [path.name, f"{own:.3f}", f"{of_bins:.3f}", ratio, f"{100 * np.mean(covered):.1f}", folds, third]
    return row, np.mean(tenths, axis=0).tolist(), len(every)


def released(path: Path) -> np.ndarray:
    """Return the released rows and those of them that hold, by the spread and by bins, and all rows, int (T, 5)."""
    every = read_held_out(path)
    counts = np.zeros((len(TOLERANCES), 5), int)
    for fold in np.unique(every.fold):
        rows = every.take(np.flatnonzero(every.fold == fold))
        valid = read_held_out(path / f"fold-{fold}")
        error = np.abs(np.log(rows.predicted / rows.price))
        ranks = [(valid.spread, rows.spread)]
        ranks.append(tuple(np.log(bins(valid, each)[1] / each.predicted).round(9) for each in (valid, rows)))
        for place, (within, confidence) in enumerate(TOLERANCES):
            for column, (of_valid, of_rows) in enumerate(ranks):
                surest = SurestFirst.of(valid.predicted, valid.price, of_valid).few()
                free = of_rows <= (surest.largest_spread(within, confidence) or -1)
                counts[place, 2 * column] += free.sum()
                counts[place, 2 * column + 1] += (free & (error <= np.log(within))).sum()
            counts[place, 4] += len(rows)
    return counts


def release_rows(tables: dict[str, np.ndarray]) -> list[list[str]]:
    """Return the rows of the table of `--release`."""
    pooled = np.sum(list(tables.values()), axis=0)
    rows = []
    for place, (within, confidence) in enumerate(TOLERANCES):
        several = [pooled, *tables.values()] if len(tables) > 1 else [pooled]
        cells = [_share(*counts[place][[0, 1, 4]]) for counts in several]
        rows.append([f"{within:g}, {confidence:.0%}", *cells, _share(*pooled[place][[2, 3, 4]])])
    return rows


def _share(free: int, held: int, rows: int) -> str:
    return f"{100 * free / rows:.1f}, {100 * held / free:.1f}" if free else "none"


def resampled(values: np.ndarray) -> list[np.ndarray]:
    """Return the means of bootstrap samples of rows, (C,) each."""
    random, count = np.random.default_rng(0), len(values)
    return [values[random.integers(0, count, count)].mean(0) for _ in range(SAMPLES)]


def shares(inside: np.ndarray, by: np.ndarray, parts: int) -> list[float]:
    """Return the share of rows inside of their intervals in equal parts of the rows by a value."""
    return [float(inside[part].mean()) for part in np.array_split(np.argsort(by, kind="stable"), parts)]


def score(price: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the score of each 90% interval of the log price, float64 (N,)."""
    low, price, high = (np.log(np.asarray(values, float)) for values in (low, price, high))
    outside = np.maximum(np.maximum(low - price, price - high), 0)
    return np.asarray(high - low + 2 / (1 - LEVEL) * outside)


def bins(valid: HeldOut, rows: HeldOut) -> tuple[np.ndarray, np.ndarray]:
    """Return the 90% intervals of rows whose half widths depend on the predicted price alone."""
    parts = int(np.clip(len(valid) // 100, 1, 10))
    edges = np.quantile(valid.predicted, np.arange(1, parts) / parts)
    part = np.searchsorted(edges, valid.predicted, side="right")
    width = np.empty(parts)
    for number in range(parts):
        error = np.sort(np.abs(np.log(valid.price / valid.predicted))[part == number])
        width[number] = error[min(int(np.ceil(LEVEL * (len(error) + 1))), len(error)) - 1]
    factor = np.exp(width[np.searchsorted(edges, rows.predicted, side="right")])
    return rows.predicted / factor, rows.predicted * factor


def against(path: Path, options: argparse.Namespace) -> list[str]:
    """Return a row of the table of quantile losses."""
    every = read_held_out(path)
    fold = int(every.fold.min())
    train, held = (every.take(np.flatnonzero(part)) for part in (every.fold != fold, every.fold == fold))
    actual = np.log(held.price)
    own = quantile_loss(actual, own_quantiles(intervals_in(path / f"fold-{fold}"), held))
    if options.peer == "lightgbm":
        log_price = lightgbm_quantiles(train, held)
    else:
        frame = column_peers.columns_frame(every.text)
        parts = np.flatnonzero(every.fold != fold), np.flatnonzero(every.fold == fold)
        seconds = json.loads((path / f"fold-{fold}" / "run.json").read_text())["seconds"]
        peer = argparse.Namespace(**vars(options) | {"peer": "autogluon-quantiles"})
        prices = column_peers.outside_prices(frame, every.price, *parts, peer, max(1.0, seconds / 60))
        log_price = np.sort(np.log(prices).T, axis=0)
    other = quantile_loss(actual, log_price)
    low, high = np.quantile([mean[0] for mean in resampled((own - other)[:, None])], [0.025, 0.975])
    inside = np.mean((log_price[0] <= actual) & (actual <= log_price[-1]))
    difference = f"{own.mean() - other.mean():+.4f}, {low:+.4f} to {high:+.4f}"
    return [path.name, f"{own.mean():.4f}", f"{other.mean():.4f}", difference, f"{100 * inside:.1f}"]


def own_quantiles(intervals: Intervals, rows: HeldOut) -> np.ndarray:
    """Return the quantiles of the log price, float64 (Q, N)."""
    values = [intervals.quantile(rows.predicted, rows.spread, share) for share in QUANTILES]
    return np.log(np.stack(values).astype(np.float64))


def lightgbm_quantiles(train: HeldOut, held: HeldOut) -> np.ndarray:
    """Return the same of LightGBM, one model for each quantile, sorted so that none cross."""
    columns = columns_of(train.text)
    parts = [column_peers.numbers_and_codes(rows.text, columns) for rows in (train, held)]
    words = peers.svd_of(train.text.tolist(), held.text.tolist())
    inputs = [np.hstack([block, word]) for (block, _), word in zip(parts, words, strict=True)]
    log_price, seen = np.log(train.price), parts[0][1]
    fit, inner = peers.inner_split(len(train))
    quantiles = []
    for share in QUANTILES:
        settings = {**column_peers.settings("quantile"), "alpha": share}
        first = lightgbm.LGBMRegressor(**settings, n_estimators=2000)
        first.fit(
            inputs[0][fit],
            log_price[fit],
            eval_set=[(inputs[0][inner], log_price[inner])],
            categorical_feature=seen,
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )
        model = lightgbm.LGBMRegressor(**settings, n_estimators=first.best_iteration_)
        model.fit(inputs[0], log_price, categorical_feature=seen)
        quantiles.append(np.asarray(model.predict(inputs[1]), np.float64))
    return np.sort(np.stack(quantiles), axis=0)


def quantile_loss(actual: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Return the mean quantile loss of each row, float64 (N,), of quantiles, (Q, N)."""
    error = actual - quantiles
    share = np.array(QUANTILES)[:, None]
    return np.asarray(np.maximum(share * error, (share - 1) * error).mean(0))


if __name__ == "__main__":
    main()
