"""Columns of vectors: how they are recognised, held in a frame, and read."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import guess_columns, iter_table, read_table, write_frame
from pricekit.table.table import Columns, parts_of, stored
from pricekit.table.vectors import holds_lists, read_vectors, vector_width

COLUMNS = Columns("title", None, None)
VECTORS = np.random.default_rng(0).normal(size=(40, 20)).astype(np.float32)
TITLES = [f"green tea number {number} of the shop" for number in range(40)]
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 20)


def vectors_of(source, width=None):
    table = read_table(source, COLUMNS, notices=lambda _: None)
    return read_vectors(table.frame["seen"], table.row_numbers, width)


@pytest.mark.parametrize(
    "column",
    [
        FIXED,
        pa.array(VECTORS.tolist(), pa.list_(pa.float32())),
        pa.array(VECTORS.tolist(), pa.large_list(pa.float64())),
        pa.array(VECTORS.tolist(), pa.list_view(pa.float32())),
        pa.FixedShapeTensorArray.from_numpy_ndarray(VECTORS),
        pa.array([json.dumps(vector) for vector in VECTORS.astype(float).tolist()]),
    ],
    ids=lambda column: str(column.type)[:12],
)
def test_vectors_have_the_same_bits_however_arrow_stores_them(column):
    assert np.array_equal(vectors_of(pa.table({"title": TITLES, "seen": column})), VECTORS)
    assert vector_width(column if column.type != pa.string() else column.cast(pa.large_string())) == 20


def test_files_and_frames_have_the_same_vectors(tmp_path):
    frame = pd.DataFrame({"title": TITLES, "seen": list(VECTORS)})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_feather(tmp_path / "a.feather")
    texts = frame.assign(seen=[vector.astype(float).tolist() for vector in VECTORS])
    texts.to_json(tmp_path / "a.jsonl", orient="records", lines=True, double_precision=15)
    texts.to_csv(tmp_path / "a.csv", index=False)
    arrow = pa.table({"title": TITLES, "seen": FIXED})
    typed = frame.assign(seen=pd.Series(pd.arrays.ArrowExtensionArray(FIXED)))
    files = [tmp_path / f"a.{suffix}" for suffix in ("parquet", "feather", "jsonl", "csv")]
    for source in (
        frame,
        typed,
        arrow,
        pl.from_arrow(arrow),
        pl.from_arrow(arrow).cast({"seen": pl.List(pl.Float32)}),
        *files,
    ):
        assert np.array_equal(vectors_of(source), VECTORS)


def test_whole_numbers_empty_lists_and_missing_vectors():
    cells = [[1, 2], None, [], [-3, 4]]
    vectors = vectors_of(pa.table({"title": TITLES[:4], "seen": pa.array(cells, pa.list_(pa.int8()))}))
    assert np.array_equal(vectors, np.float32([[1, 2], [np.nan] * 2, [np.nan] * 2, [-3, 4]]), equal_nan=True)
    nothing = pd.DataFrame({"title": TITLES[:2], "seen": [None, None]})
    assert np.isnan(vectors_of(nothing, width=3)).all()
    assert vectors_of(nothing, width=3).shape == (2, 3)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e300, None])
def test_a_vector_with_a_number_that_is_not_finite_counts_as_missing(odd, caplog):
    name = f"seen {odd}"
    column = pd.Series(
        pd.array([[1.0, 2.0], [odd, 2.0]], pd.ArrowDtype(pa.large_list(pa.float64()))), name=name
    )
    vectors = read_vectors(column, np.array([5, 6]))
    assert np.array_equal(vectors, np.float32([[1, 2], [np.nan, np.nan]]), equal_nan=True)
    assert f"1 vector in the column '{name}' count as missing" in caplog.text
    assert "row 6" in caplog.text


def test_vectors_of_several_lengths_are_an_error_that_names_the_row(raises):
    cells = [[1.0, 2.0], None, [1.0, 2.0, 3.0]]
    table = pa.table({"title": TITLES[:3], "seen": cells})
    with raises(DataError, "vectors", column="seen", row=2, length=3, expected=2):
        vectors_of(table)
    with raises(DataError, "table", column="seen", row=0, length=2, expected=3):
        vectors_of(table, width=3)


@pytest.mark.parametrize("cell", ["tea", "[1, 2", "[1, true]", '["a", "b"]', "[[1, 2], [3, 4]]", "{}", "7"])
def test_a_cell_that_is_no_vector_is_an_error_that_names_the_row(cell, raises):
    with raises(DataError, "table", column="seen", row=1):
        vectors_of(pd.DataFrame({"title": TITLES[:2], "seen": ["[1, 2]", cell]}))


def test_a_text_that_was_cut_says_how_to_store_the_vector(raises):
    cell = json.dumps([1 / 3] * 3000)
    table = pd.DataFrame({"title": ["tea"], "seen": [cell]})
    with raises(DataError, "table", column="seen", row=0) as raised:
        vectors_of(table)
    assert "Long texts are cut" in str(raised.value)


def test_other_columns_are_no_vectors(raises):
    for cells in ([1.5, 2.5], [["a", "b"], ["c", "d"]], [b"ab", b"cd"]):
        with raises(DataError, "table", column="seen", row=0):
            vectors_of(pd.DataFrame({"title": TITLES[:2], "seen": cells}))
    with raises(DataError, "vectors", column="seen"):
        vectors_of(pd.DataFrame({"title": TITLES[:2], "seen": [None, None]}))


@given(
    st.lists(
        st.none()
        | st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3)
    )
)
def test_typed_and_written_vectors_are_equal(cells):
    rows = np.arange(len(cells))
    typed = pd.Series(pd.array(cells, pd.ArrowDtype(pa.large_list(pa.float32()))), name="seen")
    written = pd.Series(
        ["" if cell is None else json.dumps(cell) for cell in cells], name="seen", dtype="str"
    )
    vectors = read_vectors(typed, rows, 3)
    assert np.array_equal(vectors, read_vectors(written, rows, 3), equal_nan=True)
    assert np.isnan(vectors).all(axis=1).tolist() == [cell is None for cell in cells]


def test_columns_of_equally_long_lists_are_vectors_and_never_text():
    ragged = [vector[: 20 - number % 2].tolist() for number, vector in enumerate(VECTORS)]
    sizes = [[number, 2.5, 3.0] for number in range(40)]
    table = pa.table(
        {"title": TITLES, "price": np.arange(40) * 1.5 + 1, "seen": FIXED, "ragged": ragged, "sizes": sizes}
    )
    guess = guess_columns(table)
    assert guess.vectors == ("seen",)
    assert "seen" not in guess.columns.text
    assert "seen" not in guess.left_out
    assert guess.columns.text[0] == "title"
    assert "sizes" in guess.columns.text


def test_lists_of_a_large_table_are_in_its_file(tmp_path):
    frame = pd.DataFrame({"title": TITLES, "seen": [None, *VECTORS[1:]], "ids": [[1]] * 20 + [[2, 3]] * 20})
    table = read_table(frame, COLUMNS)
    large = stored([table.slice(0, 15), table.slice(15, 40)], tmp_path)
    assert holds_lists(large.frame["seen"])
    assert large.frame["ids"].tolist() == table.frame["ids"].tolist()
    places = np.array([39, 3, 0, 17])
    for one, other in ((table.take(places), large.take(places)), (table, next(parts_of(large)))):
        same = [read_vectors(each.frame["seen"], each.row_numbers) for each in (one, other)]
        assert np.array_equal(*same, equal_nan=True)
    write_frame(tmp_path / "again.parquet", large.frame)
    assert np.array_equal(vectors_of(tmp_path / "again.parquet"), vectors_of(frame), equal_nan=True)


def test_lists_of_a_file_are_read_in_small_parts(tmp_path):
    wide = pa.table(
        {
            "title": TITLES * 20,
            "seen": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(800 * 4096, np.float32)), 4096),
        }
    )
    pq.write_table(wide, tmp_path / "wide.parquet")
    rows = []
    for table in iter_table(tmp_path / "wide.parquet", COLUMNS):
        rows.append(len(table))
        assert read_vectors(table.frame["seen"], table.row_numbers).shape == (len(table), 4096)
    assert sum(rows) == 800
