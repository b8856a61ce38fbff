"""The choice of text and id columns, and the reasons to leave the others out."""

from __future__ import annotations

import pandas as pd
import pytest

from pricekit.table import guess_columns
from pricekit.table.guess import reasons_left_out

ROWS = range(300)
TITLE = ["green tea pot", "plum jam jar", "old oak table", "red wool scarf"]
LONG = [f"it is number {i} of the things that one likes to have at home every day" for i in ROWS]


def frame(**more: object) -> pd.DataFrame:
    return pd.DataFrame({**more, "price": [i * 37 % 101 + 2.5 for i in ROWS]})


@pytest.mark.parametrize(
    "name", ["title", "ProductName", "Bezeichnung", "nom_du_produit", "商品名称", "название"]
)
def test_a_title_that_repeats_is_first(name: str) -> None:
    table = frame(description=LONG, brand_name=["Big Acme", "Old Zed"] * 150, **{name: TITLE * 75})
    assert guess_columns(table).columns.text == (name, "brand_name", "description")


def test_titles_without_spaces_are_not_codes() -> None:
    signs = [f"{chr(0x4E00 + i)}果手机屏幕" for i in ROWS]
    table = frame(名称=signs, slug=[f"x{i}" for i in ROWS])
    assert guess_columns(table).columns.text == ("名称",)
    table = frame(name=[f"Blue_Car_{i}" for i in ROWS], description=LONG)
    assert guess_columns(table).columns.text[0] == "name"


def test_counters_are_last_and_identifiers_are_left_out() -> None:
    table = frame(
        index=ROWS,
        views=[i % 90 for i in ROWS],
        name=[f"{TITLE[i % 4]} {i}" for i in ROWS],
        host_id=[i % 60 * 977 for i in ROWS],
        condition_id=[i % 5 for i in ROWS],
        latitude=[40 + i / 1000 for i in ROWS],
        date_created=[f"2019-03-{i % 28 + 1:02}" for i in ROWS],
        publication_date=[f"20{i % 20 + 10}-03-{i % 28 + 1:02}" for i in ROWS],
        image=[f"img/{i}.jpg" for i in ROWS],
        description=LONG,
    )
    guess = guess_columns(table)
    expected = ("name", "condition_id", "latitude", "publication_date", "description", "views")
    assert (guess.columns.text, guess.columns.id) == (expected, "index")
    assert reasons_left_out(guess.profiles, (*expected, "price", "index")) == {
        "host_id": "identifies sellers or users, not products",
        "date_created": "date of record keeping, not of the product",
        "image": "addresses of pages or images",
    }


def test_a_time_stamp_is_not_an_id() -> None:
    table = frame(title=TITLE * 75, scraped=[1_500_000_000 + 977 * i for i in ROWS])
    assert guess_columns(table).columns.id is None
