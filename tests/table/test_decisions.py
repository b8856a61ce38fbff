"""What training decides about its columns, and how other tables are read by it."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.errors import DataError
from pricekit.table import Columns, read_frame, read_table
from pricekit.text.numbers import marks_of, read_number

YEARS, KM = [2011, 1998, 2015, 2020], [60_000, 120_500, 7_000, 1_250]


def texts(frame, trained):
    """The texts that a model reads of a frame, if it was trained on another one."""
    columns = Columns(tuple(frame.columns), None, None, formats=trained.formats)
    return read_frame(frame, columns).text.tolist()


def trained(**columns):
    frame = pd.DataFrame({name: (cells * 30)[:60] for name, cells in columns.items()})
    return read_table(frame, Columns(tuple(columns), None, None))


@pytest.mark.parametrize(
    "spelled",
    [
        ("2011", "60000 km"),
        ("2011.0", "60,000 km"),
        ("2,011", "60000km"),
        ("2.011e3", "6e+04 km"),
        ("２０１１", "۶۰۰۰۰ km"),
        ("2011.00", "0.6 lakh km"),
        ("+2011", "60k km"),
        (" 2011 ", "60 000  km"),
        ("2'011", "60\u00a0000\u00a0km"),
        (2011, "60000 km"),
        (2011.0, "60000.0 km"),
        (np.float32(2011), "60000 km"),
    ],
)
def test_equal_numbers_are_equal_texts(spelled):
    rows = trained(year=[f"{year}.0" for year in YEARS], km=[f"{km} km" for km in KM])
    frame = pd.DataFrame([spelled], columns=["year", "km"])
    assert texts(frame, rows) == ["year: 2011\nkm: 60000 km"]


def test_a_table_alone_and_a_row_alone_are_read_alike():
    rows = trained(year=["2011", "1998", "2,015", ""], km=["1.250", "7.000", "60.000", "1.234,5"])
    assert rows.text[:4].tolist() == [
        "year: 2011\nkm: 1250",
        "year: 1998\nkm: 7000",
        "year: 2015\nkm: 60000",
        "km: 1234.5",
    ]
    for text, (year, km) in zip(rows.text, rows.frame.itertuples(index=False), strict=True):
        assert texts(pd.DataFrame({"year": [year], "km": [km]}), rows) == [text]


def test_codes_and_words_keep_their_spelling():
    rows = trained(
        code=["007", "0120", "001", "020"],
        model=["1E5", "2B7", "USB 3.0", "v1.10"],
        size=["S", "10.0", "L", "XL"],
    )
    assert rows.text[0] == "code: 007\nmodel: 1E5\nsize: S"
    assert rows.text[1] == "code: 0120\nmodel: 2B7\nsize: 10.0"
    assert [form.kind for form in rows.formats.columns.values()] == ["mixed", "text", "text"]


def test_numbers_that_a_table_stores_keep_their_decimal_mark():
    rows = trained(km=["1.500", "2.000", "60.000", "7.500"])
    assert rows.formats.columns["km"].decimal == ","
    assert texts(pd.DataFrame({"km": ["1.234"]}), rows) == ["1234"]
    assert texts(pd.DataFrame({"km": [1.234]}), rows) == ["1.234"]


def test_numbers_of_json_have_a_decimal_point(tmp_path):
    rows = trained(weight=["1,5", "2,75", "12,345", "1.234,5"])
    path = tmp_path / "new.jsonl"
    path.write_text('{"weight": 12.345}\n{"weight": 1.5}\n{"weight": -7}\n{"weight": null}\n')
    read = read_table(path, Columns(("weight",), None, None, formats=rows.formats))
    assert read.text.tolist() == ["12.345", "1.5", "-7", ""]
    prices = tmp_path / "prices.jsonl"
    prices.write_text('{"name": "Tea", "price": 1.525}\n{"name": "Jam", "price": 2.375}\n')
    assert read_table(prices, Columns(("name",), "price", None)).price.tolist() == [1.525, 2.375]


def test_a_decimal_point_contradicts_a_column_with_decimal_commas(raises):
    rows = trained(weight=["1,5", "2,75", "12,345", "1.234,5"])
    with raises(DataError, "table", column="weight", cells=20):
        texts(pd.DataFrame({"weight": ["1.5", "2.75", "12.345"] * 10}), rows)


def test_a_number_that_is_not_finite_is_missing_in_every_form(logged):
    rows = trained(weight=["1.5", "2.75"])
    for cells in ([math.inf, 2.0], ["inf", "2.0"]):
        assert texts(pd.DataFrame({"weight": cells}), rows) == ["", "2"]
    assert logged().count("1 are not numbers") == 2


def test_words_that_many_rows_have_stay_and_others_are_missing(logged):
    rows = trained(km=["new", *map(str, range(1000, 1019))])
    assert rows.formats.columns["km"].words == () == trained(km=["1", "2"]).formats.columns["km"].words
    frame = pd.DataFrame(
        {"name": ["a"] * 300, "km": [*["new"] * 12, *(str(n + 1000) for n in range(287)), "sold"]}
    )
    rows = read_table(frame, Columns(("name", "km"), None, None))
    assert (rows.text[0], rows.text[299]) == ("name: a\nkm: new", "name: a")
    assert "'sold' in row 299" in logged()
    assert texts(pd.DataFrame({"name": ["a", "a"], "km": ["new", "n/a"]}), rows) == [
        "name: a\nkm: new",
        "name: a",
    ]


def test_a_column_in_another_style_stops_the_command(raises):
    rows = trained(km=["1250.5", "7000", "60000", "1"])
    with raises(DataError, "table", column="km", cells=30):
        texts(pd.DataFrame({"km": ["red", "blue"] * 15}), rows)
    with raises(DataError, "table", column="km", cells=30):
        texts(pd.DataFrame({"km": ["1.250,5", "7,1"] * 15}), rows)
    assert texts(pd.DataFrame({"km": ["red"] * 3}), rows) == [""] * 3


def test_another_unit_is_said_and_stops_the_command_if_many_cells_have_it(logged, raises):
    rows = trained(km=["1250 km", "7000km", "60,000 KM", "1 km"])
    assert texts(pd.DataFrame({"km": ["5", "7 km", "3 mi"]}), rows) == ["5", "7 km", "3 mi"]
    assert "2 have another unit" in logged()
    for cells in ([5] * 30, ["5 mi"] * 30, ["5"] * 30):
        with raises(DataError, "table", column="km", cells=30):
            texts(pd.DataFrame({"km": cells}), rows)
    area, length = trained(area=["5 m²", "70 m²"]), trained(length=["5 cm", "9cm"])
    assert texts(pd.DataFrame({"area": ["50 m2", "50 sqm", "50m²"]}), area) == ["50 m²"] * 3
    assert texts(pd.DataFrame({"length": ["5 cms", "5 centimetre"]}), length) == ["5 cm"] * 2
    assert texts(pd.DataFrame({"size": ["32”", "32″"]}), trained(size=['32"'])) == ['32 "'] * 2
    assert texts(pd.DataFrame({"set": ["3 rolls"]}), trained(set=["3 pcs"])) == ["3 rolls"]
    several = trained(size=["5 km", "7 mi", "3 km", "4 mi"])
    assert texts(pd.DataFrame({"size": ["5 m"] * 30}), several) == ["5 m"] * 30


def test_points_before_three_digits_separate_thousands_if_other_evidence_says_so():
    """Numbers below 1,000 have no point, or prices have decimal commas."""
    assert trained(km=["12.545", "3.253", "850", "123.456"]).formats.columns["km"].decimal == ","
    assert trained(kg=["12.545", "3.253", "850", "12000"]).formats.columns["kg"].decimal == "."
    frame = pd.DataFrame({"km": ["12.545", "3.253"] * 20, "price": ["16,33 €", "7,99 €"] * 20})
    rows = read_table(frame, Columns(("km",), "price", None))
    assert rows.formats.columns["km"].decimal == ","


def test_a_column_that_shows_both_marks_decides_nothing():
    rows = trained(km=["1.5", "2.5", "3.5", "1,5"])
    assert rows.formats.columns["km"].kind == "mixed"


def test_thousands_with_a_point_in_a_column_of_whole_numbers_are_said(logged, raises):
    for cells in (KM, [float(km) for km in KM], list(map(str, KM)), [f"{km} km" for km in KM]):
        rows, unit = trained(km=cells), " km" if " km" in str(cells[0]) else ""
        assert texts(pd.DataFrame({"km": [f"60.000{unit}", f"60,000{unit}"]}), rows) == [
            f"60{unit}",
            f"60000{unit}",
        ]
        assert "1 have three decimals, and may be thousands. The first is '60.000" in logged()
        with raises(DataError, "table", column="km", cells=20):
            texts(pd.DataFrame({"km": [f"60.125{unit}"] * 20}), rows)
    texts(pd.DataFrame({"km": ["60.000"]}), trained(km=["1.5", "60000"]))
    texts(pd.DataFrame({"km": [60.125] * 20}), trained(km=KM))
    assert logged() == ""


def test_words_that_have_become_numbers_are_said(logged):
    """The columns may be in another order; codes and columns of words and numbers may well be numbers."""
    rows = trained(
        colour=["red", "blue", "7", "green"], code=["007", "12", "010", "1"], size=["S", "38", "40", "42"]
    )
    numbers = {name: [str(n) for n in range(30, 45)] for name in rows.frame}
    assert texts(pd.DataFrame(numbers), rows)[0] == "colour: 30\ncode: 30\nsize: 30"
    assert "'colour' has words in the training table" in logged()
    assert "code" not in logged()
    assert "size" not in logged()


@pytest.mark.parametrize(
    "cells", [[*map(str, range(30, 39)), "red", *map(str, range(5))], ["1984"], ["", "n/a"] * 9]
)
def test_words_few_numbers_and_missing_cells_are_no_surprise(cells, logged):
    texts(pd.DataFrame({"colour": cells}), trained(colour=["red", "blue", "green"]))
    assert logged() == ""


def test_versions_keep_their_zeros():
    """Behind the point they count; numbers of two sources do not, and some have a zero behind the point."""
    versions = [f"1.{n}" for n in range(1, 13)] + ["2.0", "2.1"]
    assert trained(version=versions).text[9] == "1.10"
    assert "1.1 and 1.10" in trained(version=versions).formats.columns["version"].reason
    tenths, hundredths = [f"0.{n}" for n in range(1, 10)], [f"0.{n:02}" for n in range(5, 100, 5)]
    for numbers in (
        ["1.1", "1.10", "2.5", "3"],
        [*tenths, *hundredths],
        ["0.5", "0.50", "0.75"],
        ["1.1", "1.05", *versions],
    ):
        assert trained(litres=numbers).formats.columns["litres"].kind == "number"


def test_fractions_are_numbers():
    rows = trained(size=["1/2", "42 2/3", "1½", "¾", "12", "5-1/4", "0.5"])
    assert rows.text[:7].tolist() == ["0.5", "42.666667", "1.5", "0.75", "12", "5.25", "0.5"]
    assert (
        texts(pd.DataFrame({"size": ["½", "-1/2", "2/4", "3/2", "1/2/2020", "1/2.5"]}), rows)
        == ["0.5", "-0.5"] + [""] * 4
    )
    assert trained(stars=["3/5", "4/5", "2/5"]).formats.columns["stars"].kind == "text"


def test_a_model_stores_how_its_table_is_written(tmp_path):
    frame = pk.make_catalog(60, seed=1).assign(year=[f"{2000 + n % 20}.0" for n in range(60)])
    text = ["catalog_content", "year"]
    model = pk.train(frame, text=text, epochs=1, features="columns", max_length=16, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "preprocess.json").read_text())["columns"]["formats"]["columns"]
    assert stored["year"]["kind"] == "number"
    assert "60 of 60" in stored["year"]["reason"]
    bundle = model.export(tmp_path / "bundle") and pk.load(tmp_path / "bundle", "ort-cpu")
    row = frame.iloc[:1].drop(columns="price")
    for one in (model, bundle):
        spelled = [row.assign(year=year) for year in ("2000.0", "2000", 2000, 2000.0, "2,000", "2e+03")]
        prices = [one.predict(each)[0] for each in spelled]
        prices.append(one.predict([f"catalog_content: {row['catalog_content'].iloc[0]}\nyear: 2000.0"])[0])
        assert len(set(prices)) == 1
        shown = one.explain(row)[0].cells
        assert shown["year"] == "2000.0"


@given(st.decimals(-(10**9), 10**9, places=3), st.sampled_from(["", "km", "m²", "%"]))
def test_every_spelling_of_a_number_is_read(value, unit):
    plain = read_number(f"{value.normalize():f} {unit}".strip()).written(".")
    grouped, swapped = f"{value:,.3f}", f"{value:,.3f}".translate(str.maketrans(",.", ".,"))
    assert read_number(f"{grouped}{unit}").written(".") == plain
    assert read_number(f"{swapped} {unit}".strip()).written(",") == plain
    number = float(plain.split(" ")[0])
    assert math.isclose(number, float(value), rel_tol=1e-12, abs_tol=1e-12)
    assert read_number(plain).written(".") == plain


@given(st.text("0123456789.,", max_size=12))
def test_marks_are_of_numbers_only(digits):
    marks = marks_of(digits)
    if marks and any(map(str.isdigit, digits)):
        assert set(marks) <= {"", ".", ","}
        assert not (marks[0] and marks[1])


def test_an_arrow_table_of_any_type_is_read_in_one_way():
    rows = trained(year=["2011", "1998"])
    for kind in (pa.int16(), pa.float64(), pa.decimal128(25, 2), pa.large_string(), pa.uint64()):
        table = pa.table({"year": pa.array([2011], pa.int64()).cast(kind)})
        assert texts_of_arrow(table, rows) == ["2011"]


def texts_of_arrow(table, rows):
    return read_table(table, Columns(("year",), None, None, formats=rows.formats)).text.tolist()


def dated(frame, **options):
    return pk.train(frame, epochs=1, features="fast15", max_length=16, refit=False, **options)


def test_prices_of_other_tables_are_read_as_those_of_the_training(tmp_path, raises):
    """1.525 is a thousand or more if the training table has points between its thousands."""
    frame = pk.make_catalog(80, seed=1)
    frame["price"] = [f"{1000 + 7 * n:,}".replace(",", ".") + ",50" for n in range(80)]
    model = dated(frame, out=tmp_path / "run")
    alone = pk.make_catalog(60, seed=2).assign(price=[f"1.{500 + n}" for n in range(60)])
    scores = model.evaluate(alone, out=tmp_path / "scores.csv")
    assert scores is not None
    written = pd.read_csv(tmp_path / "scores.csv")
    assert sorted(written["price"]) == [1500 + n for n in range(60)]
    more = dated(alone, init=tmp_path / "run", out=tmp_path / "more")
    stored = json.loads((tmp_path / "more" / "preprocess.json").read_text())["columns"]["formats"]
    assert stored["price"]["decimal"] == ","
    assert more.predict(alone.drop(columns="price"))[0] > 100
    with raises(DataError, "decimal", expected=",", found="."):
        model.evaluate(frame.assign(price=[f"{n}.50" for n in range(80)]))


@pytest.mark.parametrize("cells", [["1.234"], ["1.234", "2.500"], ["1.234", "2.517", "850"]])
def test_a_price_alone_and_in_a_table_is_read_as_the_whole_prices_of_the_training(cells):
    frame = pd.DataFrame({"name": ["tea"] * 40, "price": ["1234", "850", "15000", "2300"] * 10})
    columns = Columns(("name",), "price", None)
    columns = replace(columns, formats=read_table(frame, columns).formats)
    notices = []
    rows = pd.DataFrame({"name": "tea", "price": cells})
    assert read_table(rows, columns, notices=notices.append).price[0] == 1234
    assert "'.' the thousands separator" in notices[0]
    program = pd.DataFrame({"name": "tea", "price": ["1.234", "12000"]})
    assert read_table(program, columns).price[0] == 1.234


def test_the_format_of_dates_is_stored(tmp_path):
    frame = pk.make_catalog(60, seed=1).assign(
        listed=[f"{1 + n % 28:02d}.{1 + n % 12:02d}.24" for n in range(60)]
    )
    dated(frame, time="listed", out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "preprocess.json").read_text())["columns"]["formats"]
    assert stored["time"]["pattern"] == "d.m.yy"
