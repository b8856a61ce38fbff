from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.evaluation.leaks import explained, find_leaks, leaking_columns, price_in_text
from pricekit.table import Columns, Table

RNG = np.random.default_rng(0)
PRICE = np.round(np.exp(RNG.normal(3, 1, 300)), 2)
NOISE = RNG.normal(size=300)


def table(**columns):
    frame = pd.DataFrame({"id": np.arange(len(PRICE)), "price": PRICE, **columns})
    text = pd.Series([f"text {i}" for i in range(len(PRICE))], dtype="str")
    return Table(frame["id"], text, PRICE, frame)


LEAKS = {
    "discounted": (PRICE * 0.9).round(),
    "market": PRICE * 1.2 * RNG.uniform(0.9, 1.1, 300),
    "list_price": PRICE / (1 - RNG.choice([0.0, 0.1, 0.2, 0.3, 0.5], 300)),
    "dollars": [f"$ {price:,.2f}" for price in PRICE * 30],
    "euros": [f"{price:,.2f} €".translate(str.maketrans(",.", ".,")) for price in PRICE * 30],
    "falling": 1000 / PRICE,
    "some_with_three_decimals": [f"{price:.{3 if i % 2 else 6}f}" for i, price in enumerate(PRICE)],
    "mostly_empty": [f"{price:.0f}" if i % 4 == 0 else "" for i, price in enumerate(PRICE)],
    "range": pd.qcut(PRICE, 8).astype(str),
}
FEATURES = {
    "points": np.log(PRICE) + 1.2 * NOISE,
    "brand": [f"brand {int(level)}" for level in 2 * (np.log(PRICE) + 1.2 * NOISE)],
    "words": ["a blue one", "a red one", "one"] * 100,
    "unique": [f"A{i}-{i * 7919 % 1000}" for i in range(300)],
    "empty": [""] * 300,
    "constant": 7,
    "no_number": [np.nan] * 300,
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_price_column_with_another_name_is_guessed(name):
    found = leaking_columns(table(**{name: LEAKS[name]}, **FEATURES), ignored=("price", "id"))
    assert [column for column, _ in found] == [name]
    assert 0.7 <= found[0][1] <= 1


def test_columns_without_a_leak_are_not_reported():
    assert leaking_columns(table(**FEATURES), ignored=("price", "id")) == []
    assert 0.2 < explained(pd.Series(FEATURES["points"]), np.log(PRICE)) < 0.6


def test_the_price_column_is_a_leak_unless_it_is_ignored():
    assert [name for name, _ in leaking_columns(table(), ignored=("id",))] == ["price"]


def test_kinds_of_goods_with_very_different_prices_are_not_a_leak():
    kind = RNG.integers(0, 3, 300)
    price = np.exp(5.0 * kind + RNG.normal(size=300))
    goods = Table(
        pd.Series(range(300)), pd.Series(["x"] * 300, dtype="str"), price, pd.DataFrame({"kind": kind})
    )
    assert explained(pd.Series(kind), np.log(price)) > 0.9
    assert leaking_columns(goods) == []


def test_a_column_called_row_is_not_an_id_when_rows_are_numbered():
    goods = table(row=PRICE * 1.1)
    numbered = replace(goods, ids=pd.Series(range(300), name="row"))
    assert "row" in find_leaks(numbered, Columns(("title",), "price")).columns
    assert "row" not in find_leaks(replace(goods, ids=goods.frame["row"]), Columns(id="row")).columns


def test_a_described_column_leaks_as_a_number_only():
    columns = {"range": LEAKS["range"], "market": LEAKS["market"]}
    found = leaking_columns(table(**columns), ignored=("price", "id"), described=("range", "market"))
    assert [name for name, _ in found] == ["market"]


def test_bytes_lists_and_missing_cells_are_profiled_like_others():
    cells = [[b"\xff\xd8", None, [1, 2], {"a": 1}][i % 4] for i in range(300)]
    assert explained(pd.Series(cells, dtype=object), np.log(PRICE)) < 0.5
    assert explained(pd.Series([f"{one:g}".encode() for one in PRICE], dtype=object), np.log(PRICE)) > 0.9


@pytest.mark.parametrize("rows", [0, 1, 10])
def test_few_rows_do_not_show_a_leak(rows):
    assert explained(pd.Series(PRICE[:rows]), np.log(PRICE[:rows])) == 0


def test_constant_prices_explain_nothing():
    assert explained(pd.Series(PRICE), np.zeros(300)) == 0


@pytest.mark.parametrize("form", ["now ${:,.2f}!", "{:.2f} EUR", "costs {:g}"])
def test_texts_that_contain_their_price_are_found(form):
    texts = pd.Series([f"item {i}, {form.format(price)}" for i, price in enumerate(PRICE * 40)], dtype="str")
    assert price_in_text(texts, np.round(PRICE * 40, 2)) > 0.9


def test_other_numbers_are_not_mistaken_for_the_price():
    texts = pd.Series([f"pack of {i % 24}, {i % 16} oz" for i in range(300)], dtype="str")
    assert price_in_text(texts, np.round(PRICE)) < 0.1
    assert price_in_text(texts, np.full(300, 12.0)) == 0
    assert price_in_text(texts[:1], PRICE[:1]) == 0


def test_chance_matches_are_subtracted():
    price = np.concatenate([np.tile(np.arange(1.0, 9), 25), np.arange(300.0, 400)])
    texts = [f"sizes 1, 2, 3, 4, 5, 6, 7, 8{f' at {one:g}' if one > 8 else ''}" for one in price]
    found = price_in_text(pd.Series(texts, dtype="str"), price)
    assert 0.2 < found < 0.45  # all hold their price, two thirds of them by chance
