from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.evaluation.leaks import explained_share, find_leaks, leaking_columns, price_in_text
from pricekit.table import Columns, Table

RNG = np.random.default_rng(0)
PRICE = np.round(np.exp(RNG.normal(3, 1, 300)), 2)
NOISE = RNG.normal(size=300)


def table(**columns):
    frame = pd.DataFrame({"id": np.arange(len(PRICE)), "price": PRICE, **columns})
    text = pd.Series([f"text {i}" for i in range(len(PRICE))], dtype="str")
    return Table(frame["id"], text, PRICE, frame)


WITH_A_DASH = [f"{price:.2f}" if i % 3 == 0 else "-" for i, price in enumerate(PRICE)]
SIZE = RNG.choice([0.1, 0.25, 0.5, 1, 2, 5], 300)
OTHER = np.round(np.exp(RNG.normal(3, 1, 300)), 2)
THIRD = np.round(np.exp(RNG.normal(2, 1, 300)), 2)
COUNT = RNG.integers(1, 60, 300)
OFF = RNG.choice([0, 10, 20, 50, 90, 95], 300)

LEAKS = {
    "copy": PRICE,
    "gross": (PRICE * 1.19).round(2),
    "vnd": (PRICE * 24_350).round(),
    "cents": (PRICE * 100).round(),
    "log": np.log(PRICE).round(3),
    "rounded": np.maximum(PRICE.round(), 1),
    "discounted": (PRICE * 0.9).round(),
    "market": PRICE * 1.2 * RNG.uniform(0.9, 1.1, 300),
    "before": PRICE / (1 - RNG.choice([0.0, 0.1, 0.2, 0.3, 0.5], 300)),
    "dollars": [f"$ {price:,.2f}" for price in PRICE * 30],
    "euros": [f"{price:,.2f} €".translate(str.maketrans(",.", ".,")) for price in PRICE * 30],
    "lakhs": [f"{p / 1e5:.4f} lakh" if i % 2 else f"{p:,.0f}" for i, p in enumerate(PRICE * 3000)],
    "sentences": [f"Only € {price:,.2f} incl. VAT" for price in PRICE],
    "persian": [f"{price:.2f}".translate(str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")) for price in PRICE],
    "falling": 1000 / PRICE,
    "some_with_three_decimals": [f"{price:.{3 if i % 2 else 6}f}" for i, price in enumerate(PRICE)],
    "mostly_empty": [f"{price:.0f}" if i % 4 == 0 else "" for i, price in enumerate(PRICE)],
    "mostly_dashes": WITH_A_DASH,
    "mostly_words": [cell.replace("-", "No old price") for cell in WITH_A_DASH],
    "seldom_lower": np.where(np.arange(300) % 10 == 0, OTHER, PRICE),
    "old price": np.where(np.arange(300) % 3 == 0, PRICE, PRICE * RNG.uniform(1, 9, 300)),
    "salary_to": PRICE * np.exp(RNG.exponential(0.9, 300)),
    "range": pd.qcut(PRICE, 8).astype(str),
    "tier": pd.cut(PRICE, [0, 10, 40, np.inf], labels=["low", "middle", "high"]).astype(str),
    "class": np.digitize(PRICE, [5, 10, 20, 50, 100]),
}
WITH_ANOTHER = {
    "per_kg": (
        {"per_kg": (PRICE / SIZE).round(3), "net": [f"{size * 1000:g} g" for size in SIZE]},
        "0.001 × per_kg × net",
    ),
    "each": ({"n": COUNT, "each": PRICE / COUNT}, "each × n"),
    "packs": ({"packs": PRICE * SIZE * 40, "unit": SIZE * 40}, "packs / unit"),
    "was": (
        {"was": PRICE / (1 - OFF / 100), "off": [f"-{off}%" if off else "" for off in OFF]},
        "was × (1 - off)",
    ),
    "sum": ({"sum": PRICE + OTHER, "saved": OTHER}, "sum - saved"),
    "all": ({"basis": OTHER, "all": PRICE + OTHER + THIRD, "tax": THIRD}, "all - basis - tax"),
}
CAPACITY = RNG.integers(1, 8, 300)
MODEL = RNG.integers(0, 30, 300)
RANK = RNG.normal(0, 1, 30)
"""Prices that these explain nearly alone, though no value reveals the price of one row."""
HARMLESS = {
    "capacity": (CAPACITY * 2.5, 0.5 * CAPACITY),
    "layout": ([f"{each} modules" for each in CAPACITY], 0.5 * CAPACITY),
    "kind": ([f"kind {each}" for each in CAPACITY], 2.0 * CAPACITY),
    "area": ([f"{size:.0f}m2" for size in np.exp(NOISE) * 50], 2 * NOISE),
    "surface": (np.round(np.exp(NOISE) * 50), 2 * NOISE),
    "weight_g": (np.round(np.exp(NOISE) * 50, 1), 2 * NOISE),
    "carat": (np.round(np.exp(NOISE), 2), 2 * NOISE),
    "plot": ([f"{size:.1f} acres" for size in np.exp(NOISE)], 2 * NOISE),
    "engine": (np.round(1600 * np.exp(0.3 * RANK))[MODEL], RANK[MODEL]),
    "plocha": (np.round(np.exp(NOISE) * 50), NOISE + 0.4 * RNG.normal(size=300)),
    "kubatura": (np.round(np.exp(0.3 * NOISE) * 9000), NOISE + 0.4 * RNG.normal(size=300)),
    "wheels": (np.round(4300 * np.exp(0.08 * RANK))[MODEL], RANK[MODEL]),
    "model": ([f"model {each}" for each in MODEL], RANK[MODEL]),
    "plan": ([f"plan {each}" for each in CAPACITY], 10.0 * CAPACITY),
}
FEATURES = {
    "points": np.log(PRICE) + 1.2 * NOISE,
    "brand": [f"brand {int(level)}" for level in 2 * (np.log(PRICE) + 1.2 * NOISE)],
    "words": ["a blue one", "a red one", "one"] * 100,
    "dotted": [f"{i % 7}.... {i}.2.3" if i % 2 else f"{i}.1.2" for i in range(300)],
    "unique": [f"A{i}-{i * 7919 % 1000}" for i in range(300)],
    "empty": [""] * 300,
    "constant": 7,
    "no_number": [np.nan] * 300,
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_function_of_the_price_leaks(name):
    assert [*leaking_columns(table(**{name: LEAKS[name]}, **FEATURES), ignored=("price", "id"))] == [name]


@pytest.mark.parametrize("name", WITH_ANOTHER)
def test_a_function_of_the_price_and_of_other_columns_leaks(name):
    columns, formula = WITH_ANOTHER[name]
    assert leaking_columns(table(**columns, **FEATURES), ignored=("price", "id")) == {
        name: f"price = {formula}"
    }


@pytest.mark.parametrize("name", HARMLESS)
def test_a_measure_or_a_category_that_explains_nearly_all_is_no_leak(name):
    cells, level = HARMLESS[name]
    price = np.round(np.exp(9 + level + 0.2 * RNG.normal(size=300)), 2)
    goods = replace(table(**{name: cells}), price=price)
    assert leaking_columns(goods, ignored=("price", "id")) == {}


def test_a_measure_that_determines_the_price_is_no_leak():
    year = RNG.integers(1990, 2024, 300)
    goods = table(
        gold_g=[f"{price / 60:.5f} g" for price in PRICE],
        released=year,
        infinite=np.where(year > 2000, np.inf, 1),
    )
    assert leaking_columns(goods, ignored=("price", "id")) == {}


def test_columns_without_a_leak_are_not_reported():
    assert leaking_columns(table(**FEATURES), ignored=("price", "id")) == {}
    assert 0.2 < explained_share(FEATURES["points"], np.log(PRICE)) < 0.6


def test_leaks_are_told_with_the_way_in_which_they_reveal_the_price():
    columns = {name: LEAKS[name] for name in ("tier", "mostly_dashes", "gross", "market")}
    leaks = leaking_columns(table(**columns), ignored=("price", "id"))
    assert leaks == {
        "tier": "has 3 values, each of which is a range of prices",
        "mostly_dashes": "equals the price in 100% of its numbers",
        "gross": "is 1.19 times the price in 100% of its numbers",
        "market": "holds amounts that alone explain 100% of the log price",
    }


def test_the_price_column_is_a_leak_unless_it_is_ignored():
    assert [*leaking_columns(table(), ignored=("id",))] == ["price"]


def test_a_column_called_row_is_not_an_id_when_rows_are_numbered():
    goods = table(row=PRICE * 1.1)
    numbered = replace(goods, ids=pd.Series(range(300), name="row"))
    assert "row" in find_leaks(numbered, Columns(("title",), "price")).columns
    assert "row" not in find_leaks(replace(goods, ids=goods.frame["row"]), Columns(id="row")).columns


def test_a_described_column_leaks_as_a_number_only():
    columns = {"range": LEAKS["range"], "market": LEAKS["market"]}
    leaks = leaking_columns(table(**columns), ignored=("price", "id"), described=("range", "market"))
    assert [*leaks] == ["market"]


def test_bytes_lists_and_missing_cells_are_judged_like_others():
    cells = [[b"\xff\xd8", None, [1, 2], {"a": 1}][i % 4] for i in range(300)]
    columns = {"odd": pd.Series(cells, dtype=object), "bytes": [f"{one:g}".encode() for one in PRICE]}
    assert [*leaking_columns(table(**columns), ignored=("price", "id"))] == ["bytes"]


@pytest.mark.parametrize("rows", [0, 1, 10])
def test_few_rows_do_not_show_a_leak(rows):
    assert leaking_columns(table(copy=PRICE).take(np.arange(rows))) == {}
    assert explained_share(PRICE[:rows], np.log(PRICE[:rows])) == 0


def test_constant_prices_explain_nothing():
    assert leaking_columns(replace(table(), price=np.ones(300))) == {}
    assert explained_share(PRICE, np.zeros(300)) == 0


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


def test_leaks_are_found_among_thousands_of_columns():
    noise = {f"noise {n}": RNG.permutation(OTHER) for n in range(1500)}
    texts = {f"text {n}": [f"{cell:.2f} EUR" for cell in OTHER] for n in range(1500)}
    leaks = {
        "gross": (PRICE * 1.19).round(2),
        "list": [f"{price:.2f} EUR" for price in PRICE],
        "band": pd.qcut(PRICE, 4, labels=["low", "mid", "high", "top"]).astype(str),
    }
    found = leaking_columns(table(**noise, **texts, **leaks), ("id", "price"))
    assert list(found) == list(leaks)
