"""Tables whose texts are in a mapped file."""

import errno
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pricekit import make_catalog
from pricekit.table import Columns, concat_tables, read_table, read_usable
from pricekit.table.source import DEFAULT_READ_OPTIONS, is_large, open_table
from pricekit.table.table import parts_of, stored, texts_in_parts


@pytest.fixture
def small_parts(monkeypatch):
    for module in ("table", "usable"):
        monkeypatch.setattr(f"pricekit.table.{module}.PART_ROWS", 100)


@pytest.fixture
def in_memory(small_parts):
    frame = make_catalog(730)
    frame["sample_id"] = "id " + frame["sample_id"].astype(str)
    frame["brand"] = "brand " + (frame["price"] % 7).astype(int).astype(str)
    frame["number"] = np.arange(len(frame)) / 2
    return read_table(frame)


@pytest.fixture
def on_disk(in_memory, tmp_path):
    return stored((in_memory.slice(start, start + 100) for start in range(0, 730, 100)), tmp_path)


def _assert_equal(one, other):
    pd.testing.assert_frame_equal(one.frame, other.frame)
    pd.testing.assert_series_equal(one.text, other.text)
    pd.testing.assert_series_equal(one.ids, other.ids)
    for name in ("price", "rows"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_a_stored_table_equals_the_one_in_memory(in_memory, on_disk, tmp_path):
    _assert_equal(on_disk, in_memory)
    assert not list(tmp_path.iterdir())  # the file has no name


@pytest.mark.parametrize("count", [0, 1, 60, 730])
def test_rows_are_taken_in_the_order_asked_for(in_memory, on_disk, count):
    rows = np.random.default_rng(0).permutation(730)[:count]
    for positions in (rows, np.sort(rows)):
        _assert_equal(on_disk.take(positions), in_memory.take(positions))
    assert (on_disk.take(rows).folder is None) == (count <= 100)  # few rows are in memory


def test_parts_are_all_rows_in_order(in_memory, on_disk):
    found = list(parts_of(on_disk))
    assert [len(part) for part in found] == [100] * 7 + [30]
    assert found[0].folder is None
    _assert_equal(concat_tables(found), in_memory)
    assert list(parts_of(in_memory)) == [in_memory]
    assert pd.concat(texts_in_parts(on_disk.text)).tolist() == in_memory.text.tolist()


def test_joined_tables_stay_on_disk(in_memory, on_disk, tmp_path):
    both = concat_tables([on_disk, in_memory])
    assert both.folder == tmp_path
    assert both.text.tolist() == 2 * in_memory.text.tolist()


def test_a_large_file_is_split_as_in_memory(small_parts, tmp_path, monkeypatch):
    frame = make_catalog(350)
    frame.loc[[5, 120], "price"] = np.nan
    frame.loc[[7, 200], "catalog_content"] = ""
    frame.loc[[30, 333], "sample_id"] = 3  # the same id as a row of another part
    frame.to_csv(tmp_path / "table.csv", index=False)
    expected, rejected = read_usable(tmp_path / "table.csv", folder=tmp_path)
    assert expected.folder is None
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", 1000)
    found, others = read_usable(tmp_path / "table.csv", folder=tmp_path)
    assert found.folder == tmp_path
    _assert_equal(found, expected)
    pd.testing.assert_frame_equal(others.reset_index(drop=True), rejected)
    assert others["reason"].value_counts().to_dict() == {"no price": 2, "no text": 2, "duplicate id": 2}


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_the_size_decides(tmp_path, monkeypatch, suffix):
    frame = make_catalog(200)
    source = frame if suffix == "frame" else tmp_path / f"table.{suffix}"
    if suffix == "csv":
        frame.to_csv(source)
    elif suffix == "parquet":
        frame.to_parquet(source)
    opened = open_table(source, DEFAULT_READ_OPTIONS, print)
    assert not is_large(opened)
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", 10_000)
    assert is_large(opened)


def test_a_full_disk_names_the_folder(in_memory, tmp_path, monkeypatch, raises):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pricekit.table.table._append", full)
    with raises(OSError) as error:
        stored([in_memory], tmp_path)
    assert Path(error.value.filename) == tmp_path


def test_a_large_table_of_columns(tmp_path, small_parts, monkeypatch):
    frame = pd.DataFrame(
        {"title": [f"tea {i}" for i in range(250)], "eur": np.arange(1, 251), "tags": [["a"]] * 250}
    )
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", 0)
    found, _ = read_usable(frame, Columns(("title",), "eur", None), folder=tmp_path)
    assert found.folder == tmp_path
    assert found.frame["tags"].iloc[240].tolist() == ["a"]
    assert found.ids.tolist() == list(range(250))
