"""Fields of rows: labelled lines, columns, brands and units."""

import pandas as pd
import pytest

from pricekit.insight.fields import (
    BRAND,
    TEXT,
    UNIT,
    brands_of,
    fields_of,
    frequent_brands,
    sketch_field,
)
from pricekit.table import table_of_texts


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("Green Tea, 12 oz", "oz"),
        ("Green Tea 12oz (Pack of 6)", "oz"),
        ("Oil, 16.9 Fl Oz", "fl oz"),
        ("Oil, 16.9 Fl. Oz", "fl oz"),
        ("24 in 1 tool, 3 kg", "in"),
        ("Model T1000 of 2020", ""),
        ("no amount", ""),
    ],
)
def test_the_unit_is_that_of_the_first_amount(text, unit):
    assert fields_of(table_of_texts([text]), ())[UNIT] == [unit]


def test_fields_are_lines_that_many_rows_have_and_other_columns():
    table = table_of_texts(["Item Name: A\nBrand: Acme\nBrand: other"] * 19 + ["Odd: x"])
    table.frame["shelf"] = ["Left", None] * 10
    found = fields_of(table, ["shelf", "absent"])
    assert set(found) == {TEXT, UNIT, "Item Name", "Brand", "Odd", "shelf"}
    assert found["Brand"][0] == "acme"
    assert found["Brand"][19] == ""
    assert found["shelf"][:2] == ["left", ""]
    assert set(fields_of(table, (), ["Odd"])) == {TEXT, UNIT, "Odd"}


def test_a_brand_of_several_words_is_whole():
    names = ["Oravelle Lane Tea"] * 30 + ["Quillmoor Tea"] * 20 + ["Quillmoor Coffee"] * 20 + ["Rare Thing"]
    texts = pd.Series([f"Item Name: {name}, {number}" for number, name in enumerate(names)], dtype="str")
    brands = frequent_brands(texts, "")
    assert brands_of(texts, "", brands)[-1] == ""
    assert "quillmoor" in brands
    assert "quillmoor tea" not in brands
    assert brands_of(texts[:1], "", brands)[0].startswith("oravelle lane")
    assert BRAND not in fields_of(table_of_texts(texts.tolist()), ())


def test_stated_brands_are_a_field_of_their_own():
    texts = pd.Series(["Item Name: Quillmoor Tea\nBrand: Quillmoor"] * 30, dtype="str")
    assert frequent_brands(texts, "") == []


def test_values_of_few_rows_are_not_named():
    found = sketch_field(["acme"] * 50 + ["four"] * 4 + ["", ""])
    assert (found.filled, found.values, found.rare) == (54, {"acme": 50}, 4)
