"""Equal rows in ten spellings: how many of them get another price.

    python benchmarks/spellings.py

A model is trained on 400 invented cars, as pandas writes them after one empty cell (2011.0). Other cars are priced as
they are, and in ten other spellings of their numbers, spaces, digits and accents.
"""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import pricekit as pk

ROWS, ALONE = 400, 20
_PERSIAN = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")


def cars(seed: int) -> pd.DataFrame:
    """Return invented cars with prices."""
    random = np.random.default_rng(seed)
    year, km = random.integers(1995, 2024, ROWS), random.integers(5, 3000, ROWS) * 100
    noise = random.normal(0, 0.2, ROWS)
    return pd.DataFrame(
        {
            "title": [f"Coupé {name} 1.6 l" for name in random.choice(["Astrid", "Béla", "Corvo"], ROWS)],
            "year": [f"{each}.0" for each in year],
            "mileage": [f"{each} km" for each in km],
            "price": np.round(3000 * np.exp((year - 2010) / 8 - km / 2e5 + noise)),
        }
    )


def _whole(cell: str) -> int:
    return round(float(cell.split(" ")[0]))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "2011, 60000km": lambda cell: cell.replace(".0", "").replace(" ", ""),
    "2,011, 60,000 km": lambda cell: f"{_whole(cell):,}" + " km" * cell.endswith("km"),
    "1,20,000 km": lambda cell: _indian(_whole(cell)) + " km" * cell.endswith("km"),
    "2.011e+03": lambda cell: f"{_whole(cell):.6e}" + " km" * cell.endswith("km"),
    "60.0k km": lambda cell: f"{_whole(cell) / 1000:g}k" + " km" * cell.endswith("km"),
    "60 000 km": lambda cell: f"{_whole(cell):,}".replace(",", "\u00a0") + "\u00a0km" * cell.endswith("km"),
    "double spaces": lambda cell: f" {cell}  ".replace(" km", "  km"),
    "Persian digits": lambda cell: cell.translate(_PERSIAN),
    "full-width digits": lambda cell: cell.translate(_WIDE),
    "zero-width characters": lambda cell: cell[:2] + "\u200b" + cell[2:],
}


def _indian(number: int) -> str:
    head, tail = divmod(number, 1000)
    if not head:
        return str(number)
    groups = f"{head:,}".replace(",", "")
    parts: list[str] = []
    while groups:
        groups, part = groups[:-2], groups[-2:]
        parts.insert(0, part)
    return ",".join([*parts, f"{tail:03d}"])


def one_by_one(model: pk.Model, rows: pd.DataFrame) -> np.ndarray:
    """Return the prices of some rows, each priced alone."""
    return np.concatenate([model.predict(rows.iloc[[row]]) for row in range(ALONE)])


def main() -> None:
    """Train, price the rows in each spelling, and print how many prices differ."""
    with tempfile.TemporaryDirectory() as folder:
        model = pk.train(cars(0), text=["title", "year", "mileage"], epochs=2, out=Path(folder) / "run")
        rows = cars(1).drop(columns="price")
        plain, plain_alone = model.predict(rows), one_by_one(model, rows)
        print(f"{'spelling':24} other prices of {ROWS}, of {ALONE} alone")
        for name, spell in SPELLINGS.items():
            other = rows.assign(
                title=rows["title"].map(
                    lambda cell: unicodedata.normalize("NFD", cell).replace(" ", "\u00a0")
                ),
                **{column: rows[column].map(spell) for column in ("year", "mileage")},
            )
            alone = (one_by_one(model, other) != plain_alone).sum()
            print(f"{name:24} {(model.predict(other) != plain).sum():15} {alone:10}")


if __name__ == "__main__":
    main()
