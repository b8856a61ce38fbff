"""Feather and ORC files are read as Parquet files are, and damaged ones are errors that name the file."""

import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, orc

from pricekit.errors import DataError
from pricekit.table import Columns, check_columns, iter_files, iter_table, read_table
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


@pytest.mark.parametrize("suffix", [".feather", ".orc"])
def test_damage_is_an_error_or_harmless(tmp_path, suffix):
    path = write(tmp_path / f"x{suffix}")
    content, chance = path.read_bytes(), random.Random(0)
    problems = []
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3, 20])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        try:
            read_table(path, COLUMNS)
        except DataError as error:
            problems.append(str(error))
    assert len(problems) > 50
    assert all(str(path) in problem for problem in problems)
