"""Cells that are dates: their age, month and weekday."""

from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from babel.dates import format_date
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.features import cells
from pricekit.features.cells import CellNumbers, profile_columns
from pricekit.features.trees import Trees
from pricekit.table import table_of_texts

DAYS = [datetime(2024, 12, 31) - timedelta(13 * n) for n in range(80)]
FEATURE = CellNumbers(CellNumbers.Options(columns=4))


def texts_of(dates):
    return table_of_texts([f"tea\nlisted_on: {date}" for date in dates])


def profiled(cells):
    return profile_columns(pa.array([f"listed_on: {cell}" for cell in cells], pa.large_string()))


def iso(days):
    return texts_of([f"{day:%Y-%m-%d}" for day in days])


STATE = FEATURE.fit(iso(DAYS))


def test_a_date_is_its_age_month_and_weekday():
    assert FEATURE.describe(STATE) == {
        "column_1": "age in days of listed_on",
        "column_2": "month of listed_on",
        "column_3": "weekday of listed_on",
    }
    block = FEATURE.transform(texts_of(["2024-12-31", "2024-12-01 12:00", "2025-01-05", "soon", ""]), STATE)
    assert block[:, :3].tolist() == [[0, 12, 2], [29.5, 12, 7], [-5, 1, 7], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%y", "%d %B %Y"])
def test_the_dates_of_programs_are_read_in_every_column(form):
    state = FEATURE.fit(texts_of([day.strftime(form) for day in DAYS]))
    cells = ["2024-12-01", "2024-12-01T12:00:00", f"{DAYS[9]:{form}}", "", "2024-13-01"]
    block = FEATURE.transform(texts_of(cells), state)
    assert block[:, :3].tolist() == [
        [30, 12, 7],
        [29.5, 12, 7],
        [117, 9, 4],
        [0, 0, 0],
        [0, 0, 0],
    ]


def test_months_have_no_weekday():
    state = FEATURE.fit(texts_of([f"{day:%m/%Y}" for day in DAYS]))
    assert list(FEATURE.describe(state).values()) == ["age in days of listed_on", "month of listed_on"]


@pytest.mark.parametrize("form", ["%Y", "{n}", "{n}.5 kg", "{n} x 20 cm", "no {n}-{n}-{n}", "soon"])
def test_years_and_other_numbers_are_no_dates(form):
    cells = [day.strftime(form.format(n=20 + n % 70)) for n, day in enumerate(DAYS)]
    assert [column.dates for column in profiled(cells)] == [None]


def test_a_column_of_dates_may_have_a_few_other_cells():
    written = [f"{day:%d.%m.%Y}" for day in DAYS]
    [column] = profiled([*written, *["soon"] * 8])
    assert column.describe() == "dates, written as d.m.yyyy"
    [column] = profiled([*written, *["soon"] * 10])
    assert column.dates is None


WRITINGS = [
    lambda day: f"{day:%d.%m.%y}",
    lambda day: f"{day.day}/{day.month}/{day.year}",
    lambda day: f"{day:%m/%d/%Y 12:00 AM}",
    lambda day: f"{day:%Y%m%d}",
    lambda day: f"{day:%a, %d %b %Y 00:00:00 +0000}",
    lambda day: f"{day:%Y-%m-%dT00:00:00Z}",
    *(
        lambda day, locale=locale, width=width: format_date(day, width, locale=locale)
        for locale in ("de", "fr", "ja", "pl", "es")
        for width in ("long", "medium")
    ),
]


@lru_cache
def state_of(write):
    return FEATURE.fit(texts_of(map(write, DAYS)))


@settings(max_examples=30)
@given(
    st.sampled_from(WRITINGS),
    st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2029, 12, 31)), min_size=1, max_size=4),
)
def test_every_spelling_of_a_date_has_the_same_values(write, days):
    days = [datetime(day.year, day.month, day.day) for day in days]
    state = state_of(write)
    written = texts_of(map(write, days))
    block = FEATURE.transform(written, state)
    assert np.array_equal(block, FEATURE.transform(iso(days), STATE))
    alone = [FEATURE.transform(written.take(np.array([row])), state) for row in range(len(days))]
    assert np.array_equal(block, np.concatenate(alone))


@settings(max_examples=30)
@given(st.sets(st.sampled_from(range(6))), st.datetimes(datetime(1990, 1, 1), datetime(2029, 12, 31)))
def test_a_cell_may_be_written_in_more_ways_than_its_column(changes, day):
    day = datetime(day.year, day.month, day.day)
    ways = [
        lambda cell: cell.replace("-0", "-"),
        lambda cell: cell.replace("-", " - "),
        lambda cell: f"{day:%A} {cell}",
        lambda cell: f"{cell} 00:00",
        lambda cell: f" {cell} ",
        lambda cell: f"{cell}.",
    ]
    cell = f"{day:%Y-%m-%d}"
    for number in sorted(changes):
        cell = ways[number](cell)
    state = {**STATE, "columns": [dict(column) for column in STATE["columns"]]}
    state["columns"][1] = {**state["columns"][1], "dates": {**state["columns"][1]["dates"], "language": "en"}}
    assert np.array_equal(FEATURE.transform(texts_of([cell]), state), FEATURE.transform(iso([day]), STATE))


def test_ages_count_from_the_newest_of_all_rows(monkeypatch):
    monkeypatch.setattr(cells, "FIT_ROWS", 20)
    days = [*DAYS[1:], DAYS[0]]  # the newest one is not among the sampled rows
    state = FEATURE.fit(iso(days))
    assert np.array_equal(FEATURE.transform(iso(days), state), FEATURE.transform(iso(days), STATE))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pattern": "yyyy-yyyy-d"}, "no pattern of dates"),
        ({"pattern": "yyyy(m)d"}, "no pattern of dates"),
        ({"language": "../en"}, "not read in the language"),
        ({"pattern": "d.m.yy"}, "first year"),
        ({"first_year": 1950}, "first year"),
        ({"first_year": 5000, "pattern": "d.m.yy"}, "less than or equal to 1950"),
        ({"newest": 1e300}, "less than or equal to 1000000"),
    ],
)
def test_a_damaged_format_is_refused(changed, message):
    columns = [dict(column) for column in STATE["columns"]]
    columns[1]["dates"] = {**columns[1]["dates"], **changed}
    with pytest.raises(ValueError, match=message):
        FEATURE.check_state({**STATE, "columns": columns})


def test_a_column_yields_dates_or_something_else():
    columns = [dict(column) for column in STATE["columns"]]
    with pytest.raises(ValueError, match="yields something else"):
        FEATURE.check_state({**STATE, "columns": [columns[0], {**columns[1], "places": 1}]})
    for chosen in ([0, 5], [1, 0], [1, 8]):
        with pytest.raises(ValueError, match=r"chosen value|column of dates"):
            FEATURE.check_state({**STATE, "chosen": [chosen]})


def test_trees_read_weekdays():
    days = [datetime(2024, 1, 1) + timedelta(n) for n in range(364)]
    table = iso(days)
    price = np.array([20.0 if day.weekday() == 5 else 10.0 for day in days])
    feature = Trees(Trees.Options(rounds=60, words=0, leaf_rows=5, learning_rate=0.2))
    state = feature.fit(table, price)
    later = [datetime(2025, 1, 6) + timedelta(n) for n in range(7)]
    prices = pd.Series(np.exp(feature.transform(iso(later), state)[:, 0]))
    assert prices.idxmax() == 5
    assert prices[5] > 15 > prices[[0, 1, 2, 3, 4, 6]].max()
