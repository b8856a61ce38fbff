"""Units of measure."""

import pint
import pyarrow as pa
import pytest

from pricekit.text.units import COMMON, KINDS, NONE, look_up

PINT = {
    "weight": "gram",
    "volume": "milliliter",
    "length": "millimeter",
    "area": "meter**2",
    "distance": "kilometer",
    "power": "watt",
    "charge": "ampere_hour / 1000",
    "energy": "watt_hour",
    "voltage": "volt",
    "frequency": "megahertz",
    "time": "minute",
}
"""Pint's names of the common measures."""

CHECKED = {
    "mg": "milligram",
    "g": "gram",
    "kilogramm": "kilogram",
    "кг": "kilogram",
    "oz": "ounce",
    "lb": "pound",
    "ml": "milliliter",
    "cl": "centiliter",
    "литр": "liter",
    "floz": "fluid_ounce",
    "pint": "pint",
    "quart": "quart",
    "gal": "gallon",
    "mm": "millimeter",
    "cm": "centimeter",
    "m": "meter",
    "zoll": "inch",
    "ft": "foot",
    "yd": "yard",
    "m²": "meter**2",
    "sqft": "foot**2",
    "acre": "acre",
    "ha": "hectare",
    "km": "kilometer",
    "miles": "mile",
    "w": "watt",
    "kw": "kilowatt",
    "hp": "horsepower",
    "ps": "metric_horsepower",
    "mah": "milliampere_hour",
    "ah": "ampere_hour",
    "kwh": "kilowatt_hour",
    "v": "volt",
    "ghz": "gigahertz",
    "s": "second",
    "stunden": "hour",
    "días": "day",
    "weeks": "week",
    "monate": "month",
    "jahre": "year",
}


REGISTRY = pint.UnitRegistry()


def unit(spelling: str) -> tuple[str, float]:
    """Return the class and the size of a unit."""
    kind, size = look_up(pa.array([spelling], pa.large_string()))
    return KINDS[kind[0]], float(size[0])


@pytest.mark.parametrize("spelling", CHECKED)
def test_sizes_agree_with_pint(spelling: str) -> None:
    kind, size = unit(spelling)
    ratio = REGISTRY(CHECKED[spelling]).to_base_units() / REGISTRY(PINT[kind]).to_base_units()
    assert size == pytest.approx(ratio.magnitude, rel=1e-5)


def test_every_class_has_a_common_measure() -> None:
    assert KINDS[NONE] == "none"
    assert all(COMMON[kind] for kind in KINDS[1:])


def test_other_words_have_no_unit() -> None:
    assert unit("tea") == ("none", 1.0)
    assert unit("") == ("none", 1.0)
