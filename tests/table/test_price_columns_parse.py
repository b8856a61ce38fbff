"""Prices in common notations: single cells, columns, currencies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from babel.numbers import format_currency, format_decimal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, iter_table, read_table, read_usable
from pricekit.table.currency import SHARED, canonical, currency_signs, is_known, require_same_currency
from pricekit.table.price_columns import PriceFormat, describe_prices, parse_price, price_format

NAN = math.nan


def read(*cells: str, **said: str) -> tuple[list[float], list[str], PriceFormat]:
    column = pa.array(cells, pa.large_string())
    form = price_format([column], ReadOptions(**said))
    values, flaws = parse_price(column, form)
    return values.tolist(), [str(flaw) for flaw in flaws], form


@pytest.mark.parametrize(
    ("cell", "value", "currency"),
    [
        ("$5,000", 5000, "$"),
        ("565.000₫", 565_000, "VND"),
        ("985 000 ₽", 985_000, "RUB"),
        ("985\u00a0000 руб.", 985_000, "RUB"),
        ("1 234,56 €", 1234.56, "EUR"),
        ("1\u202f234,56\u00a0€", 1234.56, "EUR"),
        ("1\u2009234.50", 1234.5, None),
        ("1'234.50 CHF", 1234.5, "CHF"),
        ("1’234.– Fr.", 1234, "CHF"),
        ("Rs. 1,299/-", 1299, "Rs"),
        ("Rs.500", 500, "Rs"),
        ("₹1,29,900", 129_900, "INR"),
        ("USD 12.50", 12.5, "USD"),
        ("EUR 1.299,00", 1299, "EUR"),
        ("1,299.00 kr", 1299, "kr"),
        ("12,50", 12.5, None),
        ("1.234.567", 1_234_567, None),
        ("1.299,-", 1299, None),
        ("12.–", 12, None),
        ("£ 9.99 each", 9.99, "£"),
        ("from $9.99", 9.99, "$"),
        ("$10 - $20", 10, "$"),
        ("10–20", 10, None),
        ("$15,000 or $60,000/set", 15_000, "$"),
        ("2 for $5", 5, "$"),
        ("50% off $20", 20, "$"),
        ("44/liter", 44, None),
        ("CAD $12", 12, "CAD"),
        ("A$99.95", 99.95, "AUD"),
        ("R$ 1.234,50", 1234.5, "BRL"),
        ("35€99", 35.99, "EUR"),
        ("was $20, now $15.50", 15.5, "$"),
        ("Sale: $15 (was $20)", 15, "$"),
        ("statt 20 € jetzt 15 €", 15, "EUR"),
        ("$20 now", 20, "$"),
        ("$5 now (was $20)", 5, "$"),
        ("15 € jetzt statt 20 €", 15, "EUR"),
        ("$15 sale, $20 regular", 15, "$"),
        ("only $15 now! 3 for $40", 15, "$"),
        ("was $20, now only: US$ 15", 15, "USD"),
        ("was 2€50, now 1€99", 1.99, "EUR"),
        ("$32.99$33.99", 32.99, "$"),
        ("£15.00£20.00", 15, "£"),
        ("$10$20", 10, "$"),
        ("1.035€99", 1035.99, "EUR"),
        ("22,91 - 68,73 €", 22.91, "EUR"),
        ("268-537 EUR", 268, "EUR"),
        ("26,800～53,700円", 26_800, "JPY"),
        ("100万-200万円", 1_000_000, "JPY"),
        ("Rs.2.29-2.86 Lakh*", 229_000, "Rs"),
        ("$268-403k", 268_000, "$"),
        ("$5-3k", 5000, "$"),
        ("$1,200-2k", 1200, "$"),
        ("$5.99/lb", 5.99, "$"),
        ("22 ,91 €", 22.91, "EUR"),
        ("1  299 ₽", 1299, "RUB"),
        ("22'91 €", 22.91, "EUR"),
        ("22،500 تومان", 22_500, "IRT"),
        ("$268⁹⁹", 268.99, "$"),
        ("$20 50% off", 20, "$"),
        ("€12 m2", 12, "EUR"),
        ("$9 M8 bolts", 9, "$"),
        ("$5 B12 vitamin", 5, "$"),
        ("₹99 L1", 99, "INR"),
        ("₹45 L / XL", 45, "INR"),
        ("₹500 M", 500, "INR"),
        ("$5 M-L", 5, "$"),
        ("$5 m long", 5, "$"),
        ("1 L ₹45", 45, "INR"),
        ("1 M £5", 5, "£"),
        ("5 K $5", 5, "$"),
        ("30 mn $10", 10, "$"),
        ("4 K 500 €", 500, "EUR"),
        ("Rp1,2M", 1_200_000_000, "IDR"),
        ("$5.99/12 ct", 5.99, "$"),
        ("£1 - 50p", 1, "£"),
        ("£1.50 or 45p each", 1.5, "£"),
        ("TV 1080p 500 €", 500, "EUR"),
        ("1500p.", 1500, None),
        ("Size 38  120 €", 120, "EUR"),
        ("iPhone 14  500 €", 500, "EUR"),
        ("$24.99, 15% off", 24.99, "$"),
        ("$1,299, 20% off", 1299, "$"),
        ("EUR 12,50, 19% MwSt", 12.5, "EUR"),
        ("₹499, 2 pcs", 499, "INR"),
        ("$10. 3 left", 10, "$"),
        ("$5.99, 2 for $10", 5.99, "$"),
        ("Pack of 3, 2 sizes, $10", 10, "$"),
        ("6'2\" $12", 12, "$"),
        ("Size 38 12 €", 12, "EUR"),
        ("iPhone 14 - 450 €", 450, "EUR"),
        ("2024 - 12 €", 12, "EUR"),
        ("5-100 €", 5, "EUR"),
        ("2 - 450 €", 450, "EUR"),
        ("Windows 11 - 99 €", 99, "EUR"),
        ("2/12 €", 12, "EUR"),
        ("was $20 now from $15", 15, "$"),
        ("was $20 now reduced to $15", 15, "$"),
        ("was $20 NOW! $15", 15, "$"),
        ("was $20 now (-25%): $15", 15, "$"),
        ("Regular price $20.00 Sale price from $15.00", 15, "$"),
        ("statt 20 € jetzt nur noch 15 €", 15, "EUR"),
        ("UVP 20 € jetzt ab 15 €", 15, "EUR"),
        ("was $20 now with code $15", 15, "$"),
        ("was $20 now (25% off) $15", 15, "$"),
        ("Was £20, now half price £10", 10, "£"),
        ("MSRP $20 Sale - $15", 15, "$"),
        ("$15 now, shipping $5", 15, "$"),
        ("was $20 now $15 (RRP $30)", 15, "$"),
        ("10p off £5", 5, "£"),
        ("£5 off £20", 20, "£"),
        ("5 mill $10", 10, "$"),
        ("₹ 90 - 95 L", 9_000_000, "INR"),
        ("antes 20€, ahora a 15€", 15, "EUR"),
        ("₹1.63 Cr", pytest.approx(16_300_000), "INR"),
        ("₹22.9 L", 2_290_000, "INR"),
        ("$5 L", 5, "$"),
        ("£1.63m", 1_630_000, "£"),
        ("$45 K", 45_000, "$"),
        ("$1.2 M", 1_200_000, "$"),
        ("$1.2MM", 1_200_000, "$"),
        ("₦1.2b", 1_200_000_000, "NGN"),
        ("R$ 1,2 mi", 1_200_000, "BRL"),
        ("R$ 5 mil", 5000, "BRL"),
        ("2,5 mil. Kč", 2_500_000, "CZK"),
        ("2 mil lei", 2_000_000, "RON"),
        ("Rp 2,3 M", 2_300_000_000, "IDR"),
        ("45,9 MFt", 45_900_000, "HUF"),
        ("150 т.руб.", 150_000, "RUB"),
        ("2,5 milj. kr", 2_500_000, "kr"),
        ("45p", 45, None),
        ("£0.99p", 0.99, "£"),
        ("1 035 € 99", 1035.99, "EUR"),
        ("35 € 99 €", 35.0, "EUR"),
        ("12,50 € 10", 12.5, "EUR"),
        ("$.75", 0.75, "$"),
        ("５，０００원", 5000, "KRW"),
        ("1,280円(税込)", 1280, "JPY"),
        ("128万円", 1_280_000, "JPY"),
        ("&#8377;1,299.50", 1299.5, "INR"),
        ("  &#8377;1,299.50 ", 1299.5, "INR"),
        ("1&nbsp;299,50&nbsp;&#8381;", 1299.5, "RUB"),
        ("٣٬٥٠٠ ر.س.\u200f", 3500, "SAR"),
        ("١٢٫٥", 12.5, None),
        ("10k", 10_000, None),
        ("12.500 KWD", 12.5, "KWD"),
        ("-$5", -5, "$"),
        ("(5.00)", -5, None),
        ("free", 0, None),
    ],
)
def test_one_price(cell: str, value: float, currency: str | None) -> None:
    values, flaws, form = read(cell)
    assert (values, flaws, form.currency) == ([value], [""], currency)


@pytest.mark.parametrize(
    "cell",
    [
        *(
            "on demand",
            "20%",
            "2016-03-26",
            "12.05.2024",
            "1.2.3.4",
            "iPhone 12 case",
            "item 5",
            "v8",
            "1 2 3",
        ),
        *("1_000", "0x10", "12,34,5", "a" * 300 + " 5"),
    ],
)
def test_cells_that_are_not_prices(cell: str) -> None:
    assert read(cell)[1] == ["price not a number"]


@pytest.mark.parametrize("cell", ["N/A", "n/a", "null", "-", "—", "?"])
def test_words_that_mean_no_price(cell: str) -> None:
    assert read(cell)[1] == ["no price"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["565.000₫", "25.000₫"], [565_000, 25_000]),
        (["565.000", "25.000", "900", "1.500"], [565_000, 25_000, 900, 1500]),
        (["565.000", "1.969.000"], [565_000, 1_969_000]),
        (["1.234 €", "12,50 €"], [1234, 12.5]),
        (["1,234", "12.50", "5"], [1234, 12.5, 5]),
        (["1.125", "3", "12000", "1.250", "1.375"], [1.125, 3, 12_000, 1.25, 1.375]),
        (["1.125", "3.5", "4"], [1.125, 3.5, 4]),
        (["6.501", "916", "217", "3.442", "1.873", "730"], [6501, 916, 217, 3442, 1873, 730]),
        (["12.500 KWD", "3.250 KWD", "7.125 KWD"], [12.5, 3.25, 7.125]),
        (["1.234,56", "7,10", "3.5"], [1234.56, 7.1, 3.5]),
        (["1.500 €", "0.500 €", "2.500 €", "3,50 €"], [1500, 0.5, 2500, 3.5]),
    ],
)
def test_the_column_decides_what_a_mark_means(cells: list[str], expected: list[float]) -> None:
    assert read(*cells)[0] == expected


@pytest.mark.parametrize(
    ("usual", "odd", "decimal"),
    [
        ("${},501", "$12,50", "."),
        ("${},501", "12,50 €", "."),
        ("₹{},753", "₹1,5 lakh", "."),
        ("{}.753 €", "12.50 €", ","),
        ("Rp {}.000", "Rp 2.5 juta", ","),
    ],
)
def test_a_single_contrary_cell_does_not_turn_thousands_into_decimals(
    usual: str, odd: str, decimal: str
) -> None:
    cells = [usual.format(i) for i in range(1, 60)]
    form = read(*cells, odd)[2]
    assert form.decimal == decimal
    assert read(*cells, odd)[0][:2] == read(*cells)[0][:2]
    assert read(*cells)[0][0] >= 1000


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["$1.2M", "$1.125M", "$950K", "$1.05M"], [1.2e6, 1.125e6, 9.5e5, 1.05e6]),
        (["1,2 mln zł", "1,125 mln zł", "950 000 zł"], [1.2e6, 1.125e6, 9.5e5]),
        (["1,5 tys. zł", "12,5 tys. zł", "1,250 tys. zł"], [1500, 12_500, 1250]),
        (["1,280万円", "980万円", "12,800円"], [12_800_000, 9_800_000, 12_800]),
        (["12,800円", "9,800円", "7.500円"], [12_800, 9_800, 7_500]),
        (["2.5 juta", "Rp 150.000", "Rp 25.000", "Rp 1.500"], [2.5e6, 150_000, 25_000, 1500]),
        (["1,125 mln zł", "2,250 mln zł"], [1.125e6, 2.25e6]),
        (["£3.25", "45p", "150p", "-45p"], [3.25, 0.45, 1.5, -0.45]),
        (["75p", "150p", "1500p"], [75, 150, 1500]),
        (["0 ,500 €", "2 ,500 €"], [0.5, 2.5]),
        (["2 ,500 €", "0 ,500 €"], [2.5, 0.5]),
        (["99,9 ct", "12,5 ct", "1,299 €"], [0.999, 0.125, 1.299]),
    ],
)
def test_multiplied_numbers_determine_their_decimal_mark(cells: list[str], expected: list[float]) -> None:
    assert read(*cells)[0] == pytest.approx(expected)


def test_three_decimals_with_dropped_zeros_are_decimals() -> None:
    cells = [f"{i / 1000:g} €" for i in range(1111, 1160)]
    assert read(*cells)[0] == [i / 1000 for i in range(1111, 1160)]


def test_an_ambiguous_mark_is_reported() -> None:
    assert "set decimal to ','" in describe_prices(read("1.459", "1.387", "1.524", "1.616")[2])
    assert "set decimal to ','" in describe_prices(read("$1,459", "$1,387", "$1.459")[2])
    assert "part thousands" not in describe_prices(read("$1,459", "$900", "$1,387")[2])
    assert describe_prices(read("1.125", "3", "12000", "1.250", "1.375")[2]) == ""


def test_only_other_currencies_count_as_rejected() -> None:
    form = read(*["10 $"] * 199, "5 €", currency="CAD")[2]
    assert "Rejected because of another currency: 1 (EUR: 1)." in describe_prices(form)


def test_a_guess_without_an_example_names_none() -> None:
    said = describe_prices(read("565.000", "565.916", "700.917", "800.918")[2])
    assert said == "" or "prices read: decimal mark" in said
    assert "read: ;" not in said


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1万2800円", 12_800),
        ("1만 5천원", 15_000),
        ("5천원", 5000),
        ("1억 2천만원", 120_000_000),
        ("1万2千元", 12_000),
        ("1億2,480万円", 124_800_000),
        ("1만 2,000원", 12_000),
        ("12元5角", 12.5),
        ("2 tỷ 500 triệu đồng", 2_500_000_000),
        ("2,5 tỷ", 2_500_000_000),
        ("1tr250", 1_250_000),
        ("12 k", 12_000),
        ("1tr250 đ/tháng", 1_250_000),
        ("2tr5 - 3tr", 2_500_000),
        ("4G64 $120", 120),
        ("₹1.5 लाख", 150_000),
        ("2 ล้านบาท", 2_000_000),
        ("5 ألف ريال", 5000),
        ("R$ 5 mil", 5000),
        ("1,5 milyon TL", 1_500_000),
        ("5 bin TL", 5000),
        ("5 tys. zł", 5000),
        ("5 Tsd. €", 5000),
        ("5 k€", 5000),
        ("1,5 Mrd. €", 1_500_000_000),
        ("$1.2B", 1_200_000_000),
        ("99¢", 0.99),
        ("50 cents", 0.5),
        ("5 руб. 50 коп.", 5.5),
        ("12 zł 50 gr", 12.5),
        ("35:50 kr", 35.5),
        ("S/.15.90", 15.9),
        ("S/.500", 500),
        ("EUR -12,50", -12.5),
        ("-EUR 12,50", -12.5),
        ("(USD 5.00)", -5),
        ("5,00-", -5),
        ("5,00- EUR", -5),
        ("5,00 - 7,00", 5),
        ("Price - $12", 12),
        ("3/$5", 5),
        ("$5/$6", 5),
    ],
)
def test_numbers_with_words_and_units(cell: str, value: float) -> None:
    assert read(cell)[0] == [pytest.approx(value)]


@pytest.mark.parametrize(
    "cell",
    [
        "05-Jan",
        "01. Mai",
        "12.02.2024",
        "$5 mil",
        "35:50",
        "1½",
        "268, 83 €",
        "$1, 368",
        "$268 83",
        "€1 00,00",
        "€ 12 34 56,00",
        "$ 22 . 91",
        "2k5 đ",
        "1m250 đ",
    ],
)
def test_ambiguous_cells_are_not_prices(cell: str) -> None:
    assert read(cell)[1] == ["price not a number"]


def test_several_prices_are_counted_and_said() -> None:
    form = read("$1 - $2", "$3", "4 or 5", "was $20, now $5")[2]
    assert form.several == 3
    assert (
        "several prices, of which the first one is used, or the one after a word such as 'now': 3."
        in describe_prices(form)
    )


def test_a_guess_is_reported_and_can_be_overridden() -> None:
    values, _, form = read("565.000 €", "25.000 €")
    assert values == [565_000, 25_000]
    assert "set decimal to '.'" in describe_prices(form)
    values, _, form = read("565.000 €", "25.000 €", decimal=".")
    assert values == [565, 25]
    assert "part thousands" not in describe_prices(form)
    assert read("565.000", "25.000", decimal=",")[0] == [565_000, 25_000]


def test_the_decimal_mark_of_the_user_applies_to_every_cell() -> None:
    assert read("12,50", "1.234", "5.5", "7", decimal=",")[1] == ["", "", "price not a number", ""]
    assert read("12,50", "1.234", "5.5", "7", decimal=".")[1] == ["price not a number", "", "", ""]


def test_the_price_format_is_reported_with_three_examples() -> None:
    said = describe_prices(read("$5,000", "$7", "$8", "$9.50")[2])
    assert said.startswith("prices read: '$5,000' as 5000, ")
    assert said.count(" as ") == 3
    assert "currency USD ($); decimal mark '.'" in said
    assert describe_prices(read("5", "7.5", "")[2]) == ""


def test_a_currency_can_be_given_in_lower_case() -> None:
    named = {"tl": "TRY", "Tl": "TRY", "us$": "USD", "rm": "MYR", "c$": "CAD", "eur": "EUR", "toman": "TOMAN"}
    assert {given: canonical(given) for given in named} == named
    assert read("12 TL", "5 TL", currency="tl")[1] == ["", ""]


def test_every_known_currency_can_be_named() -> None:
    for sign in {*currency_signs(), *currency_signs().values(), *SHARED}:
        name = canonical(sign)
        assert canonical(name) == name
        assert is_known(name), sign


@pytest.mark.parametrize(("one", "other"), [("kr", "NOK"), ("$", "CAD"), ("¥", "CNY"), ("$", None)])
def test_prices_of_a_shared_sign_go_with_those_it_may_mean(one: str, other: str | None, raises) -> None:
    require_same_currency(one, other)
    require_same_currency(other, one)
    with raises(DataError, "currency", found="EUR"):
        require_same_currency(one, "EUR")


def test_several_currencies() -> None:
    values, flaws, form = read("$5", "€6", "7", "US$ 8")
    assert values == pytest.approx([5, NAN, 7, 8], nan_ok=True)
    assert flaws == ["", "other currency", "", ""]
    assert form.mixed
    values, flaws, form = read("$5", "€6", "7", "US$ 8", currency="eur")
    assert flaws == ["other currency", "", "", "other currency"]
    assert read("$5", "€6", currency="€")[1] == ["other currency", ""]


def test_a_shared_sign_means_the_named_currency() -> None:
    assert read("$5", "$6", currency="CAD")[1] == ["", ""]
    assert read("kr 5", "NOK 6", "kr 7")[1:] == (["", "", ""], read("kr 5", "NOK 6", "kr 7")[2])
    assert read("$5", "CAD 6", "$7")[1] == ["", "other currency", ""]


LOCALES = (
    "en_US",
    "de_DE",
    "fr_FR",
    "de_CH",
    "ru_RU",
    "vi_VN",
    "pt_BR",
    "en_IN",
    "ja_JP",
    "sv_SE",
    "pl_PL",
    "cs_CZ",
)
AMOUNTS = st.lists(st.integers(1, 10**9).map(lambda cents: cents / 100), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    amounts=AMOUNTS,
    locale=st.sampled_from(LOCALES),
    code=st.sampled_from(["EUR", "USD", "PLN", "INR", "CHF"]),
)
def test_prices_formatted_by_babel_are_read_back(amounts: list[float], locale: str, code: str) -> None:
    for written in (
        [format_currency(amount, code, locale=locale) for amount in amounts],
        [format_currency(amount, code, "#,##0.00 ¤¤", locale=locale) for amount in amounts],
        [format_decimal(amount, "#,##0.00", locale=locale) for amount in amounts],
    ):
        values, flaws, _ = read(*written)
        assert flaws == [""] * len(amounts), written
        assert values == amounts, written


@settings(max_examples=40, deadline=None)
@given(
    amounts=st.lists(st.integers(1, 10**8), min_size=1, max_size=8),
    code=st.sampled_from(["VND", "JPY", "IDR"]),
)
def test_whole_amounts_are_read_back(amounts: list[int], code: str) -> None:
    locale = {"VND": "vi_VN", "JPY": "ja_JP", "IDR": "id_ID"}[code]
    written = [format_currency(a, code, "#,##0 ¤", locale=locale, currency_digits=False) for a in amounts]
    assert read(*written)[0] == amounts


@settings(max_examples=80, deadline=None)
@given(
    cells=st.lists(
        st.text(st.characters(codec="utf-8"), max_size=12) | st.from_regex(r"[$€]?[\d.,' ]{0,9}k?")
    )
)
def test_any_text_has_a_price_or_a_reason(cells: list[str]) -> None:
    column = pa.array(cells, pa.large_string())
    values, flaws = parse_price(column, price_format([column], ReadOptions()))
    assert len(values) == len(flaws) == len(cells)
    blank = np.array([not cell.strip() for cell in cells], bool)
    assert (np.isfinite(values) != ((flaws != "") | blank)).all()


@settings(max_examples=30, deadline=None)
@given(
    cells=st.lists(
        st.from_regex(
            r"-?[$€]?[0-9٠-٣０-９]{1,3}([.,' \u00a0][0-9]{1,3}){0,2}( ?[€k円]| - [0-9]{2})?", fullmatch=True
        )
    ),
    decimal=st.sampled_from([None, ".", ","]),
)
def test_cells_of_the_same_shape_are_read_like_single_cells(cells: list[str], decimal: str | None) -> None:
    column = pa.array(cells + [cell.replace("1", "2").replace("3", "7") for cell in cells], pa.large_string())
    form = price_format([column], ReadOptions(decimal=decimal))
    values, flaws = parse_price(column, form)
    alone = [parse_price(column.slice(i, 1), form) for i in range(len(column))]
    assert flaws.tolist() == [flaw[0] for _, flaw in alone]
    np.testing.assert_array_equal(values, [value[0] for value, _ in alone])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 9))
def test_the_chunk_size_does_not_change_the_table(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "t.csv"
    cells = ["1.234 €", "2.000 €", "900", "3.500 €", "", "12,50 €", "1.000 €", "$3"]
    path.write_text("name,price\n" + "".join(f'x,"{cell}"\n' for cell in cells), "utf-8")
    columns = Columns(("name",), id=None)
    whole = read_table(path, columns, notices=lambda _: None)
    chunks = list(iter_table(path, columns, rows=rows, notices=lambda _: None))
    assert np.array_equal(np.concatenate([c.known_price for c in chunks]), whole.known_price, equal_nan=True)
    assert whole.known_price[0] == 1234


def table(tmp_path: Path, cells: list[str]) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(
        "name,price\n" + "".join(f'thing {i},"{cell}"\n' for i, cell in enumerate(cells)), "utf-8"
    )
    return path


def test_a_table_in_several_currencies_requires_a_choice(tmp_path: Path, raises) -> None:
    path, columns = table(tmp_path, ["$5"] * 30 + ["€6"] * 10), Columns(("name",), id=None)
    with raises(DataError, "currency", column="price", currencies={"$": 30, "EUR": 10}):
        read_usable(path, columns, limit=None, notices=lambda _: None)
    said: list[str] = []
    rows, aside = read_usable(
        path, columns, limit=None, read_options=ReadOptions(currency="EUR"), notices=said.append
    )
    assert (len(rows), len(aside)) == (10, 30)
    assert "other currency: 30" in said[-1]


def test_a_rejected_price_is_shown(tmp_path: Path) -> None:
    said: list[str] = []
    path = table(tmp_path, ["$5"] * 30 + ["$350 mil", "$90 mil"])
    assert len(read_usable(path, Columns(("name",), id=None), notices=said.append)[0]) == 30
    assert said[-1].endswith("(price not a number: 2). The first price that is not a number is '$350 mil'.")


def test_a_stray_price_in_another_currency_is_rejected(tmp_path: Path) -> None:
    path = table(tmp_path, ["$5"] * 300 + ["€6"])
    rows, aside = read_usable(path, Columns(("name",), id=None), limit=None, notices=lambda _: None)
    assert (len(rows), aside["reason"].tolist()) == (300, ["other currency"])


@pytest.mark.parametrize(("highest", "said"), [("150", False), ("99,999,999", True)])
def test_outliers_are_shown_and_kept(tmp_path: Path, highest: str, said: bool) -> None:
    path, heard = table(tmp_path, [*map(str, range(5, 105)), highest]), []
    rows, _ = read_usable(path, Columns(("name",), id=None), limit=None, notices=heard.append)
    assert len(rows) == 101
    assert any("xtremely high prices" in sentence for sentence in heard) == said


def test_invalid_read_options() -> None:
    for wrong, parameter in (
        ({"decimal": ";"}, "decimal"),
        ({"delimiter": "ab"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"names": ("a", "a")}, "columns"),
        ({"currency": " "}, "currency"),
    ):
        with pytest.raises(DataError) as caught:
            ReadOptions(**wrong)  # type: ignore[arg-type]
        assert caught.value.parameters == (parameter,)
        assert "--" not in str(caught.value)
    assert ReadOptions(delimiter="tab").delimiter == "\t"


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["14.876", "3.418", "120.333", "7.251", "6.102"], 14.876),
        (["565.000", "120.500", "99.900", "1.995", "12.750"], 565_000),
    ],
)
def test_three_decimals_in_program_output_are_not_thousands(cells, first, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["catalog_content,price", *(f"Tea,{cell}" for cell in cells)]))
    assert read_table(path, Columns(), notices=lambda _: None).known_price[0] == first
