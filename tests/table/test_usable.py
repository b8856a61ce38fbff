"""Prices, and the reasons for rejecting rows."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.table import REASONS, Columns, Table, read_table, row_reasons, split_usable
from pricekit.table.price_columns import PriceFormat, parse_price

NAN = math.nan


@pytest.mark.parametrize(
    ("cell", "value", "reason"),
    [
        ("9.5", 9.5, ""),
        (" +1e3\t", 1000.0, ""),
        ("\u00a0.5\u3000", 0.5, ""),
        ("7.", 7.0, ""),
        ("0", 0.0, "price not positive"),
        ("-3", -3.0, "price not positive"),
        ("-0.0", -0.0, "price not positive"),
        ("", NAN, "no price"),
        ("  ", NAN, "no price"),
        ("nan", NAN, "price not finite"),
        ("-Inf", NAN, "price not finite"),
        ("infinity", NAN, "price not finite"),
        ("1e999", NAN, "price not finite"),
        ("9" * 401, NAN, "price not a number"),
        ("1_000", NAN, "price not a number"),
        ("0x10", NAN, "price not a number"),
        ("1 2", NAN, "price not a number"),
        ("1\n2", NAN, "price not a number"),
        ("1\0", NAN, "price not a number"),
        (".", NAN, "no price"),
        ("e5", NAN, "price not a number"),
        ("None", NAN, "no price"),
        ("N/A", NAN, "no price"),
        ("free", 0.0, "price not positive"),
        ("on demand", NAN, "price not a number"),
    ],
)
def test_the_meaning_of_price_cells(cell: str, value: float, reason: str) -> None:
    values, flaws = parse_price(pa.array([cell], pa.large_string()), PriceFormat())
    np.testing.assert_array_equal(values, [value])
    table = Table(pd.Series([1]), pd.Series(["x"]), values, pd.DataFrame({"a": [1]}), flaws=flaws)
    assert row_reasons(table).tolist() == [reason]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5, None, float("inf"), float("nan")]),
        pa.array([Decimal("1.5"), None, Decimal("9"), None]),
        pa.array([1, None, 2, None], pa.uint64()),
        pa.array([1.5, None, 2, None], pa.float16()),
    ],
    ids=str,
)
def test_numeric_price_columns(column: pa.Array) -> None:
    values, flaws = parse_price(column, PriceFormat())
    assert values.dtype == np.float64
    assert values[0] == float(column[0].as_py())
    assert np.isnan(values[[1, 3]]).all()
    assert flaws[2] == ("price not finite" if column[2].as_py() == math.inf else "")


def test_a_price_column_of_booleans_holds_no_numbers() -> None:
    assert parse_price(pa.array([True, None]), PriceFormat())[1].tolist() == ["price not a number", ""]


def table_of(**columns: list[object]) -> Table:
    ids = pd.Series(columns["ids"])
    prices = np.array(columns["price"], dtype=np.float64)
    return Table(ids, pd.Series(columns["text"], dtype="str"), prices, pd.DataFrame({"id": ids}))


def test_the_first_usable_row_of_equal_ids_is_kept() -> None:
    table = table_of(ids=[7, 7, 8, 7], text=["a", "b", "c", "d"], price=[NAN, 1, 2, 3])
    assert row_reasons(table).tolist() == ["no price", "", "", "duplicate id"]


@pytest.mark.parametrize("missing", ["", None])
def test_rows_without_an_id_are_not_duplicates(missing: object) -> None:
    table = table_of(ids=[missing, "a", missing, "a"], text=["x"] * 4, price=[1, 1, 1, 1])
    assert row_reasons(table).tolist() == ["", "", "", "duplicate id"]


def test_each_row_has_one_reason_in_a_fixed_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    header, prices = "sample_id,catalog_content,price", ["y", "inf", "$5", "€5/kg", "", "0"]
    rows = [
        "1",
        header,
        "1,,",
        *(f"1,x,{price}" for price in prices),
        "8,Total,€12",
        "1,x,€5",
        "1,x,€6",
        "2,x,€1",
    ]
    path.write_text("\n".join([header, *rows]))
    table = read_table(path, Columns(), notices=lambda _: None)
    assert row_reasons(table).tolist() == [*REASONS[:10], "", REASONS[10], ""]


def test_without_a_price_column_the_price_is_no_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sample_id,catalog_content,price\n1,x,\n2, ,3\n")
    assert row_reasons(read_table(path, Columns(price=None))).tolist() == ["", "no text"]


def test_rejected_rows_keep_columns_called_row_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("row,reason,row_,catalog_content,price\na,b,c,x,1\nd,e,f,y,0\n")
    rejected = split_usable(read_table(path, Columns(id=None)))[1]
    expected = {"row__": "d", "reason_": "e", "row_": "f", "catalog_content": "y", "price": "0"}
    assert rejected.to_dict("records") == [expected | {"row": 1, "reason": "price not positive"}]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3]), st.sampled_from(["", " ", "x"]), st.sampled_from([NAN, -1, 0, 1, 2])
        ),
        max_size=30,
    )
)
def test_usable_and_rejected_are_all_rows(rows: list[tuple[int, str, float]]) -> None:
    ids, text, price = ([row[i] for row in rows] for i in range(3))
    table = table_of(ids=ids, text=text, price=price)  # type: ignore[arg-type]
    usable, rejected = split_usable(table)
    assert usable.rows is not None
    assert sorted([*usable.rows, *rejected["row"]]) == list(range(len(rows)))
    assert rejected["reason"].isin(REASONS).all()
    assert usable.ids.is_unique
    assert usable.price is not None
    assert (usable.price > 0).all()
    assert usable.text.str.strip().ne("").all()
    assert row_reasons(usable).tolist() == [""] * len(usable)
    np.testing.assert_array_equal(usable.price, np.array(price)[usable.rows])


def test_rejected_rows_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sample_id,catalog_content,price\n1,x,\n")
    rejected = split_usable(read_table(path, Columns()))[1]
    rejected.to_parquet(tmp_path / "rejected.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rejected.parquet"), rejected)
