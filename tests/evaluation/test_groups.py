"""Scores by group."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.evaluation.groups import (
    BLANK,
    MAX_GROUPS,
    OTHER,
    Grouping,
    Quantities,
    by_category,
    by_length,
    by_price,
    by_quantity,
    by_unit,
    group_scores,
    groupings_of,
    quantities_of,
)
from pricekit.evaluation.held_out import rows_of_prices
from pricekit.metrics import smape

PRICES = st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=60)


def test_scores_of_groups_by_hand():
    grouping = Grouping("shelf", np.array([1, 0, 1, 1]), ["low", "high"])
    rows = rows_of_prices(np.array([1.0, 2, 2, 1]), np.array([3.0, 2, 6, 1]))
    found = group_scores([grouping], rows)
    # SMAPE terms 100, 0, 100, 0; |p - a| / a 2, 0, 2, 0; p / a 3, 1, 3, 1
    assert found["group"].tolist() == ["low", "high"]
    assert found["rows"].tolist() == [1, 3]
    assert found["smape"].tolist() == pytest.approx([0, 200 / 3])
    assert found["mdape"].tolist() == pytest.approx([0, 200])
    assert found["bias"].tolist() == pytest.approx([0, 200])
    assert found["share"].tolist() == pytest.approx([0, 100])


@settings(max_examples=25, deadline=None)
@given(PRICES, st.integers(0, 3))
def test_every_row_is_in_one_group_and_the_groups_cover_all_rows(pairs, kinds):
    predicted, price = np.array(pairs).T
    column = pd.Series([f"k{n % (kinds + 1)}" for n in range(len(price))], name="kind", dtype="str")
    text = pd.Series(["word" * (n % 5 + 1) for n in range(len(price))], dtype="str")
    value = np.arange(len(price)) % 3
    quantities = Quantities(value, value + 1, value)
    groupings = [
        by_price(price),
        by_length(text),
        by_category(column, 2),
        by_unit(quantities),
        by_quantity(quantities),
    ]
    found = group_scores(groupings, rows_of_prices(price, predicted))
    for _, part in found.groupby("by"):
        assert part["rows"].sum() == len(price)
        assert (part["rows"] > 0).all()
        whole = (part["smape"] * part["rows"]).sum() / len(price)
        assert whole == pytest.approx(smape(predicted, price), rel=1e-9, abs=1e-9)
        assert part["share"].sum() == pytest.approx(100 if whole else 0, abs=1e-6)


def test_prices_are_cut_into_tenths_and_equal_ones_stay_together():
    grouping = by_price(np.arange(1.0, 201.0))
    assert np.bincount(grouping.codes).tolist() == [20] * 10
    assert (grouping.labels[0], grouping.labels[-1]) == ("1.00 to 20.00", "181.00 to 200.00")
    tied = np.array([5.0] * 90 + [7.0] * 10)
    grouping = by_price(tied)
    assert len({*zip(tied, grouping.codes, strict=True)}) == len(set(tied))
    assert by_price(np.full(500, 3.0)).labels == ["3.00 to 3.00"]
    assert len(by_price(np.arange(1.0, 26.0)).labels) == 2  # ten rows a group at least


def test_large_categories_are_groups_and_small_ones_are_merged():
    values = ["tea"] * 30 + [""] * 20 + ["ink"] * 9 + ["soap"] * 20
    grouping = by_category(pd.Series(values, name="kind", dtype="str"), 10)
    assert grouping.labels == ["tea", BLANK, "soap", OTHER]
    assert np.bincount(grouping.codes).tolist() == [30, 20, 20, 9]
    many = pd.Series([f"k{n % 15:02}" for n in range(300)], name="unit", dtype="str")
    grouping = by_category(many, MAX_GROUPS)
    assert grouping.labels == [*(f"k{n:02}" for n in range(10)), OTHER]
    assert grouping.by == "unit_"  # not to be taken for the units that the texts state


def test_units_are_read_from_the_texts():
    texts = ["Tea, 12 oz"] * 12 + ["Oil\nValue: 2\nUnit: Liter"] * 11 + ["A chair"] * 13 + ["Bags, 20 count"]
    quantities = quantities_of(pd.Series(texts, dtype="str"))
    grouping = by_unit(quantities)
    assert grouping.labels == ["none", "weight", "volume", OTHER]
    assert np.bincount(grouping.codes).tolist() == [13, 12, 11, 1]
    assert quantities.total[[0, 12, 23, -1]].tolist() == pytest.approx([340.194, 2000, 0, 20], rel=1e-4)
    grouping = by_quantity(quantities)
    assert (grouping.labels, np.bincount(grouping.codes).tolist()) == (["missing", "found"], [13, 24])


def test_sizes_are_read_from_a_column_of_their_own():
    quantities = quantities_of(pd.Series(["title: Tea\nnetto: 12 oz"] * 12, dtype="str"))
    assert quantities.total.tolist() == pytest.approx([340.194] * 12, rel=1e-4)


def test_tables_without_categories_are_grouped_by_unit(rows):
    assert [grouping.by for grouping in groupings_of(rows(100))] == [
        "price",
        "text length",
    ]  # all are in ounces
    some = rows(100)
    some.text[:30] = "A chair"
    assert [grouping.by for grouping in groupings_of(some)] == ["price", "text length", "unit"]
    kinds = replace(some, groups=pd.DataFrame({"kind": ["tea", "ink"] * 50}, dtype="str"))
    assert [grouping.by for grouping in groupings_of(kinds)] == ["price", "text length", "kind"]
    assert groupings_of(rows(9)) == []


def test_spellings_of_a_value_are_one_group():
    values = ["Reserva"] * 12 + ["reserva"] * 5 + [" RESERVA "] * 4 + ["Estate"] * 15
    grouping = by_category(pd.Series(values, name="kind", dtype="str"), 10)
    assert grouping.labels == ["Reserva", "Estate"]
    assert np.bincount(grouping.codes).tolist() == [21, 15]
