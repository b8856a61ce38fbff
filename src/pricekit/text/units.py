"""Units of measure in several languages, and the amount that a cell states: "750 ml", "3 x 200 g", "Pack of 6".

The sizes are exact by definition (NIST SP 811, appendix B.8), except those of containers, which count pieces.

`measure` and `totals` read many cells together; `measures_of_cell` and `total_of_cell` read one cell by the same rules,
in the same order, which is faster for a few cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.text.labelled_lines import (
    Bools,
    Bytes,
    Codes,
    Floats,
    Ints,
    Strings,
    byte_table,
    lower_case,
    numpy_of,
    slices,
)
from pricekit.text.numbers import Number, Numbers, power_named

COMMON = {
    "none": "",
    "weight": "g",
    "volume": "ml",
    "count": "pieces",
    "length": "mm",
    "area": "m²",
    "box": "mm³",
    "distance": "km",
    "power": "W",
    "charge": "mAh",
    "energy": "Wh",
    "storage": "GB",
    "voltage": "V",
    "frequency": "MHz",
    "time": "minutes",
    "share": "%",
    "resolution": "megapixels",
}
"""The classes of units and their common measures; "area" and "box" are also products of two and three lengths."""

KINDS = tuple(COMMON)
NONE, WEIGHT, VOLUME, COUNT, LENGTH, AREA, BOX = range(7)

_SPELLINGS = """
weight 0.001 mg milligram milligrams milligramm мг
weight 1 g gr gm gms gms. gram grams gramm gramms gramme grammes gramo gramos grama gramas grammi grammo г гр
weight 1 грамм 克 グラム 그램 กรัม غرام
weight 1000 kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos кг
weight 1000 килограмм 公斤 千克 キロ 킬로 กิโลกรัม كجم
weight 1000000 t tonne tonnes tonnen
weight 28.349523125 oz ozs onz ounce ounces onza onzas
weight 453.59237 lb lbs pound pounds libra libras pfund
volume 1 ml mls milliliter milliliters millilitre millilitres mililitros mililitro cc мл 毫升 มล
volume 10 cl centiliter centiliters centilitre centilitres сл
volume 100 dl deciliter deciliters decilitre decilitres дл
volume 1000 l lt ltr ltrs liter liters litre litres litro litros litri л литр литра литров 升 リットル 리터 ลิตร لتر
volume 29.5735295625 floz flozs flounce flounces fluidoz fluidounce fluidounces fz
volume 473.176473 pint pints pt pts
volume 946.352946 quart quarts qt qts
volume 3785.411784 gal gals gallon gallons
count 1 count counts ct cts cnt each ea piece pieces pc pcs unit units item items bottle bottles jar jars
count 1 can cans bag bags teabag teabags packet packets pouch pouches sachet sachets stick sticks bar bars
count 1 pod pods capsule capsules caps tablet tablets tabs roll rolls sheet sheets tin tins tub tubs tube
count 1 tubes carton cartons wipe wipes pack packs pk pks stück stk st stueck er pièce pièces pce pza pzas
count 1 pieza piezas unidad unidades uds ud pezzi pezzo pz szt sztuk stuks stuk unidade unidades und adet шт
count 1 штук 個 个 枚 本 入 袋 瓶 盒 개 입 매 ชิ้น قطعة viên cái hộp gói chai
count 2 pair pairs paar paire paires
count 12 dozen dozens dz dutzend
length 1 mm millimeter millimeters millimetre millimetres мм 毫米
length 10 cm cms centimeter centimeters centimetre centimetres см 厘米 公分
length 1000 m meter meters metre metres mtr mtrs metro metros м 米
length 25.4 in inch inches " ″ zoll pouces pulgadas дюйм 英寸 インチ
length 304.8 ft foot feet
length 914.4 yd yds yard yards
area 1 m² m2 qm sqm squaremeter squaremeters squaremetre squaremetres кв.м м² м2 平方米 坪
area 0.09290304 ft² ft2 sqft squarefeet squarefoot sf
area 4046.8564224 acre acres
area 10000 ha hectare hectares hektar
distance 1 km kms kilometer kilometers kilometre kilometres км 公里
distance 1.609344 mi mile miles
power 0.001 mw
power 1 w watt watts vatios вт ватт 瓦
power 1000 kw kilowatt kilowatts квт
power 745.6998715822702 hp bhp
power 735.49875 ps cv ch pk л.с. лс 馬力
charge 1 mah
charge 1000 ah
energy 1 wh
energy 1000 kwh квтч
storage 1e-06 kb
storage 0.001 mb мб
storage 1 gb go гб
storage 1000 tb to тб
voltage 1 v volt volts в вольт
frequency 1e-06 hz гц
frequency 0.001 khz кгц
frequency 1 mhz мгц
frequency 1000 ghz ггц
time 0.016666666666666666 s sec secs second seconds sekunden
time 1 min mins minute minutes minuten minuti minutos мин 分钟
time 60 h hr hrs hour hours std stunde stunden heure heures hora horas ч час часов 小时
time 1440 d day days tag tage tagen jour jours día días dia dias дней день 天
time 10080 week weeks woche wochen
time 43830 month months monat monate monaten mois mes meses мес месяцев
time 525960 y yr yrs year years jahr jahre jahren an ans año años anno anni ano anos год года лет 年
share 1 % percent prozent pct vol abv
resolution 1 mp megapixel megapixels mpx мп
"""
"""In each line a class, a size in the common measure, and the units of this size, in lower case."""

FIRST_WORDS = ("fl", "fluid", "sq", "square", "us")
"""First words of units of two words, such as "fl oz"."""


SPELLINGS = {
    spelling: (KINDS.index(kind), float(size))
    for kind, size, *spellings in map(str.split, reversed(_SPELLINGS.strip().splitlines()))
    for spelling in spellings
}
"""Class and size of each unit by its spelling; the first line with a spelling counts."""


class UnitTable:
    """Class and size of each unit by its spelling, to be found for many words at once."""

    def __init__(self, units: Mapping[str, tuple[int, float]]) -> None:
        self._names = pa.array(list(units), pa.large_string())
        self._kind = np.array([kind for kind, _ in units.values()] + [NONE], np.int8)
        self._size = np.array([size for _, size in units.values()] + [1.0])

    def __call__(self, spellings: Strings) -> tuple[Codes, Floats]:
        """Return the class and the size of units in lower case, each (M,); `NONE` and 1 for other words.

        Example:
            >>> kind, size = look_up(pa.array(["kg", "cl", "tea"], pa.large_string()))
            >>> [KINDS[k] for k in kind], size.tolist()
            (['weight', 'volume', 'none'], [1000.0, 10.0, 1.0])
        """
        place = pc.fill_null(pc.index_in(spellings, self._names), len(self._names)).to_numpy()
        return self._kind[place], self._size[place]


look_up = UnitTable(SPELLINGS)

MOST_TOTAL = 1e12
"""Larger amounts, in the common measure, are cut."""

_WORD_BYTES = 28
"""A longer word is not a unit."""

_PACK = re.compile(rb"(?:pack|packs|set|box|case|lot|bundle|carton|bag|tray)s? ?of $", re.IGNORECASE)
_PACK_BYTES = 14
_LETTERS = byte_table(bytes(code for code in range(256) if code >= 128 or chr(code).isalpha()) + b'%"')
_TIMES = byte_table(b"xX*")
_SKIPPED = byte_table(b"\x01 -")
_BLANKS = byte_table(b"\x01 ")

_RANK = np.ones(len(KINDS), np.int8)
_RANK[[NONE, COUNT, LENGTH, AREA, WEIGHT, VOLUME]] = 0, 2, 4, 4, 5, 5
_RANK_OF = _RANK.tolist()
_PACK_RANK = 3
_WORD = re.compile(rb"[%\"A-Za-z\x80-\xff]*")
"""The letters of `_LETTERS`."""


@dataclass(frozen=True)
class Measures:
    """The units of M numbers.

    Attributes:
        kind: the class of the unit, an index of `KINDS`, int8 (M,).
        size: the unit in the common measure of its class, float64 (M,); 1 without a unit.
        times: the number is multiplied by the next one, bool (M,).
        pack: the number counts packs, as in "Pack of 6", bool (M,).
    """

    kind: Codes
    size: Floats
    times: Bools
    pack: Bools


@dataclass(frozen=True)
class Totals:
    """The amount that each of C cells states.

    Attributes:
        kind: the class of its unit, `NONE` without an amount, int8 (C,).
        amount: in the common measure of the class, float64 (C,).
        pack: the number of packs or pieces, 1 if none is stated, float64 (C,).
    """

    kind: Codes
    amount: Floats
    pack: Floats


def measure(plain: Bytes, numbers: Numbers, start: Ints, end: Ints) -> Measures:
    """Read the units of numbers.

    A cell that is a number and a word of size, such as "120k", has no unit; its size is that of the word.

    Args:
        plain: of `numbers.plain_bytes`.
        numbers: of `numbers.read_numbers`.
        start: of the cells, int64 (C,).
        end: of the cells, int64 (C,).
    """
    beyond = np.concatenate([plain, np.zeros(8, np.uint8)])
    limit = end[numbers.cell]
    kind, size, behind = _units(beyond, numbers, start[numbers.cell], limit)
    times = _times(beyond, numbers, behind)
    for _ in range(2):  # "20 x 30 x 5 cm": the unit belongs to all three
        before = np.flatnonzero(times[:-1] & (kind[:-1] == NONE) & (kind[1:] == LENGTH))
        kind[before], size[before] = LENGTH, size[before + 1]
    return Measures(kind, size, times, _packs(plain, numbers))


def _units(beyond: Bytes, numbers: Numbers, begin: Ints, limit: Ints) -> tuple[Codes, Floats, Ints]:
    """Return class and size of the word behind each number, and where it ends; a word that is no unit has length 0."""
    stops = np.flatnonzero(~_LETTERS[beyond])

    def words_at(position: Ints, limit: Ints) -> tuple[Strings, Ints]:
        start = _skip(beyond, position, _SKIPPED)
        end = np.minimum(stops[np.searchsorted(stops, start)], limit)
        end = np.where((end - start > _WORD_BYTES) | (end < start), start, end)
        return pc.utf8_lower(slices(beyond, start, end)), end

    words, end = words_at(numbers.end, limit)
    kind, size = look_up(words)
    two = np.flatnonzero(numpy_of(pc.is_in(words, pa.array(FIRST_WORDS, words.type))))
    if len(two):  # such as "fl. oz"
        second, stop = words_at(end[two] + (beyond[end[two]] == ord(".")), limit[two])
        first = pc.replace_substring_regex(words.take(pa.array(two)), "^us$", "")
        of_both = look_up(pc.binary_join_element_wise(first, second, pa.scalar("", first.type)))
        known = of_both[0] != NONE
        two = two[known]
        kind[two], size[two], end[two] = of_both[0][known], of_both[1][known], stop[known]
    inches = np.flatnonzero((kind == LENGTH) & numpy_of(pc.equal(words, "in")))
    follows = beyond[end[inches] + 1]
    digit = (beyond[end[inches]] == ord(" ")) & (follows >= ord("0")) & (follows <= ord("9"))
    kind[inches[digit]] = NONE  # "2 in 1"
    behind = numbers.end
    sign = np.where(beyond[behind] == ord("'"), 1, 3 * (beyond[behind] == 1))  # ’ has three bytes
    pieces = (sign > 0) & ((beyond[behind + sign] | 0x20) == ord("s")) & ~_LETTERS[beyond[behind + sign + 1]]
    kind[pieces], end[pieces] = COUNT, (behind + sign + 1)[pieces]  # 10's
    size[(kind == NONE) | pieces] = 1.0
    whole = np.flatnonzero((kind == NONE) & (numbers.start == begin) & (end == limit) & (end > numbers.end))
    if len(whole):
        coded = words.take(pa.array(whole)).dictionary_encode()
        power = [10.0 ** power_named(word) for word in coded.dictionary.to_pylist()]
        size[whole] = np.array(power)[numpy_of(coded.indices)]
    return kind, size, np.where(kind == NONE, numbers.end, end)


def _skip(beyond: Bytes, position: Ints, skipped: Bools) -> Ints:
    """Move positions over at most three of some bytes, bool (256,)."""
    for _ in range(3):
        position = position + skipped[beyond[np.minimum(position, len(beyond) - 1)]]
    return position


def _times(beyond: Bytes, numbers: Numbers, behind: Ints) -> Bools:
    """Return whether a sign of multiplication stands between each number and the next one of its cell."""
    times = np.zeros(len(numbers), bool)
    sign = _skip(beyond, behind[:-1], _BLANKS)
    follows = _skip(beyond, sign + 1, _BLANKS)
    times[:-1] = _TIMES[beyond[sign]] & (follows == numbers.start[1:])
    times[:-1] &= numbers.cell[1:] == numbers.cell[:-1]
    return times


def _packs(plain: Bytes, numbers: Numbers) -> Bools:
    pack = np.zeros(len(numbers), bool)
    before = np.maximum(numbers.start - 2, 0)
    for number in np.flatnonzero((plain[before] | np.uint8(32)) == ord("f")).tolist():
        start = int(numbers.start[number])
        pack[number] = _PACK.search(plain[max(0, start - _PACK_BYTES) : start].tobytes()) is not None
    return pack


def totals(numbers: Numbers, measures: Measures, cells: int) -> Totals:
    """Return the amount of each of C cells: its most telling quantity, times packs, plus a smaller unit behind it.

    A weight or volume tells more than a length, that more than packs and pieces, and those more than other units. A
    count beside a measure does not multiply it: "4 oz, 10 count" means four ounces in total as often as forty. Only
    "x" and "pack of" do.
    """
    value, cell, kind = np.abs(numbers.value), numbers.cell, measures.kind
    common = value * measures.size
    total = Totals(np.zeros(cells, np.int8), np.zeros(cells), np.ones(cells))
    for which in (kind == COUNT, measures.pack):  # the first number of packs, else of pieces
        stated = np.flatnonzero(which & (value >= 1))
        of, first = np.unique(cell[stated], return_index=True)
        total.pack[of] = value[stated[first]]
    rank = np.where(measures.pack, _PACK_RANK, _RANK[kind]) * (value > 0)
    telling = np.flatnonzero(rank)
    order = telling[np.lexsort((telling, -rank[telling], cell[telling]))]
    chosen = order[np.unique(cell[order], return_index=True)[1]]
    total.kind[cell[chosen]] = np.where(measures.pack[chosen], COUNT, kind[chosen])
    total.amount[cell[chosen]] = common[chosen]
    chosen = chosen[total.kind[cell[chosen]] != COUNT]
    if not len(chosen):
        np.minimum(total.amount, MOST_TOTAL, out=total.amount)
        return total

    def beside(of: Ints, step: int) -> tuple[Ints, Bools]:
        """Return the number `step` places further, and whether it is one of the same cell."""
        there = np.clip(of + step, 0, len(numbers) - 1)
        return there, (there == of + step) & (cell[there] == cell[of])

    of = chosen[kind[chosen] == LENGTH]
    for step, product, factor in ((1, AREA, 1e-6), (2, BOX, 1e6)):  # mm² to m², and back for mm³
        after, same = beside(of, step)
        same &= measures.times[after - 1] & (kind[after] == LENGTH)
        of, after = of[same], after[same]
        total.amount[cell[of]] *= common[after] * factor
        total.kind[cell[of]] = product

    after, same = beside(chosen, 1)  # the ounces of "2 lb 3 oz"
    same &= (kind[after] == kind[chosen]) & (measures.size[after] < measures.size[chosen])
    same &= ~measures.times[chosen] & (numbers.start[after] - numbers.end[chosen] <= _PACK_BYTES)
    total.amount[cell[chosen[same]]] += common[after[same]]

    of = cell[chosen]
    factors = np.where(np.isin(of, cell[measures.pack & (value >= 1)]), total.pack[of], 1.0)
    bare = ((kind == NONE) | (kind == COUNT)) & (value >= 1) & ~measures.pack
    for step in (-1, 1):
        at, linked = chosen, np.ones(len(chosen), bool)
        for _ in range(2):  # "2 x 3 x 200 g"
            further, same = beside(at, step)
            linked = linked & same & measures.times[np.minimum(at, further)] & bare[further]
            factors = np.where(linked, factors * value[further], factors)
            at = further
    total.amount[of] *= factors
    total.pack[of] = np.where(factors > 1, np.minimum(factors, MOST_TOTAL), total.pack[of])
    np.minimum(total.amount, MOST_TOTAL, out=total.amount)
    return total


class Measure(NamedTuple):
    """The unit of a number of a cell, as of `Measures`."""

    kind: int
    size: float
    times: bool
    pack: bool


class Total(NamedTuple):
    """The amount that a cell states, as of `Totals`."""

    kind: int
    amount: float
    pack: float


NOTHING = Total(NONE, 0.0, 1.0)
"""The amount of a cell that states none."""


def measures_of_cell(plain: bytes, numbers: Sequence[Number], start: int, end: int) -> list[Measure]:
    """Return the units of the numbers of one cell, as `measure` reads them.

    Args:
        plain: of `numbers.plain_text`.
        numbers: of `numbers.numbers_of_cell`.
        start: where the cell begins.
        end: where it ends.
    """
    units = [_unit_behind(plain, number, start, end) for number in numbers]
    times = [
        _is_times(plain, behind, after.start)
        for (_, _, behind), after in zip(units, numbers[1:], strict=False)
    ]
    for _ in range(2):
        for place, (before, after) in enumerate(pairwise(units)):
            if times[place] and before[0] == NONE and after[0] == LENGTH:
                units[place] = LENGTH, after[1], before[2]
    packs = [
        plain[max(begin - 2, 0)] in b"fF"
        and _PACK.search(plain[max(0, begin - _PACK_BYTES) : begin]) is not None
        for begin, _, _ in numbers
    ]
    return [
        Measure(kind, size, follows, pack)
        for (kind, size, _), follows, pack in zip(units, [*times, False], packs, strict=True)
    ]


def _unit_behind(plain: bytes, number: Number, begin: int, limit: int) -> tuple[int, float, int]:
    """Return class and size of the word behind a number, and where it ends, as `_units` does."""
    behind = number.end
    word, end = _word_at(plain, behind, limit)
    kind, size = SPELLINGS.get(word, (NONE, 1.0))
    if word in FIRST_WORDS:
        second, stop = _word_at(plain, end + (plain[end] == ord(".")), limit)
        both = SPELLINGS.get(("" if word == "us" else word) + second)
        if both:
            (kind, size), end = both, stop
    if kind == LENGTH and word == "in" and plain[end] == ord(" ") and plain[end + 1] in b"0123456789":
        kind, size = NONE, 1.0
    sign = 1 if plain[behind] == ord("'") else 3 * (plain[behind] == 1)
    if sign and plain[behind + sign] in b"sS" and not _LETTERS[plain[behind + sign + 1]]:
        return COUNT, 1.0, behind + sign + 1
    if kind == NONE and number.start == begin and end == limit and end > behind:
        size = 10.0 ** power_named(word)
    return kind, size, behind if kind == NONE else end


def _word_at(plain: bytes, position: int, limit: int) -> tuple[str, int]:
    start = _skipped(plain, position, b"\x01 -")
    match = _WORD.match(plain, start, limit) if start <= limit else None
    end = match.end() if match else start
    return ("", start) if end - start > _WORD_BYTES else (lower_case(plain[start:end].decode()), end)


def _skipped(plain: bytes, position: int, signs: bytes) -> int:
    """Return a position behind at most three of some bytes."""
    for _ in range(3):
        position += plain[position] in signs
    return position


def _is_times(plain: bytes, behind: int, start: int) -> bool:
    sign = _skipped(plain, behind, b"\x01 ")
    return plain[sign] in b"xX*" and _skipped(plain, sign + 1, b"\x01 ") == start


def total_of_cell(numbers: Sequence[Number], measures: Sequence[Measure]) -> Total:
    """Return the amount of one cell, as `totals` does.

    Args:
        numbers: of the cell.
        measures: their units.
    """
    values = [abs(number.value) for number in numbers]
    rank = [
        (_PACK_RANK if unit.pack else _RANK_OF[unit.kind]) * (value > 0)
        for value, unit in zip(values, measures, strict=True)
    ]
    stated = [value for value, unit in zip(values, measures, strict=True) if unit.pack and value >= 1]
    pieces = [
        value for value, unit in zip(values, measures, strict=True) if unit.kind == COUNT and value >= 1
    ]
    pack = (stated or pieces or [1.0])[0]
    if not any(rank):
        return Total(NONE, 0.0, pack)
    chosen = rank.index(max(rank))
    kind = COUNT if measures[chosen].pack else measures[chosen].kind
    amount = values[chosen] * measures[chosen].size
    if kind == COUNT:
        return Total(kind, min(amount, MOST_TOTAL), pack)
    first, last = measures[chosen], len(values) - 1
    if first.kind == LENGTH:
        for step, product, factor in ((1, AREA, 1e-6), (2, BOX, 1e6)):
            after = chosen + step
            if after > last or not measures[after - 1].times or measures[after].kind != LENGTH:
                break
            amount *= values[after] * measures[after].size * factor
            kind = product
    if chosen < last:
        second = measures[chosen + 1]
        smaller = second.kind == first.kind and second.size < first.size and not first.times
        if smaller and numbers[chosen + 1].start - numbers[chosen].end <= _PACK_BYTES:
            amount += values[chosen + 1] * second.size
    factors = pack if stated else 1.0
    for step in (-1, 1):
        at = chosen
        for _ in range(2):
            further = at + step
            if not 0 <= further <= last or not measures[min(at, further)].times:
                break
            unit = measures[further]
            if unit.kind not in (NONE, COUNT) or values[further] < 1 or unit.pack:
                break
            factors *= values[further]
            at = further
    amount *= factors
    return Total(kind, min(amount, MOST_TOTAL), min(factors, MOST_TOTAL) if factors > 1 else pack)
