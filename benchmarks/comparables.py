"""How long the search for comparables takes, and whether words or a model's own encoding find better ones.

    python benchmarks/comparables.py RUN TABLE

Time: products are made of the words of two real rows each, so the vocabulary stays real and no text repeats another.
The result is the median time of one row alone, facts and differences included, and the time of 1,000 rows together.

Quality: the five nearest training rows of each held-out row of a run, by the words and by the cosine of what the run's
encoder returns. The run must be without a second pass (training.refit=false), which would learn the held-out rows.
Comparables are good if their first words are often those of the row, which mostly name the brand. The
SMAPE of their median price says how much they tell about the price, but the encoder has learned these prices: it finds
what the model believes to cost the same.

Far: the SMAPE of the held-out rows whose true or predicted price is far from similar products, and of the others.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from neighbour_encodings import encodings

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.evaluation.groups import error_table, quantities_of
from pricekit.evaluation.held_out import read_held_out
from pricekit.features.neighbours import nearest
from pricekit.insight.comparables import MOST_COMPARED, find_comparables, mark_far
from pricekit.insight.products import Products, facts_of, products_of
from pricekit.metrics import smape
from pricekit.runs.opened import LoadedRun, open_run
from pricekit.table import Table, read_usable
from pricekit.text.labelled_lines import as_list

K = 5


def main() -> None:
    """Parse the command line and print both measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 75_000, 500_000])
    options = parser.parse_args()
    run = open_run(options.run)
    table, _ = read_usable(options.table, run.preprocessor.columns)
    held_out = np.isin(np.arange(len(table)), read_held_out(options.run).rows)
    lines = [_quality(run, table, held_out, by) for by in ("words", "encoding")]
    heads = ["nearest by", "with the first word of the row, %", "SMAPE of their median price"]
    show_table(f"the {K} nearest of {np.count_nonzero(~held_out):,} rows", heads, lines, stderr=False)
    lines = _far(options.run, table, held_out)
    show_table("held-out rows by what is far", ["far", "rows", "SMAPE"], lines, stderr=False)
    texts = [text.split() for text in as_list(table.text)]
    lines = [_times(texts, size) for size in options.sizes]
    heads = ["products", "index, s", "one row, ms", "1,000 rows, s"]
    show_table("time of the search", heads, lines, stderr=False)


def _quality(run: LoadedRun, table: Table, held_out: np.ndarray, by: str) -> list[str]:
    rows, others = np.flatnonzero(held_out), np.flatnonzero(~held_out)
    products = products_of(table.take(others))
    texts = as_list(table.take(rows).text)
    if by == "words":
        found, _ = nearest(products.index, texts, K)
    else:
        encoding = encodings(run, as_list(table.text))
        encoding /= np.maximum(np.linalg.norm(encoding, axis=1, keepdims=True), 1e-9)
        found = np.argsort(-(encoding[rows] @ encoding[others].T), axis=1, kind="stable")[:, :K]
    names = facts_of(table.text, products.labels).name
    first = np.array([(name.lower().split() or [""])[0] for name in names])
    same = (first[rows][:, None] == first[others][found]) & (found >= 0)
    price = np.exp(np.median(np.log(table.known_price[others][found]), axis=1))
    return [by, f"{100 * same.mean():.1f}", f"{smape(price, table.known_price[rows]):.1f}"]


def _far(run: Path, table: Table, held_out: np.ndarray) -> list[list[str]]:
    found = read_held_out(run)
    rows = error_table(found, quantities_of(found.text))
    if len(rows) > MOST_COMPARED:
        rows = rows.sample(MOST_COMPARED, random_state=0)
    far = mark_far(rows, products_of(table.take(np.flatnonzero(~held_out))))
    return [
        [name or "nothing", f"{len(part):,}", f"{part['error'].mean():.1f}"]
        for name, part in far.groupby("far")
    ]


def _times(texts: list[list[str]], size: int) -> list[str]:
    generator = np.random.default_rng(0)

    def mixed(count: int) -> Table:
        made = [_mix(texts, generator) for _ in range(count)]
        return pk.read_table(pd.DataFrame({"catalog_content": made, "price": np.ones(count)}))

    started = time.perf_counter()
    products: Products = products_of(mixed(size))
    built = time.perf_counter() - started
    rows, prices = mixed(1_000), np.ones(1_000, np.float32)
    find_comparables(rows.take(np.arange(2)), prices[:2], products)
    each = []
    for place in range(40):
        one = rows.take(np.array([place]))
        started = time.perf_counter()
        find_comparables(one, prices[:1], products)
        each.append(time.perf_counter() - started)
    started = time.perf_counter()
    find_comparables(rows, prices, products)
    return [f"{size:,}", f"{built:.0f}", f"{1000 * median(each):.1f}", f"{time.perf_counter() - started:.1f}"]


def _mix(texts: list[list[str]], generator: np.random.Generator) -> str:
    one, other = (texts[place] for place in generator.integers(0, len(texts), 2))
    cut = int(generator.integers(0, max(len(one), 1)))
    return " ".join(one[:cut] + other[len(other) * cut // max(len(one), 1) :])


if __name__ == "__main__":
    main()
