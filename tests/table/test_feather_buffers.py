"""The sizes of Feather batches are known before they are unpacked."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from pricekit.errors import DataError
from pricekit.table import feather_buffers
from pricekit.table.arrow import read_columnar
from pricekit.table.columns import ReadWarnings
from pricekit.table.feather_buffers import batch_bytes


def written(path: Path, columns: dict[str, object], compression: str) -> Path:
    feather.write_feather(pa.table(columns), path, compression=compression, chunksize=1000)
    return path


def rows_read(path: Path) -> int:
    return sum(len(chunk.columns) for chunk in read_columnar(path, "feather", 8192, ReadWarnings()))


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_ordinary_batches_are_read(tmp_path, compression):
    words = pa.array(["tea", "jam"] * 1500)
    columns = {
        "t": words,
        "d": words.dictionary_encode(),
        "l": [["a"]] * 3000,
        "v": words.cast(pa.string_view()),
    }
    path = written(tmp_path / "t.feather", columns, compression)
    assert rows_read(path) == 3000
    assert (batch_bytes(path) > 0) == (compression == "uncompressed")


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("encoded", [False, True], ids=["text", "dictionary"])
def test_a_batch_that_is_too_large_is_not_unpacked(tmp_path, compression, encoded, monkeypatch, raises):
    monkeypatch.setattr(feather_buffers, "MAX_OPEN_BYTES", 1 << 20)
    texts = pa.array(["x" * (1 << 21), "y"])
    path = written(
        tmp_path / "t.feather", {"t": texts.dictionary_encode() if encoded else texts}, compression
    )
    with raises(DataError, "table"):
        rows_read(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_metadata_are_one_error(tmp_path_factory, data):
    path = written(
        tmp_path_factory.mktemp("t") / "t.feather", {"t": ["tea", "jam"] * 50, "p": [1.5] * 100}, "zstd"
    )
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(8, len(content) - 7))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(DataError):
        rows_read(path)
