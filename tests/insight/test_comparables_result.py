"""What users see of comparables."""

import json

import pytest

from pricekit.insight.comparables import Comparable, Comparables


def _product(price, similarity=0.5, **facts):
    values = {
        "id": "7",
        "name": "Tea",
        "brand": "",
        "unit": "",
        "size": 0.0,
        "more": (),
        "less": (),
        "text": "Tea",
    }
    return Comparable(price=price, similarity=similarity, **{**values, **facts})


def _found(price, *prices, similarity=0.5):
    return Comparables("1", "Tea", price, tuple(_product(each, similarity) for each in prices))


def test_a_price_is_far_outside_of_the_range_and_beyond_twice_the_median():
    assert _found(30.0, 9, 10, 11).far
    assert _found(4.0, 9, 10, 11).far
    assert not _found(19.0, 9, 10, 11).far  # under twice the median
    assert not _found(30.0, 9, 10, 40).far  # inside the range
    assert not _found(30.0, 9, 10).far  # too few products
    assert not _found(30.0, 9, 10, 11, similarity=0.1).far  # too little alike
    assert _found(10.0, 9, 10, 11).is_far(30.0)


def test_the_median_is_geometric():
    assert _found(1.0, 2, 8).median == pytest.approx(4)
    assert _found(1.0).median is None
    assert _found(1.0, 2, 8, similarity=0.1).median is None  # too little alike


def test_unit_prices_are_for_usual_amounts():
    assert _product(5.0, unit="g", size=250.0).unit_price == (2.0, "100 g")
    assert _product(6.0, unit="pieces", size=12.0).unit_price == (0.5, "piece")
    assert _product(6.0, unit="mm", size=2000.0).unit_price == (3.0, "m")
    assert _product(6.0).unit_price is None


def test_json_has_all_facts():
    found = json.loads(_found(3.0, 9, 10).to_json())
    assert found["products"][1]["price"] == 10
    assert (found["far"], found["price"], found["currency"]) == (False, 3.0, None)


def test_a_frame_has_one_line_per_product():
    assert _found(3.0, 9, 10).to_frame()["price"].tolist() == [9, 10]
    assert _found(3.0).to_frame().empty


def test_html_shows_hostile_names_as_text():
    hostile = "<script>alert('x')</script>"
    found = Comparables(hostile, hostile, 2.0, (_product(3.0, name=hostile),), hostile)
    assert "<script" not in found._repr_html_()
    assert found._repr_html_().count("&lt;script&gt;") == 4
    assert "3.00" in repr(found)
