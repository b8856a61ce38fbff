import numpy as np
import pyarrow as pa
import pytest

from pricekit.text.labelled_lines import join_texts, split_lines
from pricekit.text.quantity import UNITS, Amounts, amounts, clean_title, packs
from pricekit.text.units import COUNT, LENGTH, NONE, VOLUME, WEIGHT


def read(*texts: str) -> Amounts:
    lines = split_lines(join_texts(pa.array(texts, pa.large_string())))
    title = clean_title(lines.titles(""))
    return amounts(lines, title, packs(title))


OUNCE, FLUID, POUND = 28.349523125, 29.5735295625, 453.59237


@pytest.mark.parametrize(
    ("unit", "kind", "size"),
    [
        *((u, WEIGHT, OUNCE) for u in ("Ounce", "ounce", "oz", "Oz", "OZ", "ounces", "oz.")),
        *(
            (u, VOLUME, FLUID)
            for u in ("Fl Oz", "fl oz", "FL Oz", "Fl oz", "FL OZ", "Fl. Oz", "Fluid Ounce", "floz")
        ),
        *((u, WEIGHT, POUND) for u in ("Pound", "pound", "lb", "LBS", "lbs.")),
        *((u, WEIGHT, 1.0) for u in ("gram", "grams", "Gram", "gramm", "g")),
        *((u, WEIGHT, 1000.0) for u in ("kg", "Kilogram")),
        *((u, VOLUME, 1.0) for u in ("millilitre", "milliliter", "ml", "mL")),
        *((u, VOLUME, 1000.0) for u in ("Liters", "litre", "l")),
        *((u, VOLUME, 3785.411784) for u in ("gal", "Gallon")),
        ("pint", VOLUME, 473.176473),
        ("Quart", VOLUME, 946.352946),
        *((u, COUNT, 1.0) for u in ("Count", "count", "COUNT", "ct", "each", "Each", "Pack", "packs", "Jar")),
        *((u, COUNT, 1.0) for u in ("Bottle", "Box", "Packet", "Tea Bags", "pieces", "sheets")),
        ("dozen", COUNT, 12.0),
        ("inch", LENGTH, 25.4),
        *((u, NONE, 1.0) for u in ("None", "", "24", "furlong", "ounce ounce")),
    ],
)
def test_every_spelling_of_a_unit(unit: str, kind: int, size: float) -> None:
    found = read(f"Item Name: thing\nValue: 3.0\nUnit: {unit}\n")
    assert found.value[0] == 3.0
    assert found.kind[0] == kind
    assert found.total[0] == pytest.approx(3 * size)


def test_spellings_have_no_filler_so_that_lookup_finds_them() -> None:
    assert all(name == name.lower() and not set(name) & set(" .-") for name in UNITS)


@pytest.mark.parametrize(
    ("name", "value", "kind", "total"),
    [
        ("Tomato soup, 12 Ounce", 12, WEIGHT, 12 * OUNCE),
        ("Tomato soup, 12 Ounce (Pack of 6)", 72, WEIGHT, 72 * OUNCE),
        ("Rice 1.5 lb", 1.5, WEIGHT, 1.5 * POUND),
        ("Rice 1.5-lb bag", 1.5, WEIGHT, 1.5 * POUND),
        ("Water 500ml", 500, VOLUME, 500),
        ("Beans 6 x 12 oz", 72, WEIGHT, 72 * OUNCE),
        ("Beans 6×12oz", 72, WEIGHT, 72 * OUNCE),
        ("Beans 6/12 oz", 72, WEIGHT, 72 * OUNCE),
        ("Pods 12/1 oz", 12, WEIGHT, 12 * OUNCE),
        ("Tea, 12-count", 12, COUNT, 12),
        ("Wipes 1,000 Count", 1000, COUNT, 1000),
        ("Milk 1/2 gal", 0.5, VOLUME, 3785.411784 / 2),
        ("Milk ½ gal", 0.5, VOLUME, 3785.411784 / 2),
        ("Milk 1½ gal", 1.5, VOLUME, 3785.411784 * 1.5),
        ("Milk 1 1/2 gal", 1.5, VOLUME, 3785.411784 * 1.5),
        ("Juice 8 Fl. Oz", 8, VOLUME, 8 * FLUID),
        ("Juice 8 fl.oz.", 8, VOLUME, 8 * FLUID),
        ("Flour 1,5 kg", 1.5, WEIGHT, 1500),
        ("Oil .75 L", 0.75, VOLUME, 750),
        ("Bar, 20g protein, 60 g", 60, WEIGHT, 60),
        ("Ribbon 10 yards", 10, LENGTH, 9144),
        ("Socks 3 pairs", 3, COUNT, 6),
        ("Bowls set of 3", 3, COUNT, 3),
        ("Coca_Cola_2_L", 2, VOLUME, 2000),
        ("A plain name", 0, NONE, 0),
        ("Model 12ozone", 0, NONE, 0),
        ("Zero 0 oz", 0, NONE, 0),
        ("Half 0,500 kg", 0.5, WEIGHT, 500),
        ("Nonsense 0,000.0 oz", 0, NONE, 0),  # two decimal marks
        ("", 0, NONE, 0),
    ],
)
@pytest.mark.parametrize(
    "form", ["{}", "Item Name: {}\nBullet Point: 99 lb of joy\nUnit: None\n", "name: {}"]
)
def test_quantity_of_a_name(form: str, name: str, value: float, kind: int, total: float) -> None:
    found = read(form.format(name))
    assert (found.value[0], found.kind[0]) == (value, kind)
    assert found.total[0] == pytest.approx(total)


def test_a_value_line_is_the_total_and_is_not_multiplied() -> None:
    found = read("Item Name: Sauce, 12 Ounce (Pack of 6)\nValue: 72.0\nUnit: Fl Oz\n")
    assert found.value[0] == 72
    assert found.total[0] == pytest.approx(72 * FLUID)


def test_a_weight_in_the_name_takes_precedence_over_a_count() -> None:
    found = read("Item Name: Sauce, 12 Ounce (Pack of 6)\nValue: 6.0\nUnit: Count\n")
    assert (found.value[0], found.kind[0]) == (6, WEIGHT)
    assert found.total[0] == pytest.approx(72 * OUNCE)


@pytest.mark.parametrize("value", ["0", "nan", "inf", "-5", "1e308", "9" * 300, "abc", "", "1.2.3", "\x00"])
def test_an_unusable_value_line_is_ignored(value: str) -> None:
    found = read(f"Item Name: thing\nValue: {value}\nUnit: oz\n")
    assert (found.value[0], found.kind[0], found.total[0]) == (0, NONE, 0)


def test_absurd_quantities_are_bounded() -> None:
    found = read("Iron 9999999 kg (pack of 10000)", "Iron " + "9" * 300 + " kg")
    assert found.value.tolist() == [1e6, 0]
    assert found.total.tolist() == [1e9, 0]


def test_value_line_forms() -> None:
    found = read(*(f"Value: {v}" for v in ("1,000", "1/2", "16 oz", "2.5", "9999999")))
    np.testing.assert_array_equal(found.value, [1000, 0.5, 16, 2.5, 1e6])
    assert found.kind[2] == WEIGHT


def test_the_last_value_line_counts() -> None:
    assert read("Product Description: x\nValue: 3\nmore\nValue: 5.0\nUnit: oz\n").value[0] == 5


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("Soup (Pack of 6)", 6),
        ("Paracetamol Tablet 10's", 10),
        ("Paracetamol Tablet 180’s", 180),
        ("Aspirin 500 mg x10", 10),
        ("Aspirin (x 20)", 20),
        ("Aspirin 10ct", 10),
        ("Water 4 x 1.5 L", 4),
        ("2 x Green Tea", 2),
        ("Savon, lot de 3", 3),
        ("Tee 10er Pack", 10),
        ("Pasta confezione da 6", 6),
        ("Mydło 5 szt", 5),
        ("Мыло, набор из 4", 4),
        ("Case for iPhone X 64 GB", 1),
        ("Soup, pack of 24.", 24),
        ("Soup PACKS OF 4", 4),
        ("Soup 6 pack", 6),
        ("Soup 6-pack", 6),
        ("Soup (2 Pack)", 2),
        ("Soup 6pk", 6),
        ("Soup 6 x 12 oz", 6),
        ("Soup 12-count", 12),
        ("Soup 12 ct", 12),
        ("Soup, case of 12", 12),
        ("Soup 12 per case", 12),
        ("Soup 12/case", 12),
        ("Bowls set of 3", 3),
        ("Eggs 1 dozen", 12),
        ("Soup 80-count, 2 pack", 2),
        ("Soup (1 pack of 6.25 oz)", 1),
        ("Soup pack of 0", 1),
        ("Soup pack of 99999", 1),
        ("Soup 1.5 pack", 1),
        ("Soup pack of " + "9" * 300, 1),
        ("Packard 500", 1),
        ("", 1),
    ],
)
def test_pack_size(name: str, pack: int) -> None:
    assert packs(clean_title(pa.array([name], pa.large_string()))).size.tolist() == [pack]
