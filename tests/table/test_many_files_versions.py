"""A folder of a table of Delta Lake or Iceberg is an error: it has Parquet files of older versions."""

from pathlib import Path

import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.table import table_files


@pytest.mark.parametrize(
    ("table", "fact", "address"),
    [
        ("own table", "_delta_log/00000000000000000000.json", "delta:///shop/own%20table"),
        ("day=1/prices", "_delta_log/00000000000000000010.json", "delta:///shop/day%3D1/prices"),
        ("prices", "metadata/00000-c0.metadata.json", "iceberg://CATALOGUE/NAMESPACE.TABLE"),
    ],
)
def test_the_error_names_the_address(table, fact, address, tmp_path, monkeypatch, raises):
    monkeypatch.chdir(tmp_path)
    rows = Path("shop") / table / "data.parquet"
    rows.parent.mkdir(parents=True)
    pd.DataFrame({"title": ["Green tea"]}).to_parquet(rows)
    assert table_files(Path("shop")) == [rows]
    (rows.parent / fact).parent.mkdir()
    (rows.parent / fact).write_text("{}")
    with raises(DataError, "table", path=str(rows.parent)) as error:
        table_files(Path("shop"))
    assert f"name it as {address}." in str(error.value)
    with raises(DataError, "table", path=str(rows.parent)):
        table_files(rows.parent / "*.parquet")
    assert table_files(rows) == [rows]


def test_hidden_tables_are_omitted(tmp_path):
    rows = tmp_path / "data.parquet"
    for folder in (tmp_path, tmp_path / "_old", tmp_path / "_old" / "_delta_log"):
        folder.mkdir(exist_ok=True)
        pd.DataFrame({"title": ["Green tea"]}).to_parquet(folder / "data.parquet")
    (tmp_path / "_old" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    assert table_files(tmp_path) == [rows]
