"""SMAPE of pricekit's models and their peers on one split of a table, a fifth of the rows held out.

    python benchmarks/accuracy.py TABLE [--text COLS] [--price COL] [--id COL] [--seeds 0 1 2]
    python benchmarks/accuracy.py TABLE --losses smape focal-smape
    python benchmarks/accuracy.py TABLE --seeds 0 --minilm

The split is stratified by price. Every model sees the same training rows, and where it takes features the
same `optimized22`, fitted on them. The peers choose their settings on a part of the training rows. `bag` is
trained by `pricekit train` with the policy's number of epochs and scored with its last weights, so that no
epoch is chosen on the rows that score it; so is `minilm` (of plugins/pricekit-minilm, under its own policy),
which is averaged with `bag` in log space, too. `--seeds` are seeds of the model; the split stays.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peers

from pricekit import Columns, Table, smape
from pricekit.core.configure import configure
from pricekit.features.fitted import fit_features
from pricekit.screen import notice, show_table
from pricekit.table import read_usable
from pricekit.training.batches import split_rows
from pricekit.training.checkpoint import LAST, load_checkpoint
from pricekit.training.run import open_run
from pricekit.training.source import Source
from pricekit.training.train import train

HELD_OUT = 0.2


def main() -> None:
    """Parse the command line and print the table."""
    options = _options()
    columns = Columns(tuple(options.text.split(",")), options.price, options.id or Columns().id)
    table, _ = read_usable(options.table, columns, limit=None, encoding=options.encoding, notices=notice)
    train_rows, test_rows = split_rows(table.known_price, HELD_OUT, options.split)
    parts = table.take(train_rows), table.take(test_rows)
    rows = [*_peer_rows(*parts)]
    best, found = min(float(row[1]) for row in rows), {}
    for loss in options.losses:
        layers = [{"seed": seed, "loss": {"name": loss}} for seed in options.seeds]
        found[loss] = [_own(*parts, columns, layer) for layer in layers]
        rows += _own_rows(f"bag, {loss}", found[loss], parts[1].known_price, best)
    if options.minilm:
        mine, seconds = _own(*parts, columns, {"policy": "minilm", "seed": options.seeds[0]})
        bag = found[options.losses[0]][0][0]
        rows.append(["minilm", f"{smape(mine, parts[1].known_price):.2f}", f"{seconds:.0f}"])
        rows.append(
            ["bag and minilm, averaged", f"{smape(np.sqrt(mine * bag), parts[1].known_price):.2f}", ""]
        )
    title = (
        f"{options.table.name}: {len(train_rows):,} rows, {len(test_rows):,} held out, split {options.split}"
    )
    show_table(title, ["model", "SMAPE", "seconds"], rows, stderr=False)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--text", default="catalog_content")
    parser.add_argument("--price", default="price")
    parser.add_argument("--id")
    parser.add_argument("--encoding", default="utf-8")
    parser.add_argument("--split", type=int, default=0, help="seed of the split")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of `bag`")
    parser.add_argument("--losses", nargs="+", default=["smape"], help="losses of `bag`")
    parser.add_argument("--minilm", action="store_true", help="fine-tune minilm, too: about half an hour")
    return parser.parse_args()


def _peer_rows(train_part: Table, test_part: Table) -> list[list[str]]:
    texts, held = train_part.text.tolist(), test_part.text.tolist()
    price = train_part.known_price
    fitted, _ = fit_features(["optimized22"], {}, train_part)
    features = fitted.transform(train_part), fitted.transform(test_part)
    models: list[tuple[str, Callable[[], np.ndarray]]] = [
        ("constant", lambda: peers.constant(price, len(held))),
        ("TF-IDF + Ridge on log price", lambda: peers.ridge(texts, price, held)),
        (
            "TF-IDF + SVD + LightGBM, same features",
            lambda: peers.svd_lightgbm(texts, features[0], price, held, features[1]),
        ),
    ]
    return [_timed(name, predict, test_part.known_price) for name, predict in models]


def _timed(name: str, predict: Callable[[], np.ndarray], actual: np.ndarray) -> list[str]:
    started = time.perf_counter()
    score = smape(predict(), actual)
    return [name, f"{score:.2f}", f"{time.perf_counter() - started:.0f}"]


def _own_rows(
    name: str, found: list[tuple[np.ndarray, float]], actual: np.ndarray, best: float
) -> list[list[str]]:
    scores = [smape(prices, actual) for prices, _ in found]
    rows = [
        [f"{name}, run {number}", f"{score:.2f}", f"{seconds:.0f}"]
        for number, (score, (_, seconds)) in enumerate(zip(scores, found, strict=True))
    ]
    if len(scores) > 1:
        rows.append([f"{name}, mean of the seeds", f"{np.mean(scores):.2f}", ""])
        rows.append([f"{name}, below the best peer by", f"{best - np.mean(scores):.2f}", ""])
        rows.append([f"{name}, highest less lowest seed", f"{max(scores) - min(scores):.2f}", ""])
    return rows


def _own(
    train_part: Table, test_part: Table, columns: Columns, layer: dict[str, Any]
) -> tuple[np.ndarray, float]:
    """Train with pricekit; return the prices of the last weights, and the seconds of the run."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.parquet" for name in ("train", "test")]
        for path, part in zip(paths, (train_part, test_part), strict=True):
            part.frame.to_parquet(path)
        fixed = {
            "columns": {"text": list(columns.text), "price": columns.price},
            "training": {"patience": None},
        }
        facts = train(Source(paths[0], paths[1]), configure([layer, fixed]), Path(folder) / "run")
        run = open_run(Path(folder) / "run")
        load_checkpoint(Path(folder) / "run" / LAST, run.model)
        return run.predictor().predict(test_part), float(facts["seconds"])


if __name__ == "__main__":
    main()
