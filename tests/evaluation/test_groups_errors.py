"""The largest errors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.evaluation.groups import (
    ErrorReport,
    error_table,
    find_errors,
    groupings_of_errors,
    quantities_of,
)
from pricekit.metrics import SMAPE, smape


def test_rows_are_sorted_by_error(rows):
    some = rows(60, kind=["tea", "ink"] * 30)
    found = error_table(some, quantities_of(some.text))
    assert found["error"].is_monotonic_decreasing
    assert sorted(found["row"]) == list(range(60))
    assert found["error"].mean() == pytest.approx(smape(some.predicted, some.price))
    worst = found.iloc[0]
    number = int(worst["row"])
    assert worst["error"] == SMAPE.terms(some.predicted, some.price).max()
    assert (worst["id"], worst["text"], worst["kind"]) == (
        f"p{number}",
        some.text[number],
        ["tea", "ink"][number % 2],
    )
    assert worst["total"] == pytest.approx(28.3495 * (number % 40 + 1), rel=1e-4)
    assert (worst["value"], worst["measure"]) == (number % 40 + 1, "g")


def test_equal_errors_keep_the_order_of_the_file(rows):
    some = rows(20)
    exact = replace(some, predicted=some.price).take(np.arange(19, -1, -1))
    assert error_table(exact, quantities_of(exact.text))["row"].tolist() == list(range(20))


def test_columns_of_the_table_take_no_other_name(rows):
    some = rows(20, error=["a", "b"] * 10, value=["c", "d"] * 10)
    found = error_table(some, quantities_of(some.text))
    assert list(found)[-3:] == ["error_", "value_", "text"]


def test_the_share_of_the_worst_by_hand():
    table = pd.DataFrame({"error": [150.0, 30, 20, 0]})
    report = ErrorReport(table, table)
    assert [report.share_of_worst(count) for count in (0, 1, 2, 9)] == [0, 75, 90, 100]
    assert replace(report, rows=table.tail(1)).share_of_worst(1) == 0


def test_the_groupings_of_rows(rows, raises):
    some = rows(100, kind=["tea", "ink"] * 50, brand=[f"b{n % 20}" for n in range(100)])
    some.text[:30] = "A chair"
    quantities = quantities_of(some.text)
    found = groupings_of_errors(some, quantities)
    assert [grouping.by for grouping in found] == [
        "unit",
        "quantity",
        "price",
        "kind",
    ]  # brands are too small
    for by in ("kind", " kind\u00a0"):
        (kind,) = groupings_of_errors(some, quantities, by)
        assert (kind.by, kind.labels) == ("kind", ["ink", "tea"])
    with raises(DataError, "by", column="colour", candidates=["kind", "brand"]):
        groupings_of_errors(some, quantities, "colour")


def test_a_report_of_errors(rows):
    some = rows(60, kind=["<b>tea</b>", "ink"] * 30)
    report = find_errors(some)
    assert report.rows["error"].is_monotonic_decreasing
    assert report.share_of_worst(60) == pytest.approx(100)
    assert set(report.groups["by"]) == {"price", "kind"}
    assert set(find_errors(some, "kind").groups["by"]) == {"kind"}


def test_groups_of_the_same_rows_are_twins(rows):
    some = rows(60, taster=["Ann", "Bob"] * 30, handle=["@ann", "@bob"] * 30, other=["x", "y", "y"] * 20)
    report = find_errors(some)
    assert report.twins == {("handle", "@ann"): ("taster", "Ann"), ("handle", "@bob"): ("taster", "Bob")}
    handle = ["@ann", "@bob"] * 30
    handle[0] = "@bob"
    assert len(find_errors(rows(60, taster=["Ann", "Bob"] * 30, handle=handle)).twins) == 2
    handle[:10] = ["@bob"] * 10
    assert find_errors(rows(60, taster=["Ann", "Bob"] * 30, handle=handle)).twins == {}
