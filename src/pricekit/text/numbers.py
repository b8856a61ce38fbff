"""Numbers as people write them: "123 456 km", "1.234,50", "1,20,000", "1e+05", "2.0 l / 163 hp", "1 1/2", "20 x 30 cm".

`read_number` reads a cell that is one number. `read_numbers` reads all numbers of many cells together, on their bytes,
and `numbers_of_cell` those of one cell, which is faster for a few cells. Both follow the same rules: the functions of
the first, from `_runs` to `_with_fractions`, explain them, and `numbers_of_cell` follows in the same order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from pricekit.text.labelled_lines import (
    Bools,
    Bytes,
    Codes,
    Floats,
    Ints,
    byte_table,
    concatenated,
    numpy_of,
    offsets_of,
    ranges,
    run_edges,
    slices,
)

READ_BYTES = 240
"""The rest of a longer cell is prose."""

MOST_RUNS = 24
"""Runs of digits of a cell that are read."""

_UNIT_BYTES = 16
"""A number and its unit may stand alone in a cell: at most this many bytes follow."""

MISSING = r"#?n/?a|n\.a\.|nan|none|null|nil|unknown|tb[da]|-{1,3}|\?+|\.{1,3}"
"""What is written, in any case, where a number is missing; a regular expression for RE2 and Python."""

MOST_POWER_DIGITS = 2

MOST_DIGITS = 15
"""A longer run of digits is a code."""

_BLANK = 1  # stands for the bytes of apostrophes between digits
_ODD = {"×": b"x ", "−": b"  -", "–": b"-  ", "—": b"-  ", "’": b"\x01\x01\x01"}
_GROUPED = re.compile(
    r"(?P<whole>[1-9][0-9]{0,2}(?P<sign>[,. ']|\x01+)(?:[0-9]{3}(?:(?P=sign)[0-9]{3})*|(?:[0-9]{2}(?P=sign))+[0-9]{3}))"
    r"(?:(?P<mark>[.,])(?P<rest>[0-9]+))?"
)
"""Groups of three digits, or as in India: "1,20,000"."""
_DECIMAL = re.compile(r"(?P<whole>[0-9]+)(?P<mark>[.,])(?P<rest>[0-9]+)")
_DIGITS = re.compile(rb"[0-9]+")
_SHARES = (2, 3, 4, 5, 8, 16)
_SPACE, _DOT, _COMMA, _DASH, _SLASH = map(ord, " .,-/")
_OPENING = byte_table(b" \x01(")
_BEFORE_FRACTION = byte_table(b" -")
_POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)


@dataclass(frozen=True)
class Numbers:
    """M numbers of C cells, in order.

    Attributes:
        cell: the cell of each number, int64 (M,), ascending.
        start, end: its bytes, int64 (M,).
        value: float64 (M,), finite.
    """

    cell: Ints
    start: Ints
    end: Ints
    value: Floats

    def __len__(self) -> int:
        return len(self.cell)

    def take(self, which: Ints | Bools) -> Numbers:
        """Return some of the numbers."""
        return Numbers(*(getattr(self, field.name)[which] for field in fields(self)))

    @property
    def place(self) -> Ints:
        """The position of each number in its cell, from 0, int64 (M,)."""
        return np.arange(len(self)) - np.searchsorted(self.cell, self.cell)


def plain_bytes(data: Bytes) -> Bytes:
    """Return bytes of equal length in which dashes and signs of multiplication are ASCII, and apostrophes bytes 1."""
    plain = data.copy()
    lead = np.flatnonzero(data >= 0xC0)
    for sign, ascii_form in _ODD.items():
        written = sign.encode()
        at = lead[lead + len(written) <= len(data)]
        for offset, byte in enumerate(written):
            at = at[data[at + offset] == byte]
        for offset, byte in enumerate(ascii_form):
            plain[at + offset] = byte
    return plain


def marks_code(*, dot: bool, comma: bool) -> int:
    """Return what separates thousands in a column as a number: if `dot`, "1.234" is 1234, if `comma`, "1,234" is."""
    return dot + 2 * comma


def read_numbers(plain: Bytes, start: Ints, end: Ints, marks: Codes) -> Numbers:
    """Read the numbers of C cells.

    Args:
        plain: of `plain_bytes`.
        start: where each cell begins, int64 (C,), ascending.
        end: where it ends, int64 (C,); no cell is empty, and none overlaps the next.
        marks: the separators of thousands in each cell, of `marks_code`, int8 (C,).
    """
    end = np.minimum(end, start + READ_BYTES)
    runs = _runs(plain, start, end)
    joined = _joined(plain, runs, start, end)
    first = np.flatnonzero(~joined[:-1])
    last = np.flatnonzero(~joined[1:])
    alone = first == last
    single = runs.take(first[alone])
    dotted = _behind(_DOT, plain, single, start)
    decimals = np.minimum(single.end - single.start, MOST_DIGITS)  # the value of more is NaN
    single.value[dotted] /= _POWERS[decimals[dotted]]  # ".5"
    numbers = concatenated([single, _chains(plain, runs, first[~alone], last[~alone], marks)])
    numbers = numbers.take(np.argsort(numbers.start, kind="stable"))
    numbers = numbers.take(np.isfinite(numbers.value))
    numbers.value[_behind(_DASH, plain, numbers, start)] *= -1  # the dash of "10-20" is no sign
    return _with_fractions(plain, _with_powers(plain, numbers))


def _runs(plain: Bytes, start: Ints, end: Ints) -> Numbers:
    """Find the runs of digits in each cell; the value of one that is too long is NaN."""
    edges = run_edges((plain - np.uint8(ord("0"))) <= 9)
    first, behind = edges[::2], edges[1::2]
    cell = np.searchsorted(start, first, side="right") - 1
    inside = np.flatnonzero(cell >= 0)
    inside = inside[first[inside] < end[cell[inside]]]
    cell, first = cell[inside], first[inside]
    runs = Numbers(cell, first, np.minimum(behind[inside], end[cell]), np.zeros(len(cell)))
    runs = runs.take(runs.place < MOST_RUNS)
    return replace(runs, value=_integers(plain, runs.start, runs.end))


def _integers(plain: Bytes, start: Ints, end: Ints) -> Floats:
    value, length = np.zeros(len(start)), end - start
    for place in range(MOST_DIGITS):
        there = np.flatnonzero(length > place)
        if not len(there):
            break
        value[there] = 10.0 * value[there] + (plain[start[there] + place] - float(ord("0")))
    value[length > MOST_DIGITS] = np.nan
    return value


def _joined(plain: Bytes, runs: Numbers, start: Ints, end: Ints) -> Bools:
    """Return whether a run continues the one before it, bool (M + 1,); the first and last are False."""
    joined = np.zeros(len(runs) + 1, bool)
    if len(runs) < 2:
        return joined
    same = runs.cell[1:] == runs.cell[:-1]
    gap, sign = runs.start[1:] - runs.end[:-1], plain[np.minimum(runs.end[:-1], len(plain) - 1)]
    three = (runs.end - runs.start)[1:] == 3
    mark = same & (gap == 1) & ((sign == _DOT) | (sign == _COMMA) | ((sign == ord("'")) & three))
    blank = same & three & (gap <= 3) & (sign == _BLANK) & (plain[runs.start[1:] - 1] == _BLANK)
    space = same & three & (gap == 1) & (sign == _SPACE)
    # "123 456" is one number if the cell of a run is one number and perhaps a unit.
    head, tail = np.append(True, ~same), np.append(~same, True)
    fits = np.append(True, mark | blank | space | ~same)
    fits[head] &= (runs.start[head] == start[runs.cell[head]]) & (runs.end[head] - runs.start[head] <= 3)
    fits[head] &= plain[runs.start[head]] != ord("0")
    fits[tail] &= (end[runs.cell] - runs.end <= _UNIT_BYTES)[tail]
    alone = np.bincount(runs.cell[~fits], minlength=len(start))[runs.cell] == 0
    joined[1:-1] = mark | blank | (space & alone[:-1])
    return joined


def _behind(sign: int, plain: Bytes, numbers: Numbers, start: Ints) -> Ints:
    """Return the numbers directly behind a sign that begins a word."""
    before = numbers.start - 1
    candidates = np.flatnonzero((before >= start[numbers.cell]) & (plain[before] == sign))
    first = before[candidates] == start[numbers.cell[candidates]]
    begins: Ints = candidates[first | _OPENING[plain[before[candidates] - 1]]]
    return begins


def _chains(plain: Bytes, runs: Numbers, first: Ints, last: Ints, marks: Codes) -> Numbers:
    """Read runs that separators join; only distinct ones, which are few, are parsed."""
    start, cell = runs.start[first], runs.cell[first]
    coded = slices(plain, start, runs.end[last]).dictionary_encode()
    written = coded.dictionary.to_pylist()
    kind, of = np.unique(numpy_of(coded.indices).astype(np.int64) * 4 + marks[cell], return_inverse=True)
    parsed = [parse(written[code // 4], bool(code & 1), bool(code & 2)) for code in kind.tolist()]
    count = np.array([len(parts) for parts in parsed], np.int64)
    flat = np.array([part for parts in parsed for part in parts], np.float64).reshape(-1, 3)
    chain = np.repeat(np.arange(len(first)), count[of])
    part = flat[ranges(offsets_of(count)[of], count[of])]
    begin, end = start[chain] + part[:, 1:].T.astype(np.int64)
    return Numbers(cell[chain], begin, end, part[:, 0])


@lru_cache(maxsize=1 << 16)
def parse(written: str, dot_groups: bool, comma_groups: bool) -> tuple[tuple[float, int, int], ...]:
    """Return the numbers of digits and separators: the value, and where each begins and ends.

    Args:
        written: runs of digits between ".", ",", "'", " " and bytes 1.
        dot_groups: "1.234" is 1234.
        comma_groups: "1,234" is 1234.

    Example:
        >>> parse("1.234,50", False, True), parse("1,234", False, False), parse("12.05.2013", False, True)
        (((1234.5, 0, 8),), ((1.234, 0, 5),), ((12.0, 0, 2), (5.0, 3, 5), (2013.0, 6, 10)))
    """
    match = _GROUPED.fullmatch(written)
    if (
        match
        and match["mark"] != match["sign"]
        and (match["mark"] or _groups(match, dot_groups, comma_groups))
    ):
        return (
            (float(re.sub("[^0-9]", "", match["whole"]) + "." + (match["rest"] or "0")), 0, len(written)),
        )
    match = _DECIMAL.fullmatch(written)
    if match:
        return ((float(match["whole"] + "." + match["rest"]), 0, len(written)),)
    runs = [run for run in re.finditer("[0-9]+", written) if len(run[0]) <= MOST_DIGITS]
    return tuple((float(run[0]), run.start(), run.end()) for run in runs)


def _groups(match: re.Match[str], dot_groups: bool, comma_groups: bool) -> bool:
    """Return whether the separator of a number without decimals separates thousands."""
    if match["whole"].count(match["sign"]) > 1:
        return True
    return {".": dot_groups, ",": comma_groups}.get(match["sign"], True)


def _with_powers(plain: Bytes, numbers: Numbers) -> Numbers:
    """Read "1e+05" and "2.5e3" as one number each; "1E5" may be a code."""
    if len(numbers) < 2:
        return numbers
    beyond = np.append(plain, np.zeros(2, np.uint8))
    value, start, end, cell = numbers.value, numbers.start, numbers.end, numbers.cell
    power = np.flatnonzero(((beyond[end[:-1]] | 0x20) == ord("e")) & (cell[1:] == cell[:-1]))
    if not len(power):
        return numbers
    sign = beyond[end[power] + 1]
    signed = (sign == ord("+")) | (sign == _DASH)
    power, sign = (each[signed | (value[power] % 1 != 0)] for each in (power, sign))
    signed = (sign == ord("+")) | (sign == _DASH)
    digits = end[power + 1] - start[power + 1]
    fits = (
        (start[power + 1] == end[power] + 1 + signed)
        & (digits <= MOST_POWER_DIGITS)
        & (value[power + 1] % 1 == 0)
    )
    power, sign = power[fits], sign[fits]
    exponent = np.where(sign == _DASH, -value[power + 1], value[power + 1]).astype(int).tolist()
    exact = [_times_ten_to(*each) for each in zip(value[power].tolist(), exponent, strict=True)]
    value, end = value.copy(), end.copy()
    value[power] = exact
    end[power] = end[power + 1]
    kept = np.ones(len(numbers), bool)
    kept[power + 1] = False
    return Numbers(cell, start, end, value).take(kept)


def _times_ten_to(value: float, exponent: int) -> float:
    """Return the float that is nearest to the product of the shortest decimal of a value and a power of ten."""
    return float(Decimal(repr(value)).scaleb(exponent))


def _with_fractions(plain: Bytes, numbers: Numbers) -> Numbers:
    """Read "3/4" and "1 1/2" as one number each; "1/2/2013" is a date."""
    if len(numbers) < 2:
        return numbers
    beyond = np.append(plain, np.uint8(0))
    value, start, end, cell = numbers.value, numbers.start, numbers.end, numbers.cell
    over = np.flatnonzero(
        (beyond[end[:-1]] == _SLASH) & (start[1:] == end[:-1] + 1) & (cell[1:] == cell[:-1])
    )
    if not len(over):
        return numbers
    over = over[np.isin(value[over + 1], _SHARES) & (value[over] > 0) & (value[over] < value[over + 1])]
    over = over[
        (value[over] % 1 == 0) & (beyond[end[over + 1]] != _SLASH) & (beyond[start[over] - 1] != _SLASH)
    ]
    value, start, end = value.copy(), start.copy(), end.copy()
    value[over] /= value[over + 1]
    end[over] = end[over + 1]
    dropped = np.zeros(len(numbers), bool)
    dropped[over + 1] = True
    mixed = over[over > 0]
    mixed = mixed[(cell[mixed - 1] == cell[mixed]) & (start[mixed] == numbers.end[mixed - 1] + 1)]
    mixed = mixed[_BEFORE_FRACTION[beyond[start[mixed] - 1]] & (value[mixed - 1] % 1 == 0)]
    mixed = mixed[(value[mixed - 1] > 0) & ~dropped[mixed - 1]]
    value[mixed] += value[mixed - 1]
    start[mixed] = start[mixed - 1]
    dropped[mixed - 1] = True
    return Numbers(cell, start, end, value).take(~dropped)


class Number(NamedTuple):
    """A number of a cell, and where it begins and ends in the bytes."""

    start: int
    end: int
    value: float


def plain_text(data: bytes) -> bytes:
    """Return `plain_bytes` of the bytes of one text, and eight bytes 0."""
    if not data.isascii():
        for sign, ascii_form in _ODD.items():
            data = data.replace(sign.encode(), ascii_form)
    return data + bytes(8)


def numbers_of_cell(plain: bytes, start: int, end: int, marks: int) -> list[Number]:
    """Return the numbers of one cell, as `read_numbers` reads them.

    Args:
        plain: of `plain_text`.
        start: where the cell begins.
        end: where it ends.
        marks: the separators of thousands, of `marks_code`.
    """
    end = min(end, start + READ_BYTES)
    runs = [match.span() for match in islice(_DIGITS.finditer(plain, start, end), MOST_RUNS)]
    numbers: list[Number] = []
    first = 0
    joined = _joined_in_cell(plain, runs, start, end)
    for last, continues in enumerate(joined):
        if continues:
            continue
        (begin, stop), (_, behind) = runs[first], runs[last]
        if first == last and stop - begin <= MOST_DIGITS:
            value = float(plain[begin:stop])
            dotted = _begins_behind(_DOT, plain, begin, start)
            numbers.append(Number(begin, stop, value / _POWERS.item(stop - begin) if dotted else value))
        elif first < last:
            parts = parse(plain[begin:behind].decode(), bool(marks & 1), bool(marks & 2))
            numbers += [Number(begin + at, begin + to, value) for value, at, to in parts]
        first = last + 1
    for place, (begin, behind, value) in enumerate(numbers):
        if _begins_behind(_DASH, plain, begin, start):
            numbers[place] = Number(begin, behind, -value)
    return _fractions_of_cell(plain, _powers_of_cell(plain, numbers))


def _joined_in_cell(plain: bytes, runs: Sequence[tuple[int, int]], start: int, end: int) -> list[bool]:
    """Return whether the run behind each run continues it."""
    if len(runs) < 2:
        return [False] * len(runs)
    marked, spaced = [], []
    for (_, behind), (begin, stop) in pairwise(runs):
        gap, sign, three = begin - behind, plain[behind], stop - begin == 3
        blank = three and gap <= 3 and sign == _BLANK == plain[begin - 1]
        marked.append(blank or (gap == 1 and (sign in b".," or (three and sign == ord("'")))))
        spaced.append(three and gap == 1 and sign == _SPACE)
    begin, stop = runs[0]
    alone = begin == start and stop - begin <= 3 and plain[begin] != ord("0")
    alone = alone and end - runs[-1][1] <= _UNIT_BYTES and all(map(max, marked, spaced))
    return [*(mark or (space and alone) for mark, space in zip(marked, spaced, strict=True)), False]


def _begins_behind(sign: int, plain: bytes, position: int, start: int) -> bool:
    """Return whether a sign that begins a word is directly before a position of a cell."""
    before = position - 1
    return before >= start and plain[before] == sign and (before == start or plain[before - 1] in b" \x01(")


def _powers_of_cell(plain: bytes, numbers: list[Number]) -> list[Number]:
    if all(plain[end] not in b"eE" for _, end, _ in numbers[:-1]):
        return numbers
    values: list[Number] = []
    powers = [_with_power(plain, number, power) for number, power in pairwise(numbers)]
    for number, before, whole in zip(numbers, [None, *powers], [*powers, None], strict=True):
        if before is None:
            values.append(whole or number)
    return values


def _with_power(plain: bytes, number: Number, power: Number) -> Number | None:
    """Return the product of a number and the power of ten behind it; None if what is behind it is none."""
    start, end, value = number
    sign = plain[end + 1]
    signed = sign in b"+-"
    if plain[end] not in b"eE" or not (signed or value % 1) or power.start != end + 1 + signed:
        return None
    if power.end - power.start > MOST_POWER_DIGITS or power.value % 1:
        return None
    exponent = int(-power.value if sign == _DASH else power.value)
    return Number(start, power.end, _times_ten_to(value, exponent))


def _fractions_of_cell(plain: bytes, numbers: list[Number]) -> list[Number]:
    if all(plain[end] != _SLASH for _, end, _ in numbers[:-1]):
        return numbers
    values: list[Number] = []
    dropped = False
    for number, over in zip(numbers, [*numbers[1:], None], strict=True):
        if dropped:
            dropped = False
            continue
        dropped = over is not None and _is_fraction(plain, number, over)
        if over is None or not dropped:
            values.append(number)
            continue
        fraction = Number(number.start, over.end, number.value / over.value)
        before = values[-1] if values else None
        if (
            before
            and fraction.start == before.end + 1
            and plain[before.end] in b" -"
            and before.value > 0
            and before.value % 1 == 0
        ):
            values[-1] = Number(before.start, over.end, before.value + fraction.value)
        else:
            values.append(fraction)
    return values


def _is_fraction(plain: bytes, part: Number, of: Number) -> bool:
    return (
        plain[part.end] == _SLASH
        and of.start == part.end + 1
        and of.value in _SHARES
        and 0 < part.value < of.value
        and part.value % 1 == 0
        and plain[of.end] != _SLASH
        and plain[part.start - 1] != _SLASH
    )


_SIZES = """
1e-2  en: ¢ ￠ cent cents ct pence paise  ru: коп
1e-1  zh: 角
1e2   en: hundred
1e3   en: thousand*  de: tsd tausend  fr: mille millier*  it: mila  nl: duizend  sv: tusen  da: tusind  fi: tuhat*
1e3   pl: tys tysi*  cs: tis tisíc*  hu: ezer  ro: mii  ru: тыс тысяч*  uk: тис тисяч*  bg: хил хиляди
1e3   el: χιλ χιλιάδες  vi: nghìn ngàn  id: rb ribu  ar: ألف الف آلاف  fa: هزار  he: אלף  hi: हज़ार हजार
1e3   bn: হাজার  ur: ہزار  th: พัน
1e4   th: หมื่น
1e5   en: lakh lakhs lac lacs  hi: लाख  bn: লাখ লক্ষ  ur: لاکھ  th: แสน
1e6   en: million* mln mio  es: millón millon* mdp mdd  pt: milhão milhões milhao milhoes  it: milion*
1e6   nl: miljoen  sv: miljon*  fi: milj miljoon*  hu: millió  ro: milioane  tr: milyon*
1e6   ru: млн миллион*  uk: мільйон*  bg: милион*  el: εκ εκατ εκατομμύρι*  vi: triệu  id: juta jt
1e6   ar: مليون ملايين  fa: میلیون  he: מיליון  th: ล้าน
1e7   en: crore crores cr  hi: करोड़  bn: কোটি  ur: کروڑ
1e9   en: billion billions bn arab  de: milliard* mrd  it: miliard* mlrd  fr: md mds  nl: miljard*  da: mia
1e9   pl: mld  pt: bilhão bilhões bilhao bilhoes  id: miliar  tr: milyar*  ru: млрд миллиард*  uk: мільярд*
1e9   hu: milliárd  el: δισ δισεκατομμύρι*  vi: tỷ tỉ  ar: مليار مليارات  fa: میلیارد  he: מיליארד  hi: अरब  ur: ارب
1e11  en: kharab
1e12  en: trillion* trn  de: billionen  es: billón billones  pt: trilhão trilhões trilhao trilhoes
1e12  nl: biljoen  tr: trilyon*  ru: трлн триллион*  id: triliun  ar: تريليون  fa: تریلیون
"""
"""In each line a factor and its words in lower case, by language; * stands for any ending."""

SIZE_WORDS = re.sub(r"\S+: |\S*e-?\d+\s", " ", _SIZES).split()
"""All of these words."""


def folded(word: str) -> str:
    """Return a word in one spelling of lower case, for all letters that `re.IGNORECASE` takes as equal."""
    return word.casefold().replace("\u0307", "")


_FACTORS: list[tuple[str, float]] = []
for _line in _SIZES.strip().splitlines():
    _factor, *_languages = re.split(r"\s+[a-z]{2}: ", _line)
    _FACTORS += [(folded(word), float(_factor)) for word in " ".join(_languages).split()]
_STEMS = sorted(((word[:-1], factor) for word, factor in _FACTORS if word.endswith("*")), reverse=True)
_WHOLE = dict(_FACTORS)


def size_named(word: str) -> float:
    """Return the factor of a word of size, in any case; 1 for other words.

    Example:
        >>> size_named("Mio"), size_named("millones"), size_named("lakh"), size_named("km")
        (1000000.0, 1000000.0, 100000.0, 1.0)
    """
    word = folded(word)
    return _WHOLE.get(word) or next((factor for stem, factor in _STEMS if word.startswith(stem)), 1.0)


def power_named(word: str) -> int:
    """Return the power of ten of a word of size behind a number in a column: "k", "lakh"; 0 for other words."""
    return 3 if word in ("k", "K") else max(0, round(math.log10(size_named(word))))


_ONE_NUMBER = re.compile(
    r"(?P<sign>[-+]?) ?"
    r"(?P<digits>[0-9]{1,3}(?P<gap>[ '])[0-9]{3}(?:(?P=gap)[0-9]{3})*(?:[.,][0-9]+)?|[0-9]+(?:[.,][0-9]+)*|[.,][0-9]+)"
    r"(?:[eE](?P<power>[-+]?[0-9]{1,2})(?![0-9.,])|\.(?![^ ]))?"
    r"(?P<unit>(?: ?[^\W\d_]| ?[%°\"″'′²³])[^0-9]*[23²³]?)?"
)
_WORD = re.compile(r"[^\W\d_]+(?![^\W_])\.?")
_VULGAR = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
_TO_ASCII = str.maketrans(
    {"’": "'", "−": "-", "–": "-", "⁄": "/", "”": '"', "″": '"', "′": "'"}
    | {sign: f" {written}" for sign, written in _VULGAR.items()}
)
_FRACTION = re.compile(
    r"(?P<sign>[-+]?) {0,2}(?:(?P<whole>[0-9]{1,4})[ -] ?)?(?P<part>[0-9]{1,2})/(?P<of>[0-9]{1,2})(?![0-9/.,])"
)
_SHARE_DIGITS = 6
"""Decimals of a fraction: 2/3 is 0.666667."""
LONGEST_UNIT = 16
"""Characters behind a number that may be its unit."""
_MOST_ZEROS = 30


@dataclass(frozen=True, slots=True)
class OneNumber:
    """A cell that is one number, perhaps with a unit.

    Attributes:
        negative: it is below 0.
        digits: with their marks: digits, "." and "," only.
        mark: the decimal mark that the number itself shows, else "".
        either: "." or "," if that precedes the last three digits, and may be a decimal mark or separate thousands.
        power: the power of ten that multiplies the number.
        unit: what follows the number, "" if nothing does.
    """

    negative: bool
    digits: str
    mark: str
    either: str
    power: int
    unit: str

    def written(self, decimal: str) -> str:
        """Return the number in the one way in which equal numbers are written, and its unit behind a space.

        Args:
            decimal: the decimal mark of the column, "." or ",", unless the number itself shows another.

        Example:
            >>> [read_number(cell).written(".") for cell in ("2011.0", "2,011", "2.011e3", "1,20,000km", "-0.50")]
            ['2011', '2011', '2011', '120000 km', '-0.5']
        """
        whole, _, rest = self.digits.partition(self.mark or decimal)
        digits = re.sub("[.,]", "", whole) + rest
        point = len(digits) - len(rest) + self.power
        digits = "0" * -min(point, 0) + digits + "0" * (point - len(digits))
        point = max(point, 0)
        plain, rest = digits[:point].lstrip("0") or "0", digits[point:].rstrip("0")
        number = f"{plain}.{rest}" if rest else plain
        sign = "-" if self.negative and number != "0" else ""
        return f"{sign}{number} {self.unit}" if self.unit else sign + number


@lru_cache(maxsize=1 << 16)
def read_number(cell: str) -> OneNumber | None:
    """Return the number of a cell that is one number, perhaps with a unit; None for any other cell.

    Args:
        cell: in the form of `normal_text`.

    Example:
        >>> read_number("1.234 km"), read_number("2 x 4"), read_number("1E5")
        (OneNumber(negative=False, digits='1.234', mark='', either='.', power=0, unit='km'), None, None)
        >>> [read_number(cell).written(".") for cell in ("42 2/3", "½ in", "1-1/2")]
        ['42.666667', '0.5 in', '1.5']
    """
    written = cell.translate(_TO_ASCII)
    if fraction := _FRACTION.match(written):
        return _read_fraction(fraction, written[fraction.end() :])
    match = _ONE_NUMBER.fullmatch(written)
    if match is None:
        return None
    digits, power, unit = (
        re.sub("[ ']", "", match["digits"]),
        match["power"] or "",
        (match["unit"] or "").strip(" "),
    )
    marks = marks_of(digits)
    is_code = power.isdigit() and digits.isdigit()  # 1E5
    if marks is None or is_code or len(unit) > LONGEST_UNIT:
        return None
    if power and marks[1]:
        marks = marks[1], ""  # programs write powers, and no thousands
    times = int(power or 0)
    if (word := _WORD.match(unit)) and (power_of_word := power_named(word[0].strip("."))):
        times += power_of_word
        unit = unit[word.end() :]
    if abs(times) > _MOST_ZEROS:
        return None
    return OneNumber(match["sign"] == "-", digits, *marks, times, unit.strip(" ."))


def _read_fraction(match: re.Match[str], behind: str) -> OneNumber | None:
    """Return the number of "1/2" or "42 2/3 in", with what follows it; None for 2/4, and for 4/5, which is a rating.

    It shows no decimal mark, so its digits are whole and its power is negative.
    """
    part, of = int(match["part"]), int(match["of"])
    is_rating = of == 5 and not match["whole"]
    if of not in _SHARES or is_rating or not 0 < part < of or math.gcd(part, of) > 1:
        return None
    millionths = int(match["whole"] or 0) * 10**_SHARE_DIGITS + round(part * 10**_SHARE_DIGITS / of)
    number = read_number(f"{millionths}{behind}")
    if number is None:
        return None
    return replace(number, negative=match["sign"] == "-", power=number.power - _SHARE_DIGITS)


def marks_of(digits: str) -> tuple[str, str] | None:
    """Return the decimal mark that a number shows, and its ambiguous mark, each "" if there is none.

    None if it is no number, such as "1.2.3".

    Example:
        >>> marks_of("1.234,5"), marks_of("1,234"), marks_of("1,20,000"), marks_of("12.05.2013")
        ((',', ''), ('', ','), ('.', ''), None)
    """
    points, commas = digits.count("."), digits.count(",")
    if not points and not commas:
        return "", ""
    if points and commas:
        mark = max(".,", key=digits.rfind)
        whole = digits.partition(mark)[0]
        grouped = digits.count(mark) == 1 and _in_groups(whole, "," if mark == "." else ".")
        return (mark, "") if grouped else None
    mark = "." if points else ","
    if points + commas > 1:
        return ("," if points else ".", "") if _in_groups(digits, mark) else None
    whole, _, rest = digits.partition(mark)
    either = len(rest) == 3 and 1 <= len(whole) <= 3 and whole != "0"
    return ("", mark) if either else (mark, "")


def _in_groups(digits: str, mark: str) -> bool:
    """Return whether digits are grouped: three in the last group, two (as in India) or three in the others."""
    first, *groups = digits.split(mark)
    lengths = [len(group) for group in groups]
    return lengths[-1:] == [3] and 1 <= len(first) <= 3 and len({*lengths[:-1]}) <= 1 and {*lengths} <= {2, 3}
