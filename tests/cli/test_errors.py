"""`pricekit errors`."""

from dataclasses import replace

import pandas as pd
import pytest

from conftest import write_judged
from pricekit.evaluation.held_out import read_held_out


@pytest.fixture
def folder(tmp_path, rows):
    some = rows(80, kind=["tea", "ink"] * 40)
    some.text[:] = "Tea [bold]strong[/bold]\r\nin\x1b[31m lines " + some.text
    some.predicted[7] = 40 * some.price[7]
    write_judged(tmp_path, some)
    return tmp_path


def test_the_screen_shows_texts_as_they_are_on_one_line_each(pricekit, folder):
    code, out, err = pricekit("errors", folder, "--worst", "3")
    assert (code, out) == (0, "")
    lines = err.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b[31m" not in err
    (first,) = [line for line in lines if "│ p7 " in line]
    assert "Tea [bold]strong" in first
    assert sum("[bold]strong" in line for line in lines) == 3
    assert "80 rows, SMAPE" in err
    assert "too high" in err
    for by in ("price", "kind"):
        assert any(line.startswith(f"┃ {by} ") for line in lines)


def test_all_rows_are_written(pricekit, folder):
    code, _, err = pricekit("errors", folder, "--worst", "0", "--by", "kind", "--out", folder / "errors.csv")
    assert code == 0, err
    assert "% of error" in err
    assert "┃ price" not in err
    found = pd.read_csv(folder / "errors.csv")
    assert (len(found), found["id"][0]) == (80, "p7")
    assert found["text"][0].startswith("Tea [bold]strong[/bold]")


def test_a_wide_terminal_shows_more_of_a_text(pricekit, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    write_judged(
        folder, _named(folder, "A long name of a product that does not fit into a narrow terminal at all")
    )
    assert "into a narrow terminal at all" in pricekit("errors", folder, "--worst", "1")[2]


def _named(folder, name):
    some = read_held_out(folder)
    return replace(some, text=pd.Series([f"Item Name: {name}\nBullet Point: x"] * len(some), dtype="str"))


def test_one_row(pricekit, tmp_path, rows):
    write_judged(tmp_path, rows(1))
    code, _, err = pricekit("errors", tmp_path)
    assert code == 0, err
    assert "1 row, SMAPE 6.28, 100.0% of all error in the worst 1 row" in err


def test_invalid_input_is_reported_before_the_work(pricekit, folder, tmp_path):
    for arguments, said in {
        (folder, "--out", tmp_path / "x.xyz"): "x.xyz",
        (folder, "--by", "colour"): "no column 'colour'",
        (tmp_path / "none",): "does not exist",
    }.items():
        code, _, err = pricekit("errors", *arguments)
        assert code == 1
        assert said in " ".join(err.split())
    assert pricekit("errors", folder, "--worst", "-1")[0] == 2


def test_a_nested_table_is_listed(pricekit, bundle, catalog):
    code, _, err = pricekit("errors", bundle, catalog, "--worst", "2", "--limit", "100")
    assert code == 0, err
    assert "100 rows, SMAPE" in err
