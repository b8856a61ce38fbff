"""Test rows for the checks: generated products and difficult texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pricekit.core.contracts import Batch
from pricekit.datasets import make_catalog
from pricekit.table import Table, table_of_texts

ROWS = 48
VOCABULARY, FEATURES = 64, 3
TEXT = "catalog_content"

DIFFICULT_TEXTS = (
    "",
    "   \t ",
    "\n\n",
    "Item Name: tea\r\nValue: 12\r\n\r\nUnit: oz\u2028more",
    "\U0001f375\U0001f469\u200d\U0001f33e e\u0301 \u0e01\u0e34\u0301 \ufe0f\u200d",
    "緑茶 100グラム ×３袋",
    "شاي أخضر ٢٥٠ غ",
    "чай зелёный, 1 000 г",
    "1,234,567.89 1.234.567,89 12'000 1e999 -5 0.000001 ½ ٣",
    "Value: 1,000,000,000,000,000,000,000\nUnit: Ounce\nItem Name: 10 x 10 x 10, pack of 0",
    "Value: nan\nUnit: None\nItem Name: inf -inf NaN",
    "<b>tea</b> & {tea} %s \\n \"'` ; -- , \ufffd",
    "x" * 20_000,
    "tea 12 oz, pack of 6. " * 900,
)
"""Texts: empty, blank, with line breaks, emoji, combining marks, other scripts, unusual digits, very long."""


def ordinary_texts() -> list[str]:
    """Return texts of generated products."""
    return make_catalog(ROWS, seed=1)[TEXT].tolist()


def ordinary_prices() -> np.ndarray:
    """Return the prices of `ordinary_texts`, float64 (N,)."""
    return make_catalog(ROWS, seed=1)["price"].to_numpy(np.float64, copy=True)


def table_of(texts: Sequence[str], columns: Mapping[str, Any] | None = None) -> Table:
    """Return a table as feature plugins see it; the rows repeat the values of further columns."""
    table = table_of_texts(texts, TEXT)
    rows = np.arange(len(texts))
    frame = table.frame.copy()
    for name, values in (columns or {}).items():
        cells = values if isinstance(values, pd.Series) else pd.Series(list(values))
        frame[name] = cells.take(rows % len(cells)).array
    return replace(table, frame=frame)


def with_price(table: Table, price: np.ndarray) -> Table:
    """Return the table with a price column; real tables hide it from feature plugins."""
    return replace(table, price=price.copy(), frame=table.frame.assign(price=price.astype(str)))


def batch(rows: int, length: int) -> Batch:
    """Return a batch whose last row is full; each earlier row is one token shorter."""
    rng = np.random.default_rng((rows, length))
    live = length - np.arange(rows)[::-1] % length
    return {
        "input_ids": rng.integers(0, VOCABULARY, (rows, length)),
        "attention_mask": (np.arange(length) < live[:, None]).astype(np.int64),
        "features": rng.normal(scale=2.0, size=(rows, FEATURES)).astype(np.float32),
    }


def difference(prices: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest relative difference between prices; infinite if any price is not finite and positive."""
    usable = prices.shape == expected.shape and np.isfinite(prices).all() and (prices > 0).all()
    return float(np.max(np.abs(prices - expected) / expected)) if usable else float("inf")
