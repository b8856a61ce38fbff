"""Frames on disk, and rejected rows of files in several formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pricekit.errors import DataError
from pricekit.table import Columns, check_output, read_table, split_usable, write_frame, write_rejected

FORMATS = ("csv", "tsv", "jsonl", "parquet")
FRAME = pd.DataFrame(
    {
        "id": pd.array([1, None], dtype="Int64"),
        "a\rb": ["x", 'y"\n'],
        "f": np.array([12.34, 2.0], np.float32),
    },
    index=[7, 7],
)


def load(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".jsonl":
        return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_frame_is_written_in_the_format_of_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"f.{suffix}"
    write_frame(path, FRAME)
    found = load(path)
    assert found.columns.tolist() == ["id", "a\rb", "f"]
    assert found["id"].iloc[0] == 1
    assert pd.isna(found["id"].iloc[1])
    assert found["a\rb"].tolist() == ["x", 'y"\n']
    assert found["f"].astype(np.float32).tolist() == FRAME["f"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_floats_are_shortest_decimals_and_parquet_keeps_types(tmp_path: Path) -> None:
    write_frame(tmp_path / "f.csv", FRAME[["id", "f"]])
    assert (tmp_path / "f.csv").read_text() == "id,f\n1,12.34\n,2.0\n"
    write_frame(tmp_path / "f.parquet", FRAME)
    assert [str(t) for t in pq.read_schema(tmp_path / "f.parquet").types] == [
        "int64",
        "large_string",
        "float",
    ]


def test_invalid_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raises) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("f.xlsx", ".", "no/f.csv"):
        with raises(DataError, "out"):
            check_output(Path(path))
        with raises(DataError, "out"):
            write_frame(Path(path), FRAME)
    with raises(DataError, "table", column="a"):
        write_frame(tmp_path / "f.parquet", pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert list(tmp_path.iterdir()) == []


def test_rejected_rows_of_a_parquet_and_a_csv_file(tmp_path: Path) -> None:
    columns = {
        "sample_id": pa.array([1, 2, 3]),
        "catalog_content": ["a", "", "c"],
        "price": pa.array([None, 2.5, -1.0]),
        "when": pa.array([0, 1, 2], pa.date32()),
        "tags": pa.array([["x"], None, ["y"]]),
        "stock": pa.array([1, None, 3]),
        "price_in_cents": pa.array(["1.5", "22.5", None]).cast(pa.decimal128(9, 2)),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    (tmp_path / "v.csv").write_text("sample_id,catalog_content,price,note\nx,a,cheap,n\ny,b,1,\n")
    frames = [split_usable(read_table(tmp_path / name, Columns()))[1] for name in ("t.parquet", "v.csv")]
    write_rejected(tmp_path / "rejected.parquet", frames)
    table = pq.read_table(tmp_path / "rejected.parquet")
    assert table["sample_id"].to_pylist() == ["1", "2", "3", "x"]
    assert table["price"].to_pylist() == ["", "2.5", "-1", "cheap"]
    assert table["when"].to_pylist() == ["1970-01-01", "1970-01-02", "1970-01-03", None]
    assert table["tags"].to_pylist() == ['["x"]', "", '["y"]', None]
    assert table["stock"].to_pylist() == [1, None, 3, None]
    assert table["price_in_cents"].to_pylist() == ["1.50", "22.50", "", None]
    assert table["note"].to_pylist() == [None, None, None, "n"]
    assert table["row"].to_pylist() == [0, 1, 2, 0]
    assert table["reason"].to_pylist() == ["no price", "no text", "price not positive", "price not a number"]
    assert not list(tmp_path.glob(".*"))


def test_a_column_of_mixed_objects_and_frames_without_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame({"m": pd.Series([1, "x", None], dtype=object), "row": [0, 1, 2]})
    write_rejected(tmp_path / "r.parquet", [frame.head(0), frame, frame.tail(1)])
    assert pd.read_parquet(tmp_path / "r.parquet")["m"].fillna("").tolist() == ["1", "x", "", ""]
    write_rejected(tmp_path / "none.parquet", [frame.head(0)])
    assert len(pd.read_parquet(tmp_path / "none.parquet")) == 0
