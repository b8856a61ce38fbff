"""Real tables, if they are available; PRICEKIT_DATA names their folder."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    Columns,
    ReadOptions,
    Table,
    iter_table,
    read_table,
    split_usable,
)

_BESIDE = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("PRICEKIT_DATA", _BESIDE))

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no real tables: set PRICEKIT_DATA to their folder")

TIKI = ReadOptions(
    names=("url", "image", "badges", "price", "seller", "title", "sold", "stars", "delivery", "options")
)

TABLES = [
    ("amazon2025/train.csv", Columns(id_required=True), DEFAULT_READ_OPTIONS, 6856, {}),
    ("amazon2025/test.csv", Columns(price=None, id_required=True), DEFAULT_READ_OPTIONS, 4390, {}),
    (
        "myntra.csv",
        Columns(("ProductName", "Description"), "Price (INR)", "ProductID"),
        DEFAULT_READ_OPTIONS,
        12491,
        {},
    ),
    (
        "mercari.tsv",
        Columns(("name", "item_description"), id="train_id"),
        DEFAULT_READ_OPTIONS,
        5001,
        {"price not positive": 5},
    ),
    (
        "wine.csv",
        Columns(("title", "description"), id="id"),
        DEFAULT_READ_OPTIONS,
        5811,
        {"no price": 401, "ragged row": 1},
    ),
    (
        "scotch.csv",
        Columns(("name", "description"), id="S.N."),
        DEFAULT_READ_OPTIONS,
        2247,
        {"other price unit": 1},  # "44/liter"
    ),
    (
        "ebay_autos_de.csv",
        Columns(("name",), id=None),
        DEFAULT_READ_OPTIONS,
        18705,
        {"price not positive": 549},
    ),
    ("tiki_vn.csv", Columns(("title", "seller"), id=None), TIKI, 1771, {}),
]


@pytest.mark.parametrize(
    ("name", "columns", "read_options", "rows", "rejected"), TABLES, ids=[t[0] for t in TABLES]
)
def test_every_row_is_read_and_accounted_for(
    name: str, columns: Columns, read_options: ReadOptions, rows: int, rejected: dict[str, int]
) -> None:
    table = read_table(DATA / name, columns, read_options=read_options, notices=lambda _: None)
    usable, aside = split_usable(table)
    assert len(table) == rows
    assert Counter(aside["reason"]) == rejected
    assert len(usable) == rows - len(aside)


def read(name: str) -> tuple[Table, list[str]]:
    columns, read_options = next(
        (columns, read_options) for table, columns, read_options, *_ in TABLES if table == name
    )
    said: list[str] = []
    return read_table(DATA / name, columns, read_options=read_options, notices=said.append), said


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "said"),
    [
        ("ebay_autos_de.csv", 1, 11_111_111, ["cp1252", "currency USD", "decimal mark '.'"]),
        ("tiki_vn.csv", 2_000, 20_000_000, ["currency VND", "decimal mark ','"]),
        (
            "scotch.csv",
            12,
            157_000,
            ["of which the first one is used, or the one after a word such as 'now': 1."],
        ),
    ],
)
def test_prices_as_text_are_read_and_reported(
    name: str, lowest: float, highest: float, said: list[str]
) -> None:
    table, heard = read(name)
    prices = split_usable(table)[0].known_price
    assert lowest <= prices.min()
    assert highest * 0.9 <= prices.max() <= highest
    assert all(word in " ".join(heard) for word in said)


def test_chunks_are_the_whole() -> None:
    path = DATA / "amazon2025" / "train.csv"
    texts = [text for chunk in iter_table(path, Columns(), rows=1000) for text in chunk.text]
    assert texts == read_table(path, Columns()).text.tolist()
