"""The nearest products of rows."""

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError
from pricekit.insight.comparables import find_comparables
from pricekit.insight.products import products_of

PRODUCTS = [
    ("a", "Item Name: Acme Green Tea, 100 g\nbrand: Acme", 4.0),
    ("b", "Item Name: Acme Green Tea, 500 g\nbrand: Acme", 12.0),
    ("c", "Item Name: Bolt Green Tea, 110 g\nbrand: Bolt", 5.0),
    ("d", "Item Name: Bolt Green Tea, 100 count\nbrand: Bolt", 9.0),
    ("e", "Item Name: Motor oil, 1 l\nbrand: Bolt", 20.0),
]


def _table(rows):
    return pk.read_table(pd.DataFrame(rows, columns=["sample_id", "catalog_content", "price"]))


@pytest.fixture(scope="module")
def products():
    return products_of(_table(PRODUCTS))


def _ids(products, text, same=(), id_="new", k=5):
    row = _table([(id_, text, 1.0)])
    (found,) = find_comparables(row, row.known_price, products, k, same)
    return [each.id for each in found.products]


ROW = "Item Name: Acme Green Tea, 105 g\nbrand: Acme"


def test_the_most_similar_products_come_first_and_others_are_no_comparables(products):
    assert _ids(products, ROW, k=2) == ["a", "b"]
    assert set(_ids(products, ROW)) >= {"a", "b", "c", "d"}
    assert _ids(products, "Item Name: wholly unknown") == [] or "a" not in _ids(products, "unknown")


def test_products_may_have_to_agree_in_brand_unit_and_size(products):
    assert set(_ids(products, ROW, ["brand"])) == {"a", "b"}
    assert set(_ids(products, ROW, ["unit"])) == {"a", "b", "c"}
    assert set(_ids(products, ROW, ["size"])) == {"a", "c"}
    assert _ids(products, ROW, ["size", "brand"]) == ["a"]
    assert _ids(products, ROW.replace("Acme", "Nobody"), ["brand"]) == []


def test_a_product_is_no_comparable_of_itself(products):
    assert "a" not in _ids(products, PRODUCTS[0][1], id_="a")
    assert _ids(products, PRODUCTS[0][1], id_="other")[0] == "a"
    assert _ids(products, PRODUCTS[0][1] + "s", id_="a")[0] == "a"  # another text: another product


def test_differences_are_words_of_the_names_in_their_order(products):
    row = _table([("x", "Item Name: Fresh green tea, 100 g, 3.5 stars\nbrand: Acme", 1.0)])
    (found,) = find_comparables(row, row.known_price, products, 1)
    assert found.products[0].more == ("Acme",)
    assert found.products[0].less == ("Fresh", "3.5", "stars")


def test_rows_alone_and_together_have_the_same_products(products):
    rows = _table([(str(place), text, 1.0) for place, (_, text, _) in enumerate(PRODUCTS)])
    together = find_comparables(rows, rows.known_price, products, 3, ["unit"])
    alone = [
        find_comparables(rows.take([place]), rows.known_price[[place]], products, 3, ["unit"])[0]
        for place in range(len(rows))
    ]
    assert [each.to_dict() for each in together] == [each.to_dict() for each in alone]


def test_invalid_requests_are_one_sentence(products, raises):
    row = _table([("x", ROW, 1.0)])
    for k in (0, 1_001):
        with raises(ConfigError, "k"):
            find_comparables(row, row.known_price, products, k)
    with raises(ConfigError, "same"):
        find_comparables(row, row.known_price, products, 1, ["brnd"])
