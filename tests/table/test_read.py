"""Valid tables: every format returns the same rows, in chunks or at once."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricekit.datasets import make_catalog
from pricekit.errors import DataError, NoRowsError
from pricekit.table import (
    Columns,
    ReadOptions,
    check_columns,
    concat_tables,
    iter_table,
    read_frame,
    read_table,
    write_rejected,
)
from pricekit.text.normal import normal_text

FORMATS = ("csv", "tsv", "jsonl", "parquet")
DEFAULT = Columns()
# One explicit folder for all examples: each overwrites the same file.
MODERATE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# A number such as "¼" or "1/4" has the text of equal numbers: 0.25.
cell = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs", "Nd", "No"]), max_size=12)
awkward = st.sampled_from(
    ['"', "\n", "\r\n", "\r", ",", "\t", "\u2028", '","', "é🍋", "NA", "  x ", "'", "\\"]
)
cells = st.lists(st.one_of(cell, awkward, st.lists(awkward, max_size=4).map("".join)), min_size=1, max_size=8)


def silent(sentence: str) -> None:
    raise AssertionError(f"no notice was expected: {sentence}")


def save(path: Path, columns: dict[str, list[str]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), newline="")
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",", quoting=csv.QUOTE_ALL)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.mark.parametrize("suffix", FORMATS)
@MODERATE
@given(texts=cells)
def test_any_text_survives_the_file(tmp_path: Path, suffix: str, texts: list[str]) -> None:
    numbers = [str(i) for i in range(len(texts))]
    path = save(tmp_path / f"t.{suffix}", {"sample_id": numbers, "catalog_content": texts})
    table = read_table(path, Columns(price=None), notices=silent)
    assert table.frame["catalog_content"].tolist() == texts
    assert table.text.tolist() == list(map(normal_text, texts))
    assert table.ids.tolist() == numbers
    assert table.price is None
    assert table.text.dtype == "str"


@pytest.mark.parametrize("suffix", FORMATS)
@MODERATE
@given(price=st.floats(allow_nan=False, allow_infinity=False))
def test_prices_are_read_to_the_last_bit(tmp_path: Path, suffix: str, price: float) -> None:
    path = save(
        tmp_path / f"t.{suffix}", {"sample_id": ["1"], "catalog_content": ["x"], "price": [repr(price)]}
    )
    read = read_table(path, DEFAULT, notices=silent).price
    assert read is not None
    assert read.dtype == np.float64
    assert read.tobytes() == np.array([price]).tobytes()


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_chunks_together_are_the_whole(tmp_path: Path, suffix: str, rows: int) -> None:
    frame = make_catalog(50, seed=1).astype("str")
    path = save(tmp_path / f"t.{suffix}", {str(name): frame[name].tolist() for name in frame})
    whole = read_table(path, DEFAULT, notices=silent)
    chunks = list(iter_table(path, DEFAULT, rows=rows, notices=silent))
    assert [len(chunk) for chunk in chunks] == [min(rows, 50 - start) for start in range(0, 50, rows)]
    joined = concat_tables(chunks)
    pd.testing.assert_frame_equal(joined.frame, whole.frame)
    pd.testing.assert_series_equal(joined.text, whole.text)
    pd.testing.assert_series_equal(joined.ids, whole.ids)
    np.testing.assert_array_equal(joined.price, whole.price)
    np.testing.assert_array_equal(joined.rows, np.arange(50))


@pytest.mark.parametrize("suffix", FORMATS)
def test_position_grows_to_the_size_of_the_file(tmp_path: Path, suffix: str) -> None:
    frame = make_catalog(500, seed=1).astype("str")
    path = save(tmp_path / f"t.{suffix}", {str(name): frame[name].tolist() for name in frame})
    positions = [chunk.position for chunk in iter_table(path, DEFAULT, rows=50)]
    assert positions == sorted(positions)
    assert positions[0] < positions[-1] == path.stat().st_size


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("limit", [1, 3, 4, 10, 99])
def test_limit_takes_the_first_rows(tmp_path: Path, suffix: str, limit: int) -> None:
    texts = [f"text {i}" for i in range(10)]
    path = save(tmp_path / f"t.{suffix}", {"sample_id": texts, "catalog_content": texts, "price": ["1"] * 10})
    chunks = list(iter_table(path, DEFAULT, rows=3, limit=limit))
    assert [text for chunk in chunks for text in chunk.text] == texts[:limit]
    assert read_table(path, DEFAULT, limit=limit).text.tolist() == texts[:limit]


def test_nothing_after_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"catalog_content": "x"}\n' * 4 + "no JSON\n")
    assert len(read_table(path, Columns(price=None, id=None), limit=4)) == 4
    path = tmp_path / "t.csv"
    path.write_text("catalog_content,price\na,1\nb\nc,3\nd\n")
    chunks = list(iter_table(path, Columns(id=None), rows=2, limit=3, notices=lambda _: None))
    assert concat_tables(chunks).text.tolist() == ["a", "b", "c"]
    assert len(read_table(path, Columns(id=None), limit=2, notices=lambda _: None)) == 2


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_chunk_ends_at_64_mb_of_text(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "delimited.MAX_CHUNK_CHARS",
        "jsonlines.MAX_CHUNK_CHARS",
        "arrow.MAX_CHUNK_BYTES",
    ):
        monkeypatch.setattr(f"pricekit.table.{module}", 10_000)
    texts = [f"{i}" * 1000 for i in range(1, 100)]
    path = save(tmp_path / f"t.{suffix}", {"sample_id": texts, "catalog_content": texts, "price": ["1"] * 99})
    chunks = list(iter_table(path, DEFAULT))
    assert len(chunks) > 5
    assert concat_tables(chunks).text.tolist() == texts


@pytest.mark.parametrize("suffix", FORMATS)
def test_several_text_columns_become_labelled_lines(tmp_path: Path, suffix: str) -> None:
    columns = {"name": ["tea", "", "  "], "brand": ["", "Ø", " "], "about": ["a\nb", "c", ""]}
    path = save(tmp_path / f"t.{suffix}", columns)
    table = read_table(path, Columns(("about", "name", "brand"), None, None), notices=silent)
    assert table.text.tolist() == ["about: a\nb\nname: tea", "about: c\nbrand: Ø", ""]
    assert table.ids.tolist() == [0, 1, 2]


def test_the_frame_has_every_column_as_read(tmp_path: Path) -> None:
    path = save(
        tmp_path / "t.csv", {"sample_id": ["007"], "catalog_content": ["x"], "price": ["1.50"], "z": [" NA "]}
    )
    frame = read_table(path, DEFAULT).frame
    assert frame.to_dict("records") == [
        {"sample_id": "007", "catalog_content": "x", "price": "1.50", "z": " NA "}
    ]
    assert (frame.dtypes == "str").all()


def test_parquet_keeps_types_of_ids_and_takes_any_type_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {
        "sample_id": pa.array([7, None, 9], pa.int64()),
        "a": pa.array([1.5, None, 2.0], pa.float32()),
        "b": pa.array(["x", None, "x"]).dictionary_encode(),
        "c": pa.array([["p", "é"], None, []]),
        "d": pa.array([b"\xff", b"ok", None]),
        "e": pa.array([True, None, False]),
        "price": pa.array([1, None, 3], pa.int32()),
    }
    pq.write_table(pa.table(columns), path)
    table = read_table(path, Columns(("a", "b", "c", "d", "e")), notices=silent)
    assert table.ids.dtype == "Int64"
    assert table.ids.isna().tolist() == [False, True, False]
    assert table.text.tolist() == [
        'a: 1.5\nb: x\nc: ["p", "é"]\nd: \ufffd\ne: true',
        "d: ok",
        "a: 2\nb: x\nc: []\ne: false",
    ]
    np.testing.assert_array_equal(table.price, [1.0, np.nan, 3.0])


OBJECTS = {
    "decimal": (pa.array(["7.25", "1234.50", None]).cast(pa.decimal128(9, 2)), ["7.25", "1234.50", ""]),
    "date": (pa.array([0, 1, None], pa.date32()), ["1970-01-01", "1970-01-02", ""]),
    "bytes": (pa.array([b"a", b"b", None]), ["a", "b", ""]),
    "list": (pa.array([[1], [2, 3], None]), ["[1]", "[2, 3]", ""]),
    "bool": (pa.array([True, False, None]), ["true", "false", ""]),
    "null": (pa.nulls(3), ["", "", ""]),
    "fixed bytes": (pa.array([b"a\xe9", b"bb", None], pa.binary(2)), ["a\ufffd", "bb", ""]),
    "view of bytes": (pa.array([b"\xe9", b"b", None], pa.binary_view()), ["\ufffd", "b", ""]),
    "uuid": (
        pa.array([b"\xe9" * 16, bytes(16), None], pa.uuid()),
        ["e9e9e9e9-e9e9-e9e9-e9e9-e9e9e9e9e9e9", "00000000-0000-0000-0000-000000000000", ""],
    ),
    "json": (pa.array(["1", "[2]", None], pa.json_()), ["1", "[2]", ""]),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("rows", [1, 3])
def test_parquet_ids_that_pandas_has_no_type_for_are_text(tmp_path: Path, kind: str, rows: int) -> None:
    cells, expected = OBJECTS[kind]
    pq.write_table(pa.table({"id": cells, "t": ["x"] * 3}), tmp_path / "t.parquet")
    for chunk in iter_table(tmp_path / "t.parquet", Columns(("t",), None, "id"), rows=rows):
        assert chunk.ids.dtype == "str"
        assert chunk.ids.name == "id"
        assert chunk.ids.tolist() == [expected[row] for row in np.asarray(chunk.rows)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), None])
def test_invalid_utf_8_in_parquet_text_is_repaired_and_reported(
    tmp_path: Path, kind: pa.DataType | None
) -> None:
    raw = pa.array([b"tea"] * 300 + [b"caf\xe9", None], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    kept = texts.dictionary_encode() if kind is None else texts.cast(kind)
    pq.write_table(pa.table({"t": kept}), tmp_path / "t.parquet")
    told: list[str] = []
    table = read_table(tmp_path / "t.parquet", Columns(("t",), None, None), notices=told.append)
    assert table.text.tolist() == ["tea"] * 300 + ["caf\ufffd", ""]
    assert ["not UTF-8: 1;" in sentence for sentence in told] == [True]


@pytest.mark.slow
def test_a_dictionary_encoded_text_counts_once_per_row(tmp_path: Path) -> None:
    texts = pa.array(["a" * 100_000, "b" * 100_000]).take(pa.array([0, 1] * 300))
    pq.write_table(pa.table({"t": texts}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 1_000_000
    lengths = [len(chunk) for chunk in iter_table(tmp_path / "t.parquet", Columns(("t",), None, None))]
    assert sum(lengths) == 600
    assert max(lengths) * 100_000 < 50 << 20


def test_equal_numbers_are_equal_texts_whatever_their_type(tmp_path: Path) -> None:
    cells = pa.array(["87.00", "0.50", "100", "-1.05", "0.00", None])
    for kind in (pa.decimal128(9, 2), pa.decimal256(9, 2), pa.float64()):
        pq.write_table(pa.table({"t": cells.cast(kind)}), tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet", Columns(("t",), None, None))
        assert table.text.tolist() == ["87", "0.5", "100", "-1.05", "0", ""]


_FAR = 2**30  # days; the year 2,941,775
ODD_COLUMNS = {
    "a date of no calendar": pa.array([_FAR, 1, None], pa.int32()).cast(pa.date32()),
    "nanoseconds of a day": pa.array([1, None, 3], pa.time64("ns")),
}


@pytest.mark.parametrize("odd", ODD_COLUMNS.values(), ids=ODD_COLUMNS)
def test_a_column_that_pandas_cannot_hold_is_text(tmp_path: Path, odd: pa.Array) -> None:
    pq.write_table(pa.table({"sku": [7, 8, 9], "t": ["a", "b", "c"], "odd": odd}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", Columns(("t",), None, "sku"))
    assert table.ids.tolist() == [7, 8, 9]
    written = [cell or "" for cell in odd.cast(pa.string()).to_pylist()]
    assert table.frame["odd"].fillna("").tolist() == written
    for named in (Columns(("odd",), None, "sku"), Columns(("t",), None, "odd")):
        table = read_table(tmp_path / "t.parquet", named)
        assert written in (table.text.tolist(), table.ids.tolist())


NESTED_COLUMNS = {
    "lists of such dates": pa.array([[_FAR], [], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    "a struct of such a time": pa.array([{"a": 2**62}, None, None], pa.struct([("a", pa.timestamp("us"))])),
    "a list with a lost zone": pa.array([[0], [], None], pa.list_(pa.timestamp("s", "Nowhere/Zone"))),
    "a struct of a duration": pa.array([{"a": 2**62}, None, None], pa.struct([("a", pa.duration("s"))])),
}


@pytest.mark.parametrize("odd", NESTED_COLUMNS.values(), ids=NESTED_COLUMNS)
def test_times_that_python_cannot_hold_are_text_inside_lists_and_structs(
    tmp_path: Path, odd: pa.Array
) -> None:
    pq.write_table(pa.table({"sku": [7, 8, 9], "t": ["a", "b", "c"], "odd": odd}), tmp_path / "t.parquet")
    for named in (Columns(("t",), None, "sku"), Columns(("odd",), None, "sku"), Columns(("t",), None, "odd")):
        table = read_table(tmp_path / "t.parquet", named)
        write_rejected(tmp_path / "rejected.parquet", [table.frame])
    assert table.ids[0].startswith(("[", "{"))
    assert pq.read_table(tmp_path / "rejected.parquet").num_rows == 3


def test_a_missing_number_is_not_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([1.5, None, float("nan")])}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", Columns(("t",), None, None)).text.tolist() == ["1.5", "", ""]


def test_every_parquet_file_is_checked_before_the_work(tmp_path: Path, raises) -> None:
    def write(name: str, *columns: str) -> None:
        pq.write_table(pa.table({column: ["a", "b"] for column in columns}), tmp_path / name)

    columns = Columns(("t",), None, "sku")
    write("1.parquet", "sku", "t")
    write("2.parquet", "t", "sku", "more")
    pq.write_table(pa.table({"x": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    check_columns(tmp_path, columns)
    write("3.parquet", "sku", "T")
    with raises(DataError, "text", column="t", candidates=["sku", "T"], suggestion="T"):
        check_columns(tmp_path, columns)
    write("3.parquet", "t")
    with raises(DataError, "id", column="sku"):
        check_columns(tmp_path, columns)
    (tmp_path / "3.parquet").write_bytes((tmp_path / "1.parquet").read_bytes()[:-9])
    with raises(DataError, "table"):
        check_columns(tmp_path, columns)
    (tmp_path / "3.parquet").unlink()
    (tmp_path / "3.parquet").symlink_to(tmp_path / "nowhere")
    with raises(DataError, "table"):
        check_columns(tmp_path, columns)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_every_file_of_a_pattern_is_checked_before_the_work(tmp_path: Path, suffix: str, raises) -> None:
    def write(name: str, *columns: str) -> None:
        save(tmp_path / f"{name}.{suffix}", {column: ["a", "b"] for column in columns})

    columns, pattern = Columns(("t",), None, "sku"), tmp_path / f"*.{suffix}"
    (tmp_path / f"0.{suffix}").write_text("")
    with raises(NoRowsError, "table"):
        check_columns(pattern, columns)
    write("1", "sku", "t")
    write("2", "t", "sku", "more")
    check_columns(pattern, columns)
    write("3", "sku", "T")
    with raises(DataError, "text", column="t", candidates=["sku", "T"], suggestion="T"):
        check_columns(pattern, columns)
    write("3", "t")
    with raises(DataError, "id", column="sku"):
        check_columns(pattern, columns)


def test_a_pipe_is_not_a_table(tmp_path: Path, raises) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with raises(DataError, "table"):
        read_table(tmp_path / "t.csv", Columns())


def test_ids_are_named_as_their_column(tmp_path: Path) -> None:
    path = save(tmp_path / "t.csv", {"sku": ["7", "8", "9"], "t": ["a", "b", "c"]})
    for asked, name in (("sku", "sku"), (None, "row"), ("sample_id", "row")):
        chunks = list(iter_table(path, Columns(("t",), None, asked), rows=2, notices=lambda _: None))
        whole = concat_tables(chunks)
        assert [table.ids.name for table in (*chunks, whole, whole.take(np.array([2, 0])))] == [name] * 4


def test_parquet_ignores_a_pandas_index(tmp_path: Path) -> None:
    frame = make_catalog(5).iloc[[3, 1, 0, 2, 4]].set_index("sample_id")
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", DEFAULT, notices=silent)
    assert table.ids.tolist() == [3, 1, 0, 2, 4]
    assert table.frame.index.equals(pd.RangeIndex(5))


def test_json_values_are_text_as_written(tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    path.write_text(
        '{"id": 12345678901234567890, "t": {"b": [1, 2.50, "é"]}, "p": 1.10}\n\n'
        '{"id": "x", "t": true, "p": null, "late": "\\ud800"}\r\n'
        '{"t":\r1e3, "p": NaN}'
    )
    table = read_table(path, Columns(("t",), "p", "id"))
    assert table.ids.tolist() == ["12345678901234567890", "x", ""]
    assert table.text.tolist() == ['{"b": [1, 2.5, "é"]}', "true", "1e3"]
    assert table.frame["p"].tolist() == ["1.10", "", "NaN"]
    assert table.frame["late"].tolist() == ["", "\ufffd", ""]


def test_half_a_surrogate_pair_in_a_json_key_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": 1, "t": "tea", "a\\ud800": 1}\n')
    assert read_table(path, Columns(("t",), None, "id")).frame.columns.tolist() == ["id", "t", "a\ufffd"]


def test_the_first_json_object_may_lack_a_key(tmp_path: Path, raises) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"title": "tea"}\n' + '{"title": "tea", "brand": "x"}\n' * 3)
    check_columns(path, Columns(("title", "brand"), price=None))
    with raises(DataError, "text", column="maker", candidates=["title", "brand"], suggestion=None):
        check_columns(path, Columns(("title", "maker"), price=None))


def test_late_json_keys_do_not_become_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": f"t{i}", f"key {i}": "x"}) + "\n" for i in range(20)))
    said: list[str] = []
    chunks = list(iter_table(path, Columns(("text",), None, None), rows=4, notices=said.append))
    expected = ["text", "key 0", "key 1", "key 2", "key 3"]
    assert [chunk.frame.columns.tolist() for chunk in chunks] == [expected] * 5
    assert concat_tables(chunks).text.tolist() == [f"t{i}" for i in range(20)]
    assert len(said) == 1
    assert "ignored: 16, the first such key 'key 4'" in said[0]


def test_json_rows_with_different_keys_do_not_make_large_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pricekit.table.jsonlines.MAX_CHUNK_CELLS", 1000)
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": f"t{i}", f"key {i}": "x"}) + "\n" for i in range(200)))
    chunks = list(iter_table(path, Columns(("text",), None, None), notices=lambda _: None))
    assert max(chunk.frame.size for chunk in chunks) < 1100
    assert sum(map(len, chunks)) == 200


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_is_accepted(tmp_path: Path, end: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f'catalog_content,price{end}"a{end}b",1{end}{end}c,2'.encode())
    table = read_table(path, Columns(id=None), notices=silent)
    assert table.frame["catalog_content"].tolist() == [f"a{end}b", "c"]
    assert table.text.tolist() == ["a\nb", "c"]


@pytest.mark.parametrize("suffix", ["CSV", "Tsv", "PQ", "NDJSON"])
def test_suffixes_in_any_case(tmp_path: Path, suffix: str) -> None:
    kind = {"CSV": "csv", "Tsv": "tsv", "PQ": "parquet", "NDJSON": "jsonl"}[suffix]
    path = save(tmp_path / f"t.{kind}", {"sample_id": ["1"], "catalog_content": ["x"], "price": ["2"]})
    assert read_table(path.rename(tmp_path / f"T.{suffix}"), DEFAULT).text.tolist() == ["x"]


BOMS: list[tuple[str, Callable[[str], bytes]]] = [
    ("utf-8", lambda text: text.encode("utf-8-sig")),
    ("utf-16", lambda text: text.encode("utf-16")),
    ("utf-16-be", lambda text: ("\ufeff" + text).encode("utf-16-be")),
    ("utf-32", lambda text: text.encode("utf-32")),
]


@pytest.mark.parametrize(("name", "encode"), BOMS, ids=[name for name, _ in BOMS])
@pytest.mark.parametrize("asked", ["utf-8", "latin-1"])
def test_a_byte_order_mark_decides_the_encoding(
    tmp_path: Path, name: str, encode: Callable[[str], bytes], asked: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(encode("sample_id,catalog_content,price\n1,Café 🍋,2\n"))
    assert read_table(
        path, DEFAULT, read_options=ReadOptions(encoding=asked), notices=silent
    ).text.tolist() == ["Café 🍋"]


def test_another_encoding_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("sample_id,catalog_content,price\n1,Käse,2\n".encode("latin-1"))
    assert read_table(path, DEFAULT, read_options=ReadOptions(encoding="latin-1")).text.tolist() == ["Käse"]


WANTED = replace(DEFAULT, price=None, others=("colour",))


def wide(path: Path, **columns: list[str]) -> Path:
    others = {f"c{number}": [str(number)] * 3 for number in range(50)}
    named = {
        "catalog_content": ["tea", "jam", "salt"],
        "sample_id": ["1", "2", "3"],
        "colour": ["red", "", "blue"],
    }
    return save(path, others | named | columns)


@pytest.mark.parametrize("suffix", [*FORMATS, "feather", "orc"])
def test_cells_that_neither_a_model_nor_a_feature_reads_are_skipped(tmp_path: Path, suffix: str) -> None:
    path = wide(tmp_path / "t.parquet")
    frame = pd.read_parquet(path)
    if suffix in FORMATS:
        path = wide(tmp_path / f"t.{suffix}")
    else:
        path = tmp_path / f"t.{suffix}"
        getattr(frame, f"to_{suffix}")(path)
    whole = read_table(path, replace(WANTED, others=None), notices=silent)
    table = read_table(path, WANTED, notices=silent)
    assert {*table.frame} == {"catalog_content", "sample_id", "colour"}
    assert table.frame.equals(whole.frame[[*table.frame]])
    assert table.text.equals(whole.text)
    assert table.ids.equals(whole.ids)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_with_none_of_the_columns_that_are_read_is_not_empty(
    tmp_path: Path, suffix: str, raises: Callable[..., AbstractContextManager[object]]
) -> None:
    path = save(tmp_path / f"t.{suffix}", {"a": ["1"], "b": ["2"]})
    with raises(DataError, "text", column="catalog_content", candidates=["a", "b"]):
        read_table(path, WANTED)


def test_rows_are_as_long_as_the_header_whatever_is_read_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,catalog_content,b\n1,tea,2\n1,jam\n1,salt,2,3\n")
    notices: list[str] = []
    table = read_table(path, replace(WANTED, others=()), notices=notices.append)
    assert table.flaws is not None
    assert table.flaws.tolist() == ["", "ragged row", "ragged row"]
    assert table.text.tolist() == ["tea", "jam", "salt"]
    path.write_text("catalog_content,b\ntea,2,3\njam,2,3\n")
    with pytest.raises(DataError, match="which has 2"):
        list(iter_table(path, replace(WANTED, others=()), notices=notices.append))


def test_values_of_a_frame_that_are_not_read_may_be_anything() -> None:
    class Odd:
        pass

    frame = pd.DataFrame({"catalog_content": ["tea"], "odd": [Odd()], 7: [1j]})
    assert read_frame(frame, WANTED_ONLY).text.tolist() == ["tea"]
    with pytest.raises(DataError, match="cannot be read"):
        read_frame(frame, replace(WANTED_ONLY, others=None))


WANTED_ONLY = Columns(price=None, id=None, others=())


@pytest.mark.parametrize("suffix", FORMATS)
def test_very_many_columns_are_refused_unless_few_are_read(
    tmp_path: Path, suffix: str, raises: Callable[..., AbstractContextManager[object]]
) -> None:
    path = tmp_path / f"t.{suffix}"
    save(path, {"catalog_content": ["tea"], **{f"c{number}": ["1"] for number in range(10_000)}})
    assert read_table(path, WANTED_ONLY).text.tolist() == ["tea"]
    with raises(DataError, "table", most=10_000):
        read_table(path, replace(WANTED_ONLY, others=None))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_hundred_thousand_columns_are_always_refused(
    tmp_path: Path, suffix: str, raises: Callable[..., AbstractContextManager[object]]
) -> None:
    path = tmp_path / f"t.{suffix}"
    save(path, {"catalog_content": ["tea"], **{f"c{number}": ["1"] for number in range(100_000)}})
    with raises(DataError, "table", most=100_000):
        read_table(path, WANTED_ONLY)
