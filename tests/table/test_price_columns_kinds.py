"""Kinds of written prices: sizes in words, sums, ranges, exponents, units, several currencies, stored styles."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from babel import Locale, localedata
from babel.numbers import format_currency, format_decimal, get_currency_precision, get_territory_currencies
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, read_usable
from pricekit.table.price_columns import PriceFormat, describe_prices, parse_price, price_format
from pricekit.table.table import Formats, PriceStyle
from pricekit.table.usable import describe_outliers


def read(
    *cells: str, trained: PriceStyle | None = None, **options: str
) -> tuple[list[float], list[str], PriceFormat]:
    column = pa.array(cells, pa.large_string())
    form = price_format([column], ReadOptions(**options), trained)
    values, flaws = parse_price(column, form)
    return values.tolist(), [str(flaw) for flaw in flaws], form


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("iPhone 12 $500", 500),
        ("iPhone 12 USD 500", 500),
        ("No. 5 $80", 80),
        ("i7 $500", 500),
        ("Menü 12 € 3 Gänge", 12),
        ("12 $ 500 g", 12),
        ("20 € 15 €", 20),
        ("₹45 L - 60 L", 4.5e6),
        ("$500 K - $600 K", 500_000),
        ("$1.2 M - $1.5 M", 1.2e6),
        ("Rp 1,2 M/unit", 1.2e9),
        ("₹ 45 L/-", 4.5e6),
        ("₹ 95 L - 1.2 Cr", 9.5e6),
        ("21cr - 26.5cr", 2.1e8),
        ("2-3 Mio. €", 2e6),
        ("3억~5억", 3e8),
        ("entre 10 et 20 €", 10),
        ("2 Milliarden und 500 Millionen Euro", 2.5e9),
        ("۲ میلیارد و ۵۰۰ میلیون تومان", 2.5e9),
        ("2 مليون و 500 ألف درهم", 2.5e6),
        ("$1 million and 200 thousand", 1.2e6),
        ("₹1 Cr 20 L", 1.2e7),
        ("Rp 1 M 250 Jt", 1.25e9),
        ("2 млн 350 тыс. ₽", 2.35e6),
        ("1 Mio. 250 Tsd. €", 1.25e6),
        ("2 tỷ rưỡi", 2.5e9),
        ("6 tỷ 8", 6.8e9),
        ("5tỷ2", 5.2e9),
        ("$5 and 99 cents", 5.99),
        ("$1e+05", 100_000),
        ("1e+05 EUR", 100_000),
        ("1,23E+06 €", 1_230_000),
        ("PKR 1.2 Arab", 1.2e9),
        ("€ 1,2 miljoen", 1.2e6),
        ("Rp 1,2 triliun", 1.2e12),
        ("$1.2 trillion", 1.2e12),
        ("1.2 lakh crore", 1.2e12),
        ("R$ 2 mil milhões", 2e9),
        ("350 tkr", 350_000),
        ("3 แสนบาท", 300_000),
        ("350 χιλ. €", 350_000),
        ("€ 350.000 k.k.", 350_000),
        ("5 499<sup>99</sup> kr", 5499.99),
        ("statt 19,99 € nur 12,99 €", 12.99),
        ("vorher 19,99 € 12,99 €", 12.99),
        ("9,96 €/kg (2,49 €)", 2.49),
        ("$4.80 ($3.20/100g)", 4.8),
        ("25 zł/szt.", 25),
        ("12⹁345.50 NGN", 12_345.5),
        ("19 Euro 99 Cent", 19.99),
        ("149 reais e 90 centavos", 149.9),
        ("12 ct $8.99", 8.99),
        ("19 zł i 99 gr", 19.99),
        ("1999 рублей 50 копеек", 1999.5),
        ("19 Fr. 90", 19.9),
        ("compare at $29.99 $19.99", 19.99),
        ("Giá gốc 312.500đ còn 250.000đ", 250_000),
        ("von 24,99 € auf 19,99 € reduziert", 19.99),
        ("~~$29.99~~ $19.99", 19.99),
        ("Tax $1.50 Total $21.49", 21.49),
        ("$50 rebate $1,299", 1299),
        ("Rp 250.000 s/d Rp 300.000", 250_000),
        ("1.5w元", 15_000),
        ("¥2w起", 20_000),
        ("立减20元 ¥99", 99),
        ("4 plates $20", 20),
        ("1,5 ляма ₽", 1.5e6),
        ("Før 349,00 kr. Nu 249,00 kr.", 249),
        ("van € 29,99 voor € 19,99", 19.99),
        ("1.299,00 TL yerine 999,00 TL", 999),
        ("原价¥129 现价¥99", 99),
        ("<del>$29.99</del> <ins>$19.99</ins>", 19.99),
        ("$4.50 shipping, $19.99", 19.99),
        ("送料550円 3,980円", 3980),
        ("$100 deposit", 100),
        ("15к ₽", 15_000),
        ("15 тыр", 15_000),
        ("1.25 ลบ.", 1.25e6),
        ("¥1.5w", 15_000),
        ("۲ میلیون و نیم تومان", 2.5e6),
        ("19,99 €/τμχ", 19.99),
    ],
)
def test_sizes_sums_and_ranges_are_understood(cell: str, value: float) -> None:
    values, flaws, form = read(cell)
    assert (flaws, form.unit) == ([""], None)
    assert values == [pytest.approx(value, rel=1e-12)]


@pytest.mark.parametrize(
    "cell",
    [
        *("R 1.2 mil", "S$1.2 mil", "$1.2 gazillion", "€ 1,5 ton", "1/2 Million €", "2억5000"),
        *("12x R$ 99,90", "24 Monate à 19,99 €", "up to $50", "max. 50 €", "Save $10", "unter 100 €"),
        *("3 fois 33,33 €", "4 interest-free payments of $24.99", "12x sem juros de R$ 99,90"),
        *("10 rat po 19,99 zł", "10回払い 3,980円", "3,980円×10回", "1,000円以下", "menos de 20 €"),
        *("verzendkosten € 4,95", "$4.50 shipping", "頭金10万円", "100円引き", "500٬000 تومان تخفیف"),
        *(
            "1억 2천",
            "2 میلیون و 500 تومان",
            "$1.5w",
            "EMI from ₹167",
            "15 € Rabatt 99 €",
            "1.000 TL altı",
            "4.5/5",
        ),
        *("1/2", "1 ,", "..12", "12..50", "$12.5O", "$l2.50", "9.99E", "12.50 kg", "150,000 km", "£99p"),
    ],
)
def test_what_is_not_understood_is_rejected(cell: str) -> None:
    assert read(cell)[1] == ["price not a number"]


@pytest.mark.parametrize(
    ("cell", "value", "unit"),
    [
        ("72 triệu/m²", 72e6, "m2"),
        ("3.500 € pro m²", 3500, "m2"),
        ("9 500 zł / m2", 9500, "m2"),
        ("$250/sq.ft", 250, "sqft"),
        ("₹ 6,500 per sq. ft.", 6500, "sqft"),
        ("$250 psf", 250, "sqft"),
        ("50万円/坪", 500_000, "坪"),
        ("£1,200 pcm", 1200, "month"),
        ("1.200 €/Monat", 1200, "month"),
        ("30 000 руб. в месяц", 30_000, "month"),
        ("月額 80,000円", 80_000, "month"),
        ("mtl. 29,99 €", 29.99, "month"),
        ("月々3,980円", 3980, "month"),
        ("2,500 ₪ לחודש", 2500, "month"),
        ("£300 p.w.", 300, "week"),
        ("$65/night", 65, "night"),
        ("$18 - $22 per hour", 18, "hour"),
        ("15 € de l'heure", 15, "hour"),
        ("$80k/yr", 80_000, "year"),
        ("$80,000 a year", 80_000, "year"),
        ("2,99 €/kg", 2.99, "kg"),
        ("1 kg = 7,98 €", 7.98, "kg"),
        ("1,99 € / 100 g", 1.99, "100 g"),
        ("100gあたり 298円", 298, "100 g"),
        ("44/liter", 44, "l"),
        ("$3.99/lb", 3.99, "lb"),
        ("$12 per widget", 12, "widget"),
        ("4,50 €/m²/Monat", 4.5, "m2/month"),
    ],
)
def test_prices_of_one_unit_are_kept_and_named(cell: str, value: float, unit: str) -> None:
    values, flaws, form = read(cell, cell)
    assert (values, flaws, form.unit) == ([value] * 2, [""] * 2, unit)
    assert f"The prices are per {unit}." in describe_prices(form)


@pytest.mark.parametrize(
    "cell",
    ["$15,000 or $60,000/set", "₹45 L / XL", "$5 M-L", "€12 m2", "12,50 €/Stück", "$25 each", "$5.99/12 ct"],
)
def test_pieces_and_sizes_are_no_units(cell: str) -> None:
    assert read(cell)[2].unit is None


def test_the_count_of_a_unit_is_read_in_each_cell() -> None:
    values, flaws, form = read("$3 /100 g", "$4 /100 g", "$5 /250 g", "$6 /100 g")
    assert (form.unit, form.units) == ("100 g", {"100 g": 3, "total": 1})
    assert flaws == ["", "", "other price unit", ""]
    assert (values[0], values[3]) == (3, 6)


def test_a_few_prices_per_unit_are_rejected_and_said() -> None:
    values, flaws, form = read(*[f"{i} tỷ" for i in range(1, 200)], "72 triệu/m²")
    assert (flaws[-1], math.isnan(values[-1]), flaws[:-1]) == ("other price unit", True, [""] * 199)
    assert not form.mixed_units
    assert "another price unit: 1 (m2: 1, such as '72 triệu/m²')" in describe_prices(form)


def table(tmp_path: Path, cells: list[str]) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(
        "name,price\n" + "".join(f'thing {i},"{cell}"\n' for i, cell in enumerate(cells)), "utf-8"
    )
    return path


def test_totals_and_prices_per_unit_require_a_choice(tmp_path: Path, raises) -> None:
    path = table(
        tmp_path, [f"€{i}000" for i in range(1, 31)] + [f"€{i}00/m²" for i in range(10, 20)] + ["90"]
    )
    columns = Columns(("name",), id=None)
    with raises(DataError, "price_unit", column="price", units={"total": 31, "m2": 10}):
        read_usable(path, columns, notices=lambda _: None)
    for unit, rows in (("total", 31), ("m²", 10), ("sqm", 10)):
        usable, rejected = read_usable(
            path, columns, read_options=ReadOptions(price_unit=unit), notices=lambda _: None
        )
        assert len(usable) == rows
        assert set(rejected["reason"]) == {"other price unit"}
        assert usable.price_style.unit == (None if unit == "total" else "m2")


def test_a_chosen_unit_may_be_one_that_no_cell_shows() -> None:
    values, flaws, form = read("1200", "1300.50", price_unit="month")
    assert (values, flaws, form.unit) == ([1200, 1300.5], ["", ""], "month")


def test_an_empty_unit_is_refused(raises) -> None:
    with raises(DataError, "price_unit"):
        ReadOptions(price_unit=" ")


@pytest.mark.parametrize(
    ("currency", "value"), [("EUR", 27), ("GBP", 22), ("USD", 30), ("$", 30), ("CHF", math.nan)]
)
def test_a_chosen_currency_takes_its_price_in_the_cell(currency: str, value: float) -> None:
    values, flaws, _ = read("$ 30.00 / € 27.00 / £ 22.00", currency=currency)
    assert values == pytest.approx([value], nan_ok=True)
    assert flaws == ["other currency" if math.isnan(value) else ""]


@pytest.mark.parametrize(("currency", "value"), [("EUR", 18.5), ("USD", 19.99)])
def test_a_sign_that_touches_the_next_number_is_of_that_number(currency: str, value: float) -> None:
    assert read("$19.99 €18.50", currency=currency)[0] == [value]
    assert read("19.99 USD 18.50 EUR", currency=currency)[0] == [value]
    assert read("$12.99 CAD 2 left", currency="CAD")[0] == [12.99]


def test_four_decimals_behind_a_comma_are_none_in_a_column_with_points() -> None:
    assert read("$12.50", "$1,299.99", "$1,2345")[1] == ["", "", "price not a number"]


def test_the_currency_of_the_column_takes_its_price_in_the_cell() -> None:
    assert read("$12", "$15", "€27 / $30")[0] == [12, 15, 30]


def test_the_style_of_the_training_table_decides_what_is_ambiguous() -> None:
    trained = read("1.525 €", "12,50 €", "7,99 €")[2].style
    assert trained == PriceStyle(",", None, "EUR", None)
    stored = Formats(price=trained).model_dump_json()
    assert Formats.model_validate_json(stored).price == trained
    values, flaws, form = read("1.525", "2.250", "900", trained=trained)
    assert (values, flaws, form.guessed, form.currency) == ([1525, 2250, 900], [""] * 3, False, "EUR")
    assert read("1.525", "2.250", "900", trained=PriceStyle("."))[0] == [1.525, 2.25, 900]
    assert read("1,125 mln", "2 mln", trained=PriceStyle(".", "."))[0] == [1.125e9, 2e6]


def test_a_style_tells_only_what_cells_showed() -> None:
    assert read("12", "1200")[2].style == PriceStyle()
    assert read("12", "1200", decimal=",")[2].style == PriceStyle(",")
    assert read("1,5 mln", "2 mln")[2].style == PriceStyle(None, ",")
    assert read("3 €/kg", "4 €/kg")[2].style == PriceStyle(None, None, "EUR", "kg")


def test_another_currency_than_that_of_the_training_table_stops(raises):
    with raises(DataError, "currency", expected="EUR", found="$"):
        read("$12", "€7", trained=PriceStyle(".", None, "EUR"))


@pytest.mark.parametrize(
    ("trained", "cells", "parameter", "found"),
    [
        (PriceStyle(","), ["12.50", "7.99", "1.525"], "decimal", "."),
        (PriceStyle("."), ["12,50", "7,99", "12.50"], "decimal", ","),
        (PriceStyle("."), ["$12/kg", "$13/kg"], "price_unit", "kg"),
        (PriceStyle(".", None, None, "m2"), ["$12/m2", "$13"], "price_unit", "total"),
    ],
)
def test_a_table_that_contradicts_the_training_table_stops(
    trained: PriceStyle, cells: list[str], parameter: str, found: str, raises
) -> None:
    with raises(DataError, parameter, found=found) as caught:
        read(*cells, trained=trained)
    assert repr(cells[0 if found != "total" else 1]) in str(caught.value)
    assert read(*cells, trained=trained, **{parameter: found})  # the user's word counts more


def test_a_tenth_of_contradicting_cells_is_read() -> None:
    values, flaws, form = read(*[f"{i},50" for i in range(1, 19)], "5.25", "6.75", trained=PriceStyle(","))
    assert (values[-2:], set(flaws), form.contradicting) == ([5.25, 6.75], {""}, 2)


def test_a_table_without_units_may_be_in_those_of_the_training_table() -> None:
    values, flaws, form = read("1200", "€ 1300", trained=PriceStyle(None, None, "EUR", "month"))
    assert (values, flaws, form.unit) == ([1200, 1300], ["", ""], "month")


def test_a_number_with_two_points_among_numbers_of_programs_is_none() -> None:
    assert read(*[f"{i}.25" for i in range(5, 40)], "1.639.792")[1][-1] == "price not a number"
    assert read("565.000", "1.639.792")[0][-1] == 1_639_792


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (45.0, "extremely low prices: 1, the lowest 45; the median price is 4,500,000."),
        (9e11, "extremely high prices: 1, the highest 900,000,000,000; the median"),
        (400_000.0, ""),
    ],
)
def test_extreme_prices_are_said(odd: float, said: str) -> None:
    price = np.append(np.linspace(4e6, 5e6, 400), odd)
    sentence = describe_outliers(price)
    assert sentence.startswith(said.split(";")[0]) if said else sentence == ""


LOCALES = sorted(name for name in localedata.locale_identifiers() if Locale.parse(name).territory)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(LOCALES),
    amounts=st.lists(st.floats(1, 1e6), min_size=50, max_size=50),
    how=st.sampled_from(["sign", "code", "number"]),
)
def test_a_column_of_one_locale_is_read_or_refused(name: str, amounts: list[float], how: str) -> None:
    locale = Locale.parse(name)
    code = next(iter(get_territory_currencies(locale.territory)), "EUR")
    digits = get_currency_precision(code)
    rounded = [round(Decimal(amount), digits) for amount in amounts]
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    written = {
        "sign": lambda amount: format_currency(amount, code, locale=locale),
        "code": lambda amount: format_currency(amount, code, f"{pattern} ¤¤", locale=locale),
        "number": lambda amount: format_decimal(amount, pattern, locale=locale),
    }[how]
    cells = [written(amount) for amount in rounded]
    values, flaws, form = read(*cells)
    for cell, value, flaw, amount in zip(cells, values, flaws, rounded, strict=True):
        assert flaw or form.guessed or value == pytest.approx(float(amount), rel=1e-12), cell


WRITTEN = Path(__file__).parents[2] / "benchmarks" / "written_prices.jsonl"
CELLS = [json.loads(line)["cell"] for line in WRITTEN.read_text("utf-8").splitlines()]


@settings(max_examples=300, deadline=None)
@given(cell=st.sampled_from(CELLS), digits=st.randoms(use_true_random=False))
def test_cells_that_differ_in_digits_are_read_like_single_cells(cell: str, digits) -> None:
    cells = [
        cell,
        *("".join(str(digits.randrange(10)) if c.isdigit() else c for c in cell) for _ in range(9)),
    ]
    column = pa.array(cells, pa.large_string())
    form = price_format([column], ReadOptions())
    values, flaws = parse_price(column, form)
    alone = [parse_price(column.slice(i, 1), form) for i in range(len(cells))]
    assert flaws.tolist() == [flaw[0] for _, flaw in alone]
    np.testing.assert_array_equal(values, [value[0] for value, _ in alone])


def test_totals_that_are_plain_numbers_have_examples_beside_unit_prices(tmp_path: Path, raises) -> None:
    path = tmp_path / "flats.csv"
    path.write_text("\n".join(["title,price", *(f"flat,{n + 100}" + "/m2" * (n % 3 > 0) for n in range(30))]))
    with raises(DataError, "price_unit") as caught:
        read_usable(path, Columns("title", "price", None))
    assert "such as '100'" in str(caught.value)
