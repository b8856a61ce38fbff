import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.features import catalog
from pricekit.features.catalog import (
    BALANCED20,
    FAST15,
    OPTIMIZED22,
    ULTRA25,
    Balanced20,
    Fast15,
    Optimized22,
    Ultra25,
)
from pricekit.table import Table

SETS = [Fast15, Balanced20, Optimized22, Ultra25]
OUNCE, FLUID = 28.349523125, 29.5735295625

# Ten invented products. Brands by the words that begin the names, categories by their head words.
PRODUCTS = [
    "Item Name: Zorba Hill Green Sauce, 12 Ounce (Pack of 6)\nBullet Point 1: Mild, tasty.\n"
    "Bullet Point: Made in a kettle!\nProduct Description: A sauce, for tacos. Yes.\n"
    "Value: 72.0\nUnit: Fl Oz\n",
    "Item Name: Zorba Hill Red Sauce, 12 Ounce\nValue: 12.0\nUnit: Ounce\n",
    "Item Name: Zorba Hill Bulk Oats, 25 lb\nValue: 400.0\nUnit: Ounce\n",
    "Item Name: Quill Organic Tea, 20 Count\nValue: 20.0\nUnit: Count\n",
    "Item Name: Quill Tea, 1.5 oz, 24 count\nValue: 24.0\nUnit: count\n",
    "Item Name: MEGA Milk, 1/2 gal\nUnit: None\n",
    "name: Café <b>crème</b> 6 x 250 ml",
    "Plain words without anything",
    "",
    "Item Name: Odd\nValue: 1e308\nUnit: Furlong\n\x00\n",
]

EXPECTED: dict[str, list[float]] = {
    "value": [72, 12, 400, 20, 24, 0.5, 1500, 0, 0, 0],
    "pack_size": [6, 1, 1, 20, 24, 1, 6, 1, 1, 1],
    "total_quantity": [72 * FLUID, 12 * OUNCE, 400 * OUNCE, 20, 1.5 * OUNCE, 1892.705892, 1500, 0, 0, 0],
    "text_length": [len(text) for text in PRODUCTS],
    "has_value": [1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "brand": [*[math.log(4)] * 3, *[math.log(3)] * 2, 0, 0, 0, 0, 0],
    "category": [math.log(3), math.log(3), 0, math.log(3), math.log(3), 0, 0, 0, 0, 0],
    "word_count": [35, 13, 13, 12, 14, 9, 9, 4, 0, 7],
    "has_numbers": [1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "has_capitals": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    "value_per_unit": [12 * FLUID, 12 * OUNCE, 400 * OUNCE, 1, 1.5 * OUNCE / 24, 1892.705892, 250, 0, 0, 0],
    "is_pack": [1, 0, 0, 1, 1, 0, 1, 0, 0, 0],
    "bullet_points": [2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    "quantity_category": [6, 3, 7, 4, 1, 6, 5, 0, 0, 0],
    "has_description": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    "num_sentences": [4, 1, 1, 1, 1, 1, 1, 1, 0, 1],
    "price_keywords": [0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    "unit_type": [2, 1, 1, 3, 1, 2, 2, 0, 0, 0],
    "bulk_indicators": [0, 0, 1, 0, 0, 1, 0, 0, 0, 0],
    "comma_count": [3, 1, 1, 1, 2, 1, 0, 0, 0, 0],
    "is_large_pack": [0, 0, 0, 1, 1, 0, 0, 0, 0, 0],
    "has_fraction": [0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
}

FRAGMENTS = st.sampled_from(
    [
        *(
            "Item Name: ",
            "Value: ",
            "Unit: ",
            "Brand: ",
            "category_name: ",
            "Bullet Point 1: ",
            "\n",
            "\r\n",
            ":",
            ", ",
        ),
        *(
            "12 oz",
            "(Pack of 6)",
            "6 x 12 oz",
            "1/2",
            "½",
            "9" * 300,
            "1e308",
            "inf",
            "nan",
            "-1",
            "\x00",
            "0",
            "Fl Oz",
        ),
        *("<b>", "é", "🍿", "\u200b", "\u2028", "acme tools", "ACME", ". ", "1,000 ct", "None", "pack of 0"),
    ]
)
TEXT = st.lists(FRAGMENTS | st.text(st.characters(codec="utf-8"), max_size=8), max_size=12).map("".join)
TEXTS = st.lists(TEXT, min_size=1, max_size=4)


def make_table(texts: list[str], price: list[float] | None = None) -> Table:
    text = pd.Series(texts, dtype="str")
    prices = None if price is None else np.array(price)
    return Table(ids=text.index.to_series(), text=text, price=prices, frame=text.to_frame())


@pytest.fixture(scope="module", params=[1, 10], ids=["few texts", "many texts"])
def golden(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    state = Ultra25().fit(make_table(PRODUCTS))
    block = Ultra25().transform(make_table(PRODUCTS * request.param), state)[: len(PRODUCTS)]
    return dict(zip(ULTRA25, block.T, strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_golden_values(golden: dict[str, np.ndarray], name: str) -> None:
    np.testing.assert_allclose(golden[name], EXPECTED[name], rtol=1e-6)


def test_golden_values_of_ratios(golden: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(golden["log_quantity"], np.log1p(EXPECTED["total_quantity"]), rtol=1e-6)
    assert golden["avg_word_length"][7] == np.float32(25 / 4)
    assert golden["vocab_richness"][1] == np.float32(11 / 13)  # "12" and "ounce" are there twice
    assert golden["avg_word_length"][8] == golden["vocab_richness"][8] == 0


def test_the_sets_are_nested_and_agree() -> None:
    table = make_table(PRODUCTS)
    assert [len(each.names) for each in SETS] == [15, 20, 22, 25]
    assert ULTRA25[:22] == OPTIMIZED22
    assert OPTIMIZED22[:20] == BALANCED20
    assert BALANCED20[:15] == FAST15
    assert set(ULTRA25) == set(catalog.COLUMNS)
    state = Ultra25().fit(table)
    widest = Ultra25().transform(table, state)
    for each in SETS:
        assert each().fit(table) == state
        np.testing.assert_array_equal(each().transform(table, state), widest[:, : len(each.names)])


@given(TEXTS, TEXTS)
@settings(max_examples=25, deadline=None)
def test_any_text_gives_the_same_finite_numbers_in_every_grouping(train: list[str], texts: list[str]) -> None:
    plugin = Ultra25()
    fitted = plugin.fit(make_table(train))
    state = json.loads(json.dumps(fitted))
    assert state == fitted
    block = plugin.transform(make_table(texts), state)
    assert block.dtype == np.float32
    assert block.shape == (len(texts), 25)
    assert np.isfinite(block).all()
    assert np.abs(block).max() <= 1e9
    single = np.concatenate([plugin.transform(make_table([text]), state) for text in texts])
    assert single.tobytes() == block.tobytes()
    backwards = plugin.transform(make_table(texts[::-1]), state)
    assert backwards[::-1].tobytes() == block.tobytes()
    assert plugin.fit(make_table(train[::-1])) == fitted


@pytest.mark.parametrize(("batch", "words"), [(1, 1), (100, 10), (1000, 300)])
def test_the_size_of_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch, batch: int, words: int) -> None:
    table = make_table(PRODUCTS * 4)  # more than are parsed one by one
    state = Ultra25().fit(table)
    whole = Ultra25().transform(table, state)
    monkeypatch.setattr("pricekit.text.labelled_lines.BATCH_BYTES", batch)
    monkeypatch.setattr("pricekit.text.words.PART_BYTES", words)
    assert Ultra25().fit(table) == state
    assert Ultra25().transform(table, state).tobytes() == whole.tobytes()


def test_the_price_is_not_seen() -> None:
    plugin = Ultra25()
    cheap, dear = make_table(PRODUCTS, [1.0] * 10), make_table(PRODUCTS, [float(n) for n in range(10)])
    assert plugin.fit(cheap) == plugin.fit(dear) == plugin.fit(make_table(PRODUCTS))
    state = plugin.fit(cheap)
    assert plugin.transform(cheap, state).tobytes() == plugin.transform(dear, state).tobytes()


def test_brand_and_category_lines_and_unknown_names() -> None:
    train = make_table(
        ["name: a\nbrand_name: Acme\ncategory_name: Toys/Cars"] * 3 + ["name: b\nbrand_name: Solo"]
    )
    new = make_table(
        [
            "name: x\nbrand_name: ACME\ncategory_name: toys/cars",
            "name: x\nbrand_name: Solo\ncategory_name: never seen",
            "name: acme truck\nbrand_name: \ncategory_name: ",
            "name: acme car\nbrand_name: Nobody\n",
        ]
    )
    state = Fast15().fit(train)
    assert state == {"label": "", "sizes": [], "brand": {"acme": 3}, "category": {"toys/cars": 3}}
    block = Fast15().transform(new, state)
    log4 = np.float32(math.log(4))
    assert block[:, FAST15.index("brand")].tolist() == [log4, 0, log4, 0]
    assert block[:, FAST15.index("category")].tolist() == [log4, 0, 0, 0]


SIZES = [
    *(
        "12 Ounce (Pack of 6)",
        "750 ml",
        "1.5 kg",
        "6 x 250 ml",
        "20 count",
        "Pack of 3",
        "2 lb",
        "30 cm",
        "1/2 gal",
    ),
    *("5 oz", "64 fl oz", "1 kg"),
]


@pytest.mark.parametrize("label", ["size", "Grösse (netto)", "product.size", "packaging"])
@pytest.mark.parametrize("count", [2, 40], ids=["rowwise", "vectorized"])
def test_a_size_in_a_column_counts_as_in_the_name(label: str, count: int) -> None:
    apart = make_table([f"title: Zorba sauce\n{label}: {size}\ntext: good" for size in SIZES])
    joined = make_table([f"title: Zorba sauce {size}\n{label}: -\ntext: good" for size in SIZES])
    plugin = Ultra25()
    state = plugin.fit(apart)
    assert state["sizes"] == [label]
    assert plugin.fit(joined)["sizes"] == []
    names = ("value", "pack_size", "total_quantity", "log_quantity", "value_per_unit", "is_pack", "unit_type")
    places = [ULTRA25.index(name) for name in names]
    for start in range(0, len(SIZES), count):
        found, expected = (
            plugin.transform(make_table(table.text.tolist()[start : start + count]), state)[:, places]
            for table in (apart, joined)
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "cells",
    [
        ["750 ml"] * 9,
        ["red", "blue", "green", "750 ml"] * 10,
        [f"{kilometres},000 km" for kilometres in range(10, 30)],
        [
            f"A long text about a glass of 750 ml, which is number {n} of its kind in this shop."
            for n in range(20)
        ],
        [""] * 20,
    ],
    ids=["few", "mostly words", "other units", "prose", "empty"],
)
def test_other_columns_are_not_sizes(cells: list[str]) -> None:
    assert Ultra25().fit(make_table([f"title: Sauce\nother: {cell}" for cell in cells]))["sizes"] == []


def test_a_number_of_a_size_does_not_join_one_of_the_name() -> None:
    state = {"label": "", "sizes": ["size"], "brand": {}, "category": {}}
    texts = ["title: 1/2 lb tea\nsize: 1", "title: 1/2 lb tea\nsize: "]
    block = Ultra25().transform(make_table(texts), state)[:, ULTRA25.index("value")]
    assert block.tolist() == [0.5, 0.5]


def test_labels_with_another_meaning_are_not_sizes() -> None:
    for label in ("Value", "Unit", "brand", "category_name", "description", "Bullet Point 1"):
        state = Ultra25().fit(make_table([f"title: Sauce\n{label}: {n} ml" for n in range(1, 20)]))
        assert state["sizes"] == [], label
    assert Ultra25().fit(make_table([f"artikel: {n} ml" for n in range(1, 20)]))["sizes"] == []


def test_a_label_is_nobodys_brand() -> None:
    for label in ("Item Name", "produto", "名前"):
        state = Fast15().fit(make_table([f"{label}: acme truck, {n} kg" for n in range(4)]))
        assert state["brand"] == {"acme": 4, "acme truck": 4}
        assert state["category"] == {"truck": 4}


def test_brand_is_the_longest_known_beginning() -> None:
    state = {"label": "", "sizes": [], "brand": {"acme": 9, "acme tools": 3}, "category": {}}
    block = Fast15().transform(make_table(["Acme Tools saw", "Acme paint", "Tools Acme"]), state)
    assert block[:, FAST15.index("brand")].tolist() == pytest.approx([math.log(4), math.log(10), 0])


def test_an_empty_table() -> None:
    table = make_table([])
    state = Ultra25().fit(table)
    assert state == {"label": "", "sizes": [], "brand": {}, "category": {}}
    assert Ultra25().transform(table, state).shape == (0, 25)


def test_a_text_of_megabytes_is_cut() -> None:
    block = Ultra25().transform(make_table(["word " * 1_000_000]), Ultra25().fit(make_table(["x"])))
    assert block[0, ULTRA25.index("text_length")] == 32_768
