"""The choice of text and id columns, and the reasons to leave the others out."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from pricekit.table import guess_columns
from pricekit.table.guess import reasons_left_out
from pricekit.table.name_words import names_price

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


def test_counters_and_identifiers_are_left_out() -> None:
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
    expected = ("name", "condition_id", "latitude", "description", "publication_date")
    assert (guess.columns.text, guess.columns.id) == (expected, "index")
    assert reasons_left_out(guess.profiles, (*expected, "price", "index")) == {
        "views": "may arise or change after the price is set",
        "host_id": "identifies sellers or users, not products",
        "date_created": "date of record keeping, not of the product",
        "image": "addresses of pages or images",
    }


def test_a_time_stamp_is_not_an_id() -> None:
    table = frame(title=TITLE * 75, scraped=[1_500_000_000 + 977 * i for i in ROWS])
    assert guess_columns(table).columns.id is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Preis",
            "Prix",
            "Цена",
            "Giá",
            "가격",
            "Unit Price",
            "unit_price",
            "rent",
            "monthlyRent",
            "salary",
            "fare",
        ),
        *(
            "salary_from",
            "Kaltmiete",
            "loyer",
            "Czynsz",
            "alquiler",
            "家賃",
            "年収",
            "ค่าเช่า",
            "الإيجار إيجار",
            "कीमत",
        ),
    ],
)
@pytest.mark.parametrize("other", ["on request", "auf Anfrage", "-", "sold"])
def test_a_price_is_recognised_by_its_name_although_some_cells_are_words(name: str, other: str) -> None:
    cells = [other if i % 7 == 0 else f"{i * 37 % 101 + 2.5}" for i in ROWS]
    table = pd.DataFrame({"title": [f"{TITLE[i % 4]} {i}" for i in ROWS], name: cells})
    guess = guess_columns(table)
    assert (guess.columns.text, guess.columns.price) == (("title",), name)


@pytest.mark.parametrize("name", ["current", "parent", "costume", "oscar", "Vermieter", "seller"])
def test_words_that_contain_a_name_of_a_price_are_none(name: str) -> None:
    assert not names_price(name)


def test_text_never_consists_of_prices() -> None:
    amounts = [f"€ {i % 40 + 2}.50" for i in ROWS]
    table = frame(
        title=[f"{TITLE[i % 4]} {i}" for i in ROWS],
        offer=[amounts[i] if i % 3 else "ask us" for i in ROWS],
        old_price=[amounts[i][2:] if i % 5 == 0 else "No old price" for i in ROWS],
        salary_to=[str(i * 100) if i % 9 else "by agreement" for i in ROWS],
    )
    guess = guess_columns(table)
    assert (guess.columns.text, guess.columns.price) == (("title",), "price")
    assert set(guess.left_out.values()) == {"another price, which may reveal the price"}


def test_the_plain_price_is_preferred_to_bounds_and_old_prices() -> None:
    numbers = [i * 37 % 101 + 2.5 for i in ROWS]
    table = pd.DataFrame({"title": [f"{TITLE[i % 4]} {i}" for i in ROWS]})
    assert guess_columns(table.assign(rent_max=numbers, monthly_rent=numbers)).columns.price == "monthly_rent"
    assert guess_columns(table.assign(salary_to=numbers, salary_from=numbers)).columns.price == "salary_from"
    assert guess_columns(table.assign(old_price=numbers, sale_price=numbers)).columns.price == "sale_price"


PNG = base64.b64encode(np.random.default_rng(0).bytes(300)).decode()
BLOBS = {
    "base64": lambda i: f"{PNG[i % 90 :]}{i}",
    "base64 with a prefix": lambda i: f"data:image/png;base64,{PNG[i % 90 :]}",
    "hexadecimal": lambda i: f"{i * 7919:04x}" * 4 + "beef",
    "hexadecimal with dashes": lambda i: f"{i % 9:08x}-1234-abcd-ef01-0123456789ab",
    "numbers": lambda i: str([i / 7, *[0.25] * (20 + i % 2)]),
    "json": lambda i: json.dumps({"colour": "red", "size": i, "tags": ["a", "b"]}),
    "json of Python": lambda i: str([{"colour": "red", "size": i}]),
    "html": lambda i: f"<!DOCTYPE html>\n<html><body><p>thing {i}</p></body></html>",
}


@pytest.mark.parametrize("kind", BLOBS)
def test_data_for_programs_is_left_out(kind: str) -> None:
    table = frame(title=[f"{TITLE[i % 4]} {i}" for i in ROWS], data=[BLOBS[kind](i) for i in ROWS])
    guess = guess_columns(table)
    assert guess.columns.text == ("title",)
    assert guess.left_out == {"data": f"data for programs ({kind.split()[0]}), not words"}


@pytest.mark.parametrize(
    "cell",
    [
        lambda i: f"<p>{LONG[i]}</p><br>",
        lambda i: BLOBS["html"](i) if i % 20 == 0 else LONG[i],
        lambda i: str(["wifi", "kitchen", f"bed {i}"]),
        lambda i: f"a_fine_jug_for_the_kitchen_and_the_table_of_kind_{i}_that_one_likes_to_have",
        lambda i: f"{chr(0x4E00 + i)}果手机屏幕" * 20,
    ],
)
def test_text_with_some_markup_or_without_spaces_stays(cell: Callable[[int], str]) -> None:
    table = frame(title=[f"{TITLE[i % 4]} {i}" for i in ROWS], description=[cell(i) for i in ROWS])
    assert guess_columns(table).columns.text == ("title", "description")


@pytest.mark.parametrize(
    "name",
    [
        "fans",
        "num_subscribers",
        "popularity",
        "sold",
        "reviews",
        "number_of_students",
        "discount",
        "discount_percent",
    ],
)
def test_what_arises_after_the_price_is_left_out(name: str) -> None:
    table = frame(title=[f"{TITLE[i % 4]} {i}" for i in ROWS], **{name: [i % 70 for i in ROWS]})
    guess = guess_columns(table)
    assert guess.columns.text == ("title",)
    assert guess.left_out == {name: "may arise or change after the price is set"}


@pytest.mark.parametrize("name", ["sold_by", "purchase_year", "sales_channel", "review_score", "views_type"])
def test_what_only_sounds_like_a_counter_stays(name: str) -> None:
    table = frame(
        title=[f"{TITLE[i % 4]} {i}" for i in ROWS], **{name: [["new", "old"][i % 2] for i in ROWS]}
    )
    assert guess_columns(table).columns.text == ("title", name)


def test_counts_in_words_are_left_out_and_reviews_stay() -> None:
    title = [f"{TITLE[i % 4]} {i}" for i in ROWS]
    table = frame(title=title, ratings=[f"{i * 37:,} ratings" for i in ROWS], reviews=LONG)
    assert guess_columns(table).columns.text == ("title", "reviews")


def test_too_many_columns_are_ranked_by_what_they_tell_of_the_price() -> None:
    rng = np.random.default_rng(0)
    price = frame()["price"].to_numpy()
    columns = {f"noise {i}": rng.integers(0, 9, len(price)) for i in range(50)}
    columns |= {"kind": [f"kind {each}" for each in np.digitize(price, range(0, 100, 9))]}
    columns |= {"length": price * 3 + rng.normal(0, 9, len(price)), "constant": 7}
    table = frame(**columns, title=[f"{TITLE[i % 4]} {i}" for i in ROWS])
    guess = guess_columns(table)
    assert len(guess.columns.text) == 32
    assert {"title", "kind", "length"} <= {*guess.columns.text}
    assert guess.left_out.pop("constant") == "constant: every filled cell is '7'"
    reasons = {reason for name, reason in guess.left_out.items() if name != "constant"}
    assert reasons == {"at most 32 columns are read, and the others tell more of the price"}


def test_a_nearly_constant_column_is_left_out() -> None:
    title = [f"{TITLE[i % 4]} {i}" for i in range(2000)]
    seller = ["private"] * 1999 + ["shop"]
    table = pd.DataFrame({"title": title, "seller": seller, "price": range(1, 2001)})
    guess = guess_columns(table)
    assert guess.columns.text == ("title",)
    assert guess.left_out["seller"] == "nearly constant: 99.95% of its filled cells are equal"
