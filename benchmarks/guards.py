"""Times what checksums and guards cost: as a share of training, and in milliseconds when a bundle is opened.

    python benchmarks/guards.py [TABLE] [--rows 20000] [--epochs 5] [--rounds 5]
    python benchmarks/guards.py --bundle BUNDLE --old OLD/src [--rounds 5]

The first form trains `bag` and a small transformer, and adds up the time in the functions that compute checksums and
look for values that are not finite. The target is at most 1 percent of the training. The second form opens a bundle
with this tree and an older one alternately, each in a process of its own, 20 times, and prices rows with it. It prints
CPU time, which other programs disturb less. The target is at most 5 percent more.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.datasets import make_catalog

GUARDS = (
    "pricekit.training.checkpoint:seal",
    "pricekit.training.checkpoint:check_seal",
    "pricekit.training.loop:check_finite",
    "pricekit.training.guard:GradientGuard.gradients",
    "pricekit.training.guard:GradientGuard.is_due",
    "pricekit.training.guard:GradientGuard.read",
    "pricekit.training.guard:GradientGuard.watch",
)
"""The timed functions, where they are called from."""

TRANSFORMER = {
    "backbone.name": "transformer",
    "backbone.width": 128,
    "backbone.layers": 2,
    "backbone.heads": 4,
}

OPEN = """
import statistics, sys, time
from pathlib import Path
from pricekit.datasets import make_catalog
from pricekit.predict.predictor import Predictor
one, many = (list(make_catalog(rows)["catalog_content"]) for rows in (1, 1000))
Predictor.load(sys.argv[1], "ort-cpu").predict(many)
opened, used, priced = [], [], []
for _ in range(20):
    began = time.process_time()
    predictor = Predictor.load(sys.argv[1], "ort-cpu")
    opened.append(time.process_time() - began)
    predictor.predict(one)
    used.append(time.process_time() - began)
    began = time.process_time()
    predictor.predict(many)
    priced.append(time.process_time() - began)
print(*(1000 * statistics.median(times) for times in (opened, used, priced)))
"""
WORK = ("open", "open, and price a row", "price 1,000 rows")


def timed(spent: dict[str, float], name: str) -> None:
    """Replace a function by one that adds its seconds to `spent`, less those of others that it calls."""
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    owner: Any = import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    function: Callable[..., Any] = getattr(owner, last)

    def call(*arguments: Any, **options: Any) -> Any:
        began, inside = time.perf_counter(), sum(spent.values())
        try:
            return function(*arguments, **options)
        finally:
            inside = sum(spent.values()) - inside
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began - inside

    setattr(owner, last, call)


def train_guarded(table: pd.DataFrame, options: argparse.Namespace) -> None:
    """Train each model `rounds` times; print the median share of each guard."""
    spent: dict[str, float] = {}
    for name in GUARDS:
        timed(spent, name)
    for title, settings in (("bag", {}), ("transformer", TRANSFORMER)):
        shares: dict[str, list[float]] = {name: [] for name in (*GUARDS, "all")}
        for _ in range(options.rounds):
            spent.clear()
            began = time.perf_counter()
            pk.train(table, epochs=options.epochs, settings=settings | {"training.patience": None})
            seconds = time.perf_counter() - began
            for name in GUARDS:
                shares[name].append(100 * spent.get(name, 0.0) / seconds)
            shares["all"].append(100 * sum(spent.values()) / seconds)
        rows = [
            [name.split(":")[1] if ":" in name else name, f"{statistics.median(found):.2f}"]
            for name, found in shares.items()
        ]
        show_table(
            f"{title}: {len(table):,} rows, {options.epochs} epochs, {seconds:.1f} s",
            ["guard", "percent"],
            rows,
            stderr=False,
        )


def open_bundle(bundle: Path, old: Path, rounds: int) -> None:
    """Open a bundle with both trees alternately; print the median milliseconds of CPU time."""
    trees = {"old": old, "new": Path(pk.__file__).parents[1]}
    found: dict[str, list[list[float]]] = {name: [] for name in trees}
    for number in range(rounds):
        for name in list(trees)[:: 1 if number % 2 == 0 else -1]:
            environment = os.environ | {"PYTHONPATH": str(trees[name].resolve())}
            words = [sys.executable, "-c", OPEN, str(bundle)]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
            found[name].append([*map(float, done.stdout.split())])
    rows = []
    for place, work in enumerate(WORK):
        before, now = (statistics.median(times[place] for times in found[name]) for name in trees)
        rows.append([work, f"{before:.1f}", f"{now:.1f}", f"{100 * (now / before - 1):+.1f}"])
    show_table(f"{bundle}", ["work", "old, ms", "new, ms", "percent"], rows, stderr=False)


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--old", type=Path)
    options = parser.parse_args()
    if options.bundle is not None:
        open_bundle(options.bundle, options.old, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        rows = make_catalog(options.rows) if options.table is None else pd.read_csv(options.table)
        train_guarded(rows.head(options.rows), options)


if __name__ == "__main__":
    main()
