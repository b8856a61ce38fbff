"""Numbers with their units, and the amount that a cell states: "750 ml", "3 x 200 g", "2 lb 3 oz", "Pack of 6"."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.features.cells.cut import slices
from pricekit.features.cells.units import (
    AREA,
    BOX,
    COUNT,
    FIRST_WORDS,
    KINDS,
    LENGTH,
    NONE,
    VOLUME,
    WEIGHT,
    look_up,
)
from pricekit.features.cells.written import Numbers
from pricekit.features.labelled_lines import Bytes, Ints, byte_table, numpy_of

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
_PACK_RANK = 3

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Measures:
    """The units of M numbers.

    Attributes:
        kind: the class of the unit, an index of `units.KINDS`, int8 (M,).
        size: the unit in the common measure of its class, float64 (M,); 1 without a unit.
        times: the number is multiplied by the next one, bool (M,).
        pack: the number counts packs, as in "Pack of 6", bool (M,).
    """

    kind: npt.NDArray[np.int8]
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

    kind: npt.NDArray[np.int8]
    amount: Floats
    pack: Floats


def measure(plain: Bytes, numbers: Numbers, end: Ints) -> Measures:
    """Read the units of numbers.

    Args:
        plain: of `written.plain_bytes`.
        numbers: of `written.read_numbers`.
        end: of the cells, int64 (C,).
    """
    beyond = np.concatenate([plain, np.zeros(4, np.uint8)])
    limit = end[numbers.cell]
    kind, size, behind = _units(beyond, numbers, limit)
    times = _times(beyond, numbers, behind)
    for _ in range(2):  # "20 x 30 x 5 cm": the unit belongs to all three
        before = np.flatnonzero(times[:-1] & (kind[:-1] == NONE) & (kind[1:] == LENGTH))
        kind[before], size[before] = LENGTH, size[before + 1]
    return Measures(kind, size, times, _packs(plain, numbers))


def _units(beyond: Bytes, numbers: Numbers, limit: Ints) -> tuple[npt.NDArray[np.int8], Floats, Ints]:
    """Return class and size of the word behind each number, and where it ends; a word that is no unit has length 0."""
    stops = np.flatnonzero(~_LETTERS[beyond])
    start = _skip(beyond, numbers.end, _SKIPPED)
    end = np.minimum(stops[np.searchsorted(stops, start)], limit)
    end = np.where((end - start > _WORD_BYTES) | (end < start), start, end)
    words = pc.utf8_lower(slices(beyond, start, end))
    kind, size = look_up(words)
    two = numpy_of(pc.is_in(words, pa.array(FIRST_WORDS, words.type)))
    if two.any():
        _two_words(beyond, stops, words, (start, end, limit), (kind, size), np.flatnonzero(two))
    inches = np.flatnonzero((kind == LENGTH) & numpy_of(pc.equal(words, "in")))
    follows = beyond[end[inches] + 1]
    digit = (beyond[end[inches]] == ord(" ")) & (follows >= ord("0")) & (follows <= ord("9"))
    kind[inches[digit]] = NONE  # "2 in 1"
    size[kind == NONE] = 1.0
    return kind, size, np.where(kind == NONE, numbers.end, end)


def _two_words(
    beyond: Bytes,
    stops: Ints,
    words: pa.LargeStringArray,
    ranges: tuple[Ints, Ints, Ints],
    units: tuple[npt.NDArray[np.int8], Floats],
    which: Ints,
) -> None:
    """Read units such as "fl. oz" in place."""
    _, end, limit = ranges
    start = _skip(beyond, end[which] + (beyond[end[which]] == ord(".")), _SKIPPED)
    stop = np.minimum(stops[np.searchsorted(stops, start)], limit[which])
    stop = np.where((stop - start > _WORD_BYTES) | (stop < start), start, stop)
    second = pc.utf8_lower(slices(beyond, start, stop))
    first = pc.replace_substring_regex(words.take(pa.array(which)), "^us$", "")
    joined = pc.binary_join_element_wise(first, second, pa.scalar("", first.type))
    kind, size = look_up(joined)
    known = kind != NONE
    units[0][which[known]], units[1][which[known]] = kind[known], size[known]
    end[which[known]] = stop[known]


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
    value = np.abs(numbers.value)
    rank = np.where(measures.pack, _PACK_RANK, _RANK[measures.kind]) * (value > 0)
    telling = np.flatnonzero(rank)
    order = telling[np.lexsort((telling, -rank[telling], numbers.cell[telling]))]
    chosen = order[np.unique(numbers.cell[order], return_index=True)[1]]
    total = Totals(np.zeros(cells, np.int8), np.zeros(cells), _stated_packs(numbers, measures, value, cells))
    cell = numbers.cell[chosen]
    total.kind[cell] = np.where(measures.pack[chosen], COUNT, measures.kind[chosen])
    total.amount[cell] = (value * measures.size)[chosen]
    measured = chosen[total.kind[cell] != COUNT]
    if len(measured):
        _dimensions(total, numbers, measures, value, measured)
        _smaller_units(total, numbers, measures, value, measured)
        _factors(total, numbers, measures, value, measured)
    np.minimum(total.amount, MOST_TOTAL, out=total.amount)
    return total


def _stated_packs(numbers: Numbers, measures: Measures, value: Floats, cells: int) -> Floats:
    """Return the first number of packs in each cell, else of pieces, else 1, (C,)."""
    pack = np.ones(cells)
    for which in (measures.kind == COUNT, measures.pack):
        stated = np.flatnonzero(which & (value >= 1))
        cell, first = np.unique(numbers.cell[stated], return_index=True)
        pack[cell] = value[stated[first]]
    return pack


def _neighbours(numbers: Numbers, of: Ints, step: int) -> tuple[Ints, Bools]:
    """Return the number `step` places further, and whether it is one of the same cell."""
    there = np.clip(of + step, 0, len(numbers) - 1)
    return there, (there == of + step) & (numbers.cell[there] == numbers.cell[of])


def _dimensions(total: Totals, numbers: Numbers, measures: Measures, value: Floats, chosen: Ints) -> None:
    """Multiply two or three lengths to an area or a volume, in place."""
    of = chosen[measures.kind[chosen] == LENGTH]
    for step, kind, common in ((1, AREA, 1e-6), (2, BOX, 1e6)):  # mm² to m², and back for mm³
        after, same = _neighbours(numbers, of, step)
        of, after = (
            part[same & measures.times[after - 1] & (measures.kind[after] == LENGTH)] for part in (of, after)
        )
        cell = numbers.cell[of]
        total.amount[cell] *= value[after] * measures.size[after] * common
        total.kind[cell] = kind


def _smaller_units(total: Totals, numbers: Numbers, measures: Measures, value: Floats, chosen: Ints) -> None:
    """Add the ounces of "2 lb 3 oz", in place."""
    after, same = _neighbours(numbers, chosen, 1)
    same &= (measures.kind[after] == measures.kind[chosen]) & (measures.size[after] < measures.size[chosen])
    same &= ~measures.times[chosen] & (numbers.start[after] - numbers.end[chosen] <= _PACK_BYTES)
    total.amount[numbers.cell[chosen[same]]] += (value * measures.size)[after[same]]


def _factors(total: Totals, numbers: Numbers, measures: Measures, value: Floats, chosen: Ints) -> None:
    """Multiply by what "pack of" and "x" state, in place; the product becomes the number of packs."""
    cell = numbers.cell[chosen]
    packed = np.unique(numbers.cell[measures.pack & (value >= 1)])
    factor = np.where(np.isin(cell, packed), total.pack[cell], 1.0) if len(packed) else np.ones(len(cell))
    bare = ((measures.kind == NONE) | (measures.kind == COUNT)) & (value >= 1) & ~measures.pack
    for step in (-1, 1):
        at, linked = chosen, np.ones(len(chosen), bool)
        for _ in range(2):  # "2 x 3 x 200 g"
            further, same = _neighbours(numbers, at, step)
            linked = linked & same & measures.times[np.minimum(at, further)] & bare[further]
            factor = np.where(linked, factor * value[further], factor)
            at = further
    total.amount[cell] *= factor
    total.pack[cell] = np.where(factor > 1, np.minimum(factor, MOST_TOTAL), total.pack[cell])
