"""Rows whose prices are far from those of similar products."""

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.insight import comparables
from pricekit.insight.comparables import compare_rows, mark_far
from pricekit.insight.products import products_of


def _rows(*rows):
    frame = pd.DataFrame(rows, columns=["id", "price", "predicted", "text"])
    return frame.assign(row=np.arange(len(frame)), error=1.0)


@pytest.fixture(scope="module")
def products():
    texts = [f"Item Name: Acme green tea with lemon number{place}" for place in range(4)] + [
        "Item Name: Motor oil"
    ]
    frame = pd.DataFrame({"catalog_content": texts, "price": [9.0, 10.0, 11.0, 10.0, 10.0]})
    return products_of(pk.read_table(frame))


TEA = "Item Name: Acme green tea with lemon"


def test_what_is_far_is_named(products):
    rows = _rows(
        ("a", 10.0, 11.0, TEA),
        ("b", 50.0, 11.0, TEA),
        ("c", 10.0, 2.0, TEA),
        ("d", 50.0, 60.0, TEA),
        ("e", 1.0, 1.0, "?"),
    )
    found = mark_far(rows, products)
    assert found["far"].tolist() == ["", "price", "predicted", "both", ""]
    assert found["comparable_price"][0] == pytest.approx(10.0)
    assert np.isnan(found["comparable_price"][4])
    assert list(found)[list(found).index("text") - 2 :][:2] == ["comparable_price", "far"]


def test_only_the_worst_rows_are_compared(products, monkeypatch):
    monkeypatch.setattr(comparables, "MOST_COMPARED", 2)
    found = mark_far(_rows(*[("a", 50.0, 60.0, TEA)] * 3), products)
    assert found["far"].tolist() == ["both", "both", ""]


def test_a_row_without_an_id_is_known_by_its_number(products):
    rows = _rows(("", 1.0, 1.0, products.text[0]))
    (found,) = compare_rows(rows, products)
    assert "0" not in {each.id for each in found.products}
