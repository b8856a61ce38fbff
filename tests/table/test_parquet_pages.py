"""The sizes of Parquet pages are known before they are unpacked: few rows at a time, or a refusal."""

import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.io.sandbox import MEMORY, Outcome
from pricekit.table import arrow, parquet_pages
from pricekit.table.arrow import read_columnar
from pricekit.table.columns import ReadWarnings
from pricekit.table.parquet_pages import rows_at_once

SETTINGS = [
    {"compression": compression, "data_page_version": version, "use_dictionary": dictionary}
    for compression in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    for version in ("1.0", "2.0")
    for dictionary in (True, False)
]


def written(path: Path, columns: dict[str, object], **settings: object) -> Path:
    pq.write_table(pa.table(columns), path, **settings)
    return path


def at_once(path: Path, most: int = 256, group: int = 0) -> int:
    with pq.ParquetFile(path) as file:
        return rows_at_once(path, file, group, most)[0]


def rows_read(path: Path) -> int:
    return sum(len(chunk.columns) for chunk in read_columnar(path, "parquet", 8192, ReadWarnings()))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_ordinary_rows_are_read_as_before(tmp_path, settings):
    rng = random.Random(0)
    texts = [" ".join(rng.choices(["tea", "jam", "olive", "50 g"], k=rng.randrange(90))) for _ in range(3000)]
    columns = {
        "t": texts,
        "p": [1.5] * 3000,
        "b": [b"abc"] * 3000,
        "l": [["a", "b"]] * 3000,
        "s": [{"x": "y"}] * 3000,
    }
    path = written(tmp_path / "t.parquet", columns, row_group_size=1000, data_page_size=4096, **settings)
    assert at_once(path, group=2) == 256
    assert rows_read(path) == 3000


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_large_cells_are_read_few_at_a_time(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(parquet_pages, "MAX_BATCH_BYTES", 1 << 20)
    path = written(tmp_path / "t.parquet", {"t": ["x" * 100_000, "y"] * 100}, **settings)
    if not settings["use_dictionary"]:  # the page holds all rows, and no fewer rows need less of it
        assert at_once(path) == 1
    elif settings["compression"] == "lz4":  # whose blocks Arrow alone knows
        assert 1 <= at_once(path) <= 8
    else:
        assert 4 <= at_once(path) <= 8
    assert rows_read(path) == 200


@pytest.mark.parametrize(
    "settings", SETTINGS[-4:], ids=lambda settings: "-".join(map(str, settings.values()))
)
def test_a_cell_that_is_too_large_is_not_unpacked(tmp_path, settings, monkeypatch, raises):
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 1 << 20)
    path = written(
        tmp_path / "t.parquet", {"p": [1, 2], "t": ["x" * (1 << 21), "y"]}, row_group_size=1, **settings
    )
    with raises(DataError, "table", column="t", row_group=0):
        rows_read(path)
    assert at_once(path, group=1) == 256


def test_pages_that_share_beginnings_are_read_few_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_pages, "MAX_BATCH_BYTES", 1 << 22)
    texts = ["x" * 100_000 + str(n) for n in range(200)]
    settings = {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY"}}
    path = written(tmp_path / "t.parquet", {"t": texts}, **settings)
    assert at_once(path) <= 32
    assert rows_read(path) == 200


def test_many_columns_of_large_pages_are_refused(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(parquet_pages, "MAX_OPEN_BYTES", 1 << 20)
    path = written(tmp_path / "t.parquet", {f"c{n}": ["x" * (1 << 17)] for n in range(9)})
    with raises(DataError, "table", row_group=0):
        rows_read(path)


def test_a_list_of_too_many_values_is_refused(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(parquet_pages, "MAX_OPEN_BYTES", 1 << 20)
    values = pa.nulls(2 << 20, pa.int8())
    path = written(
        tmp_path / "t.parquet", {"t": ["x"], "l": pa.ListArray.from_arrays([0, len(values)], values)}
    )
    with raises(DataError, "table", column="l", row=0):
        rows_read(path)
    outcome = Outcome(MEMORY, "it needs more than 704 MiB of memory")
    monkeypatch.setattr(arrow, "in_sandbox", lambda *_, **__: outcome)
    path.touch()
    with raises(DataError, "table"):
        rows_read(path)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 128)], ids=["list", "fixed"])
def test_many_rows_of_embeddings_are_read(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(parquet_pages, "MAX_OPEN_BYTES", 1 << 20)
    embeddings = pa.array([[0.5] * 128] * 1000, kind)
    path = written(tmp_path / "t.parquet", {"t": ["x"] * 1000, "s": [{"a": 1}] * 1000, "e": embeddings})
    assert rows_read(path) == 1000


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_headers_are_one_error(tmp_path_factory, data):
    path = written(tmp_path_factory.mktemp("t") / "t.parquet", {"t": ["tea", "jam"] * 50, "p": [1.5] * 100})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(4, 200))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(DataError):
        rows_read(path)
