import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pricekit.errors import DataError
from pricekit.evaluation.errors import error_table, find_errors, groupings_of_errors, share_of_worst
from pricekit.evaluation.groups import quantities_of
from pricekit.evaluation.held_out import read_held_out, write_held_out
from pricekit.metrics import smape, smape_terms


def test_rows_come_in_the_order_of_their_errors(rows):
    some = rows(60, kind=["tea", "ink"] * 30)
    found = error_table(some, quantities_of(some.text))
    assert found["error"].is_monotonic_decreasing
    assert sorted(found["row"]) == list(range(60))
    assert found["error"].mean() == pytest.approx(smape(some.predicted, some.price))
    worst = found.iloc[0]
    number = int(worst["row"])
    assert worst["error"] == smape_terms(some.predicted, some.price).max()
    assert (worst["id"], worst["text"], worst["kind"]) == (
        f"p{number}",
        some.text[number],
        ["tea", "ink"][number % 2],
    )
    assert worst["total"] == pytest.approx(28.3495 * (number % 40 + 1), rel=1e-4)
    assert (worst["value"], worst["measure"]) == (number % 40 + 1, "g")


def test_equal_errors_keep_the_order_of_the_file(rows):
    some = rows(20)
    exact = replace(some, predicted=some.price).take(np.arange(19, -1, -1))
    assert error_table(exact, quantities_of(exact.text))["row"].tolist() == list(range(20))


def test_columns_of_the_table_take_no_other_name(rows):
    some = rows(20, error=["a", "b"] * 10, value=["c", "d"] * 10)
    found = error_table(some, quantities_of(some.text))
    assert list(found)[-3:] == ["error_", "value_", "text"]


def test_the_share_of_the_worst_by_hand():
    table = pd.DataFrame({"error": [150.0, 30, 20, 0]})
    assert [share_of_worst(table, count) for count in (0, 1, 2, 9)] == [0, 75, 90, 100]
    assert share_of_worst(table.tail(1), 1) == 0


def test_what_rows_are_grouped_by(rows):
    some = rows(100, kind=["tea", "ink"] * 50, brand=[f"b{n % 20}" for n in range(100)])
    some.text[:30] = "A chair"
    quantities = quantities_of(some.text)
    found = groupings_of_errors(some, quantities)
    assert [grouping.by for grouping in found] == [
        "unit",
        "quantity",
        "price",
        "kind",
    ]  # brands are too small
    (kind,) = groupings_of_errors(some, quantities, "kind")
    assert kind.labels == ["ink", "tea"]
    with pytest.raises(DataError, match=r"no column 'colour' to group by; they have kind, brand\."):
        groupings_of_errors(some, quantities, "colour")


def test_a_report_of_errors(rows):
    some = rows(60, kind=["<b>tea</b>", "ink"] * 30)
    report = find_errors(some)
    assert report.smape == pytest.approx(smape(some.predicted, some.price))
    assert report.worst(3)["error"].is_monotonic_decreasing
    assert report.share_of_worst(60) == pytest.approx(100)
    found = json.loads(report.to_json(3))
    assert (found["rows"], len(found["worst"])) == (60, 3)
    assert {group["by"] for group in found["groups"]} == {"price", "kind"}
    assert len(repr(report)) < 120
    assert "<b>" not in report._repr_html_()
    assert set(find_errors(some, "kind").groups["by"]) == {"kind"}


@pytest.fixture
def folder(tmp_path, rows):
    some = rows(80, kind=["tea", "ink"] * 40)
    some.text[:] = "Tea [bold]strong[/bold]\r\nin\x1b[31m lines " + some.text
    some.predicted[7] = 40 * some.price[7]
    write_held_out(tmp_path, some)
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
    write_held_out(
        folder, _named(folder, "A long name of a product that does not fit into a narrow terminal at all")
    )
    assert "into a narrow terminal at all" in pricekit("errors", folder, "--worst", "1")[2]


def _named(folder, name):
    some = read_held_out(folder)
    return replace(some, text=pd.Series([f"Item Name: {name}\nBullet Point: x"] * len(some), dtype="str"))


def test_one_row(pricekit, tmp_path, rows):
    write_held_out(tmp_path, rows(1))
    code, _, err = pricekit("errors", tmp_path)
    assert code == 0, err
    assert "1 row, SMAPE 6.28, 100.0% of all error in the worst 1 row" in err


def test_wrong_input_is_told_before_the_work(pricekit, folder, tmp_path):
    for arguments, said in {
        (folder, "--out", tmp_path / "x.xyz"): "x.xyz",
        (folder, "--by", "colour"): "no column 'colour'",
        (tmp_path / "none",): "does not exist",
    }.items():
        code, _, err = pricekit("errors", *arguments)
        assert code == 1
        assert said in " ".join(err.split())
    assert pricekit("errors", folder, "--worst", "-1")[0] == 2


def test_a_table_is_listed_too(pricekit, bundle, catalog):
    code, _, err = pricekit("errors", bundle, catalog, "--worst", "2", "--limit", "100")
    assert code == 0, err
    assert "100 rows, SMAPE" in err
