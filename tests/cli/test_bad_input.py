"""Bad input is either handled and reported, or ends in one paragraph, an exit code and no partial output."""

import shutil
import subprocess
import sys

import pandas as pd
import pytest

from pricekit.cli.common import USELESS
from tests.cli.test_commands import TINY

HEADER = "sample_id,catalog_content,price\n"


def _table(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def refused(pricekit, tmp_path):
    """Assert that a command fails with one paragraph and leaves nothing behind."""

    def check(*arguments, saying, out, expected=1):
        before = sorted(p.name for p in tmp_path.iterdir())
        code, stdout, err = pricekit(*arguments, "--out", out)
        assert code == expected, err
        assert stdout == ""
        assert saying in err
        assert err.rstrip().splitlines()[-1].startswith("pricekit: ")
        assert sorted(p.name for p in tmp_path.iterdir()) == before

    return check


BAD = {
    "empty file": ("", "rows"),
    "header only": (HEADER, "no rows"),
    "one row": (HEADER + "1,tea,3\n", "at least 10"),
    "a price column of text": (
        HEADER + "".join(f"{i},tea,cheap\n" for i in range(20)),
        "price not a number: 20",
    ),
    "no price at all": (HEADER + "".join(f"{i},tea,\n" for i in range(20)), "no price: 20"),
    "a missing column": ("id,words\n1,tea\n", "id, words"),
    "a title": (
        "Prices\n" + HEADER + "".join(f"{i},tea {i},{i + 1}\n" for i in range(20)),
        "above the header",
    ),
    "binary data": (bytes(range(256)) * 40, "binary"),
}


@pytest.mark.parametrize("case", BAD)
def test_tables_that_cannot_be_trained_on(refused, tmp_path, case):
    content, saying = BAD[case]
    refused("train", _table(tmp_path, content), saying=saying, out=tmp_path / "run")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from pricekit.cli.main import main
main()
"""


@pytest.mark.parametrize("command", ["train", "cv", "tune"])
@pytest.mark.parametrize(
    ("option", "missing"),
    [
        (("--text", "title"), "title"),
        (("--price", "eur", "--policy", "best"), "eur"),
        (("--set", "columns.id='sku'"), "sku"),
    ],
)
def test_a_missing_column_is_an_error_before_torch_is_imported(tmp_path, command, option, missing):
    table = _table(tmp_path, "catalog_content,price\ntea,1\n")
    words = [
        sys.executable,
        "-c",
        WITHOUT_TORCH,
        command,
        str(table),
        *option,
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"has no column '{missing}'" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "training.epoch=3"], "unknown setting 'training.epoch'"),
        (["--loss", "smap"], "unknown loss 'smap'"),
        ([], "rows are held out to validate on"),
    ],
)
def test_settings_are_checked_and_a_small_table_is_read_before_torch_is_imported(
    tmp_path, catalog, options, message
):
    words = [sys.executable, "-c", WITHOUT_TORCH, "train", catalog, "--out", tmp_path / "run", *options]
    done = subprocess.run(words, capture_output=True, text=True)
    assert message in done.stderr
    assert ("pip install 'pricekit[train]'" in done.stderr) == (not options)


@pytest.mark.parametrize("case", ["empty file", "header only", "a missing column", "binary data"])
def test_tables_that_cannot_be_priced(refused, bundle, tmp_path, case):
    content, saying = BAD[case]
    refused("predict", bundle, _table(tmp_path, content), saying=saying, out=tmp_path / "prices.csv")


def _rows(count):
    return "".join(f"{i},green tea {i} oz,{i + 1}.5\n" for i in range(count))


HANDLED = {
    "a text column of numbers": (
        HEADER + "".join(f"{i},{i * 7},{i * 11 % 13 + 1}\n" for i in range(30)),
        30,
        "",
    ),
    "NUL bytes": (HEADER + _rows(30) + "30,ol\0ive,3\n", 31, "NUL"),
    "ragged rows": (HEADER + _rows(30) + "30,tea\n31,tea,4,extra\n", 32, "fields"),
    "a cell of 30 MB": (HEADER + _rows(30) + "30," + "x y " * 7_500_000 + ",3\n", 31, "cut"),
}


@pytest.mark.parametrize("case", HANDLED)
def test_irregular_tables_are_read_and_reported(pricekit, tmp_path, case):
    content, rows, saying = HANDLED[case]
    table = _table(tmp_path, content)
    code, _, err = pricekit("train", table, "--out", tmp_path / "run", *TINY)
    assert code in (0, USELESS), err  # thirty rows teach little
    assert saying in err
    code, _, err = pricekit("predict", tmp_path / "run", table, "--out", tmp_path / "prices.csv")
    assert code == 0, err
    assert saying in err
    prices = pd.read_csv(tmp_path / "prices.csv")
    assert len(prices) == rows
    assert (prices["price"] > 0).all()


def test_other_encodings_are_found_or_named(pricekit, refused, bundle, tmp_path):
    table = _table(tmp_path, HEADER.encode() + b"1,caf\xe9,3\n")
    refused("predict", bundle, table, "--encoding", "utf-8", saying="byte 37", out=tmp_path / "p.csv")
    for flags, said in (([], True), (["--encoding", "latin-1"], False)):
        code, _, err = pricekit("predict", bundle, table, *flags, "--out", tmp_path / "p.csv")
        assert (code, "Set encoding" in err) == (0, said)


def test_a_missing_column_is_reported_before_engines_are_measured(pricekit, bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # nothing is known of this machine
    (tmp_path / "t.csv").write_text("title\nGreen tea\n")
    code, _, err = pricekit("predict", bundle, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert code == 1
    assert "no column 'catalog_content'" in err
    assert "fastest" not in err
    assert not (tmp_path / "cache").exists()


def test_no_id_column_at_prediction(pricekit, bundle, tmp_path):
    table = _table(tmp_path, "catalog_content\nGreen tea\nOlive oil\n")
    code, _, err = pricekit("predict", bundle, table, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert "row number" in err
    assert pd.read_csv(tmp_path / "p.csv").iloc[:, 0].tolist() == [0, 1]
    code, _, err = pricekit("predict", bundle, table, "--id", "sku", "--out", tmp_path / "q.csv")
    assert (code, "--id" in err) == (1, True)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "preprocess.json"])
@pytest.mark.parametrize("keep", [-1, 100])
def test_truncated_bundles(refused, bundle, catalog, tmp_path, name, keep):
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    (copy / name).write_bytes((copy / name).read_bytes()[:keep])
    refused("predict", copy, catalog, saying=name, out=tmp_path / "prices.csv")


@pytest.mark.parametrize(
    ("arguments", "saying", "expected"),
    [
        (["train", "none.csv"], "none.csv", 1),
        (["train", "{catalog}", "--backbone", "bga"], "Did you mean 'bag'", 3),
        (["train", "{catalog}", "--set", "training.epoch=3"], "training.epochs", 2),
        (["train", "{catalog}", "--set", "nonsense"], "expected key=value", 2),
        (["train", "{catalog}", "--config", "none.toml"], "none.toml", 2),
        (["train", "{catalog}", "--price", "eur"], "--price", 1),
        (["train", "{catalog}", "--text", "title"], "--text", 1),
        (["export", "{bundle}"], "is a bundle already", 1),
        (["predict", "none", "{catalog}"], "does not exist", 1),
        (["predict", "{catalog}", "{catalog}"], "is a file", 1),
    ],
)
def test_wrong_arguments(refused, catalog, bundle, tmp_path, arguments, saying, expected):
    given = [a.format(catalog=catalog, bundle=bundle) for a in arguments]
    refused(*given, saying=saying, out=tmp_path / "out", expected=expected)


def test_an_output_of_unknown_format(refused, bundle, catalog, tmp_path):
    refused("predict", bundle, catalog, saying=".parquet", out=tmp_path / "prices.xlsx")


def test_an_output_in_a_missing_folder(refused, bundle, catalog, tmp_path):
    refused("predict", bundle, catalog, saying="none", out=tmp_path / "none" / "prices.csv")
