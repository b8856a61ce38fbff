"""Damaged Parquet files are errors that name the file, and no row of one is lost in silence."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pricekit.errors import DataError
from pricekit.table import Columns, read_table

COLUMNS = Columns(("name",), "price", None)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table.parquet"
    pd.DataFrame({"name": ["tea", "milk", "rice"], "price": [2.0, 1.5, 3.0]}).to_parquet(path, index=False)
    return path


def test_a_damaged_column_name_is_reported(path, raises):
    path.write_bytes(path.read_bytes().replace(b"name", b"n\xffm\xfe"))
    with raises(DataError, "table"):
        read_table(path, COLUMNS)


def test_fewer_rows_than_the_footer_counts_are_reported(path, monkeypatch, raises):
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *given, **more: (b[:2] for b in batches(*given, **more))
    )
    with raises(DataError, "table"):
        read_table(path, COLUMNS)
