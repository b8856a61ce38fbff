"""Tables as they are found in the wild, where they are at hand; PRICEKIT_DATA names their folder."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from pricekit.table import Columns, iter_table, read_table, split_usable

_BESIDE = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("PRICEKIT_DATA", _BESIDE))

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no real tables: set PRICEKIT_DATA to their folder")

TABLES = [
    ("amazon2025/train.csv", Columns(id_required=True), "utf-8", 6856, {}),
    ("amazon2025/test.csv", Columns(price=None, id_required=True), "utf-8", 4390, {}),
    ("myntra.csv", Columns(("ProductName", "Description"), "Price (INR)", "ProductID"), "utf-8", 12491, {}),
    (
        "mercari.tsv",
        Columns(("name", "item_description"), id="train_id"),
        "utf-8",
        5001,
        {"price not positive": 5},
    ),
    (
        "wine.csv",
        Columns(("title", "description"), id="id"),
        "utf-8",
        5811,
        {"no price": 401, "ragged row": 1},
    ),
    ("scotch.csv", Columns(("name", "description"), id="S.N."), "utf-8", 2247, {"price not a number": 19}),
    ("ebay_autos_de.csv", Columns(("name",), id=None), "latin-1", 18705, {"price not a number": 18705}),
]


@pytest.mark.parametrize(
    ("name", "columns", "encoding", "rows", "rejected"), TABLES, ids=[t[0] for t in TABLES]
)
def test_every_row_is_read_and_accounted_for(
    name: str, columns: Columns, encoding: str, rows: int, rejected: dict[str, int]
) -> None:
    table = read_table(DATA / name, columns, encoding=encoding, notices=lambda _: None)
    usable, aside = split_usable(table)
    assert len(table) == rows
    assert Counter(aside["reason"]) == rejected
    assert len(usable) == rows - len(aside)


def test_chunks_are_the_whole() -> None:
    path = DATA / "amazon2025" / "train.csv"
    texts = [text for chunk in iter_table(path, Columns(), rows=1000) for text in chunk.text]
    assert texts == read_table(path, Columns()).text.tolist()
