"""`pricekit check TABLE`: a report on how a table is read, without training."""

import json
import shlex

import pytest

from tests.cli.test_commands import TINY


@pytest.fixture
def page(pricekit):
    """Return the output of `check --json` for a table."""

    def of(*arguments):
        code, out, err = pricekit("check", *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return of


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def german(path, rows=60):
    lines = [
        f'{i};Käsehobel {"groß" if i % 2 else "grün"} {i};"{i % 9 + 1}.{i * 7 % 1000:03},50 €"\n'
        for i in range(rows)
    ]
    return write(path, "Nr;Bezeichnung;Preis\n" + "".join(lines), "cp1252")


def test_the_report_of_a_plain_table(pricekit, catalog):
    code, out, err = pricekit("check", catalog)
    assert (code, err) == (0, f"reading {catalog}\n")
    for words in (
        "400 rows; csv, utf-8, comma-separated",
        "rows to train on",
        "highest prices",
        "lowest SMAPE",
    ):
        assert words in out
    assert out.splitlines()[-1] == f"next: pricekit train {catalog} --out run"


def test_the_columns_and_the_command_are_guessed(page, tmp_path):
    found = page(german(tmp_path / "t.csv"))
    assert (found["encoding"], found["delimiter"], found["rows"]) == ("cp1252", ";", 60)
    assert {c["name"]: (c["kind"], c["used_as"]) for c in found["columns"]} == {
        "Nr": ("number", "id"),
        "Bezeichnung": ("text", "text"),
        "Preis": ("price", "price"),
    }
    assert (found["prices"]["decimal"], found["prices"]["currency"]) == (",", "EUR")
    assert found["quantiles"]["0"] == 1000.5
    notes = " ".join(found["notes"])
    assert "prices read: '1.000,50 €' as 1000.5, " in notes
    assert "Training can use 60 rows, which is few" in notes
    assert shlex.split(found["command"])[3:] == [
        "--text",
        "Bezeichnung",
        "--price",
        "Preis",
        "--id",
        "Nr",
        "--out",
        "run",
    ]


def test_the_command_it_prints_trains_and_predicts(pricekit, page, tmp_path):
    rows = "".join(f"https://x.vn/{i}|Bàn phím số {i}|{i + 10}.000₫\n" for i in range(40))
    table = write(tmp_path / "t.txt", rows)
    found = page(table)
    assert "looks like data" in found["notes"][0]
    command = shlex.split(found["command"])[1:-1]
    code, _, err = pricekit(*command, tmp_path / "run", "--allow-leak", *TINY)
    assert code == 0, err
    assert "prices read: '10.000₫' as 10000, '11.000₫' as 11000, '12.000₫' as 12000; currency VND" in err
    names = command[command.index("--columns") + 1]
    code, _, err = pricekit(
        "predict", tmp_path / "run", table, "--columns", names, "--out", tmp_path / "p.csv"
    )
    assert code == 0, err
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 41


def test_options_choose_columns_and_rows(page, tmp_path):
    table = write(tmp_path / "t.csv", "a,b,c\n" + "".join(f"word {i},thing {i},{i}.500\n" for i in range(20)))
    found = page(table, "--text", "b", "--price", "c", "--decimal", ",", "--limit", "11")
    assert found["rows"] == 11
    assert found["quantiles"]["1"] == 10500
    assert found["command"].endswith("--decimal , --text b --price c --out run")


def test_rejected_rows_duplicates_and_outliers(page, tmp_path):
    rows = [
        "1,tea,5",
        "1,tea,6",
        "2,tea,6",
        "3,,7",
        "4,pot,",
        "5,pot,0",
        "6,pot,n/a",
        "7,pot,none of it",
        "8,cup,€9",
    ]
    rows += [f"{i},jug {i},${i}" for i in range(10, 200)] + ["300,jug,$99999999"]
    table = write(tmp_path / "t.csv", "sample_id,catalog_content,price\n" + "\n".join(rows))
    found = page(table)
    assert found["set_aside"] == {
        "no price": 2,
        "duplicate id": 1,
        "no text": 1,
        "price not positive": 1,
        "price not a number": 1,
        "other currency": 1,
    }
    assert found["duplicates"]["rows_of_equal_text_and_other_price"] == 2
    assert found["duplicates"]["their_lowest_smape"] == pytest.approx(100 * 1 / 5.5 / 2)
    assert found["text"]["empty"] == 1
    assert found["highest"][:2] == [99999999, 199]
    assert any("xtremely high prices" in note for note in found["notes"])


def test_two_currencies(page, pricekit, tmp_path):
    table = write(
        tmp_path / "t.csv",
        "name,price\n" + "".join(f"jug {i * 7 % 40},{'$€'[i % 2]}{i + 1}\n" for i in range(40)),
    )
    found = page(table)
    assert found["prices"]["currencies"] == {"$": 20, "EUR": 20}
    assert "--currency '$'" in found["command"]
    code, _, err = pricekit("train", table, "--text", "name", "--out", tmp_path / "run")
    assert (code, "USD ($): 20, EUR: 20" in err, (tmp_path / "run").exists()) == (1, True, False)


def test_a_column_that_leaks_the_price(page, tmp_path):
    rows = "".join(f"jug of kind {i * 7919 % 1000} and more,{i},{i * 0.9}\n" for i in range(1, 200))
    found = page(write(tmp_path / "t.csv", "title,price,discounted\n" + rows))
    assert found["leaks"]["columns"]["discounted"].endswith("of its numbers")


def test_the_command_omits_text_that_leaks_the_price(page, pricekit, tmp_path):
    rows = "".join(f"jug of kind {i * 7919 % 1000} and more,{i},from {i * 0.9}\n" for i in range(1, 200))
    table = write(tmp_path / "t.csv", "title,price,offer\n" + rows)
    found = page(table, "--text", "title,offer")
    assert "The suggested text columns omit columns that leak the price: offer." in found["notes"]
    assert shlex.split(found["command"])[3:5] == ["--text", "title"]
    assert [column["used_as"] for column in found["columns"]] == ["text", "price", ""]
    _, out, _ = pricekit("check", table, "--text", "offer")
    assert ("training stops" in out, "next:" in out) == (True, False)


def test_no_command_is_suggested_if_the_text_contains_the_price(page, tmp_path):
    rows = "".join(f"jug for {i * 3}.50 each,{i * 3}.50\n" for i in range(1, 200))
    found = page(write(tmp_path / "t.csv", "title,price\n" + rows))
    assert found["leaks"] == {"columns": {}, "in_text": pytest.approx(1, abs=0.05)}
    assert any("training stops" in note for note in found["notes"])
    assert "command" not in found


def test_the_rest_of_a_leaking_text_is_checked_on_rows_of_the_whole_table(page, tmp_path, monkeypatch):
    monkeypatch.setattr("pricekit.evaluation.leaks.MOST_ROWS", 100)
    rows = "".join(
        f"jug of kind {i * 7919 % 1000},about {i * 9} yen,{offer if i > 100 else ''},{i}0.5\n"
        for i in range(1, 400)
        for offer in [f"now for {i}0.5 each all over the town"]
    )
    found = page(write(tmp_path / "t.csv", "title,guess,description,price\n" + rows))
    assert found["leaks"]["in_text"] > 0.5


@pytest.mark.parametrize(("rows", "trains"), [(9, False), (10, True)])
def test_too_few_rows_to_train_on(page, tmp_path, rows, trains):
    found = page(
        write(tmp_path / "t.csv", "name,price\n" + "".join(f"jug {i},{i + 3}\n" for i in range(rows)))
    )
    assert ("command" in found) == trains
    assert any("training needs at least 10" in note for note in found["notes"]) != trains


def test_equal_prices(page, tmp_path):
    found = page(write(tmp_path / "t.csv", "name,price\n" + "".join(f"jug {i},5\n" for i in range(20))))
    assert any("All prices are 5" in note for note in found["notes"])


def test_a_table_without_prices_or_usable_rows(page, pricekit, tmp_path):
    found = page(write(tmp_path / "t.csv", "title,stars\ngreen tea,5\nblack tea,4\n"))
    assert "command" not in found
    assert any("set price to name it" in note for note in found["notes"])
    table = write(tmp_path / "u.csv", "title,price\ngreen tea,dear\nblack tea,cheap\n")
    code, out, _ = pricekit("check", table)
    assert (code, "Training cannot use any row" in out) == (0, True)


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        (b"", "no rows"),
        (b"name,price\n", "no rows"),
        (b"Prices\n" + b"".join(b"%d,tea,3\n" % i for i in range(20)), "above the header"),
        (bytes(range(256)) * 40, "binary"),
        (b"a,b\n1,2\n", "no column of text"),
        (b"PK\x03\x04", "zip"),
    ],
)
def test_objects_that_are_not_tables(pricekit, tmp_path, content, saying):
    (tmp_path / "t.csv").write_bytes(content)
    code, out, err = pricekit("check", tmp_path / "t.csv")
    assert (code, out) == (1, "")
    assert saying in err


@pytest.mark.parametrize(
    ("title", "shown"), [("Price list 2024;;\n;;\n", True), ("Price list 2024\n", True), ("", False)]
)
def test_a_title_above_the_header_is_reported(page, tmp_path, title, shown):
    rows = "".join(f"{i};green tea number {i};{i + 1},50\n" for i in range(30))
    found = page(write(tmp_path / "t.csv", f"{title}nr;name;price\n{rows}"))
    assert any("title above the header" in note for note in found["notes"]) == shown
    assert ("command" in found) == (not shown)


@pytest.mark.parametrize(("second", "shown"), [("JPY", True), ("USD", False), ("blue", False)])
def test_currencies_in_a_separate_column_are_reported(page, tmp_path, second, shown):
    rows = "".join(f"green tea number {i},{i + 1},{second if i % 2 else 'USD'}\n" for i in range(30))
    found = page(write(tmp_path / "t.csv", f"name,price,currency\n{rows}"))
    assert any("'currency' names several currencies (" in note for note in found["notes"]) == shown


def test_a_repeated_title_is_not_a_leak(page, tmp_path):
    rows = "".join(
        f"jug of the kind {i % 40},{['red', 'blue'][i % 2]},{i % 7},{i % 40 * 10 + i % 7 + 5}\n"
        for i in range(400)
    )
    found = page(write(tmp_path / "t.csv", "title,colour,handles,price\n" + rows))
    assert found["leaks"] == {"columns": {}, "in_text": 0}
    assert shlex.split(found["command"])[3:5] == ["--text", "title,colour,handles"]


def test_the_rest_of_a_leaking_text_can_leak(page, tmp_path):
    rows = "".join(
        f"jug of kind {i * 7919 % 1000},about {i * 9} yen,now for {i * 10}.5 each all over the town,{i * 10}.5\n"
        for i in range(1, 200)
    )
    found = page(write(tmp_path / "t.csv", "title,guess,description,price\n" + rows))
    assert list(found["leaks"]["columns"]) == ["guess"]
    assert found["leaks"]["in_text"] > 0.9
    assert any("training stops" in note for note in found["notes"])
    assert "command" not in found


def test_names_with_commas_and_ids_in_the_command(page, pricekit, tmp_path):
    rows = "".join(f"{i % 97},jug {i * 7 % 60},{i % 9},{i + 5}\n" for i in range(100))
    table = write(tmp_path / "t.csv", 'code,title,"size, cm",price\n' + rows)
    words = shlex.split(page(table, "--id", "code")["command"])
    assert words[3:] == ["--set", 'columns.text=["title", "size, cm"]', "--id", "code", "--out", "run"]
    code, out, err = pricekit("train", table, *words[3:-1], tmp_path / "run", "--dry-run", "--allow-leak")
    assert (code, "epochs = 40" in out) == (0, True), err


def test_of_very_many_columns_the_page_lists_those_that_are_used_and_the_first_others(
    pricekit, page, tmp_path
):
    names = [f"of {n}" for n in range(150)]
    rows = [f"{','.join('' for _ in names)},Blue jug {n} with a lid,{n}.50" for n in range(40)]
    path = write(tmp_path / "t.csv", "\n".join([f"{','.join(names)},title,price", *rows]))
    code, out, _ = pricekit("check", path)
    assert code == 0
    assert "and 52 more columns; --json lists all of them" in out
    assert out.count("Left out: of ") == 98
    assert " title " in out
    assert len(page(path)["columns"]) == 152
