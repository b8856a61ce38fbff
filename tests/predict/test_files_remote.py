"""Prediction from addresses to addresses: every row once, resumable, and nothing half-written."""

import io
import sys
from dataclasses import replace

import pandas as pd
import pytest

from pricekit.errors import ConfigError, DataError
from pricekit.io.locks import owned
from pricekit.io.storage import Address, working_path
from pricekit.model import opened_model
from pricekit.predict import files
from pricekit.predict.predictor import Predictor

NEW, OUT = "memory://in/new.csv", "memory://out/prices.csv"


@pytest.fixture(scope="module")
def predictor(bundle):
    return Predictor.load(bundle, "ort-cpu")


@pytest.fixture
def remote(memory, catalog, monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 64)  # several windows
    memory.pipe("/in/new.csv", catalog.read_bytes())
    return memory


@pytest.fixture
def expected(predictor, catalog, tmp_path):
    opened_model(predictor).predict_file(catalog, tmp_path / "local.csv")
    return (tmp_path / "local.csv").read_bytes()


class Counting:
    """An engine that counts the rows that it prices, and is interrupted after some of them."""

    def __init__(self, predictor, after=10**9):
        self.original, self.after, self.rows = predictor.members[0].engine.price_batch, after, 0

    def __call__(self, batch):
        self.rows += len(batch["features"])
        if self.rows > self.after:
            raise KeyboardInterrupt
        return self.original(batch)


def _with(predictor, price_batch):
    member = predictor.members[0]
    engine = replace(member.engine, price_batch=price_batch)
    return replace(predictor, members=(replace(member, engine=engine),))


def interrupt(predictor):
    with pytest.raises(KeyboardInterrupt):
        opened_model(_with(predictor, Counting(predictor, 200))).predict_file(NEW, OUT)


def test_the_output_is_that_of_local_files(predictor, remote, expected, tmp_path):
    assert opened_model(predictor).predict_file(NEW, OUT) == 400
    assert remote.cat("/out/prices.csv") == expected
    assert remote.find("/out") == ["/out/prices.csv"]
    assert list((tmp_path / "pricekit-cache" / "outputs").iterdir()) == []


def test_a_folder_becomes_one_output(predictor, remote, catalog, expected):
    table = pd.read_csv(catalog)
    for number in range(4):
        part = table[100 * number : 100 * number + 100]
        remote.pipe(f"/in/parts/{number}.parquet", part.to_parquet(index=False))
    assert opened_model(predictor).predict_file("memory://in/parts", OUT) == 400
    found, local = (pd.read_csv(io.BytesIO(content)) for content in (remote.cat("/out/prices.csv"), expected))
    assert found["sample_id"].tolist() == local["sample_id"].tolist()
    assert found["price"].tolist() == pytest.approx(local["price"].tolist(), rel=1e-5)


def test_an_interrupted_prediction_is_resumed_on_the_same_machine(predictor, remote, expected, logged):
    interrupt(predictor)
    assert not remote.exists("/out/prices.csv")
    assert "finished windows are kept" in logged()
    opened_model(predictor).predict_file(NEW, OUT, resume=True)
    assert "resuming after" in logged()
    assert remote.cat("/out/prices.csv") == expected


def test_windows_of_a_replaced_table_are_not_used(predictor, remote, catalog, expected, logged):
    interrupt(predictor)
    remote.pipe("/in/new.csv", catalog.read_bytes())
    opened_model(predictor).predict_file(NEW, OUT, resume=True)
    assert "it used a different table" in logged()
    assert remote.cat("/out/prices.csv") == expected


def test_a_table_that_is_replaced_during_the_prediction_is_an_error(
    predictor, remote, catalog, monkeypatch, raises
):
    fingerprints = files._fingerprints

    def change(files):
        found = fingerprints(files)
        remote.pipe("/in/new.csv", catalog.read_bytes())
        return found

    monkeypatch.setattr(files, "_fingerprints", change)
    with raises(DataError):
        opened_model(predictor).predict_file(NEW, OUT)
    assert not remote.exists("/out/prices.csv")


def test_an_upload_that_fails_keeps_the_windows(predictor, remote, expected, raises):
    remote.pipe("/out/prices.csv", b"old")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(remote), "put_file", _denied)
        with raises(DataError, "out"):
            opened_model(predictor).predict_file(NEW, OUT)
    assert remote.cat("/out/prices.csv") == b"old"
    engine = Counting(predictor)
    opened_model(_with(predictor, engine)).predict_file(NEW, OUT, resume=True)
    assert engine.rows == 0
    assert remote.cat("/out/prices.csv") == expected


def _denied(*_args, **_options):
    raise PermissionError("403")


def test_two_predictions_of_one_machine_do_not_write_one_output(predictor, remote, raises):
    with (
        working_path(Address(OUT)) as place,
        owned(place, "predictions", DataError),
        raises(DataError, "out", path="memory://out/prices.csv"),
    ):
        opened_model(predictor).predict_file(NEW, OUT)


def test_standard_input_to_standard_output(predictor, remote, catalog, expected, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(catalog.read_bytes())))
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    assert opened_model(predictor).predict_file("-", "-") == 400
    assert stream.buffer.getvalue() == expected


@pytest.mark.parametrize(("table", "out"), [("-", OUT), (NEW, "-")])
def test_a_stream_cannot_be_resumed(predictor, remote, table, out, raises, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"catalog_content\ntea\n")))
    with raises(ConfigError, "resume"):
        opened_model(predictor).predict_file(table, out, resume=True)
