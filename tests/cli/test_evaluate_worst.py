"""`pricekit evaluate --worst` and `--by`: the rows with the largest errors."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from pricekit.evaluation.held_out import read_held_out, write_held_out
from tests.answers.folders_of_leaderboard import write_run


@pytest.fixture
def folder(tmp_path, rows):
    some = rows(80, kind=["tea", "ink"] * 40)
    some.text[:] = "Tea [bold]strong[/bold]\r\nin\x1b[31m lines " + some.text
    some.predicted[7] = 40 * some.price[7]
    return write_run(tmp_path / "run", some)


def test_the_screen_shows_texts_as_they_are_on_one_line_each(pricekit, folder):
    code, out, err = pricekit("evaluate", folder, "--worst", "3")
    assert (code, out) == (0, "")
    lines = err.splitlines()
    assert max(map(len, lines[1:])) <= 80  # the first line has the path
    assert "\x1b[31m" not in err
    (first,) = [line for line in lines if "│ p7 " in line]
    assert "Tea [bold]strong" in first
    assert sum("[bold]strong" in line for line in lines) == 3
    assert "of all error in the worst 3 rows" in err
    assert "│ rows                │" in err
    assert "too high" in err
    for by in ("price", "kind"):
        assert any(line.startswith(f"┃ {by} ") for line in lines)


def test_all_rows_are_written(pricekit, folder):
    code, _, err = pricekit(
        "evaluate", folder, "--worst", "0", "--by", "kind", "--out", folder / "errors.csv"
    )
    assert code == 0, err
    assert "% of error" in err
    assert "┃ price" not in err
    found = pd.read_csv(folder / "errors.csv")
    assert (len(found), found["id"][0]) == (80, "p7")
    assert found["text"][0].startswith("Tea [bold]strong[/bold]")


def test_a_wide_terminal_shows_more_of_a_text(pricekit, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    write_held_out(
        folder, _named(folder, "A long name of a product that does not fit into a narrow terminal at all")
    )
    assert "into a narrow terminal at all" in pricekit("evaluate", folder, "--worst", "1")[2]


def _named(folder, name):
    some = read_held_out(folder)
    return replace(some, text=pd.Series([f"Item Name: {name}\nBullet Point: x"] * len(some), dtype="str"))


def test_one_row(pricekit, tmp_path, rows):
    code, _, err = pricekit("evaluate", write_run(tmp_path / "run", rows(1)), "--worst", "5")
    assert code == 0, err
    assert "100.0% of all error in the worst 1 row" in err


def test_invalid_input_is_reported_before_the_work(pricekit, folder, tmp_path):
    for arguments, said in {
        (folder, "--out", tmp_path / "x.xyz"): "x.xyz",
        (folder, "--by", "colour"): "no column 'colour'",
        (tmp_path / "none",): "does not exist",
    }.items():
        code, _, err = pricekit("evaluate", *arguments)
        assert code == 1
        assert said in " ".join(err.split())
    assert pricekit("evaluate", folder, "--worst", "-1")[0] == 2


def test_a_nested_table_is_listed(pricekit, bundle, catalog):
    code, _, err = pricekit("evaluate", bundle, catalog, "--worst", "2", "--limit", "100")
    assert code == 0, err
    assert "of all error in the worst 2 rows" in err


def test_the_worst_rows_are_in_the_document(pricekit, folder):
    code, out, _ = pricekit("evaluate", folder, "--worst", "2", "--json")
    page = json.loads(out)
    assert (code, page["rows"], page["worst"][0]["id"], len(page["worst"])) == (0, 80, "p7", 2)
    assert page["share_of_worst"] > 0
    assert "worst" not in json.loads(pricekit("evaluate", folder, "--json")[1])


def test_a_table_of_products_is_for_the_worst_rows(pricekit, bundle, catalog):
    code, _, err = pricekit("evaluate", bundle, catalog, "--among", catalog)
    assert (code, "set --worst" in err) == (2, True)
    code, _, err = pricekit("evaluate", bundle, catalog, "--among", catalog, "--worst", "3", "--limit", "100")
    assert (code, "comparables" in err) == (0, True)
