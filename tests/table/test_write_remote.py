"""Frames and predictions at addresses and on standard output."""

import io
import sys

import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.io.storage import Address
from pricekit.table import PredictionWriter, check_output, write_frame

FRAME = pd.DataFrame({"id": ["a", "b"], "price": [1.5, 2.0]})


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        ("csv", pd.read_csv),
        ("tsv", lambda file: pd.read_csv(file, sep="\t")),
        ("parquet", pd.read_parquet),
        ("jsonl", lambda file: pd.read_json(file, lines=True)),
    ],
)
def test_a_frame_is_written_to_an_address(memory, suffix, read):
    write_frame(Address(f"memory://b/x.{suffix}"), FRAME)
    assert read(io.BytesIO(memory.cat(f"/b/x.{suffix}"))).to_dict("list") == FRAME.to_dict("list")
    assert list(memory.store) == [f"/b/x.{suffix}"]


def test_nothing_appears_before_the_end_or_after_an_error(memory):
    with PredictionWriter(Address("memory://b/x.csv")) as writer:
        writer.write(FRAME["id"], FRAME["price"].to_numpy())
        assert not memory.store
    assert memory.store.pop("/b/x.csv")
    writer = PredictionWriter(Address("memory://b/x.csv"))
    with pytest.raises(ZeroDivisionError), writer:
        writer.write(FRAME["id"], FRAME["price"].to_numpy() / (1 // 0))
    assert not memory.store


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("memory://b/x.xlsx", "memory://b/x.xlsx: the suffix '.xlsx' names no format that can be written"),
        ("memory://b/folder.csv", "memory://b/folder.csv is a folder"),
        ("memory://b/in.csv", "memory://b/in.csv is the table itself"),
    ],
)
def test_an_output_that_cannot_be_written_is_known_before_the_work(memory, address, message):
    memory.pipe("/b/folder.csv/x", b"")
    memory.pipe("/b/in.csv", b"")
    with pytest.raises(DataError) as refused:
        check_output(Address(address), [Address("memory://b/in.csv")])
    assert message in str(refused.value)
    assert refused.value.parameters == ("out",)


@pytest.mark.parametrize(
    ("given", "expected"), [("-", "id,price\na,1.5\nb,2.0\n"), ("-.tsv", "id\tprice\na\t1.5\nb\t2.0\n")]
)
def test_a_frame_is_written_to_standard_output(monkeypatch, given, expected):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    write_frame(Address(given), FRAME)
    assert stream.buffer.getvalue().decode() == expected
