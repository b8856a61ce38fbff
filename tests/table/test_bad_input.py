"""Bad tables: repairs are reported, and other problems raise one clear error."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.io.compression import open_packed
from pricekit.table import (
    MAX_TEXT_CHARS,
    Columns,
    ReadOptions,
    Table,
    delimited,
    iter_table,
    read_table,
    split_usable,
)

DEFAULT = Columns()
HEADER = "sample_id,catalog_content,price\n"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def reasons(table: Table) -> dict[int, str]:
    rejected = split_usable(table)[1]
    return dict(zip(rejected["row"].tolist(), rejected["reason"].tolist(), strict=True))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_empty_file(tmp_path: Path, suffix: str, content: str, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / f"t.{suffix}", content), DEFAULT)


def test_header_only(tmp_path: Path, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / "t.csv", HEADER), DEFAULT)
    pq.write_table(pa.table({"catalog_content": pa.array([], pa.string())}), tmp_path / "t.parquet")
    with raises(DataError, "table"):
        read_table(tmp_path / "t.parquet", DEFAULT)


def test_empty_parquet_file(tmp_path: Path, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / "t.parquet", ""), DEFAULT)


def test_one_row(tmp_path: Path) -> None:
    usable, rejected = split_usable(read_table(write(tmp_path / "t.csv", HEADER + "1,tea,2"), DEFAULT))
    assert len(usable) == 1
    assert rejected.empty
    assert list(rejected.columns) == ["sample_id", "catalog_content", "price", "row", "reason"]


@pytest.mark.parametrize("name", ["nothing.csv", "nothing", "."])
def test_no_file(tmp_path: Path, name: str, raises) -> None:
    with raises(DataError, "table"):
        read_table(tmp_path / name, DEFAULT)


@pytest.mark.parametrize("name", ["t.docx", "t.json", "t"])
def test_the_error_for_an_unknown_format_lists_the_formats(tmp_path: Path, name: str, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / name, "x"), DEFAULT)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"a", mtime=0),
        b"PK\x03\x04..",
        b"PAR1....",
        b'{"price": 5}\n',
        b'[\n  {"price": 5}]',
        b'\xef\xbb\xbf[{"price": 5}]',
        b'{\n  "rows": []}',
        b"\n<HTML><body>",
        b"<table><tr>",
        b"<?xml version",
    ],
)
def test_a_file_of_another_kind_is_named_in_the_error(tmp_path: Path, content: bytes, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / "t.csv", content), DEFAULT)


def test_the_error_for_a_missing_column_lists_the_columns_and_the_parameter(tmp_path: Path, raises) -> None:
    path = write(tmp_path / "t.csv", "id,Catalog_Content,cost\n1,x,2\n")
    for columns, parameter, facts in (
        (DEFAULT, "text", {"column": "catalog_content", "suggestion": "Catalog_Content"}),
        (
            Columns(("Catalog_Content",), "costs", "id"),
            "price",
            {"column": "costs", "suggestion": "cost"},
        ),
        (Columns(("Catalog_Content",), "cost", "uid", id_required=True), "id", {"column": "uid"}),
    ):
        with raises(DataError, parameter, candidates=["id", "Catalog_Content", "cost"], **facts):
            read_table(path, columns)


def test_a_very_wide_header_is_not_printed_whole(tmp_path: Path) -> None:
    names = ",".join(f"column_{i}_{'x' * 100}" for i in range(500))
    with pytest.raises(DataError) as caught:
        read_table(write(tmp_path / "t.csv", f"{names}\n1\n"), DEFAULT)
    assert len(str(caught.value)) < 2000
    assert "and 470 more" in str(caught.value)


def test_row_numbers_replace_a_missing_id_column_with_a_notice(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "catalog_content\na\nb\nc\n")
    said: list[str] = []
    chunks = list(iter_table(path, Columns(price=None), rows=2, notices=said.append))
    assert [i for chunk in chunks for i in chunk.ids.tolist()] == [0, 1, 2]
    assert len(said) == 1
    assert "row numbers" in said[0]


def test_a_column_name_twice(tmp_path: Path) -> None:
    said: list[str] = []
    header = "price,note, price ,price (2),note,catalog_content"
    table = read_table(write(tmp_path / "t.csv", f"{header}\n1,2,3,4,5,tea\n"), DEFAULT, notices=said.append)
    names = ["price", "note", "price (3)", "price (2)", "note (2)", "catalog_content"]
    assert list(table.frame.columns) == names
    assert table.known_price.tolist() == [1]
    assert any("several columns have the same name: 'note', 'price'" in sentence for sentence in said)


def test_unicode_forms_of_a_name_are_equal(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "Gro\u0308\u00dfe,price\ntea,1\n".encode())
    assert read_table(path, Columns(("Gr\u00f6\u00dfe",), id=None)).text.tolist() == ["tea"]


def test_unnamed_columns_get_names(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ",catalog_content,price,\n0,tea,1,x\n")
    assert list(read_table(path, DEFAULT).frame.columns) == [
        "column 1",
        "catalog_content",
        "price",
        "column 4",
    ]


@pytest.mark.parametrize("before", [0, 5_000, 3_000_000])
def test_wrong_encoding_names_the_byte(tmp_path: Path, before: int, raises) -> None:
    head = HEADER.encode() + b"1," + b"a" * before
    path = write(tmp_path / "t.csv", head + b"\xe9x,2\n")
    with raises(DataError, "encoding", encoding="utf-8"):
        read_table(path, DEFAULT, read_options=ReadOptions(encoding="utf-8"))


def test_text_cut_inside_a_character_is_reported(tmp_path: Path, raises) -> None:
    head = HEADER.encode() + b"1,"
    path = write(tmp_path / "t.csv", head + b"\xf0\x9f")
    said: list[str] = []
    assert read_table(path, DEFAULT, notices=said.append).text.tolist() == ["\ufffd"]
    assert f"byte {len(head):,} of the file" in said[0]
    with raises(DataError, "encoding", encoding="utf-8", position=34):
        read_table(path, DEFAULT, read_options=ReadOptions(encoding="utf-8"))


def test_unknown_encoding(tmp_path: Path, raises) -> None:
    with raises(DataError, "encoding", encoding="klingon"):
        read_table(write(tmp_path / "t.csv", HEADER), DEFAULT, read_options=ReadOptions(encoding="klingon"))


def test_ragged_rows_are_read_marked_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", HEADER + '0,"a\na",1\n1,b\n2,c,3,4\n3,d,4,,\n4\n5,f,6\n')
    said: list[str] = []
    table = read_table(path, DEFAULT, notices=said.append)
    assert table.text.tolist() == ["a\na", "b", "c", "d", "", "f"]
    assert reasons(table) == {1: "ragged row", 2: "ragged row", 4: "ragged row"}
    assert len(said) == 2
    assert "3, the first on line 4" in said[0]
    assert "empty fields beyond the header: 1" in said[1]
    assert len(read_table(path, Columns(price=None), notices=said.append)) == 6


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.sampled_from(["", "x", "1", '"q"', "é"]), min_size=1, max_size=6), min_size=1)
)
def test_no_row_is_lost_or_made_up(tmp_path: Path, rows: list[list[str]]) -> None:
    path = write(tmp_path / "t.csv", HEADER + "".join(",".join(row) + "\n" for row in rows))
    expected = sum(row != [""] for row in rows)  # a blank line is no row
    if expected:
        table = read_table(path, DEFAULT, notices=lambda _: None)
        usable, rejected = split_usable(table)
        assert len(table) == expected
        assert len(usable) + len(rejected) == expected
        assert set(rejected["row"]).isdisjoint(usable.rows)  # type: ignore[arg-type]


def test_a_quote_that_encloses_rows_is_an_error(tmp_path: Path, raises) -> None:
    rows = "".join(f"{i},tea {i},{i}\n" for i in range(1, 50))
    path = write(tmp_path / "t.csv", HEADER + '0,"tea,0\n' + rows)
    with raises(DataError, "table", line=2):
        read_table(path, DEFAULT)
    with raises(DataError, "table", line=1):
        read_table(write(tmp_path / "u.csv", '"' + HEADER + rows), DEFAULT)


def test_empty_fields_beyond_the_header_are_ignored_and_reported(tmp_path: Path) -> None:
    rows = "".join(f"{i},tea {i},{i + 1},\n" for i in range(9))
    said: list[str] = []
    table = read_table(
        write(tmp_path / "t.csv", HEADER + rows + "9,tea, green,7\n"), DEFAULT, notices=said.append
    )
    assert reasons(table) == {9: "ragged row"}
    assert any("rows with empty fields beyond the header: 9" in sentence for sentence in said)


def test_many_empty_fields_beyond_the_header_are_not_a_large_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(delimited, "MAX_CHUNK_CELLS", 1000)
    monkeypatch.setattr(delimited, "_MAX_ROW_CELLS", 100_000)
    rows = "".join(f"{i},tea {i},{i + 1}{',' * 1000}\n" for i in range(300))
    assert len(read_table(write(tmp_path / "t.csv", HEADER + rows), DEFAULT)) == 300


def test_rows_inside_a_cell_are_reported(tmp_path: Path) -> None:
    rows = [f"{i}\ttea {i}\t{i + 1}" for i in range(30)]
    rows[10], rows[20] = '10\t"black" tea, "fine\t11', '20\t"green" tea, "fine\t21'
    rows[5] = '5\t"tea\nfor two, or\tthree"\t6'
    rows[6] = '6\t"tea\nof\tthree\tkinds\n"\t6'
    rows[7] = '7\t"Main Street\nSpringfield\tIL\t62704\nUSA"\t6'
    said: list[str] = []
    table = read_table(
        write(tmp_path / "t.tsv", HEADER.replace(",", "\t") + "\n".join(rows)), DEFAULT, notices=said.append
    )
    assert len(table) == 30
    assert said == []
    rows[10], rows[20] = '10\t"black tea\t11', '20\t"green tea\t21'
    table = read_table(
        write(tmp_path / "u.tsv", HEADER.replace(",", "\t") + "\n".join(rows)), DEFAULT, notices=said.append
    )
    assert len(table) == 20
    assert any(
        "10 lines that look like rows are inside quoted cells, the first of which begins on line 17" in s
        for s in said
    )


def test_rows_wider_than_the_header_are_an_error_in_prediction(tmp_path: Path, raises) -> None:
    path = write(tmp_path / "t.csv", HEADER + "".join(f"{i},r{i},tea,5\n" for i in range(1, 9)))
    with raises(DataError, "columns", width=3):
        list(iter_table(path, Columns(price=None)))
    short = write(tmp_path / "u.csv", HEADER + "1,tea\n2,coffee\n")  # as old Excel leaves out what is empty
    assert [len(part) for part in iter_table(short, Columns(price=None), notices=lambda _: None)] == [2]
    assert len(read_table(path, DEFAULT, notices=lambda _: None)) == 8


def test_a_space_can_separate_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", HEADER.replace(",", " ") + '1 "green tea" 5\n2 coffee 7\n')
    table = read_table(path, DEFAULT, read_options=ReadOptions(delimiter=" "))
    assert table.text.tolist() == ["green tea", "coffee"]


def test_a_file_cut_off_inside_a_cell_keeps_its_last_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", HEADER + '0,a,1\n1,"Item Name: b, 2 oz\nValue: 3\nUnit')
    said: list[str] = []
    table = read_table(path, DEFAULT, notices=said.append)
    assert table.text.tolist() == ["a", "Item Name: b, 2 oz\nValue: 3\nUnit"]
    assert reasons(table) == {1: "ragged row"}
    assert any("ends inside a quoted cell" in sentence for sentence in said)


def test_a_row_cut_off_in_its_last_column_is_ragged_too(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", 'price,catalog_content\n1,a\n2,"b'), Columns(id=None))
    assert reasons(table) == {1: "ragged row"}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_nul_bytes_are_removed_without_creating_a_price(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        write(path, "sample_id,catalog_content,pri\0ce\n\x001,a\0b,1\x0099\n2,c,5\n")
    elif suffix == "jsonl":
        lines = (
            '{"sample_id": "\\u00001", "catalog_content": "a\\u0000b", "price": "1\\u000099"}',
            '{"sample_id": 2, "catalog_content": "c", "price": 5}',
        )
        write(path, "\n".join(lines))
    else:
        columns = {"sample_id": ["\x001", "2"], "catalog_content": ["a\0b", "c"], "price": ["1\x0099", "5"]}
        pq.write_table(pa.table(columns), path)
    said: list[str] = []
    table = read_table(path, DEFAULT, notices=said.append)
    assert table.text.tolist() == ["ab", "c"]
    assert table.ids.tolist() == ["1", "2"]
    assert reasons(table) == {0: "price not a number"}
    assert len(said) == 1
    assert "NUL bytes were removed: 3" in said[0]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_cell_of_30_mb_is_cut_and_reported(tmp_path: Path, suffix: str) -> None:
    huge = "é" + "x" * (30 << 20)
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        write(path, f'{HEADER}1,"{huge}",1\n2,{"y" * MAX_TEXT_CHARS},2\n')
    elif suffix == "jsonl":
        write(path, f'{{"catalog_content": "{huge}", "price": 1}}\n{{"catalog_content": "y", "price": 2}}\n')
    else:
        pq.write_table(pa.table({"catalog_content": [huge, "y"], "price": [1, 2]}), path)
    said: list[str] = []
    table = read_table(path, Columns(id=None), notices=said.append)
    assert table.text[0] == huge[:MAX_TEXT_CHARS]
    assert len(table.frame["catalog_content"][0]) == MAX_TEXT_CHARS
    assert said == [f"{path}: cells cut to 50,000 characters: 1."]
    assert len(split_usable(table)[0]) == 2


def test_a_text_joined_from_long_columns_is_cut_too(tmp_path: Path) -> None:
    half = "x" * (MAX_TEXT_CHARS - 1)
    path = write(tmp_path / "t.csv", f"a,b,price\n{half},{half},1\n")
    table = read_table(path, Columns(("a", "b"), id=None))
    assert len(table.text[0]) == MAX_TEXT_CHARS


def test_an_oversized_cell_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises) -> None:
    monkeypatch.setattr("pricekit.table.delimited._MAX_CELL_CHARS", 4000)
    before = csv.field_size_limit(4000)
    try:
        with raises(DataError, "table", line=3):
            read_table(write(tmp_path / "t.csv", HEADER + '1,a,2\n2,"' + "x\n" * 5000), DEFAULT)
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("ends", ["\n", ""], ids=["lines", "one line"])
def test_a_row_of_too_many_bytes_is_not_read(tmp_path: Path, suffix, ends, monkeypatch, raises) -> None:
    monkeypatch.setattr("pricekit.table.delimited.MAX_CHUNK_CHARS", 1000)
    monkeypatch.setattr("pricekit.table.delimited.MAX_ROW_BYTES", 1 << 20)
    path = tmp_path / f"t.{suffix}"
    with open_packed(path, path.suffix if suffix.endswith("gz") else "", "t.csv") as file:
        file.write(f"{HEADER}1,a,2\n".encode() * 300 + b'2,"')  # rows before it do not count
        for _ in range(1 << 10):
            file.write((f"{'x' * 99}{ends}" * 40).encode())
    with raises(DataError, "table", line=601):
        read_table(path, DEFAULT)


def test_a_row_of_too_many_fields_is_not_read(tmp_path: Path, monkeypatch, raises) -> None:
    monkeypatch.setattr("pricekit.table.delimited._MAX_ROW_CELLS", 100_000)
    monkeypatch.setattr("pricekit.table.delimited.MAX_CHUNK_CELLS", 3000)
    path = write(tmp_path / "t.csv", HEADER + "1,a,2\n" * 100_000 + "," * 200_000)
    with raises(DataError, "table", line=100_002):
        read_table(path, DEFAULT)


def test_blank_lines_are_not_a_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pricekit.table.delimited.MAX_CHUNK_CHARS", 1000)
    monkeypatch.setattr("pricekit.table.delimited.MAX_ROW_BYTES", 1 << 17)
    path = write(tmp_path / "t.csv", HEADER + "\n" * 500_000 + "1,a,2\n")
    assert len(read_table(path, DEFAULT)) == 1


def test_a_line_of_too_many_bytes_is_not_read(tmp_path: Path, monkeypatch, raises) -> None:
    monkeypatch.setattr("pricekit.table.jsonlines.MAX_ROW_BYTES", 1 << 17)
    row = '{"catalog_content": "a", "price": 1}\n'
    path = write(tmp_path / "t.jsonl", row * 10_000 + '{"catalog_content": "' + "x" * 1_000_000)
    with raises(DataError, "table", line=10_001):
        read_table(path, DEFAULT)


@pytest.mark.parametrize("values", ["[0,0,0,0,0,0,0]", '{"a":0,"b":"\\",","c":[],"d":1}'])
def test_a_line_of_too_many_values_is_not_parsed(tmp_path: Path, values, monkeypatch, raises) -> None:
    monkeypatch.setattr("pricekit.table.jsonlines.MAX_VALUES", 6)
    row = '{"catalog_content": "a, b: c, \\"d, e: f, g, h\\"", "price": 1}\n'
    path = write(tmp_path / "t.jsonl", row + f'{{"catalog_content": {values}}}')
    with raises(DataError, "table", line=2):
        read_table(path, DEFAULT)


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2]",
        '{"a": 1',
        "[" * 100_000,
    ],
)
def test_json_lines_that_are_not_objects(tmp_path: Path, line: str, raises) -> None:
    path = write(tmp_path / "t.jsonl", '{"catalog_content": "x", "price": 1}\n' + line)
    with raises(DataError, "table", line=2):
        read_table(path, DEFAULT)


def test_a_damaged_parquet_file(tmp_path: Path, raises) -> None:
    pq.write_table(pa.table({"catalog_content": ["x"] * 1000}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for content in (whole[:-10], b"text", whole[:40] + b"\xff" * 40 + whole[80:]):
        with raises(DataError, "table"):
            read_table(write(tmp_path / "u.parquet", content), Columns(price=None, id=None))


def test_a_text_column_of_numbers_is_text(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", HEADER + "1,007,2\n2,1e5,3\n"), DEFAULT)
    assert table.text.tolist() == ["007", "1e5"]
    pq.write_table(pa.table({"catalog_content": [7, 8], "price": [1, 2]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", Columns(id=None)).text.tolist() == ["7", "8"]


def test_a_price_column_of_text_leaves_no_usable_row(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", HEADER + "1,a,cheap\n2,b,dear\n"), DEFAULT)
    usable, rejected = split_usable(table)
    assert len(usable) == 0
    assert rejected["reason"].tolist() == ["price not a number"] * 2


@pytest.mark.parametrize(
    "name",
    [
        "t.csv.7z",
        "t.DOCX",
        "t.dat",
        "t.json",
    ],
)
def test_an_unsupported_format_is_an_error(tmp_path: Path, name: str, raises) -> None:
    with raises(DataError, "table"):
        read_table(write(tmp_path / name, "name,price\njug,3\n"), DEFAULT)


@pytest.mark.parametrize("currency", ["XYZ", "dollarz", "  "])
def test_an_unknown_currency_is_an_error(currency: str, raises) -> None:
    with raises(DataError, "currency"):
        ReadOptions(currency=currency)


def test_a_thousand_columns_of_one_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "catalog_content,price" + ",x" * 1000 + "\ntea,5" + ",1" * 1000 + "\n")
    names = list(read_table(path, DEFAULT).frame.columns)
    assert names[2:5] + names[-1:] == ["x", "x (2)", "x (3)", "x (1000)"]


@pytest.mark.parametrize("name", ["a\0b.csv", "a" * 300 + ".csv", "a" * 5000 + ".csv"])
def test_a_name_that_the_system_refuses(tmp_path: Path, name: str, raises) -> None:
    with raises(DataError, "table"):
        read_table(tmp_path / name)


def test_an_encoding_with_a_nul_is_unknown(tmp_path: Path, raises) -> None:
    path = tmp_path / "t.csv"
    path.write_text("catalog_content,price\ntea,3\n")
    with raises(DataError, "encoding", encoding="a\x00b"):
        read_table(path, read_options=ReadOptions(encoding="a\0b"))


@pytest.mark.parametrize(
    "line", ['{"catalog_content": "tea", "price": 1, "price": 2}', '{"catalog_content": {"a": 1, "a": 2}}']
)
def test_a_key_that_occurs_twice_is_an_error(tmp_path: Path, line: str, raises) -> None:
    path = write(tmp_path / "t.jsonl", '{"catalog_content": "x", "price": 1}\n' + line)
    with raises(DataError, "table", line=2):
        read_table(path, DEFAULT)
