"""The quantity of a product in a common measure, from Value and Unit lines and from sizes and packs in item names.

Sizes and packs in a column of their own ("size: 6 x 330 ml") count as part of the name, see `sized`.

Does a Value line state the total or the size of one piece? Of the 1,099 reference rows with a size and a pack in the
name, 89% state the product of both ("12 Ounce (Pack of 6)", Value 72), 6% only the size. Therefore

    value = Value line                            where it is a positive number
          = size in the name x packs in the name  otherwise
    total = size in the name x packs, in g or ml  where the Unit line only counts ("Count", "None")
                                                  and the name states a weight or volume
          = value x unit, in g, ml, pieces or mm  otherwise

A Value line is never multiplied. Only "Pack of 6" and "6 x 12 oz" multiply a size in the name; a count next to it
does not, because "4 oz, 10 count" means four ounces in total just as often. Preferring a weight to a count improved
boosted trees on these features alone from 59.9 to 58.7 SMAPE on the reference rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.text.labelled_lines import Floats, Ints, Lines, Strings, numpy_of
from pricekit.text.units import COMMON, COUNT, LENGTH, NONE, SPELLINGS, VOLUME, WEIGHT, UnitTable

MEASURES = tuple(COMMON.values())[: LENGTH + 1]
"""The common measure of each class of units, in which totals are."""

_SPELLINGS = {
    WEIGHT: (
        "mg milligram milligrams g gr gm gms gram grams gramm gramms gramme grammes kg kgs kilo kilos kilogram "
        "kilograms kilogramm oz ozs onz ounce ounces lb lbs pound pounds"
    ),
    VOLUME: (
        "ml mls milliliter milliliters millilitre millilitres cc cl centiliter centiliters centilitre centilitres "
        "dl deciliter deciliters decilitre decilitres l lt ltr ltrs liter liters litre litres "
        "fl-oz fl-ozs fl-ounce fl-ounces fluid-oz fluid-ounce fluid-ounces fz "
        "pint pints pt pts quart quarts qt qts gal gals gallon gallons"
    ),
    COUNT: (
        "count counts ct cts cnt each ea piece pieces pc pcs unit units item items pack packs pk pks "
        "bottle bottles jar jars box boxes can cans bag bags tea-bag tea-bags packet packets pouch pouches "
        "sachet sachets stick sticks bar bars pod pods k-cup k-cups capsule capsules caps tablet tablets "
        "roll rolls sheet sheets tin tins tub tubs tube tubes carton cartons case cases stem stems wipe wipes "
        "pair pairs dozen dozens dz 's ’s comprimés comprimidos compresse tabletten kapseln stück stk pièce pièces "
        "unidad unidades uds pezzi stuks szt adet шт штук viên"
    ),
    LENGTH: (
        "mm millimeter millimeters millimetre millimetres cm centimeter centimeters centimetre centimetres "
        "m meter meters metre metres in inch inches ft foot feet yd yds yard yards"
    ),
}
"""The units of texts by class; another character may stand for "-", or none."""

# In an item name these usually mean something else ("24 in 1") or packs: only a Unit line may use them.
_NOT_IN_TEXT = {
    *("m", "in", "gr", "caps", "item", "items", "unit", "units"),
    *("case", "cases", "pack", "packs", "pk", "pks"),
}


UNITS = {
    spelling: SPELLINGS.get(spelling, (COUNT, 1.0)) if kind == COUNT else SPELLINGS[spelling]
    for kind, spellings in _SPELLINGS.items()
    for spelling in spellings.replace("-", "").split()
}
"""Class and size of each unit by its spelling, as in `units`.

What only this module knows, such as boxes, is counted; a weight, volume or length that `units` lacks is an error.
"""


def pattern(*kinds: int) -> str:
    """Return a regular expression (for RE2 and Python) of the spellings of these classes, longest first."""
    spellings = [
        spelling.replace("-", "[ .-]{0,2}")
        for kind in kinds
        for spelling in _SPELLINGS[kind].split()
        if spelling not in _NOT_IN_TEXT
    ]
    return "|".join(sorted(spellings, key=lambda s: (-len(s), s)))


MAX_VALUE = 1e6  # in the stated unit
MAX_TOTAL = 1e9  # in the common measure
MAX_PACK = 10_000
SIZE_CHARACTERS = 60
"""Cells that are longer on average are prose, not sizes."""
SIZE_ROWS = 10
BETWEEN = " | "
"""Stands between a size and the item name, so that no number of one joins a number of the other."""

_CONTAINER = "packs?|cases?|sets?|box(?:es)?|cartons?|lots?|bundles?|trays?|total"
_NUMBER = r"[1-9][0-9]{0,2},[0-9]{3}(?:\.[0-9]{1,6})?|[0-9]{1,7}(?:[.,][0-9]{1,18})?|\.[0-9]{1,18}"
_AMOUNT = rf"(?:(?P<whole>[0-9]{{1,3}})[ -]{{1,2}})?(?P<number>{_NUMBER})(?: ?/ ?(?P<under>[0-9]{{1,3}}))?"

# The regular expressions have the same meaning in RE2 and in Python with re.ASCII; all are applied to lower case.
VALUE_LINE = rf"^{_AMOUNT}[ -]{{0,2}}(?P<unit>[a-z][a-z. -]{{0,19}})?$"
SIZE = rf"(?:^|[^0-9.,/]){_AMOUNT}[ -]{{0,2}}(?P<unit>{pattern(WEIGHT, VOLUME)})(?:[^a-z0-9]|$)"
PIECES = rf"(?:^|[^0-9.,/]){_AMOUNT}[ -]{{0,2}}(?P<unit>{pattern(COUNT)})(?:[^a-z0-9]|$)"
EXTENT = rf"(?:^|[^0-9.,/]){_AMOUNT}[ -]{{0,2}}(?P<unit>{pattern(LENGTH)})(?:[^a-z0-9]|$)"
NUTRIENT = (
    r"[0-9.]{1,6} ?m?g(?:rams?)? (?:of )?(?:[a-z]{1,12} )?"
    r"(?:protein|sugars?|carbs?|fat|fiber|fibre|sodium|caffeine)"
)
PACK_OF = (
    rf"(?:^|[^a-z0-9])(?:(?:{_CONTAINER})[ -](?:of|/)|(?:lot|bo[iî]te|paquete?|pack|caja|caixa|pacote|confezione"
    r"|packung|doos|набор|упаковка) (?:de|da|di|com|mit|van|из)|isi|hộp)"
    r"[ -]?(?P<pack>[0-9]{1,5})(?:[^0-9.,]|[.,][^0-9]|[.,]?$)"
)
PACKS = (
    r"(?:^|[^0-9.,/])(?P<pack>[0-9]{1,5})(?:(?:er)?[ -]{0,3}(?:packs?|pks?|packung|packages|cases)|"
    r"[ -]?(?:/|per|in a) ?(?:packs?|pks?|case|cs|box|bx|carton|set))(?:[^a-z0-9]|$)"
)
TIMES = (
    rf"(?:^|[^0-9.,/])(?P<pack>[0-9]{{1,5}}) ?(?:x|×) ?(?:{_NUMBER})[ -]{{0,2}}"
    rf"(?:{pattern(WEIGHT, VOLUME, COUNT)})(?:[^a-z0-9]|$)"
)
PIECES_BEHIND = r"(?:(?:^|[ ,(])[x×]|\([x×] )(?P<pack>[0-9]{1,4})(?:[^0-9a-z.,]|[.,]?$)"
"""The pieces of "Tablets x10"."""
PACKS_BEFORE = r"(?:^|[(,] ?)(?P<pack>[0-9]{1,4}) ?[x×] [a-z]"
"""The packs of "2 x Green Tea"."""
STATED_PACKS = (PACK_OF, PACKS, TIMES, PACKS_BEFORE, PIECES_BEHIND)
"""The expressions of packs; the most reliable one comes first."""
_ANY_PACKS = "|".join(STATED_PACKS).replace("?P<pack>", "?:")
VULGAR = {"½": " 1/2", "¼": " 1/4", "¾": " 3/4", "⅓": " 1/3", "⅔": " 2/3", "⅛": " 1/8", "⁄": "/"}
DENOMINATORS = (2, 3, 4, 8)
THOUSANDS = r"^([1-9][0-9]{0,2}),([0-9]{3})"

_PARTS = ("number", "under", "whole", "unit")
_look_up = UnitTable(UNITS)


@dataclass(frozen=True)
class Packs:
    """Packs of N item names.

    Attributes:
        stated: the number of packs, 1 if the name states none, (N,); it multiplies a size in the name.
        size: the number of packs, else of pieces ("12 count"), else 1; from 1 to 10,000, (N,).
    """

    stated: Floats
    size: Floats


@dataclass(frozen=True)
class Amounts:
    """Quantities of N texts.

    Attributes:
        value: the value in its unit, 0 if there is none, (N,).
        kind: the class of the unit, `NONE` if it is missing or unknown, (N,).
        total: in the common measure of the class, (N,).
    """

    value: Floats
    kind: Ints
    total: Floats


def clean_title(title: Strings) -> Strings:
    """Lower-case ASCII letters and write fractions with ASCII digits: "1½_LB" becomes "1 1/2 lb"."""
    text = pc.replace_substring(pc.ascii_lower(title), "_", " ")
    for sign, ascii_form in VULGAR.items():
        text = pc.replace_substring(text, sign, ascii_form)
    return text


def size_line(label: str) -> str:
    """Return an expression for the line of a label that states sizes; its group `cell` has the content."""
    return rf"(?:^|\n){re.escape(label)}:(?P<cell>[^\n]{{1,{SIZE_CHARACTERS}}})"


def sized(texts: Strings, title: Strings, labels: Sequence[str]) -> Strings:
    """Return cleaned item names behind the sizes that other columns state, (N,)."""
    for label in labels:
        cell = clean_title(pc.fill_null(_group(texts, size_line(label), "cell")[0], ""))
        title = pc.binary_join_element_wise(cell, title, pa.scalar(BETWEEN, title.type))
    return title


def states_sizes(cells: Strings) -> bool:
    """Return whether the cells of a column are sizes or packs: at least `SIZE_ROWS`, and at least half of them."""
    cells = clean_title(cells.filter(pc.greater(pc.binary_length(cells), 0)))
    if not len(cells) or pc.mean(pc.utf8_length(cells)).as_py() > SIZE_CHARACTERS:
        return False
    sizes = np.count_nonzero(_named(cells, packs(cells).stated).value > 0)
    return bool(sizes >= SIZE_ROWS and 2 * sizes >= len(cells))


def packs(title: Strings) -> Packs:
    """Read packs and pieces in item names: "Pack of 6", "6-pack", "12 per case", "6 x 12 oz", "12 count".

    Args:
        title: cleaned item names, (N,).
    """
    stated = np.ones(len(title))
    stating = np.flatnonzero(numpy_of(pc.match_substring_regex(title, _ANY_PACKS)))
    titles = title.take(pa.array(stating))
    for expression in reversed(STATED_PACKS):  # the most reliable one comes last and wins
        number = _floats(_group(titles, expression, "pack")[0])
        valid = (number >= 1) & (number <= MAX_PACK)
        stated[stating[valid]] = number[valid]
    pieces = _read(*_group(title, PIECES, *_PARTS)).total
    size = np.where((stated == 1) & (pieces >= 1) & (pieces <= MAX_PACK), pieces, stated)
    return Packs(stated, np.floor(size))


def amounts(lines: Lines, title: Strings, pack: Packs) -> Amounts:
    """Read the value and unit of each text by the rule of this module.

    Args:
        lines: the lines of the texts.
        title: cleaned item names, (N,).
        pack: the packs in the item names.
    """
    stated = _stated(lines)
    vague = np.flatnonzero(np.isin(stated.kind, (NONE, COUNT)))
    if not len(vague):
        return stated
    named = _named(title.take(pa.array(vague)), pack.stated[vague])
    missing = stated.value[vague] <= 0
    better = missing | np.isin(named.kind, (WEIGHT, VOLUME))
    stated.value[vague[missing]] = named.value[missing]
    stated.kind[vague[better]] = named.kind[better]
    stated.total[vague[better]] = named.total[better]
    return stated


def _stated(lines: Lines) -> Amounts:
    """Read the Value and Unit lines; without a Unit line, the unit after the number counts."""
    number, under, whole, behind = _group(pc.ascii_lower(lines.find("value", last=True)), VALUE_LINE, *_PARTS)
    unit = pc.ascii_lower(lines.find("unit", last=True))
    unit = pc.if_else(pc.is_in(unit, pa.array(["", "none"], unit.type)), behind, unit)
    return _read(number, under, whole, unit)


def _named(title: Strings, pack: Floats) -> Amounts:
    """Read item names: a weight or volume, else a length, else pieces, else packs."""
    title = pc.replace_substring_regex(title, NUTRIENT, "")
    value, kind = np.where(pack > 1, pack, 0.0), np.where(pack > 1, COUNT, NONE)
    total = value
    for expression in (PIECES, EXTENT, SIZE):  # the most reliable one comes last and wins
        amount = _read(*_group(title, expression, *_PARTS))
        use = amount.value > 0
        value = np.where(use, np.minimum(amount.value * pack, MAX_VALUE), value)
        total = np.where(use, np.minimum(amount.total * pack, MAX_TOTAL), total)
        kind = np.where(use, amount.kind, kind)
    return Amounts(value, kind, total)


def _group(text: Strings, expression: str, *names: str) -> list[Strings]:
    """Return the named groups of the first match, each (N,), null without a match."""
    groups = pc.extract_regex(text, expression)
    return [pc.struct_field(groups, name) for name in names]


def _floats(text: Strings) -> Floats:
    """Parse numbers: "1,000" is a thousand, "1,5" one and a half; NaN for null and for the empty string.

    Only the distinct strings, which are few, are parsed.
    """
    encoded = pc.fill_null(text, "").dictionary_encode()
    plain = pc.replace_substring(pc.replace_substring_regex(encoded.dictionary, THOUSANDS, r"\1\2"), ",", ".")
    number = pc.if_else(pc.equal(plain, ""), "nan", plain).cast(pa.float64())
    return np.take(numpy_of(number), numpy_of(encoded.indices))


def _read(number: pa.Array, under: pa.Array, whole: pa.Array, unit: pa.Array) -> Amounts:
    """Convert matched strings to amounts: whole + number / under, from 0 to `MAX_VALUE`.

    "1/2" is a half, but "12/1 oz" and "6/12 oz" are trade notation for 12 x 1 oz and 6 x 12 oz.
    """
    numerator, divisor, integer = _floats(number), _floats(under), _floats(whole)
    fraction = np.isin(divisor, DENOMINATORS) & (numerator < divisor)
    value = np.where(fraction, numerator / np.where(fraction, divisor, 1.0), numerator)
    value = np.where((divisor >= 1) & ~fraction, numerator * divisor, value)
    value = value + np.where(fraction & (integer > 0), integer, 0.0)
    value = np.where(value > 0, np.minimum(value, MAX_VALUE), 0.0)
    kind, size = _look_up(pc.replace_substring_regex(pc.fill_null(unit, ""), "[ .-]", ""))
    kinds = np.where(value > 0, kind, NONE).astype(np.int64)
    return Amounts(value, kinds, np.minimum(value * size, MAX_TOTAL))
