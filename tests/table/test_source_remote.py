"""Tables at addresses and on standard input are read as local files are, and messages name the address."""

import io
import sys

import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.io.storage import Address
from pricekit.table import Columns, check_columns, iter_table, read_table, source_name

ROWS = pd.DataFrame({"title": ["Tea 50 g", "Jam, 250 g"], "price": [3.5, 2.75]})
COLUMNS = Columns("title")


def content(suffix, frame=ROWS):
    if suffix == "parquet":
        return frame.to_parquet(index=False)
    if suffix == "jsonl":
        return frame.to_json(orient="records", lines=True).encode()
    return frame.to_csv(index=False, sep="\t" if suffix == "tsv" else ",").encode()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_a_remote_table_is_read_as_a_local_one(memory, tmp_path, suffix):
    file = tmp_path / f"x.{suffix}"
    file.write_bytes(content(suffix))
    memory.pipe(f"/b/x.{suffix}", content(suffix))
    for source in (f"memory://b/x.{suffix}", Address(f"memory://b/x.{suffix}")):
        found, expected = read_table(source, COLUMNS), read_table(file, COLUMNS)
        assert found.text.tolist() == expected.text.tolist() == ["Tea 50 g", "Jam, 250 g"]
        assert found.price.tolist() == expected.price.tolist()


@pytest.mark.parametrize(
    ("name", "bytes_", "message"),
    [
        ("x.csv", b"", "memory://b/x.csv has no rows: the file is empty."),
        (
            "x.csv",
            b"title,price\nTea,3\n" + b'"' + b"a,1\n" * 300,
            "memory://b/x.csv: a quote opens in the row",
        ),
        ("x.jsonl", b'{"title": "Tea"}\n{\n', "memory://b/x.jsonl: line 2 is not JSON"),
        ("x.parquet", b"PAR1 PAR1", "memory://b/x.parquet cannot be read as Parquet"),
        ("x.csv", b"PAR1", "memory://b/x.csv is a Parquet file, not text"),
    ],
)
def test_errors_name_the_address(memory, name, bytes_, message):
    memory.pipe(f"/b/{name}", bytes_)
    with pytest.raises(DataError) as refused:
        read_table(f"memory://b/{name}", COLUMNS)
    assert message in str(refused.value)
    assert "/tmp" not in str(refused.value)


def test_notices_name_the_address(memory):
    memory.pipe("/b/x.csv", "title;price\nCafé;3\n".encode("latin-1"))
    notices = []
    read_table("memory://b/x.csv", COLUMNS, notices=notices.append)
    assert notices
    assert all(notice.startswith("memory://b/x.csv") for notice in notices)


def test_an_unknown_format_is_refused_before_the_file_is_fetched(memory, failing, raises):
    calls = failing("info", ())
    with raises(DataError, "table", suffix=".docx"):
        read_table("memory://b/x.docx", COLUMNS)
    assert calls.calls == 0


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_are_checked_on_a_part_of_the_file(memory, monkeypatch, suffix, raises):
    frame = pd.DataFrame({"title": [f"{n} " + "tea " * 20 for n in range(2000)], "price": 1.0})
    memory.pipe(f"/b/x.{suffix}", content(suffix, frame))
    size = len(memory.cat(f"/b/x.{suffix}"))
    monkeypatch.setattr("pricekit.table.source._PART_BYTES", 10_000)
    fetched = []
    original = type(memory).cat_file

    def record(system, path, start, end):
        fetched.append(end - start)
        return original(system, path, start, end)

    monkeypatch.setattr(type(memory), "cat_file", record)
    check_columns(Address(f"memory://b/x.{suffix}"), COLUMNS)
    assert sum(fetched) < min(size, 10_010)
    with raises(DataError, "text", column="titel", candidates=["title", "price"], suggestion="title"):
        check_columns(Address(f"memory://b/x.{suffix}"), Columns("titel"))


def test_columns_are_checked_on_the_whole_file_if_a_part_does_not_show_them(memory, monkeypatch):
    monkeypatch.setattr("pricekit.table.source._PART_BYTES", 20)
    memory.pipe("/b/x.csv", b"title,price\n" + b"tea " * 20 + b",3\n")
    check_columns(Address("memory://b/x.csv"), COLUMNS)
    memory.pipe("/b/x.parquet", content("parquet"))
    check_columns(Address("memory://b/x.parquet"), COLUMNS)


def test_a_table_that_is_not_read_to_its_end_leaves_no_copy(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory.pipe("/b/x.csv", content("csv"))
    tables = iter_table("memory://b/x.csv", COLUMNS, rows=1)
    next(tables)
    assert list(tmp_path.glob("pricekit-*/*.csv"))
    del tables
    assert not list(tmp_path.glob("pricekit-*/*.csv"))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_standard_input_is_a_table(monkeypatch, suffix):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content(suffix))))
    check_columns(Address("-"), COLUMNS)
    assert read_table("-", COLUMNS, notices=lambda _: None).price.tolist() == [3.5, 2.75]


def test_names_of_sources():
    assert source_name("memory://b/x.csv") == "x.csv"
    assert source_name("-") == "standard input"
    assert source_name(ROWS) == "DataFrame"
