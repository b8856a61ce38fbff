"""The kinds of columns, and which ones look like text, price and id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pricekit.table import ReadOptions, delimited
from pricekit.table.columns import ReadWarnings
from pricekit.table.guess import (
    Profile,
    guess_columns,
    guess_id,
    guess_price,
    guess_text,
    profile,
    without_header,
)
from pricekit.table.source import open_table


def profiles(path: Path, **said: object) -> list[Profile]:
    file = open_table(path, ReadOptions(**said), lambda _: None)  # type: ignore[arg-type]
    return profile(file.name, next(file.chunks(1000, ReadWarnings())).columns)


def test_the_kinds_of_columns_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [
        f'{i},2024-01-{i % 28 + 1:02},http://x/{i},brand {i % 3},good thing {i} for all,"{i}.500 €",{i % 7 + 11},'
        for i in range(60)
    ]
    path.write_text("sku,day,link,brand,Beschreibung,Preis,stars,nothing\n" + "\n".join(rows), "utf-8")
    found = profiles(path)
    assert [p.kind for p in found] == [
        "number",
        "date",
        "address",
        "category",
        "text",
        "price",
        "number",
        "empty",
    ]
    assert (guess_price(found), guess_text(found)) == ("Preis", ("Beschreibung", "stars", "brand", "day"))
    assert guess_id(found, ["Preis", "Beschreibung", "stars", "brand"]) == "sku"
    assert not without_header(found)
    (tmp_path / "u.csv").write_text("\n".join(rows), "utf-8")
    assert without_header(profiles(tmp_path / "u.csv"))


def test_long_texts_with_a_price_in_them_are_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"a fine blue jug for the kitchen of kind {i} only $2{i}.91 today,{i}" for i in range(30)]
    path.write_text("catalog_content,price\n" + "\n".join(rows))
    assert [p.kind for p in profiles(path)] == ["text", "number"]


def test_a_price_column_can_contain_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"Stuhl Nr {i},{'auf Anfrage' if i % 3 == 0 else f'{i} €'}" for i in range(30)]
    path.write_text("Bezeichnung,Preis\n" + "\n".join(rows), "utf-8")
    found = profiles(path)
    assert (guess_price(found), guess_text(found[:1])) == ("Preis", ("Bezeichnung",))


def test_a_column_that_is_half_numbers_is_not_a_price_by_its_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"wool coat {i},{['38', 'M', '40', 'large one'][i % 4]},{i}.5" for i in range(40)]
    path.write_text("title,costume size,retail price\n" + "\n".join(rows))
    assert guess_price(profiles(path)) == "retail price"


def test_a_category_column_is_text_if_there_is_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("item,cost\n" + "".join(f"{['lamp', 'sofa', 'rug'][i % 3]},{i}\n" for i in range(30)))
    found = profiles(path)
    assert (guess_text(found), guess_price(found), guess_id(found, [])) == (("item",), "cost", None)


def test_descriptive_columns_are_guessed_with_the_title_first(tmp_path: Path) -> None:
    """Codes, row names, other prices, and constant or nearly empty columns are not text columns."""
    path = tmp_path / "t.csv"
    seldom = ["rare"] + [""] * 39
    rows = [
        f"all new,it is a jug of the kind {i} that one likes,jug {i},{['A', 'B'][i % 2]},SK-{i},{i},{i % 5},"
        f"{i % 9 + 2},x{i}y,{seldom[i]},{['small', 'large one'][i % 2]},{i}"
        for i in range(40)
    ]
    header = "offer,description,name,grade,product_code,id,litres,shipping cost,hash,remark,size,price"
    path.write_text(f"{header}\n" + "\n".join(rows))
    found = [column for column in profiles(path) if column.name != "price"]
    assert guess_text(found) == ("name", "grade", "litres", "size", "description")
    assert guess_id(found, []) == "id"


@pytest.mark.parametrize(
    ("header", "cells", "text"),
    [
        ("product_code,details", lambda i: f"SK-{i},a jug of kind {i}", ("details",)),
        ("item_name", lambda i: f"jug{i}", ("item_name",)),
        ("name,area", lambda i: f"a jug {i},{i * i + 0.25}", ("name", "area")),
        ("name,mileage", lambda i: f"a jug {i},{i * 1000 + i % 7}", ("name", "mileage")),
        ("name,row", lambda i: f"a jug {i},{i + 17}", ("name",)),
        ("name,row", lambda i: f"a jug {i},{i}.0", ("name",)),
        ("name,scanned", lambda i: f"a jug {i},{4_006_381_333_931 + 9 * i}", ("name",)),
        ("name,barcode", lambda i: f"a jug {i},x{4_006_381 + 9 * i}", ("name",)),
    ],
)
def test_codes_and_row_numbers_are_not_text_columns(
    tmp_path: Path, header: str, cells: Callable[[int], str], text: tuple[str, ...]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n" + "\n".join(cells(i) for i in range(60)))
    assert guess_text(profiles(path)) == text


def test_a_column_has_the_same_profile_alone_and_beside_thousands(tmp_path: Path) -> None:
    cells = {
        "size": "{0}.5",
        "day": "2024-01-0{1}",
        "link": "http://x/{0}",
        "brand": "brand {1}",
        "note": "fine {0} for all",
        "cost": "{0},50 €",
        "key": "{0:016x}",
        "data": '{{"of": {0}}}',
        "nothing": "",
        "dose": "{0} mg",
        "word": "a{1}-{0}",
    }
    rows = [{name: cell.format(number, number % 7) for name, cell in cells.items()} for number in range(60)]
    alone = pa.Table.from_pylist(rows)
    wide = pa.table({f"{name} {n}": alone[name] for n in range(300) for name in cells})
    found = {each.name: each for each in profile("t", wide)}
    for each in profile("t", alone):
        assert {replace(found[f"{each.name} {n}"], name=each.name) for n in (0, 150, 299)} == {each}
    assert {kind.kind for kind in found.values()} >= {
        "number",
        "date",
        "address",
        "category",
        "price",
        "json",
    }


def test_as_many_rows_of_long_texts_are_profiled(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(delimited, "MAX_CHUNK_CHARS", 1000)
    path = tmp_path / "t.csv"
    rows = [f"{'a fine blue jug for the kitchen ' * 9}{i},{i}" for i in range(300)]
    path.write_text("catalog_content,price\n" + "\n".join(rows))
    assert [column.values for column in guess_columns(path).profiles] == [300, 300]
