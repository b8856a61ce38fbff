"""Units: every spelling with its class and its size in the common measure (g, ml, pieces, mm).

Spellings are in lower case. A text may add or omit dots, spaces and hyphens inside them
("fl oz", "Fl. Oz", "FLOZ"). Sizes follow NIST Handbook 44, Appendix C (US customary units).
"""

from __future__ import annotations

from dataclasses import dataclass

NONE, WEIGHT, VOLUME, COUNT, LENGTH = range(5)  # the values of the column unit_type

_SPELLINGS: dict[tuple[int, float], str] = {
    (WEIGHT, 0.001): "mg milligram milligrams",
    (WEIGHT, 1.0): "g gr gm gms gram grams gramm gramms gramme grammes",
    (WEIGHT, 1000.0): "kg kgs kilo kilos kilogram kilograms kilogramm",
    (WEIGHT, 28.349523125): "oz ozs onz ounce ounces",
    (WEIGHT, 453.59237): "lb lbs pound pounds",
    (VOLUME, 1.0): "ml mls milliliter milliliters millilitre millilitres cc",
    (VOLUME, 10.0): "cl centiliter centiliters centilitre centilitres",
    (VOLUME, 100.0): "dl deciliter deciliters decilitre decilitres",
    (VOLUME, 1000.0): "l lt ltr ltrs liter liters litre litres",
    (VOLUME, 29.5735295625): "fl-oz fl-ozs fl-ounce fl-ounces fluid-oz fluid-ounce fluid-ounces fz",
    (VOLUME, 473.176473): "pint pints pt pts",
    (VOLUME, 946.352946): "quart quarts qt qts",
    (VOLUME, 3785.411784): "gal gals gallon gallons",
    (COUNT, 1.0): (
        "count counts ct cts cnt each ea piece pieces pc pcs unit units item items pack packs pk pks "
        "bottle bottles jar jars box boxes can cans bag bags tea-bag tea-bags packet packets pouch pouches "
        "sachet sachets stick sticks bar bars pod pods k-cup k-cups capsule capsules caps tablet tablets "
        "roll rolls sheet sheets tin tins tub tubs tube tubes carton cartons case cases stem stems wipe wipes"
    ),
    (COUNT, 2.0): "pair pairs",
    (COUNT, 12.0): "dozen dozens dz",
    (LENGTH, 1.0): "mm millimeter millimeters millimetre millimetres",
    (LENGTH, 10.0): "cm centimeter centimeters centimetre centimetres",
    (LENGTH, 1000.0): "m meter meters metre metres",
    (LENGTH, 25.4): "in inch inches",
    (LENGTH, 304.8): "ft foot feet",
    (LENGTH, 914.4): "yd yds yard yards",
}

# In an item name these usually mean something else ("24 in 1") or packs: only a Unit line may use them.
_NOT_IN_TEXT = {"m", "in", "gr", "caps", "item", "items", "unit", "units"} | {
    *("case", "cases", "pack", "packs", "pk", "pks")
}


@dataclass(frozen=True)
class Unit:
    """A unit's class (`WEIGHT`, ...) and its size in that class's common measure."""

    kind: int
    size: float


UNITS: dict[str, Unit] = {
    spelling.replace("-", ""): Unit(kind, size)
    for (kind, size), spellings in _SPELLINGS.items()
    for spelling in spellings.split()
}


def pattern(*kinds: int) -> str:
    """Return a regular expression (for RE2 and Python) of the spellings of these classes, longest first."""
    found = [
        spelling.replace("-", "[ .-]{0,2}")
        for (kind, _), spellings in _SPELLINGS.items()
        for spelling in spellings.split()
        if kind in kinds and spelling not in _NOT_IN_TEXT
    ]
    return "|".join(sorted(found, key=lambda s: (-len(s), s)))
