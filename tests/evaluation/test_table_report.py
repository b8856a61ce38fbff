"""The report of `profile_table`."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.evaluation.table_report import profile_table


@pytest.fixture
def shop(tmp_path):
    """A table with a column that leaks the price, duplicates and a row without a price."""
    rows = (
        "".join(f"jug of kind {i * 7919 % 1000} and more,{i},{i * 0.9}\n" for i in range(1, 200))
        + "tea <b>,5,4.5\ntea <b>,6,4.5\npot,,1\n"
    )
    path = tmp_path / "shop.csv"
    path.write_text("title,price,discounted\n" + rows)
    return path


def test_a_report_has_typed_fields(shop):
    report = profile_table(shop)
    assert (report.rows, report.format, report.encoding, report.delimiter) == (202, "csv", "utf-8", ",")
    assert (report.text, report.price, report.id) == (("title",), "price", None)
    assert (report.usable, report.rejected, report.trainable) == (201, {"no price": 1}, True)
    assert report.price_quantiles[0] == 1
    assert report.highest_prices == [199, 198, 197, 196, 195]
    assert report.duplicates.conflicting_rows == 2
    assert list(report.leaks.columns) == ["discounted"]
    assert {column.name: report.role(column.name) for column in report.columns} == {
        "title": "text",
        "price": "price",
        "discounted": "",
    }


def test_a_report_as_json_repr_and_html(shop):
    report = profile_table(str(shop))
    assert json.loads(json.dumps(report.to_dict()))["duplicates"]["rows_of_equal_text_and_other_price"] == 2
    assert list(report.to_dict()) == [
        *("table", "format", "encoding", "delimiter", "rows", "text", "usable", "set_aside", "prices"),
        *("quantiles", "highest", "suspects", "duplicates", "leaks", "columns", "yields"),
        *("left_out", "notes"),
    ]
    assert len(repr(report)) < 200 + len(str(shop))
    assert "201 of 202 rows usable" in repr(report)
    shown = profile_table(shop, text=["title"])._repr_html_()
    assert "<td>discounted</td>" in shown


def test_a_report_tells_what_each_column_yields():
    cells = {"title": [f"jug {n}" for n in range(60)], "size": [f"{n + 1} x 200 g" for n in range(60)]}
    more = {
        "state": ["new", "used", "worn"] * 20,
        "empty": [""] * 60,
        "same": ["x"] * 60,
        "price": range(1, 61),
    }
    report = profile_table(pd.DataFrame(cells | more), text=["title", "size", "state", "empty", "same"])
    assert report.yields["size"] == "2 numbers, amounts"
    assert report.yields["state"] == "3 categories"
    assert "The text column 'empty' yields nothing: its cells are empty." in report.notes
    assert "The text column 'same' yields nothing: every filled cell is 'x'." in report.notes
    assert not any("'state'" in note for note in report.notes)


def test_the_html_is_escaped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("<script>x</script>,price\n" + "".join(f"a <b>pot</b> {i},{i + 1}\n" for i in range(30)))
    shown = profile_table(path)._repr_html_()
    assert "<script>" not in shown
    assert "<b>" not in shown


def test_the_train_arguments_read_the_table_in_the_same_way(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("".join(f"größe {i * 7919 % 97};{i},50 €\n" for i in range(40)).encode("cp1252"))
    report = profile_table(path)
    assert report.train_arguments == {
        "text": ["column1"],
        "price": "column2",
        "columns": ["column1", "column2"],
    }
    assert report.notes[0].startswith("The first line looks like data")


def test_a_table_without_text_names_its_columns_and_the_parameter(tmp_path, raises):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with raises(DataError, "text", candidates=["a", "b"]) as raised:
        profile_table(path)
    assert raised.value.facts == {"candidates": ["a", "b"]}


def test_a_table_without_prices(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("title,stars\ngreen tea,5\nblack tea,4\n")
    report = profile_table(path)
    assert (report.usable, report.duplicates, report.trainable) == (None, None, False)
    assert "usable" not in report.to_dict()
    assert "2 rows" in repr(report)


def test_a_frame_is_profiled_like_a_file(shop):
    report, frame = profile_table(shop), profile_table(pd.read_csv(shop))
    assert (frame.table, frame.format, frame.encoding) == ("the DataFrame", "frame", None)
    assert (frame.text, frame.usable, frame.price_quantiles) == (
        report.text,
        report.usable,
        report.price_quantiles,
    )


def test_columns_that_are_left_out_have_reasons(tmp_path, shop):
    rows = [
        f"{i},jug of clay {i * 7919 % 97},5,https://x.org/{i},{i % 7},{i * 37 % 50 + 3}" for i in range(80)
    ]
    path = tmp_path / "t.csv"
    path.write_text("Unnamed: 0,title,lot,link,views,price\n" + "\n".join(rows))
    report = profile_table(path)
    assert (report.text, report.id) == (("title",), "Unnamed: 0")
    assert report.left_out == {
        "lot": "constant: every filled cell is '5'",
        "link": "addresses of pages or images",
        "views": "may arise or change after the price is set",
    }
    assert report.to_dict()["left_out"] == report.left_out
    assert any(
        "left out: views. If they are known when the model predicts, name" in note for note in report.notes
    )
    assert profile_table(path, text=["title", "views"]).text == ("title", "views")
    assert "reveals the price" in profile_table(shop).left_out["discounted"]


def test_a_table_of_empty_cells_or_equal_texts(tmp_path, raises):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n,\n,\n")
    with raises(DataError, "text", "delimiter", candidates=["a", "b"]):
        profile_table(path)
    path.write_text("title,price\n" + "".join(f"a pot,{i + 1}\n" for i in range(20)))
    assert any("All texts are equal" in note for note in profile_table(path).notes)


def test_a_report_is_written_into_a_project_file_with_its_comments(shop, tmp_path, raises):
    report, file = profile_table(shop), tmp_path / "pricekit.toml"
    file.write_text("# mine\n[policy]\nname = 'fast'  # quick\n")
    report.write(file)
    first = file.read_text()
    assert first.startswith("# mine\n[policy]\nname = 'fast'  # quick\n")
    expected = {
        "policy": {"name": "fast"},
        "table": {"path": "shop.csv"},
        "columns": {"text": ["title"], "price": "price"},
    }
    assert tomllib.loads(first) == expected
    report.write(file)
    assert file.read_text() == first
    file.write_text(first.replace("title", "name") + "\n[training]\nepochs = 3\n")
    with raises(ConfigError, "overwrite"):
        report.write(file)
    report.write(file, overwrite=True)
    assert tomllib.loads(file.read_text()) == expected | {"training": {"epochs": 3}}


def test_project_files_that_cannot_be_edited_or_written(shop, tmp_path, raises):
    report, file = profile_table(shop), tmp_path / "pricekit.toml"
    file.write_text("[policy\n")
    with raises(ConfigError):
        report.write(file)
    file.write_text("table = 'other.csv'\n")
    with raises(ConfigError):
        report.write(file, overwrite=True)
    assert file.read_text() == "table = 'other.csv'\n"
    with raises(PricekitError):
        report.write(tmp_path / "missing" / "pricekit.toml")
    with raises(ConfigError):
        profile_table(pd.read_csv(shop)).write(tmp_path / "new.toml")


def test_products_in_several_sizes_are_reported_with_both_errors():
    names = [
        f"{a} {b} {c}"
        for a in ("red", "old", "raw")
        for b in ("elm", "fig", "oak")
        for c in ("tea", "wax", "rub", "oil")
    ]
    cells = [f"{name} {size}" for name in names for size in ("250 g", "500g", "1 kg", "2 kg")]
    level = np.repeat(np.random.default_rng(0).lognormal(2, 1, len(names)), 4)
    report = profile_table(
        pd.DataFrame({"title": cells, "price": level * np.tile([1, 1.2, 1.5, 1.9], len(names))})
    )
    variants = report.to_dict()["variants"]
    assert (variants["rows"], variants["products"]) == (144, 36)
    assert variants["new_product_smape"] > variants["known_product_smape"] + 5
    assert any("144 of 144 rows are variants, such as sizes, of 36 products" in note for note in report.notes)


def test_cells_of_dates_that_cannot_be_read_are_counted(tmp_path):
    days = pd.date_range("2024-01-01", periods=100).strftime("%d.%m.%Y").tolist()
    days[3], days[7], days[9] = "soon", "31.02.2024", ""
    names = [f"jug of kind {n * 7919 % 1000}" for n in range(100)]
    path = tmp_path / "dates.csv"
    pd.DataFrame({"title": names, "listed": days, "price": range(1, 101)}).to_csv(path, index=False)
    report = profile_table(path, text=["title", "listed"])
    assert report.yields["listed"].startswith("dates")
    assert (
        "listed: 2 cells of 99 in a column of dates cannot be read as one, and count as missing."
        in report.notes
    )
