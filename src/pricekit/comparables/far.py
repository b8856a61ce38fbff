"""Rows whose true or predicted price is far from those of comparable products."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pricekit.comparables.products import Products
from pricekit.comparables.result import Comparables
from pricekit.comparables.search import K, find_comparables
from pricekit.table import Table

MOST_ROWS = 1_000
"""Rows of an error table, the worst ones, that are compared with products."""

FAR = {(False, False): "", (True, False): "price", (False, True): "predicted", (True, True): "both"}
"""The cells of the column `far`, by whether the true and the predicted price are far."""


def compare_rows(rows: pd.DataFrame, products: Products, currency: str | None = None) -> list[Comparables]:
    """Return the comparables of rows of an error table, see `pricekit.evaluation.errors.error_table`."""
    ids = rows["id"].astype("str").mask(rows["id"] == "", rows["row"].astype("str"))
    table = Table(
        ids.reset_index(drop=True),
        rows["text"].reset_index(drop=True),
        None,
        pd.DataFrame(index=range(len(rows))),
    )
    return find_comparables(table, rows["predicted"].to_numpy(np.float32), products, K, (), currency)


def mark_far(rows: pd.DataFrame, products: Products) -> pd.DataFrame:
    """Return an error table with two more columns, for its first 1,000 rows.

    `comparable_price` is the median price of up to five similar products, NaN without any. `far` says what is far from
    them: "price", "predicted", "both" or "".
    """
    found = compare_rows(rows.head(MOST_ROWS), products)
    typical = np.full(len(rows), np.nan)
    far = [""] * len(rows)
    for place, (each, price) in enumerate(zip(found, rows["price"], strict=False)):
        if each.median is not None:
            typical[place] = each.median
            far[place] = FAR[each.is_far(float(price)), each.far]
    marked = rows.copy()
    before_text = list(marked).index("text")
    marked.insert(before_text, "comparable_price", typical)
    marked.insert(before_text + 1, "far", far)
    return marked
