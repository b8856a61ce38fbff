"""Remote folders and patterns are those of local files; each file is fetched alone."""

import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.io.storage import Address
from pricekit.table import Columns, check_columns, files_size, iter_files, table_files

COLUMNS = Columns("title", price=None, id=None)


@pytest.fixture
def folder(memory):
    for number, name in enumerate(["a.parquet", "b/c.parquet", "_tmp/d.parquet", "b/.e.parquet", "f.csv"]):
        frame = pd.DataFrame({"title": [f"{number}-{row}" for row in range(3)]})
        content = frame.to_csv(index=False).encode() if name == "f.csv" else frame.to_parquet(index=False)
        memory.pipe(f"/in/{name}", content)
    return Address("memory://in")


def names(files):
    return [str(file) for file in files]


def test_a_folder_stands_for_its_parquet_files(folder):
    assert names(table_files(folder)) == ["memory://in/a.parquet", "memory://in/b/c.parquet"]


def test_a_pattern_stands_for_its_files(folder):
    assert names(table_files(folder / "*.csv")) == ["memory://in/f.csv"]
    assert names(table_files(folder / "**/*.parquet")) == ["memory://in/a.parquet", "memory://in/b/c.parquet"]
    assert names(table_files(folder / "_tmp/*")) == ["memory://in/_tmp/d.parquet"]
    assert names(table_files(folder / "missing.csv")) == ["memory://in/missing.csv"]


@pytest.mark.parametrize("name", ["*.tsv", "x"])
def test_no_file_is_an_error(folder, memory, name, raises):
    memory.pipe("/in/x/y.csv", b"")
    with raises(DataError, "table"):
        table_files(folder / name)


def test_files_are_read_one_after_the_other_and_only_one_is_local(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = table_files(folder)
    check_columns(folder, COLUMNS)
    texts, most = [], 0
    for table in iter_files(files, COLUMNS, rows=2):
        texts += table.text.tolist()
        most = max(most, len(list(tmp_path.glob("pricekit-*"))))
    assert texts == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert most == 1
    assert table.position == files_size(files)
    assert table.ids.tolist() == [5]
