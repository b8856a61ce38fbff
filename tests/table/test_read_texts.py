"""Texts given as a list are the same as texts in a file."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pricekit.errors import DataError
from pricekit.table import MAX_TEXT_CHARS, Columns, read_table, table_of_texts

TEXTS = ["", " a ", "n\0u\0l", "é" * (MAX_TEXT_CHARS + 9), "\ud800x", "\r\n"]


def test_texts_are_cleaned_as_those_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"about": text}) + "\n" for text in TEXTS))
    file = read_table(path, Columns(("about",), None, None), notices=lambda _: None)
    with caplog.at_level(logging.WARNING, "pricekit"):
        table = table_of_texts(TEXTS, "about")
    pd.testing.assert_series_equal(table.text, file.text)
    pd.testing.assert_frame_equal(table.frame, file.frame)
    pd.testing.assert_series_equal(table.ids, file.ids)
    assert table.price is None
    assert table.ids.name == "row"
    np.testing.assert_array_equal(table.rows, file.rows)
    assert [record.getMessage() for record in caplog.records] == [
        "the texts: cells from which NUL bytes were removed: 1.",
        "the texts: cells cut to 50,000 characters: 1.",
    ]


def test_any_sequence_of_texts_is_accepted() -> None:
    column = pd.Series(["a", "b"], index=[5, 6])
    dtypes = ["object", "string[python]", "string[pyarrow]", "category", pd.ArrowDtype(pa.string())]
    arrays = [np.array(["a", "b"], dtype=dtype) for dtype in ("U1", object, np.dtypes.StringDType())]
    for texts in (["a", "b"], ("a", "b"), column, *map(column.astype, dtypes), *arrays):
        table = table_of_texts(texts)  # type: ignore[arg-type]
        assert table.frame["text"].tolist() == ["a", "b"]
        assert table.ids.tolist() == [0, 1]
    assert len(table_of_texts([])) == 0
    assert table_of_texts([]).text.dtype == "str"


@pytest.mark.parametrize("one", ["tea", b"tea", {"a": "x"}, {"x"}, 5, None])
def test_a_single_text_is_not_a_list(one: object, raises) -> None:
    with raises(DataError, "table"):
        table_of_texts(one)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 7, float("nan"), b"x"])
def test_a_value_that_is_not_a_text_is_an_error(value: object, raises) -> None:
    for texts in (["a", value], np.array(["a", value], dtype=object), pd.Series(["a", value], dtype=object)):
        with raises(DataError, "table", position=1) as caught:
            table_of_texts(texts)  # type: ignore[arg-type]
        assert caught.value.facts == {"position": 1, "type": type(value).__name__}


@pytest.mark.parametrize("array", [np.array("x"), np.array([["x"], ["y"]])])
def test_an_array_of_texts_has_one_dimension(array: np.ndarray, raises) -> None:
    with raises(DataError, "table"):
        table_of_texts(array)


@pytest.mark.parametrize("whole", [pd.DataFrame({"a": ["x"]}), pa.table({"a": ["x"]})])
def test_a_whole_table_is_not_a_list_of_texts(whole: object, raises) -> None:
    with raises(DataError, "table"):
        table_of_texts(whole)  # type: ignore[arg-type]


def test_a_column_of_polars_is_a_list_of_texts(raises) -> None:
    polars = pytest.importorskip("polars")
    for kind in (polars.String, polars.Categorical):
        assert table_of_texts(polars.Series(["x", "y"], dtype=kind)).text.tolist() == ["x", "y"]
    with raises(DataError, "table", position=1, type="NoneType"):
        table_of_texts(polars.Series(["x", None]))
    with raises(DataError, "table", type="DataFrame"):
        table_of_texts(polars.DataFrame({"a": ["x"]}))


def test_a_column_of_arrow_is_a_list_of_texts() -> None:
    for texts in (pa.array(["x", "y"]), pa.chunked_array([["x"], ["y"]])):
        assert table_of_texts(texts).text.tolist() == ["x", "y"]


class _Lazy:
    def collect(self) -> None:
        pass


@pytest.mark.parametrize(
    "given",
    [
        _Lazy(),
        None,
        {"a": 1},
        pd.DataFrame,
    ],
)
def test_what_holds_no_texts_is_named_with_a_remedy(given: object, raises) -> None:
    with raises(DataError, "table"):
        table_of_texts(given)  # type: ignore[arg-type]
