"""Feather and ORC files are read as Parquet files are, and damaged ones are errors that name the file."""

import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from pricekit.errors import DataError
from pricekit.table import Columns, arrow, check_columns, iter_files, iter_table, read_table
from pricekit.table.arrow import written_bytes
from pricekit.table.columns import ReadWarnings
from pricekit.table.many_files import ids_without_rows
from pricekit.table.source import DEFAULT_READ_OPTIONS, is_large, open_table

COLUMNS = Columns(("name", "year"), "price", "sku")
ROWS = pa.table(
    {
        "name": [f"tea {n}" for n in range(1000)],
        "year": pa.array([2000 + n % 25 if n % 7 else None for n in range(1000)], pa.int32()),
        "price": np.arange(1, 1001) / 4,
        "sku": pa.array(range(1000), pa.int64()),
    }
)


def write(path, table=ROWS):
    if path.suffix == ".orc":
        orc.write_table(table, path)
    elif path.suffix == ".parquet":
        table.to_pandas().to_parquet(path)
    else:
        feather.write_feather(table, path, chunksize=300)
    return path


@pytest.mark.parametrize("suffix", [".feather", ".arrow", ".orc"])
def test_a_file_is_read_as_the_same_parquet_file(tmp_path, suffix):
    path = write(tmp_path / f"x{suffix}")
    check_columns(path, COLUMNS)
    expected, table = read_table(write(tmp_path / "x.parquet"), COLUMNS), read_table(path, COLUMNS)
    assert table.text.tolist() == expected.text.tolist()
    assert table.price.tolist() == expected.price.tolist()
    assert table.ids.tolist() == expected.ids.tolist() == list(range(1000))
    pd.testing.assert_frame_equal(table.frame, expected.frame, check_dtype=False)
    tables = list(iter_table(path, COLUMNS, rows=400))
    assert max(map(len, tables)) <= 400
    assert sum(map(len, tables)) == 1000
    assert tables[-1].position == path.stat().st_size


def test_dictionaries_are_written_out(tmp_path):
    table = ROWS.set_column(0, "name", ROWS["name"].dictionary_encode())
    assert read_table(write(tmp_path / "x.feather", table), COLUMNS).frame["name"][7] == "tea 7"


@pytest.mark.parametrize("suffix", [".feather", ".orc"])
def test_a_file_without_rows(tmp_path, suffix, raises):
    path = write(tmp_path / f"x{suffix}", ROWS[:0])
    with raises(DataError, "table"):
        read_table(path, COLUMNS)
    assert ids_without_rows(path, COLUMNS, DEFAULT_READ_OPTIONS).name == "sku"
    assert sum(map(len, iter_files([path, write(tmp_path / f"y{suffix}")], COLUMNS))) == 1000


@pytest.mark.parametrize("suffix", [".feather", ".orc"])
def test_the_size_decides_what_is_large(tmp_path, suffix, monkeypatch):
    opened = open_table(write(tmp_path / f"x{suffix}"), DEFAULT_READ_OPTIONS, print)
    assert not is_large(opened)
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", 10_000)
    assert is_large(opened)


@pytest.mark.parametrize("suffix", [".feather", ".orc"])
def test_a_file_of_another_format_is_one_error(tmp_path, suffix, raises):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"name,price\ntea,3\n")
    with raises(DataError, "table"):
        read_table(path, COLUMNS)


@pytest.mark.parametrize(("suffix", "trials"), [(".feather", 150), (".orc", 12)])
def test_damage_is_an_error_or_harmless(tmp_path, suffix, trials):
    """Each trial of ORC starts a sandbox."""
    path = write(tmp_path / f"x{suffix}")
    content, chance = path.read_bytes(), random.Random(0)
    problems = []
    for _ in range(trials):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3, 20])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        try:
            read_table(path, COLUMNS)
        except DataError as error:
            problems.append(str(error))
    assert len(problems) > trials / 3
    assert all(str(path) in problem for problem in problems)


LONG = "x" * 1000
SHARED = {
    "dictionary": pa.array(["", LONG, None]).dictionary_encode(),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None]), pa.array(["", LONG], pa.string_view())
    ),
    "view": pa.array(["", LONG, None], pa.string_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), pa.array(["", LONG, None])),
    "list": pa.array([[], [LONG], None]),
    "list view": pa.array([[], [LONG], None], pa.list_view(pa.string())),
    "map": pa.array([[], [("k", LONG)], None], pa.map_(pa.string(), pa.string())),
    "struct": pa.array([{"a": ""}, {"a": LONG}, None]),
    "fixed list": pa.array([[""], [LONG], None], pa.list_(pa.string(), 1)),
}


@pytest.mark.parametrize("column", SHARED.values(), ids=SHARED)
def test_the_bytes_of_cells_that_share_values_are_counted(column):
    for part, place in ((column, 1), (column.slice(1), 0), (column.slice(1, 1), 0)):
        sizes = written_bytes(part)
        assert len(sizes) == len(part)
        assert 1000 <= sizes[place] <= 1300
        assert all(size < 300 for number, size in enumerate(sizes) if number != place)


def test_columns_that_share_nothing_are_not_counted():
    assert written_bytes(pa.array(["a", "b"])) is None
    assert written_bytes(pa.array([1, 2])) is None


def test_rows_that_share_a_long_text_are_read_few_at_a_time(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(arrow, "MAX_CELL_BYTES", 10_000)
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50), pa.array(["short", "x" * 4000]))
    path = tmp_path / "t.feather"
    feather.write_feather(pa.table({"n": list(range(100)), "t": texts}), path)
    chunks = list(arrow.read_columnar(path, "feather", 8192, ReadWarnings()))
    assert [number for chunk in chunks for number in chunk.columns["n"].to_pylist()] == list(range(100))
    monkeypatch.setattr(arrow, "MAX_CELL_BYTES", 3000)
    with raises(DataError, "table", column="t", row=1):
        list(arrow.read_columnar(path, "feather", 8192, ReadWarnings()))


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_rows_that_take_nothing_in_the_file_are_not_read_for_ever(tmp_path, suffix, monkeypatch, raises):
    monkeypatch.setattr(arrow, "FREE_BYTES", 1 << 20)
    table, path = pa.table({"n": pa.nulls(1_000_000)}), tmp_path / f"t.{suffix}"
    write = pq.write_table if suffix == "parquet" else feather.write_feather
    write(table, path)
    with raises(DataError, "table"):
        list(arrow.read_columnar(path, suffix, 8192, ReadWarnings()))
