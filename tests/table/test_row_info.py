"""Weights, groups and times of rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, concat_tables, read_frame
from pricekit.table.row_info import with_row_info


def table_of(**columns):
    rows = len(next(iter(columns.values())))
    frame = pd.DataFrame({"title": [f"tea {i}" for i in range(rows)], "price": np.arange(1.0, rows + 1)})
    return read_frame(frame.assign(**columns), Columns(("title",), "price", None))


@pytest.mark.parametrize("cells", [["1", "0", " 2.5"], [1, 0, 2.5]])
def test_weights_are_numbers(cells):
    assert with_row_info(table_of(w=cells), weight="w").weight.tolist() == [1, 0, 2.5]


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "-2", "3"],
        ["1", "", "x"],
        [1.0, np.nan, 2.0],
        [1.0, np.inf, 2.0],
        ["0", "0", "0"],
    ],
)
def test_other_weights_are_one_message(cells, raises):
    with raises(DataError, "weight"):
        with_row_info(table_of(w=cells), weight="w")


def test_equal_cells_are_a_group_and_empty_ones_are_alone():
    groups = with_row_info(table_of(shop=["a", " a", "", "b", "", "b"]), group="shop").group
    assert len(set(groups)) == 4
    assert groups[0] == groups[1] != groups[3] == groups[5]
    assert groups[2] != groups[4]


def test_one_group_is_an_error_and_a_group_for_each_row_a_warning(logged, raises):
    with raises(DataError, "group"):
        with_row_info(table_of(shop=["a", "a", "a"]), group="shop")
    with_row_info(table_of(shop=["a", "b", "c"]), group="shop")
    assert "each row has a group of its own" in logged()


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-01", "2024-01-02", "2024-01-03"],
        ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00+00:00"],
        ["1 Jan 2024", "2 Jan 2024", "3 Jan 2024"],
        ["30/01/2024", "31/01/2024", "01/02/2024"],
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]),
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).tz_localize("Europe/Berlin"),
    ],
)
def test_days_are_a_day_apart(cells):
    assert np.diff(with_row_info(table_of(day=cells), time="day").time).tolist() == [86400, 86400]


@given(st.lists(st.integers(1900, 2100), min_size=2, max_size=9).filter(lambda years: len(set(years)) > 1))
def test_numbers_are_times(years):
    for cells in (years, list(map(str, years))):
        assert with_row_info(table_of(year=cells), time="year").time.tolist() == years


@pytest.mark.parametrize(
    ("cells", "pattern", "other"),
    [
        (["03/02/2024", "03/03/2024"], "m/d/yyyy", "d/m/yyyy"),
        (["03.03.2024", "04.03.2024"], "d.m.yyyy", "m.d.yyyy"),
    ],
)
def test_ambiguous_dates_are_read_in_the_usual_order_which_is_said(cells, pattern, other, logged):
    times = with_row_info(table_of(day=cells), time="day").time
    assert np.diff(times).tolist() == [86400]
    assert (
        f"are read as {pattern}, because it is usual with this sign; {other} fits all of them, too"
        in logged()
    )


def test_times_with_zones_are_in_order_with_dates_without_one():
    cells = ["2024-05-01T10:00:00Z", "2024-05-01T11:00:00+02:00", "2024-05-01", "2024-05-01 10:00:00.5-0500"]
    times = with_row_info(table_of(day=cells), time="day").time
    assert (times - times[2]).tolist() == [36000, 32400, 0, 54000.5]


def test_whole_numbers_that_are_dates_are_dates():
    assert np.diff(with_row_info(table_of(day=[20240131, 20240201]), time="day").time).tolist() == [86400]
    assert np.diff(with_row_info(table_of(day=[45322, 45323]), time="day").time).tolist() == [1]


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-01-01", "03.04.2024", "2024-01-02"],
        ["2024-01-01", "soon", ""],
        ["03.04.24", "2024-01-01", "05.04.24"],
        ["never", "soon", "later"],
        ["2024", "2024", "2024"],
        [1.0, np.nan, 2.0],
    ],
)
def test_other_times_are_one_message(cells, raises):
    with raises(DataError, "time"):
        with_row_info(table_of(day=cells), time="day")


def test_a_missing_column_names_those_that_exist(raises):
    with raises(DataError, "group", column="shops", candidates=["title", "price", "shop"]):
        with_row_info(table_of(shop=["a", "b"]), group="shops")


def test_rows_keep_what_is_known_of_them():
    one = with_row_info(table_of(w=[1, 2, 3], g=["a", "b", "b"]), "w", "g")
    two = one.take(np.array([2, 0]))
    assert (two.weight.tolist(), two.group.tolist()) == ([3, 1], [1, 0])
    three = concat_tables([two, table_of(w=[9], g=["a"])])
    assert (three.weight.tolist(), three.group.tolist(), three.time) == ([3, 1, 1], [1, 0, 2], None)
    four = concat_tables([with_row_info(table_of(t=[5, 6]), time="t"), table_of(t=[7])])
    assert four.time.tolist() == [5, 6, np.inf]
