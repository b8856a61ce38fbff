"""Dates: one format for a column, whatever its language, digits and century."""

import subprocess
import sys
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from babel.dates import format_date
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.table.table import Formats
from pricekit.text.dates import DateFormat, date_format, parse_dates


def seconds(*days):
    return [(day - datetime(1970, 1, 1)) / timedelta(seconds=1) for day in days]


JANUARY, MARCH = datetime(2024, 1, 31), datetime(2023, 3, 2)


@pytest.mark.parametrize(
    ("cells", "pattern"),
    [
        (["31.01.24", "02.03.23"], "d.m.yy"),
        (["31/1/24", "2/3/23"], "d/m/yy"),
        (["1/31/24", "3/2/23"], "m/d/yy"),
        (["2024-01-31", "2023-03-02"], "yyyy-m-d"),
        (["20240131", "20230302"], "yyyymmdd"),
        (["31012024", "02032023"], "ddmmyyyy"),
        (["240131", "230302"], "yymmdd"),
        (["31. 01. 2024", "2. 3. 2023"], "d m yyyy"),
        (["2024. 01. 31.", "2023. 03. 02."], "yyyy m d"),
        (["31-Jan-24", "02-Mar-23"], "d-mmm-yy"),
        (["Jan 31, 2024", "March 2nd, 2023"], "mmm d yyyy"),
        (["31JAN2024", "02MAR2023"], "dmmmyyyy"),
        (["31. Januar 2024", "2. März 2023"], "d mmm yyyy"),
        (["31. Jan. 2024", "02. Mrz 2023"], "d mmm yyyy"),
        (["Mi, 31.01.2024", "Donnerstag, 02.03.2023"], "d.m.yyyy"),
        (["31 janvier 2024", "2 mars 2023"], "d mmm yyyy"),
        (["31 de enero de 2024", "2 de mar. de 2023"], "d mmm yyyy"),
        (["quarta-feira, 31 de janeiro de 2024", "2 de março de 2023"], "d mmm yyyy"),
        (["31 января 2024 г.", "2 марта 2023 г."], "d mmm yyyy"),
        (["31 stycznia 2024", "2 marca 2023"], "d mmm yyyy"),
        (["31 ม.ค. 2024", "2 มีนาคม 2023"], "d mmm yyyy"),
        (["2024. január 31.", "2023. március 2."], "yyyy mmm d"),
        (["31 tháng 1, 2024", "2 tháng 3, 2023"], "d m yyyy"),
        (["2024年1月31日", "2023年3月2日"], "yyyy年m月d"),
        (["2024年1月31日 星期三", "2023年3月2日(木)"], "yyyy年m月d"),
        (["2024년 1월 31일", "2023년 3월 2일"], "yyyy年m月d"),
        (["٣١/٠١/٢٠٢٤", "٠٢/٠٣/٢٠٢٣"], "d/m/yyyy"),
        (["३१/०१/२४", "०२/०३/२३"], "d/m/yy"),
        (["2024-01-31", "２０２３－０３－０２"], "yyyy-m-d"),
    ],
)
def test_a_column_of_days_has_one_format(cells, pattern):
    form = date_format(cells)
    assert form.pattern == pattern
    assert parse_dates(cells, form).tolist() == seconds(JANUARY, MARCH)


@pytest.mark.parametrize(
    ("cell", "pattern", "day"),
    [
        ("2024-01", "yyyy-m", datetime(2024, 1, 1)),
        ("03/2024", "m/yyyy", datetime(2024, 3, 1)),
        ("03.2024", "mm.yyyy", datetime(2024, 3, 1)),
        ("202403", "yyyymm", datetime(2024, 3, 1)),
        ("Mar-24", "mmm-yy", datetime(2024, 3, 1)),
        ("Q3 2024", "mmm yyyy", datetime(2024, 7, 1)),
        ("2024Q3", "yyyy mmm", datetime(2024, 7, 1)),
        ("2024-01-31T12:30:05Z", "yyyy-m-d", datetime(2024, 1, 31, 12, 30, 5)),
        ("2024-01-31 12:30:05.25+02:00", "yyyy-m-d", datetime(2024, 1, 31, 10, 30, 5, 250_000)),
        ("20240131T123005", "yyyymmdd", datetime(2024, 1, 31, 12, 30, 5)),
        ("20240131123005", "yyyymmdd", datetime(2024, 1, 31, 12, 30, 5)),
        ("1/31/2024 12:05 AM", "m/d/yyyy", datetime(2024, 1, 31, 0, 5)),
        ("1/31/2024 3:05 p.m.", "m/d/yyyy", datetime(2024, 1, 31, 15, 5)),
        ("2024/1/31 下午 3:05:00", "yyyy/m/d", datetime(2024, 1, 31, 15, 5)),
        ("31.01.2024, 12:30 Uhr", "d.m.yyyy", datetime(2024, 1, 31, 12, 30)),
        ("Wed Jan 31 12:30:00 UTC 2024", "mmm d yyyy", datetime(2024, 1, 31, 12, 30)),
        ("Wed Jan 31 2024 12:30:00 GMT+0100 (CET)", "mmm d yyyy", datetime(2024, 1, 31, 11, 30)),
        ("Wed, 31 Jan 2024 12:30:00 -0530", "d mmm yyyy", datetime(2024, 1, 31, 18, 0)),
    ],
)
def test_months_quarters_and_times_are_dates(cell, pattern, day):
    form = date_format([cell])
    assert form.pattern == pattern
    assert parse_dates([cell], form).tolist() == seconds(day)


@pytest.mark.parametrize(
    "cells",
    [
        ["45322", "45323"],  # serial numbers of Excel
        ["2024", "1999"],
        ["2024.5", "2023.25"],
        ["1402/11/11"],  # another calendar
        ["5 Jan"],
        ["32.01.2024"],
        ["soon", "", None],
        [],
        ["12:30"],
        ["31.01.2024 25:00"],
        ["x" * 100_000],
    ],
)
def test_numbers_and_words_are_no_dates(cells):
    form = date_format(cells)
    assert form is None or not np.isfinite(parse_dates(cells, form)).any()


def test_cells_that_the_format_cannot_read_are_missing():
    form = DateFormat("d.m.yy", first_year=1950)
    cells = [
        "31.01.24",
        "31.01.2024",
        "2024-01-31",
        "30.02.24",
        "31/01/24",
        "soon 31.01.24",
        None,
        " 1.2.49 ",
    ]
    assert np.isfinite(parse_dates(cells, form)).tolist() == [True, *[False] * 6, True]
    assert np.isnan(parse_dates(["29.02.1900"], DateFormat("d.m.yyyy"))).all()


@pytest.mark.parametrize(
    ("years", "first"),
    [
        ([24, 22], 1950),
        ([99, 0], 1950),
        ([49, 50], 1949),
        ([48, 52], 1948),
        ([45, 55], 1950),
        ([*range(30, 100)], 1930),
        ([10, 60], 1950),
    ],
)
def test_two_digit_years_that_go_on_across_a_border_stay_in_one_century(years, first):
    cells = [f"31.01.{year:02d}" for year in years]
    form = date_format(cells)
    assert form.first_year == first
    right = [datetime(first + (year - first) % 100, 1, 31) for year in years]
    assert parse_dates(cells, form).tolist() == seconds(*right)


@pytest.mark.parametrize(
    ("cells", "pattern"),
    [
        (["01/01/24", "02/01/24", "12/01/24"], "m/d/yy"),  # the first of each month
        (["01/02/2024", "01/03/2024", "01/11/2024"], "d/m/yyyy"),
        (["24-01-31", "24-02-28", "24-03-30"], "yy-m-d"),  # one year rather than one day of the month
        (["01.02.03"], "d.m.yy"),
        (["01/02/03"], "m/d/yy"),
    ],
)
def test_ambiguous_columns_have_the_more_likely_order_and_say_so(cells, pattern):
    form = date_format(cells)
    assert form.pattern == pattern
    assert form.others
    assert form.why in ("it is usual with this sign", "days and years are then spread as usual")


@pytest.mark.parametrize(
    ("pattern", "language"), [("d", None), ("d.m.m", None), ("d.m.yyyy|x", None), ("d.m.yyyy", "xx")]
)
def test_other_patterns_and_languages_are_refused(pattern, language):
    with pytest.raises(ValueError, match=r"no pattern of dates|not read in the language"):
        DateFormat(pattern, language)


def test_a_format_survives_json():
    form = date_format(["31. Januar 99", "1. Mai 01"])
    assert (form.pattern, form.language, form.first_year) == ("d mmm yy", "de", 1950)
    assert Formats.model_validate_json(Formats(time=form).model_dump_json()).time == form


FORMATS = [
    "%d.%m.%y",
    "%m/%d/%y",
    "%y-%m-%d",
    "%d/%m/%Y",
    "%m-%d-%Y",
    "%Y%m%d",
    "%d%m%Y",
    "%d %b %Y",
    "%B %d, %Y",
    "%d-%b-%y",
    "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
]


@given(
    st.sampled_from(["d.m.yyyy", "yyyy-m-d", "d mmm yyyy", "m/d/yy"]),
    st.lists(
        st.builds(
            lambda day, form: day.strftime(form),
            st.datetimes(datetime(1960, 1, 1), datetime(2039, 12, 31)),
            st.sampled_from(
                ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S,%f", "%Y-%m-%d %H:%M:%S,1234", "%d %b %Y", "%d.%m.%Y", "%x"]
            ),
        )
        | st.text("0123456789.-/: tzTZ,janfeb年月日", max_size=20)
        | st.text(max_size=30)
    ),
)
def test_a_cell_has_the_same_date_alone_and_among_others(pattern, cells):
    form = DateFormat(pattern, "en", 1950)
    times = parse_dates(cells, form)
    alone = [parse_dates([cell], form).item() for cell in cells]
    assert np.array_equal(times, np.array(alone, float), equal_nan=True)
    assert np.array_equal(times, parse_dates([*cells, "soon"], form)[:-1], equal_nan=True)
    date_format(cells)


def hidden(form):
    """Return what the format does not write of a time."""
    names = {"%H": "hour", "%M": "minute", "%S": "second"}
    return {name: 0 for sign, name in names.items() if sign not in form.replace("%I", "%H")}


@settings(max_examples=200)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.datetimes(datetime(1960, 1, 1), datetime(2039, 12, 31)), min_size=1, max_size=30),
)
def test_a_column_in_one_format_is_read_right_or_ambiguous(form, days):
    days = [day.replace(microsecond=0) for day in days]
    cells = [day.strftime(form) for day in days]
    written = date_format(cells)
    times = parse_dates(cells, written)
    assert np.isfinite(times).all()
    assert [parse_dates([cell], written).item() for cell in cells] == times.tolist()
    right = [day.replace(**hidden(form)) for day in days]
    assert times.tolist() == seconds(*right) or written.others


@settings(max_examples=200)
@given(
    st.sampled_from(
        ["en", "de", "fr", "es", "pt_BR", "it", "pl", "cs", "ru", "sv", "fi", "nl", "tr", "el", "ja", "ko"]
    ),
    st.sampled_from(["long", "medium"]),
    st.lists(st.dates(date(1980, 1, 1), date(2030, 12, 31)), min_size=1, max_size=20),
)
def test_dates_of_a_locale_are_read_right_or_ambiguous(locale, width, days):
    cells = [format_date(day, width, locale=locale) for day in days]
    form = date_format(cells)
    right = seconds(*[datetime(day.year, day.month, day.day) for day in days])
    assert form.others or parse_dates(cells, form).tolist() == right


def test_a_column_of_any_type_is_read_alike():
    days = pd.Series(pd.to_datetime(["2024-01-31", None, "2023-03-02"]))
    form = date_format(days.astype("str"))
    times = parse_dates(days.astype("str"), form)
    assert times[[0, 2]].tolist() == seconds(JANUARY, MARCH)
    assert np.isnan(times[1])


@pytest.mark.parametrize("first", ["prices", "dates"])
def test_dates_do_not_depend_on_what_was_read_before(first):
    code = """
import sys
from babel import Locale
from pricekit.text.dates import date_format, parse_dates
cells = ["31 ม.ค. 2024", "2 มี.ค. 2023"]
read = lambda: parse_dates(cells, date_format(cells)).tolist()
before = read() if sys.argv[1] == "dates" else None
assert Locale("th").currency_symbols["USD"] == "US$" and Locale("th").months["format"]["wide"][1] == "มกราคม"
print(read())
"""
    done = subprocess.run([sys.executable, "-c", code, first], capture_output=True, text=True, check=True)
    assert done.stdout == f"{seconds(JANUARY, MARCH)}\n"
