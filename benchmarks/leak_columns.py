"""Count how many of 40 columns `pricekit.check` judges rightly: 20 leak the price, 20 only look as if they did.

    python benchmarks/leak_columns.py
    python benchmarks/leak_columns.py --seeds 0 1 2 --wrong

All rows are random. Each column stands in one of five tables: goods, flats, cars, jobs and batteries. Columns that
reveal the price only as a pair are one entry; finding either of them is right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

import pricekit as pk

ROWS = 1500

LEAKING = {
    "goods": {
        "betrag": "a copy",
        "brutto": "the price × 1.19",
        "vnd": "the price in another currency",
        "range": "a band of prices, as text",
        "tier": "a band of prices, in words",
        "per_kg": "a price per unit beside its size",
        "before": "an old price, less a discount",
        "old": "a copy in 36% of the rows, '-' elsewhere",
        "previous": "a copy in 20% of the rows, 'No old price' elsewhere",
        "club": "a copy in 25% of the rows, empty elsewhere",
        "about": "the price, rounded to tens",
        "log": "the logarithm of the price",
        "cents": "the price in cents",
        "shown": "a copy as formatted text",
        "base|extras": "parts, whose sum is the price",
        "full|saved": "two amounts, whose difference is the price",
        "estimate": "another shop's price, within 5%",
    },
    "flats": {"thousands": "the price in thousands"},
    "jobs": {"to": "the upper bound of a salary", "middle": "the middle of both bounds"},
}
HARMLESS = {
    "goods": {
        "brand": "words",
        "kind": "a category that explains much",
        "size_kg": "a size",
        "reduction": "a discount in percent",
        "stars": "ratings",
        "pieces": "small numbers",
    },
    "flats": {
        "area": "30m2, which explains most of the price",
        "surface": "the same as a number",
        "rooms": "few numbers",
        "district": "places that explain much",
        "built": "years",
    },
    "cars": {
        "model": "40 names, which explain most of the price",
        "engine_size": "1498, one number for a model",
        "length": "4211, one number for a model",
        "tank": "one number for a model",
        "power": "163 hp",
        "registered": "years",
    },
    "jobs": {"experience": "years of experience"},
    "batteries": {
        "capacity": "seven numbers, which explain 94% of the price",
        "layout": "'4 modules', the same in words",
    },
}


def _goods(rng: np.random.Generator) -> pd.DataFrame:
    brand, kind = rng.integers(0, 30, ROWS), rng.integers(0, 5, ROWS)
    size = np.round(rng.choice([0.1, 0.2, 0.25, 0.5, 0.75, 1, 2, 5], ROWS), 2)
    level = np.random.default_rng(1).normal(0, 0.5, 30)[brand] + 0.9 * kind
    price = np.round(np.exp(2 + level + 0.6 * np.log(size) + rng.normal(0, 0.4, ROWS)), 2)
    off = rng.choice([0, 10, 15, 20, 30, 50, 70], ROWS)
    base = np.round(price * rng.uniform(0.02, 0.98, ROWS), 2)
    saved = np.round(np.exp(rng.normal(4, 1.2, ROWS)), 2)
    edges = [0, 5, 10, 20, 30, 50, 75, 100, 200, 500, np.inf]
    bands = [f"{low:g} - {high:g} €" for low, high in pairwise(edges)]
    words = ["budget", "standard", "premium", "luxury"]
    columns = {
        "title": [f"thing {i % 211} of brand {b}" for i, b in enumerate(brand)],
        "betrag": price,
        "brutto": np.round(price * 1.19, 2),
        "vnd": np.round(price * 24_350, -3),
        "range": pd.cut(price, edges, labels=bands).astype(str),
        "tier": pd.cut(price, [0, 8, 25, 90, np.inf], labels=words).astype(str),
        "per_kg": np.round(price / size, 2),
        "size_kg": size,
        "before": np.round(price / (1 - off / 100), 2),
        "reduction": [f"-{each}%" if each else "" for each in off],
        "old": _some(price, rng.random(ROWS) < 0.36, "-"),
        "previous": _some(price, rng.random(ROWS) < 0.2, "No old price"),
        "club": _some(price, rng.random(ROWS) < 0.25, ""),
        "about": np.round(price, -1),
        "log": np.round(np.log(price), 3),
        "cents": np.round(price * 100).astype(int),
        "shown": [f"Only € {each:,.2f} incl. VAT" for each in price],
        "base": base,
        "extras": np.round(price - base, 2),
        "full": np.round(price + saved, 2),
        "saved": saved,
        "estimate": np.round(price * rng.uniform(0.95, 1.05, ROWS), 2),
        "brand": [f"brand {each}" for each in brand],
        "kind": [f"kind {each}" for each in kind],
        "stars": np.round(np.clip(3 + 0.3 * np.log(price) + rng.normal(0, 0.4, ROWS), 1, 5), 1),
        "pieces": rng.choice([1, 2, 3, 6, 12], ROWS),
        "price": price,
    }
    return pd.DataFrame(columns)


def _flats(rng: np.random.Generator) -> pd.DataFrame:
    area = np.round(np.exp(rng.normal(4, 0.6, ROWS)))
    district = rng.integers(0, 12, ROWS)
    level = np.random.default_rng(2).normal(0, 0.4, 12)[district]
    price = np.round(np.exp(8 + np.log(area) + 0.6 * level + rng.normal(0, 0.2, ROWS)), -2)
    columns = {
        "title": [f"flat {i} in district {each}" for i, each in enumerate(district)],
        "thousands": price / 1000,
        "area": [f"{each:.0f}m2" for each in area],
        "surface": area,
        "rooms": np.clip(np.round(area / 25), 1, 8).astype(int),
        "district": [f"district {each}" for each in district],
        "built": rng.integers(1900, 2024, ROWS),
        "price": price,
    }
    return pd.DataFrame(columns)


def _cars(rng: np.random.Generator) -> pd.DataFrame:
    model = rng.integers(0, 40, ROWS)
    drawn = np.random.default_rng(3)
    rank = drawn.normal(0, 1, 40)
    sizes = {
        "engine_size": np.round(1600 * np.exp(0.3 * rank + 0.05 * drawn.normal(size=40))),
        "length": np.round(4300 * np.exp(0.08 * rank + 0.01 * drawn.normal(size=40))),
        "tank": np.round(50 * np.exp(0.15 * rank + 0.03 * drawn.normal(size=40)), 1),
    }
    year = rng.integers(2012, 2024, ROWS)
    price = np.round(np.exp(9.6 + 0.8 * rank[model] + 0.06 * (year - 2018) + rng.normal(0, 0.2, ROWS)), -1)
    power = np.round(120 * np.exp(0.4 * rank[model])).astype(int)
    columns = {
        "title": [f"car of model {each}, {made}" for each, made in zip(model, year, strict=True)],
        "model": [f"model {each}" for each in model],
        **{name: values[model] for name, values in sizes.items()},
        "power": [f"{each} hp" for each in power],
        "registered": year,
        "price": price,
    }
    return pd.DataFrame(columns)


def _jobs(rng: np.random.Generator) -> pd.DataFrame:
    years = rng.integers(0, 20, ROWS)
    low = np.round(np.exp(10.5 + 0.05 * years + rng.normal(0, 0.4, ROWS)), -3)
    high = np.round(low * rng.choice([1.1, 1.2, 1.3, 1.5, 1.8], ROWS), -3)
    columns = {
        "title": [f"engineer, team {i % 300}" for i in range(ROWS)],
        "to": high,
        "middle": (low + high) / 2,
        "experience": years,
        "price": low,
    }
    return pd.DataFrame(columns)


def _batteries(rng: np.random.Generator) -> pd.DataFrame:
    modules = rng.integers(1, 8, ROWS)
    price = np.round(np.exp(7 + 0.5 * modules + rng.normal(0, 0.25, ROWS)))
    columns = {
        "title": [f"battery {i % 400}" for i in range(ROWS)],
        "capacity": modules * 2.5,
        "layout": [f"{each} modules" for each in modules],
        "price": price,
    }
    return pd.DataFrame(columns)


TABLES: Mapping[str, Callable[[np.random.Generator], pd.DataFrame]] = {
    "goods": _goods,
    "flats": _flats,
    "cars": _cars,
    "jobs": _jobs,
    "batteries": _batteries,
}


def _some(price: np.ndarray, filled: np.ndarray, otherwise: str) -> list[str]:
    return [f"{one:.2f}" if fills else otherwise for one, fills in zip(price, filled, strict=True)]


@dataclass(frozen=True)
class Judged:
    """A column, whether it leaks, and whether `check` says so."""

    table: str
    column: str
    about: str
    leaks: bool
    called: bool


def judge(seed: int) -> list[Judged]:
    """Check the five tables of a seed, and compare the leaks with those that are built in."""
    judged = []
    for table, make in TABLES.items():
        called = pk.check(make(np.random.default_rng(seed)), text=["title"], price="price").leaks.columns
        for expected, leaks in ((LEAKING, True), (HARMLESS, False)):
            for column, about in expected.get(table, {}).items():
                judged.append(
                    Judged(table, column, about, leaks, any(name in called for name in column.split("|")))
                )
    return judged


def main() -> None:
    """Parse the command line and print the judgements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--wrong", action="store_true", help="print only the columns that are judged wrongly")
    options = parser.parse_args()
    for seed in options.seeds:
        judged = judge(seed)
        for each in judged:
            if each.leaks != each.called or not options.wrong:
                verdict = "right" if each.leaks == each.called else "WRONG"
                print(
                    f"{verdict}  {'leak' if each.leaks else 'none':4}  {each.table}.{each.column}: {each.about}"
                )
        missed = sum(each.leaks and not each.called for each in judged)
        false = sum(each.called and not each.leaks for each in judged)
        print(
            f"seed {seed}: {len(judged)} columns, {missed} leaks missed, {false} harmless columns called leaks"
        )


if __name__ == "__main__":
    main()
