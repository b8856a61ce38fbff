"""Rows that are no products: repeated headers, second headers and totals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pricekit.evaluation.table_report import profile_table
from pricekit.table import read_usable

GOODS = [f"jug of kind {i},Acme,{i * 37 % 101 + 2}.50" for i in range(30)]


def reasons(path: Path, *lines: str, columns: str = "title,brand,price") -> dict[str, int]:
    path.write_text("\n".join([columns, *lines]), "utf-8")
    usable, rejected = read_usable(path, notices=lambda _: None)
    assert len(usable) + len(rejected) == len(lines)
    return {str(reason): int(count) for reason, count in rejected["reason"].value_counts().items()}


def test_a_header_that_repeats_is_named(tmp_path: Path) -> None:
    lines = [*GOODS, "title,brand,price", *GOODS, "title,brand,price", "title of a book,brand,9"]
    assert reasons(tmp_path / "t.csv", *lines) == {"a header inside the table": 2}


@pytest.mark.parametrize(
    "second", ["name,manufacturer,net price", "(text),(brand),(EUR)", "Bezeichnung,Marke,Preis"]
)
def test_two_header_rows_are_named(tmp_path: Path, second: str) -> None:
    path = tmp_path / "t.csv"
    assert reasons(path, second, *GOODS) == {"a header inside the table": 1}
    then = second.replace(",", ", ")
    note = f"the table has two header rows: title, brand, price, then {then}. Keep one of them."
    assert profile_table(path).notes[0] == note
    notices: list[str] = []
    read_usable(path, notices=notices.append)
    assert f"{path}: {note}" in notices


@pytest.mark.parametrize(
    "first", ["Oak table,Acme,price on request", "name,brand,12.50", "Old lamp,Zed,sold", ",,"]
)
def test_a_first_row_of_words_is_no_second_header(tmp_path: Path, first: str) -> None:
    assert "a header inside the table" not in reasons(tmp_path / "t.csv", first, *GOODS)
    assert not any("two header rows" in note for note in profile_table(tmp_path / "t.csv").notes)


@pytest.mark.parametrize(
    "total",
    [
        *(
            "Grand total,,1500.00",
            "Total:,,1500.00",
            "TOTAL,,1500.00",
            ",Total,1500.00",
            "Gesamtsumme,,1500.00",
        ),
        *("Итого,,1500.00", "合計,,1500.00", "Summe,EUR,1500.00", "Subtotal,,90.00"),
    ],
)
def test_a_total_is_not_trained_on(tmp_path: Path, total: str) -> None:
    assert reasons(tmp_path / "t.csv", *GOODS, total) == {"a total of other rows": 1}


@pytest.mark.parametrize(
    "product", ["Total,,20.00", "Total,Kellogg,1500.00", "Total recall,,1500.00", "Jug,,1500.00"]
)
def test_a_product_may_be_called_total(tmp_path: Path, product: str) -> None:
    assert reasons(tmp_path / "t.csv", *GOODS, product) == {}


def test_low_prices_are_not_shown_as_a_fraction(tmp_path: Path) -> None:
    lines = [*(f"jug of kind {i},Acme,{i * 97 + 300}" for i in range(100)), *["lamp,Acme,1"] * 25]
    (tmp_path / "t.csv").write_text("\n".join(["title,brand,price", *lines]))
    notes = profile_table(tmp_path / "t.csv").notes
    assert any("because they repeat often: 1 (25 rows). They are kept" in note for note in notes)
