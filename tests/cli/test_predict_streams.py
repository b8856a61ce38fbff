"""`pricekit predict` as a filter, and with addresses."""

import io
import sys

import pandas as pd
import pytest


@pytest.fixture
def stdin(monkeypatch):
    return lambda content: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_csv_to_csv(pricekit, bundle, catalog, stdin):
    stdin(catalog.read_bytes())
    code, out, err = pricekit("predict", bundle, "-", "--out", "-", "--engine", "ort-cpu")
    assert code == 0
    assert len(pd.read_csv(io.StringIO(out))) == 400
    assert "400 rows priced" in err


def test_json_lines_to_json_lines(pricekit, bundle, catalog, stdin):
    stdin(pd.read_csv(catalog).to_json(orient="records", lines=True).encode())
    code, out, _ = pricekit("predict", bundle, "-", "--out", "-.jsonl", "--engine", "ort-cpu", "--limit", 3)
    assert code == 0
    assert pd.read_json(io.StringIO(out), lines=True).columns.tolist() == ["sample_id", "price"]


def test_addresses(pricekit, bundle, catalog, memory):
    memory.pipe("/in/new.csv", catalog.read_bytes())
    for file in bundle.iterdir():
        memory.pipe(f"/models/bundle/{file.name}", file.read_bytes())
    code, _, err = pricekit(
        "predict", "memory://models/bundle", "memory://in/new.csv", "--out", "memory://out/prices.csv"
    )
    assert code == 0, err
    assert len(memory.cat("/out/prices.csv").splitlines()) == 401


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["ftp://h/x.csv", "--out", "x.csv"], 2, "the scheme ftp:// of an address is unknown"),
        (
            ["memory://in/x.csv", "--out", "x.csv"],
            1,
            "memory://in/x.csv cannot be read: there is no such file or bucket",
        ),
        (["-", "--out", "-", "--resume"], 2, "standard input and output cannot be resumed"),
    ],
)
def test_errors_are_one_sentence_with_the_flag(
    pricekit, bundle, catalog, memory, stdin, words, code, message
):
    stdin(catalog.read_bytes())
    found, out, err = pricekit("predict", bundle, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert err.rstrip().endswith(("Check TABLE.", "Check --resume."))


def test_an_output_folder_is_local(pricekit, catalog):
    code, _, err = pricekit("train", catalog, "--out", "s3://shop/run")
    assert code == 2
    assert "out is s3://shop/run, but only a local path is possible here" in err
