"""Predictions on disk: one row per input row, written atomically."""

from __future__ import annotations

import json
import os
import stat
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, PredictionWriter, iter_table, read_table
from pricekit.table import write as write_module
from pricekit.table.write import open_sink

FORMATS = ("csv", "tsv", "jsonl", "parquet")
BACK = Columns(text=("id",), id="id")

characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
awkward = st.sampled_from(["", '"', "\n", "\r", "\t", ",", "a\rb", '"\r\n",', " x ", "007"])
ids = st.lists(st.one_of(awkward, st.text(characters, max_size=8)), max_size=20)
moderate = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def fail(writer: PredictionWriter, error: type[BaseException]) -> None:
    writer.write(pd.Series(["a"]), np.ones(1))
    raise error


@pytest.mark.parametrize("suffix", FORMATS)
@moderate
@given(ids=ids, seed=st.integers(0, 9), half=st.booleans())
def test_written_rows_are_read_back(
    tmp_path: Path, suffix: str, ids: list[str], seed: int, half: bool
) -> None:
    path = tmp_path / f"out.{suffix}"
    price = np.exp(np.random.default_rng(seed).normal(0, 20, len(ids))).astype(
        np.float32 if half else np.float64
    )
    cut = len(ids) // 2
    with PredictionWriter(path) as writer:
        writer.write(pd.Series(ids[:cut], dtype="str"), price[:cut])
        writer.write(pd.Series(ids[cut:], dtype="str"), price[cut:])
    if ids:
        table = read_table(path, BACK)
        assert table.ids.tolist() == ids
        assert table.price is not None
        np.testing.assert_array_equal(table.price.astype(price.dtype), price)
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_output_has_one_row_per_input_row(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text("sample_id,catalog_content\n1,a\n2\n2,b,c,d\n,\n\n3,e\n")
    with PredictionWriter(tmp_path / f"out.{suffix}") as writer:
        for chunk in iter_table(source, Columns(price=None), rows=2, notices=lambda _: None):
            writer.write(chunk.ids, np.full(len(chunk), 1.5))
    out = read_table(tmp_path / f"out.{suffix}", Columns(text=("price",)))
    assert out.ids.tolist() == ["1", "2", "2", "", "3"]
    assert out.price is not None
    assert out.price.tolist() == [1.5] * 5


def test_csv_is_plain(tmp_path: Path) -> None:
    with PredictionWriter(tmp_path / "out.csv") as writer:
        writer.write(pd.Series([33127, 5], name="sample_id"), np.array([12.34, 0.1], dtype=np.float32))
    assert (tmp_path / "out.csv").read_bytes() == b"sample_id,price\n33127,12.34\n5,0.1\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_missing_float_id_does_not_change_the_others(tmp_path: Path, suffix: str) -> None:
    ids = pd.Series(np.array([1.1, np.nan, 3.0], np.float32), name="sku")
    with PredictionWriter(tmp_path / f"out.{suffix}") as writer:
        writer.write(ids, np.ones(3, np.float32))
        writer.write(ids[:1], np.ones(1, np.float32))
    expected = {
        "csv": "sku,price\n1.1,1.0\n,1.0\n3.0,1.0\n1.1,1.0\n",
        "jsonl": "".join(f'{{"sku": {i}, "price": 1.0}}\n' for i in ("1.1", "null", "3.0", "1.1")),
    }
    assert (tmp_path / f"out.{suffix}").read_text() == expected[suffix]


def test_json_lines_are_plain(tmp_path: Path) -> None:
    with PredictionWriter(tmp_path / "out.jsonl") as writer:
        writer.write(
            pd.Series([7, None], dtype="Int64", name="sample_id"), np.array([12.34, 0.1], dtype=np.float32)
        )
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"sample_id": 7, "price": 12.34},
        {"sample_id": None, "price": 0.1},
    ]


def test_parquet_ids_may_be_missing(tmp_path: Path) -> None:
    with PredictionWriter(tmp_path / "out.parquet") as writer:
        writer.write(pd.Series(["a", None], dtype="str"), np.ones(2))
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == ["a", None]


def test_parquet_has_types_and_large_row_groups(tmp_path: Path) -> None:
    with PredictionWriter(tmp_path / "out.parquet") as writer:
        for start in range(0, 200_000, 8000):
            writer.write(
                pd.Series(np.arange(start, start + 8000), name="sample_id"), np.ones(8000, np.float32)
            )
    file = pq.ParquetFile(tmp_path / "out.parquet")
    assert [str(kind) for kind in file.schema_arrow.types] == ["int64", "double"]
    assert file.num_row_groups == 2
    assert file.read()["sample_id"].to_pylist() == list(range(200_000))


@pytest.mark.parametrize("suffix", FORMATS)
def test_decimal_ids_of_growing_precision(tmp_path: Path, suffix: str) -> None:
    ids = ["1.50", "22.50", "123456.75", "3.25"]
    columns = {"id": pa.array(ids).cast(pa.decimal128(12, 2)), "t": ids}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with PredictionWriter(tmp_path / f"out.{suffix}") as writer:
        for chunk in iter_table(tmp_path / "in.parquet", Columns(("t",), None, "id"), rows=1):
            writer.write(chunk.ids, np.ones(len(chunk)))
    assert read_table(tmp_path / f"out.{suffix}", BACK).ids.tolist() == ids


def test_parquet_ids_that_are_objects_become_text(tmp_path: Path) -> None:
    chunks = [[None], [Decimal("1.5")], [Decimal("123.25"), "a"]]
    with PredictionWriter(tmp_path / "out.parquet") as writer:
        for cells in chunks:
            writer.write(pd.Series(cells, dtype=object), np.ones(len(cells)))
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [None, "1.5", "123.25", "a"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["sku", "row", None])
def test_the_id_column_has_the_name_of_the_ids(tmp_path: Path, suffix: str, name: str | None) -> None:
    with PredictionWriter(tmp_path / f"out.{suffix}") as writer:
        writer.write(pd.Series(["a"], name=name), np.ones(1))
        writer.write(pd.Series(["b"], name="another"), np.ones(1))
    frame = read_table(tmp_path / f"out.{suffix}", Columns(("price",), "price", None)).frame
    assert frame.columns.tolist() == [name or "id", "price"]
    assert frame[name or "id"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("suffix", "content"), [("csv", "id,price\n"), ("tsv", "id\tprice\n"), ("jsonl", "")]
)
def test_an_empty_frame_writes_a_header(tmp_path: Path, suffix: str, content: str) -> None:
    with PredictionWriter(tmp_path / f"out.{suffix}"):
        pass
    assert (tmp_path / f"out.{suffix}").read_text() == content


def test_an_empty_frame_writes_a_schema(tmp_path: Path) -> None:
    with PredictionWriter(tmp_path / "out.parquet"):
        pass
    assert pq.read_table(tmp_path / "out.parquet").schema.names == ["id", "price"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, suffix: str, error: type[BaseException]) -> None:
    path = tmp_path / f"out.{suffix}"
    with pytest.raises(error), PredictionWriter(path) as writer:
        fail(writer, error)
    assert names(tmp_path) == []


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), PredictionWriter(path) as writer:
        fail(writer, ZeroDivisionError)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.csv"]


def test_a_system_error_inside_the_block_is_not_reported_as_a_writing_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), PredictionWriter(tmp_path / "out.csv") as writer:
        fail(writer, ConnectionError)


def test_the_output_does_not_exist_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with PredictionWriter(path) as writer:
        writer.write(pd.Series(["a"]), np.ones(1))
        assert not path.exists()
    assert path.exists()


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_the_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with PredictionWriter(tmp_path / "ours.csv"):
        pass
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours.csv")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_explained(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch, raises
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    path = tmp_path / f"out.{suffix}"
    with (
        raises(DataError, "out"),
        PredictionWriter(path),
    ):
        pass
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_disk_that_fills_while_writing_is_explained(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch, raises
) -> None:
    monkeypatch.setattr(write_module, "open_sink", lambda _, named: open_sink(Path("/dev/full"), named))
    with (
        raises(DataError, "out"),
        PredictionWriter(tmp_path / f"out.{suffix}") as writer,
    ):
        writer.write(pd.Series(np.arange(300_000)), np.ones(300_000))
    assert names(tmp_path) == []


def test_paths_that_cannot_be_written(tmp_path: Path, raises) -> None:
    for suffix in FORMATS:
        absent = tmp_path / "no" / f"a.{suffix}"
        with raises(DataError, "out"), PredictionWriter(absent):
            raise AssertionError("said too late")
    (tmp_path / "b.csv").mkdir()
    with raises(DataError, "out"), PredictionWriter(tmp_path / "b.csv"):
        pass
    with raises(DataError, "out"):
        PredictionWriter(tmp_path / "c.xlsx")
    with raises(DataError, "id", column="price"), PredictionWriter(tmp_path / "c.csv") as writer:
        writer.write(pd.Series(["a"], name="price"), np.ones(1))
    assert names(tmp_path) == ["b.csv"]


def test_one_price_for_each_id(tmp_path: Path, raises) -> None:
    with (
        raises(ValueError),
        PredictionWriter(tmp_path / "a.csv") as writer,
    ):
        writer.write(pd.Series(["a", "b"]), np.ones(1))
    assert names(tmp_path) == []
