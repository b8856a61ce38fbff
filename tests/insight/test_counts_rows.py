"""Which rows of a table are compared."""

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import DataError
from pricekit.insight import counts as module
from pricekit.insight.counts import describe_rows, read_rows
from pricekit.table import Columns

COLUMNS = Columns(("name", "note"), "price", "id")


def _frame(count):
    numbers = np.arange(count)
    return pd.DataFrame({"name": [f"tea {n}" for n in numbers], "note": "mild", "price": numbers + 1.0})


@pytest.mark.parametrize("kind", ["file", "frame"])
def test_of_many_rows_some_are_drawn(monkeypatch, tmp_path, kind):
    monkeypatch.setattr(module, "MOST_ROWS", 1000)
    source = _frame(20_000)
    if kind == "file":
        source.to_csv(tmp_path / "t.csv", index=False)
        source = tmp_path / "t.csv"
    found = read_rows(source, COLUMNS)
    assert (found.count, len(found.table)) == (20_000, 1000)
    assert describe_rows(found) == ["A random sample of 1,000 of the 20,000 rows is compared."]
    drawn = found.table.price
    assert len(np.unique(drawn)) == 1000
    assert drawn.mean() == pytest.approx(10_000, rel=0.1)
    assert (read_rows(source, COLUMNS).table.price == drawn).all()


def test_missing_columns_are_empty_and_reported():
    found = read_rows(_frame(3).drop(columns="note"), COLUMNS, ["shelf"])
    assert found.missing == ("note", "shelf")
    assert found.readable
    assert found.table.text.tolist() == ["name: tea 0", "name: tea 1", "name: tea 2"]
    assert found.table.price.tolist() == [1, 2, 3]
    assert describe_rows(found) == ["The table lacks 'note', 'shelf', which the model reads."]


def test_without_any_text_the_table_is_not_readable():
    found = read_rows(pd.DataFrame({"other": ["a", "b"]}), COLUMNS)
    assert (found.missing, found.readable, found.table.price) == (("name", "note"), False, None)
    assert found.table.text.tolist() == ["", ""]


def test_columns_that_the_user_names_must_exist(raises):
    with raises(DataError, "text", column="note", candidates=["name", "price"], suggestion=None):
        read_rows(_frame(3).drop(columns="note"), COLUMNS, required=["note"])
    with raises(DataError, "price", column="price", candidates=["name", "note"], suggestion=None):
        read_rows(_frame(3).drop(columns="price"), COLUMNS, required=["price"])


def test_a_table_without_rows_is_refused(tmp_path, raises):
    _frame(0).to_csv(tmp_path / "t.csv", index=False)
    for source in (tmp_path / "t.csv", _frame(0)):
        with raises(DataError, "table"):
            read_rows(source, COLUMNS)


def test_several_files_are_one_table(tmp_path):
    for name in ("a", "b"):
        pk.make_catalog(20).to_csv(tmp_path / f"{name}.csv", index=False)
    assert read_rows(tmp_path / "*.csv", Columns()).count == 40
