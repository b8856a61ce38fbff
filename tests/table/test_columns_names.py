"""Names of columns are equal if they look equal, in every format, in frames and in options."""

import json
import unicodedata

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, check_columns, column_names, read_table
from pricekit.table.row_info import with_row_info
from pricekit.table.table import column_name

WRITTEN = (" title ", "list\u00a0price\n(EUR)", unicodedata.normalize("NFD", "\ufeffmarqué"), "")
CLEAN = ["title", "list price (EUR)", "marqué", "column 4"]
ROWS = {name: [f"{number}", f"{number + 1}"] for number, name in enumerate(WRITTEN)}
KINDS = ("csv", "jsonl", "parquet", "feather", "pandas", "polars", "arrow")


def table_as(kind, tmp_path):
    frame, path = pd.DataFrame(ROWS), tmp_path / f"x.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "feather":
        feather.write_feather(pa.table(ROWS), path)
    else:
        return {"pandas": frame, "polars": pl.DataFrame(ROWS), "arrow": pa.table(ROWS)}[kind]
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_has_the_same_names(tmp_path, kind):
    source = table_as(kind, tmp_path)
    assert column_names(source) == CLEAN
    for text, price in ((WRITTEN[0], WRITTEN[1]), (CLEAN[0], CLEAN[1])):
        columns = Columns((text, WRITTEN[2]), price, None)
        table = with_row_info(read_table(source, columns), group="marqué ")
        assert list(table.frame) == CLEAN
        assert table.text.tolist() == ["title: 0\nmarqué: 2", "title: 1\nmarqué: 3"]
        assert table.price.tolist() == [1.0, 2.0]
    if kind in ("csv", "jsonl", "parquet", "feather"):
        check_columns(source, Columns(" title", None, None))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_two_names_that_look_equal(tmp_path, kind, monkeypatch, raises):
    monkeypatch.setitem(ROWS, "title", ["5", "6"])
    with raises(DataError, "table", column="title"):
        read_table(table_as(kind, tmp_path), Columns("title", None, None))


def test_names_of_a_file_without_a_header(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("tea,3\nink,4\n")
    table = read_table(
        path, Columns(" name", "price", None), read_options=ReadOptions(names=("name ", "price"))
    )
    assert table.text.tolist() == ["tea", "ink"]


@given(st.text())
def test_the_form_of_names_is_stable(name):
    clean = column_name(name)
    assert column_name(clean) == clean
    assert column_name(f" {name}\u00a0") == clean
    if name.isascii() and name.isidentifier():
        assert clean == name


def test_joined_names_get_a_hint(raises):
    frame = pd.DataFrame({"title": ["tea"], "brand": ["x"]})
    with raises(DataError, "text", column="title,brand"):
        read_table(frame, Columns("title,brand", None, None))


def test_a_type_that_arrow_lacks_names_its_column(raises):
    frame = pl.DataFrame({"title": ["tea"], "price": [3]}).with_columns(pl.col("price").cast(pl.Int128))
    with raises(DataError, "table", column="price"):
        read_table(frame, Columns("title", id=None))
    with raises(DataError, "table"):
        read_table(frame["price"], Columns("title", id=None))
