"""Tables in memory: every kind of frame is read like a Parquet file with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pricekit.errors import ConfigError, DataError, NoRowsError
from pricekit.table import (
    Columns,
    ReadOptions,
    Table,
    concat_tables,
    iter_table,
    read_frame,
    read_table,
    read_usable,
    source_name,
)
from pricekit.table.table import PriceStyle

COLUMNS = Columns(("title",), "eur", "sku")
PLAIN = pd.DataFrame(
    {
        "sku": ["a1", "b2", "c3"],
        "title": ["Green tea", "Plum jam", ""],
        "brand": ["Fern", "", "Oak"],
        "stock": [3, 0, 12],
        "eur": ["1.299,00 €", "$5", "on request"],
    }
)


def quiet(sentence: str) -> None:
    pass


def polars() -> Any:
    return pytest.importorskip("polars")


def parquet_of(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_parquet(folder / "t.parquet", index=False)
    return folder / "t.parquet"


def check_equal(found: Table, expected: Table) -> None:
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    pd.testing.assert_series_equal(found.text, expected.text)
    pd.testing.assert_series_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.price, expected.price)
    np.testing.assert_array_equal(found.flaws, expected.flaws)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert found.price_style.currency == expected.price_style.currency


class Exporter:
    """A frame of an unknown library."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


ARROW = pa.Table.from_pandas(PLAIN, preserve_index=False)
FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: PLAIN,
    "an index of two levels": lambda: PLAIN.set_axis(
        pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)], names=["sku", "n"])
    ),
    "object dtype": lambda: PLAIN.astype(object),
    "string dtype": lambda: PLAIN.astype(
        {"sku": "string", "title": "string[python]", "eur": "string[pyarrow]"}
    ),
    "ArrowDtype": lambda: PLAIN.convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda: PLAIN.astype({"title": "category", "brand": "category", "eur": "category"}),
    "Arrow table": lambda: ARROW,
    "Arrow table in chunks": lambda: pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "Arrow record batch": lambda: ARROW.to_batches()[0],
    "Arrow reader, which can be read once": ARROW.to_reader,
    "dictionary-encoded Arrow": lambda: ARROW.set_column(1, "title", ARROW["title"].dictionary_encode()),
    "another library": lambda: Exporter(ARROW),
    "polars": lambda: polars().DataFrame(PLAIN.to_dict("list")),
    "polars categories": lambda: (
        polars()
        .DataFrame(PLAIN.to_dict("list"))
        .with_columns(polars().col("title", "eur").cast(polars().Categorical))
    ),
    "polars enumeration": lambda: (
        polars()
        .DataFrame(PLAIN.to_dict("list"))
        .with_columns(polars().col("brand").cast(polars().Enum(["", "Fern", "Oak"])))
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_read_like_a_parquet_file(tmp_path: Path, kind: str) -> None:
    expected = read_table(parquet_of(PLAIN, tmp_path), COLUMNS, notices=quiet)
    assert np.isnan(expected.known_price).tolist() == [False, True, True]
    assert expected.price_style.currency == "EUR"
    check_equal(read_table(FRAMES[kind](), COLUMNS, notices=quiet), expected)
    parts = list(iter_table(FRAMES[kind](), COLUMNS, rows=2, notices=quiet))
    assert [len(part) for part in parts] == [2, 1]
    check_equal(concat_tables([*parts]), expected)


def test_a_table_tells_how_its_own_prices_are_written_and_keeps_what_training_knew() -> None:
    columns = replace(
        COLUMNS, formats=read_table(PLAIN[2:].assign(eur=["12,50"]), COLUMNS, notices=quiet).formats
    )
    assert read_table(PLAIN, columns, notices=quiet).price_style == PriceStyle(",", None, "EUR")
    assert read_table(PLAIN.assign(eur="12"), columns, notices=quiet).price_style == PriceStyle(",")


@pytest.mark.parametrize("missing", [False, True])
def test_nullable_columns_are_those_of_a_parquet_file(tmp_path: Path, missing: bool) -> None:
    gap = [None] if missing else []
    columns: dict[str, list[Any]] = {
        "title": ["tea", "jam", *gap],
        "n": [3, 4, *gap],
        "f": [0.5, 1.0, *gap],
        "b": [True, False, *gap],
    }
    types = {"title": "string", "n": "Int64", "f": "Float64", "b": "boolean"}
    nullable = pd.DataFrame({name: pd.array(cells, dtype=types[name]) for name, cells in columns.items()})
    meant = Columns(("title", "n", "f", "b"), "n", None)
    expected = read_table(parquet_of(nullable, tmp_path), meant)
    assert expected.text[0] == "title: tea\nn: 3\nf: 0.5\nb: true"
    assert expected.text.tolist()[2:] == [""] * len(gap)
    same: list[Any] = [nullable, nullable.convert_dtypes(dtype_backend="pyarrow"), pa.table(columns)]
    same.append(polars().DataFrame(columns, strict=False))
    if not missing:
        same.append(pd.DataFrame(columns))
    for frame in same:
        check_equal(read_table(frame, meant), expected)


def test_prices_of_a_frame_are_read_as_read_options_say() -> None:
    frame = pd.DataFrame({"title": ["a", "b"], "eur": ["1.299", "4.500"]})
    columns = Columns(("title",), "eur", None)
    told: list[str] = []
    assert read_table(frame, columns, notices=quiet).known_price.tolist() == [1.299, 4.5]
    read = read_table(frame, columns, read_options=ReadOptions(decimal=","), notices=told.append)
    assert read.known_price.tolist() == [1299, 4500]
    assert told[0].startswith("the DataFrame: prices read: '1.299' as 1299")


@pytest.mark.parametrize("limit", [1, 2, 3, 99])
def test_a_limit_takes_the_first_rows_of_a_frame(limit: int) -> None:
    table = read_table(PLAIN, COLUMNS, limit=limit, notices=quiet)
    assert table.ids.tolist() == PLAIN["sku"][:limit].tolist()
    parts = list(iter_table(ARROW, COLUMNS, rows=2, limit=limit, notices=quiet))
    assert sum(map(len, parts)) == len(table)


def test_usable_rows_of_a_frame(raises) -> None:
    told: list[str] = []
    usable, rejected = read_usable(
        PLAIN, COLUMNS, read_options=ReadOptions(currency="EUR"), notices=told.append
    )
    assert usable.ids.tolist() == ["a1"]
    assert rejected["reason"].tolist() == ["other currency", "no text"]
    assert told[-1] == "the DataFrame: 2 of 3 rows cannot be used (other currency: 1, no text: 1)."
    with raises(DataError, "currency", column="eur", currencies={"EUR": 1, "$": 1}) as caught:
        read_usable(PLAIN, COLUMNS, notices=quiet)
    assert caught.value.parameters == ("currency",)
    with raises(DataError, "text", "price", reasons={"no text": 1}) as caught:
        read_usable(PLAIN[2:], COLUMNS, notices=quiet)
    assert (caught.value.parameters, caught.value.facts["reasons"]) == (("text", "price"), {"no text": 1})


def test_unnamed_columns_are_guessed(tmp_path: Path) -> None:
    told: list[str] = []
    shop = PLAIN.rename(columns={"eur": "price"})
    arrow = pa.Table.from_pandas(shop, preserve_index=False)
    for source in (shop, parquet_of(shop, tmp_path), str(tmp_path / "t.parquet"), arrow.to_reader()):
        table = read_table(source, notices=told.append)
        assert table.text[0] == "Green tea"
        assert table.price is not None
        assert table.ids.tolist() == ["a1", "b2", "c3"]
    assert [sentence.partition(": ")[2][:11] for sentence in told] == ["prices read"] * 4


def test_a_file_without_header_is_read_without_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Green tea 50 g,€3.5\nPlum jam 250 g,€2.25\n")
    table = read_table(path, notices=quiet)
    assert table.frame.columns.tolist() == ["column1", "column2"]
    assert table.known_price.tolist() == [3.5, 2.25]


def test_names_of_sources() -> None:
    assert source_name("data/products.csv") == "products.csv"
    assert source_name(Path("products.parquet")) == "products.parquet"
    assert source_name(PLAIN) == "DataFrame"
    assert source_name(ARROW) == "Table"


BAD: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "no rows": (lambda: PLAIN[:0], {}),
    "no rows, Arrow": (lambda: ARROW[:0], {}),
    "no columns": (
        lambda: pd.DataFrame(index=range(3)),
        {},
    ),
    "a column is missing": (
        lambda: PLAIN.rename(columns={"title": "titles"}),
        {"column": "title", "candidates": ["sku", "titles", "brand", "stock", "eur"], "suggestion": "titles"},
    ),
    "two columns of one name": (
        lambda: PLAIN.rename(columns={"brand": "title"}),
        {"column": "title", "duplicates": ["title"]},
    ),
    "two columns of one name, Arrow": (
        lambda: ARROW.rename_columns(["sku", "title", "title", "stock", "eur"]),
        {"column": "title", "duplicates": ["title"]},
    ),
    "columns of two levels": (
        lambda: PLAIN.set_axis(pd.MultiIndex.from_product([["x"], PLAIN.columns]), axis=1),
        {"columns": [f"('x', '{name}')" for name in PLAIN]},
    ),
    "values of several types": (
        lambda: PLAIN.assign(brand=["Fern", 7, None]),
        {"column": "brand"},
    ),
    "objects": (
        lambda: PLAIN.assign(brand=[object()] * 3),
        {"column": "brand"},
    ),
    "a list": (
        lambda: [["a1", "tea"]],
        {"type": "list"},
    ),
    "nothing": (lambda: None, {"type": "NoneType"}),
    "one column": (lambda: PLAIN["title"], {"type": "Series"}),
    "one Arrow column": (lambda: ARROW["title"], {"type": "ChunkedArray"}),
    "a polars plan": (lambda: polars().LazyFrame({"title": ["x"]}), {}),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("function", [read_table, read_usable, iter_table])
def test_bad_frames_raise_one_clear_error(case: str, function: Callable[..., Any], raises) -> None:
    make, facts = BAD[case]
    with raises(DataError, "text" if "a column" in case else "table", **facts) as caught:
        list(function(make(), COLUMNS, notices=quiet))
    assert "--" not in str(caught.value)


def test_a_missing_price_or_id_column_names_its_parameter() -> None:
    for columns, parameter in (
        (Columns(("title",), "usd", "sku"), "price"),
        (Columns(("title",), "eur", "sk", True), "id"),
    ):
        with pytest.raises(DataError) as caught:
            read_table(PLAIN, columns)
        assert caught.value.parameters == (parameter,)


def test_predicting_an_empty_frame_is_not_an_error(raises) -> None:
    for frame in (PLAIN[:0], ARROW[:0]):
        assert len(read_frame(frame, Columns(("title",), None, None))) == 0
    assert len(read_frame(polars().DataFrame({"title": []}), Columns(("title",), None, None))) == 0
    with raises(
        DataError,
        "text",
        column="name",
        candidates=["sku", "title", "brand", "stock", "eur"],
        suggestion=None,
    ):
        read_frame(PLAIN[:0], Columns(("name",), None, None))


def test_a_frame_without_text_and_price_columns_cannot_be_guessed(raises) -> None:
    with raises(DataError, "text", candidates=["n"]):
        read_table(pd.DataFrame({"n": [1, 2]}))
    with pytest.raises(NoRowsError):
        read_table(pd.DataFrame({"n": []}))


def test_one_text_column_needs_no_tuple() -> None:
    assert Columns(text="title").text == ("title",)  # type: ignore[arg-type]


def test_the_class_of_a_frame_is_no_frame(raises) -> None:
    with raises(DataError, "table", type="type"):
        read_table(pd.DataFrame)  # type: ignore[arg-type]


def test_text_that_is_not_unicode_is_explained(raises) -> None:
    frame = pd.DataFrame({"title": pd.Series(["\ud800"] * 3, dtype=object)})
    with raises(DataError, "table", column="title"):
        read_table(frame)


def test_a_sheet_of_a_table_that_has_none_is_an_error(tmp_path: Path, raises) -> None:
    frame = pd.DataFrame({"title": ["Tea", "Ink"], "price": [2.5, 3.5]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        with raises(ConfigError, "sheet", sheet="May"):
            read_table(source, Columns(("title",)), read_options=ReadOptions(sheet="May"))
