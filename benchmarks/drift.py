"""Drift on real tables: halves of the same table are silent, and changes of one half are named.

python benchmarks/drift.py ../shared/data

Each table is split in two by chance. A model is trained on one half and exported, and its bundle is compared with the
other half, as it is and changed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import pricekit as pk

SETTINGS = {"features": ["optimized22", "columns"], "epochs": 3, "settings": {"backbone.members": 1}}
COLUMNS = {
    "amazon2025/train.csv": ["catalog_content"],
    "wine.csv": ["title", "description", "country", "variety", "winery"],
    "mercari.tsv": ["name", "brand_name", "category_name", "item_description"],
}


def variants(name: str, half: pd.DataFrame, data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the tables that the other half becomes."""
    yield "the other half", half
    if name == "wine.csv":
        yield "without Italy", half[half["country"] != "Italy"]
        yield "without the column description", half.drop(columns="description")
    elif name == "mercari.tsv":
        yield "without Nike", half[half["brand_name"] != "Nike"]
    else:
        text = half["catalog_content"]
        yield "without Food to Live", half[~text.str.startswith("Item Name: Food")]
        grams = text.str.replace(r"(?i)(?<![a-z])(oz|ounces?)\b", "g", regex=True)
        yield "oz and ounce become g", half.assign(catalog_content=grams)
        yield "test.csv", pd.read_csv(data / "amazon2025" / "test.csv")
        cars = pd.read_csv(data / "ebay_autos_de.csv", encoding="latin-1")
        yield (
            "cars",
            pd.DataFrame({"catalog_content": "Item Name: " + cars["name"] + "\nbrand: " + cars["brand"]}),
        )


def main(data: Path) -> None:
    """Print a line for each table, and its alarms."""
    for name, text in COLUMNS.items():
        frame = pd.read_csv(data / name, sep="\t" if name.endswith("tsv") else ",")
        order = np.random.default_rng(0).permutation(len(frame))
        first, second = np.array_split(order, 2)
        with tempfile.TemporaryDirectory() as folder:
            pk.train(frame.iloc[first], text=text, price="price", **SETTINGS).export(folder)
            model = pk.load(folder, "ort-cpu")
            for what, table in variants(name, frame.iloc[second], data):
                started = time.perf_counter()
                found = model.drift(table)
                psi, auc = found.measures["psi"], found.measures["auc"]
                print(
                    f"{name}, {what}: {found.rows:,} rows, PSI {psi.value:.2f} ({psi.where}), AUC {auc.value:.2f}, "
                    f"{len(found.alarms)} alarms, {time.perf_counter() - started:.1f} s"
                )
                for alarm in found.alarms:
                    print(f"    {alarm}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
