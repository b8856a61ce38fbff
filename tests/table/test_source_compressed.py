"""Compressed tables are read as the same tables unpacked."""

import bz2
import gzip
import io
import lzma
import sys
import zipfile

import pandas as pd
import pyarrow as pa
import pytest

from pricekit.errors import DataError
from pricekit.io.compression import NAMES
from pricekit.io.storage import Address
from pricekit.table import (
    Columns,
    PredictionWriter,
    check_columns,
    concat_tables,
    iter_files,
    iter_table,
    read_table,
    table_files,
)
from pricekit.table.source import DEFAULT_READ_OPTIONS, is_large, open_table

ROWS = pd.DataFrame(
    {"title": [f"Café {n} g" for n in range(3000)], "price": [n % 97 + 0.5 for n in range(3000)]}
)
COLUMNS = Columns("title", id=None)


def content(suffix):
    if suffix == ".jsonl":
        return ROWS.to_json(orient="records", lines=True, force_ascii=False).encode()
    separator = {".tsv": "\t", ".txt": ";"}.get(suffix, ",")
    return ROWS.to_csv(index=False, sep=separator).encode("cp1252" if suffix == ".txt" else "utf-8")


def compressed(suffix, data, name="x.csv"):
    """Bytes as other programs compress them."""
    if suffix == ".zip":
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, data)
        return output.getvalue()
    if suffix == ".zst":
        return pa.compress(data, "zstd", asbytes=True)
    return {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix].compress(data)


@pytest.mark.parametrize("compression", NAMES)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".jsonl"])
def test_a_compressed_table_equals_the_table(tmp_path, suffix, compression):
    plain, path = tmp_path / f"x{suffix}", tmp_path / f"X{suffix}{compression}".upper()
    plain.write_bytes(content(suffix))
    path.write_bytes(compressed(compression, content(suffix), f"x{suffix}"))
    notices = []
    tables = list(iter_table(path, COLUMNS, rows=1000, notices=notices.append))
    expected = []
    table = read_table(plain, COLUMNS, notices=expected.append)
    assert [len(each) for each in tables] == [1000] * 3
    joined = concat_tables(tables)
    assert joined.text.tolist() == table.text.tolist() == ROWS["title"].tolist()
    assert joined.price.tolist() == ROWS["price"].tolist()
    size = path.stat().st_size  # of an archive, the end is its directory
    assert size - 100 < tables[2].position <= size
    assert 0 < tables[0].position <= tables[1].position <= tables[2].position
    assert notices == [notice.replace(str(plain), str(path)) for notice in expected]


def test_the_name_of_the_table_in_an_archive_counts(tmp_path):
    for name in ("x.zip", "x.csv.zip"):
        path = tmp_path / name
        path.write_bytes(compressed(".zip", content(".jsonl"), "rows.jsonl"))
        assert open_table(path, DEFAULT_READ_OPTIONS, print).kind == "jsonl"
        assert read_table(path, COLUMNS).text.tolist() == ROWS["title"].tolist()


@pytest.mark.parametrize("name", ["x.gz", "x.parquet.gz", "x.tar.gz", "x.json.xz", "x.orc.zst"])
def test_what_is_not_read_compressed(tmp_path, name, raises):
    (tmp_path / name).write_bytes(gzip.compress(b"PAR1"))
    with raises(DataError, "table"):
        read_table(tmp_path / name, COLUMNS)


@pytest.mark.parametrize("compression", NAMES)
@pytest.mark.parametrize("name", ["-", "-.csv"])
def test_standard_input(monkeypatch, compression, name):
    data = compressed(compression, content(".csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    source = name if name == "-" else f"{name}{compression}"
    assert read_table(source, COLUMNS).price.tolist() == ROWS["price"].tolist()


def test_json_lines_on_standard_input(monkeypatch):
    data = gzip.compress(content(".jsonl"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read_table("-", COLUMNS).price.tolist() == ROWS["price"].tolist()


def test_addresses_and_patterns(memory):
    memory.pipe("/b/x.csv.gz", gzip.compress(content(".csv")))
    memory.pipe("/b/y.csv.zip", compressed(".zip", content(".csv")))
    assert read_table("memory://b/x.csv.gz", COLUMNS).price.tolist() == ROWS["price"].tolist()
    check_columns(Address("memory://b/x.csv.gz"), COLUMNS)
    files = table_files(Address("memory://b/*.csv.*"))
    assert sum(len(table) for table in iter_files(files, COLUMNS)) == 2 * len(ROWS)
    memory.pipe("/b/z.csv.gz", b"no")
    with pytest.raises(DataError, match=r"^memory://b/z.csv.gz is not compressed with gzip"):
        read_table("memory://b/z.csv.gz", COLUMNS)


@pytest.mark.parametrize("compression", NAMES)
def test_the_unpacked_size_decides_what_is_large(tmp_path, compression, monkeypatch):
    path = tmp_path / f"x.csv{compression}"
    path.write_bytes(compressed(compression, content(".csv")))
    monkeypatch.setattr("pricekit.table.source.LARGE_BYTES", path.stat().st_size + 1)
    assert is_large(open_table(path, DEFAULT_READ_OPTIONS, print))


@pytest.mark.parametrize("compression", NAMES)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_predictions_are_compressed_as_their_name_says(tmp_path, suffix, compression):
    path = tmp_path / f"prices{suffix}{compression}"
    with PredictionWriter(path) as writer:
        for start in (0, 1000):
            part = ROWS[start : start + 1000]
            writer.write(part["title"].rename("id"), part["price"].to_numpy())
    table = read_table(path, Columns("id", id=None))
    assert table.text.tolist() == ROWS["title"].tolist()[:2000]
    assert table.price.tolist() == ROWS["price"].tolist()[:2000]
    assert path.stat().st_size < 12_000
    if compression == ".zip":
        assert zipfile.ZipFile(path).namelist() == [f"prices{suffix}"]


@pytest.mark.parametrize("name", ["p.zip", "p.gz", "p.parquet.gz", "p.orc", "p.feather"])
def test_what_is_not_written(tmp_path, name, raises):
    with raises(DataError, "out"):
        PredictionWriter(tmp_path / name)
