"""Dates as people write them: "31.01.24", "1/31/2024 3:05 PM", "31 de enero de 2024", "2024年1月31日", "20240131".

A column has one format, which must suit all its cells. Reading applies it to each cell by itself, so a cell has the
same date alone and in its column. Time and zone may stand before, after or inside the date, in some cells or in all.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.text.labelled_lines import Bools, Floats, Ints
from pricekit.text.normal import normal_texts
from pricekit.wording import shorten

FIRST_YEAR, LAST_YEAR = 1500, 2400
"""Years with four digits outside of these belong to another calendar, or are no years."""

WINDOW_START = 1950
"""Two-digit years are 1950 to 2049; earlier ones if the years of the column go on across that border."""

_CLEAR_GAP = 5
"""Years without a date around a border that show it to be one."""

_SURE = 50
"""A year is somewhere for sure if it is e^50 times as likely there."""

_MOST_SHAPES = 10_000
_MOST_WORDS = 200
_MOST_CHARACTERS = 80
"""Longer cells are no dates."""

_WORD = r"[\p{L}\p{M}][\p{L}\p{M}.׳]*"
_FIELDS = {
    "yyyy": r"(?P<year>\d{4})",
    "yy": r"(?P<year>\d{2})",
    "mmm": f"(?P<name>q[1-4]|{_WORD})",
    "mm": r"(?P<month>\d{2})",
    "m": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{2})",
    "d": r"(?P<day>\d{1,2})",
}
_PATTERNS = {
    "0 0 0": ("d m yy", "m d yy", "yy m d"),
    "0 0 0000": ("d m yyyy", "m d yyyy"),
    "0000 0 0": ("yyyy m d",),
    "0 a 0": ("d mmm yy", "yy mmm d"),
    "0 a 0000": ("d mmm yyyy",),
    "a 0 0": ("mmm d yy",),
    "a 0 0000": ("mmm d yyyy",),
    "0000 a 0": ("yyyy mmm d",),
    "0000 0 a": ("yyyy d mmm",),
    "0000 0": ("yyyy m",),
    "0 0000": ("m yyyy",),
    "a 0000": ("mmm yyyy",),
    "0000 a": ("yyyy mmm",),
    "a 0": ("mmm yy",),
    "00000000": ("yyyymmdd", "ddmmyyyy", "mmddyyyy"),
    "000000": ("yyyymm", "yymmdd", "ddmmyy"),
}
"""The patterns of each shape, the most usual first; 0 is a number of one or two digits, 0000 of four, a is a word."""

_PART = re.compile(r"yyyy|yy|mmm|mm|m|dd|d|[^ymd]+")
"""A field of a pattern, or the sign between two fields."""

_ORDERS = {
    tuple(_PART.findall(each.replace(" ", "")))
    for orders in _PATTERNS.values()
    for order in orders
    for each in (order, re.sub(r"\bm\b", "mm", order))
}
_NAME = re.compile(r"[^\W\d_年月](?:[^\d\s/'年月-]*[^\d\s/'年月.-])?")
_SEPARATORS = frozenset(["", "-", "/", ".", " ", "'", " '", "年", "月"])
_AM, _PM = ("am", "a.m", "上午", "午前", "오전"), ("pm", "p.m", "下午", "午後", "오후")
_HALVES = dict.fromkeys(_AM, 0) | dict.fromkeys(_PM, 12)
_ZONES = (
    {"z": 0, "ut": 0, "utc": 0, "gmt": 0, "cet": 1, "cest": 2, "msk": 3, "jst": 9}
    | {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
)  # fmt: skip
_HALF = "|".join(re.escape(half) for half in sorted(_HALVES, key=len, reverse=True))
_TIME = (
    rf"^(?P<before>(?:.*?[^\d:])?)(?:(?P<early>{_HALF})[.]?\s*)?(?P<hour>\d{{1,2}})[:h](?P<minute>\d{{2}})"
    rf"(?::(?P<second>\d{{2}}(?:[.,]\d{{1,9}})?))?\s*(?P<late>(?:{_HALF})?)[.]?\s*"
    rf"(?P<zone>(?:{'|'.join(sorted(_ZONES, key=len, reverse=True))})?)"
    r"(?P<shift>(?:[+-]\d{2}(?::?\d{2})?)?)(?P<after>(?:[^\d:].*)?)$"
)
_GLUE = (
    "de|del|do|da|of|the|den|der|г|год|года|р|року|година|gada|urteko|ngày|tháng|thg|năm|pukul|kl|um|at|à|às"
    "|a las|uhr|h|hrs|m|d|ж|թ|ค.ศ"
)
"""Words around days, months, years and times."""
_ASIAN_WEEKDAY = "(?:星期|周|週)?[一二三四五六天日月火水木金土월화수목금토](?:曜日?|요일)?"
_REWRITTEN = (
    (r"\(.*?\)|-feira|॰", ""),
    (r"\s*،", ","),
    (r"\sב(\p{Hebrew})", r" \1"),
    (r"^(\d{8})[t ]?(\d{2})(\d{2})(\d{2})($|\D)", r"\1 \2:\3:\4\5"),
    (r"^(\d{8})[t ]?(\d{2})(\d{2})($|\D)", r"\1 \2:\3\4"),
    (r"(\d)\s*[时時点시分분]\s*(\d)", r"\1:\2"),
    (r"(\d)\s*[时時点시分분秒초]", r"\1"),
    (r"\s*[年년]\s*", "年"),
    (rf"\s*[月월]\s*(\d{{1,2}})\s*[日일号號](?:\s*{_ASIAN_WEEKDAY})?", r"月\1 "),
    (r"[月월](\s|$)", r"\1"),
    (r"(\d)q([1-4])\b", r"\1 q\2"),
    (r"(\d)(?:st|nd|rd|th|er|re|o|a|e)\b", r"\1"),
    (r"[\s.,]*\s[\s.,]*|[.,]$", " "),
    (rf"(^|\s)(?:{_GLUE})(?:\s|$)", r"\1"),
    (rf"(\s)(?:{_GLUE})(?:\s|$)", r"\1"),
    (r"\sd['’]", " "),
    (r"(\D),|(\s\d{1,2}),(\d{4})\b", r"\1\2 \3"),
    (r"\s*([-/])\s*", r"\1"),
    (r"\bq([1-4])\b", r"q\1"),
)  # fmt: skip
"""How the many ways to write a date become few, on lower-case text."""

_PLAIN = (
    r"^(?P<date>\d{1,4}(?:[-/.]\d{1,4}){1,2})"
    r"(?:[t ](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d{1,9})?))?)?$"
)
"""Dates that need not be rewritten, which is then saved."""

_FEW = 32
"""Up to this many plain cells are read in plain Python, because Arrow takes milliseconds to compile its expressions."""

_LANGUAGES = (
    "en de fr es it pt nl pl sv da no fi cs sk hu ro bg ru uk el tr ar fa he hi bn ta te mr th id ms hr sr sl lt lv et "
    "ca eu gl is ga cy sq mk bs az kk ka hy ur sw fil af be"
)
_EXTRA_NAMES = {"en": {"sept": 9}, "de": {"mrz": 3, "jänner": 1}}
_QUARTERS = {f"q{quarter}": 3 * quarter - 2 for quarter in range(1, 5)}
"""A quarter begins with its first month."""


@dataclass(frozen=True)
class DateFormat:
    """The format of the dates of a column.

    Attributes:
        pattern: the order of the fields and the signs between them: "d.m.yy", "m/d/yyyy", "yyyy-m-d", "d mmm yyyy" with
            names of months or quarters, "yyyymmdd". One blank also stands for a comma, and for a dot before a blank.
        language: a code of the language of the names, such as "de"; None if there are none.
        first_year: two-digit years lie in the hundred years from this one; None if years have four digits.
        others: patterns that may be right as well, because they read all these cells, too: the dates are ambiguous.
        why: why this pattern was chosen.

    Raises:
        ValueError: there is no such pattern or language.
    """

    pattern: str
    language: str | None = None
    first_year: int | None = None
    others: tuple[str, ...] = ()
    why: str = ""

    def __post_init__(self) -> None:
        parts = _PART.findall(self.pattern)
        fields = tuple(part for part in parts if part in _FIELDS)
        if fields not in _ORDERS or not _SEPARATORS.issuperset(part for part in parts if part not in _FIELDS):
            raise ValueError(f"{shorten(repr(self.pattern))} is no pattern of dates, such as 'd.m.yy'")
        if self.language is not None and self.language not in _LANGUAGES.split():
            raise ValueError(f"dates are not read in the language {shorten(repr(self.language))}")

    @property
    def has_days(self) -> bool:
        """Whether the dates are days, not months."""
        return "d" in self.pattern


def date_format(cells: pd.Series | pa.Array | Sequence[str | None]) -> DateFormat | None:
    """Return the format that reads the most cells of a column; None if none reads one.

    Numbers are no dates, unless all their digits are: 20240131, 202401. Blank cells do not count.

    Args:
        cells: texts (N,), None or NaN for missing ones.

    Example:
        >>> date_format(["31.01.24", "01.02.24"]).pattern
        'd.m.yy'
        >>> form = date_format(["01/02/2024", "05/03/2024"])
        >>> form.pattern, form.others, form.why
        ('m/d/yyyy', ('d/m/yyyy',), 'it is usual with this sign')
    """
    distinct, places = _distinct(cells)
    rows = np.bincount(places[places >= 0], minlength=len(distinct))
    dates, _ = _parts(distinct)
    shapes = _shapes(dates, rows)
    if not shapes:
        return None
    language = _language(shapes)
    patterns = _patterns(shapes, language)
    fields = {pattern: _fields(dates, DateFormat(pattern, language)) for pattern in patterns}
    read = {pattern: int(rows[one.valid].sum()) for pattern, one in fields.items()}
    most = max(read.values(), default=0)
    best = [pattern for pattern in patterns if read[pattern] == most]
    if not most:
        return None
    others: tuple[str, ...] = ()
    chosen, why = best[0], "no other order of day, month and year reads as many of the cells"
    if len(best) > 1:
        chance = {one: _log_chance(fields[one], rows) - 3 * place for place, one in enumerate(best)}
        chosen = max(best, key=lambda one: chance[one])
        why = "it is usual with this sign" if chosen == best[0] else "days and years are then spread as usual"
        # No rows tell for sure whether the day or the month is first, but many tell which number is the year.
        year_first = chosen[0] == "y"
        likely = [
            one for one in best if chance[chosen] - chance[one] < _SURE or (one[0] == "y") == year_first
        ]
        others = tuple(one for one in likely if one != chosen)
    one = fields[chosen]
    return DateFormat(
        chosen,
        language if "mmm" in chosen or one.on_weekday.any() else None,
        None if "yyyy" in chosen else _window(np.unique(one.year[one.valid])),
        others,
        why,
    )


def parse_dates(cells: pd.Series | pa.Array | Sequence[str | None], form: DateFormat) -> Floats:
    """Return the dates of cells in a format, in seconds since 1970, UTC, float64 (N,).

    A cell that the format cannot read is NaN, as is a day that does not exist. Dates without a time are midnight, those
    without a day the first one, and times without a zone are UTC.

    Args:
        cells: texts (N,), None or NaN for missing ones.
        form: the format of the column.

    Example:
        >>> parse_dates(["31.01.24", "1.2.1999", None], DateFormat("d.m.yy", first_year=1950)).tolist()
        [1706659200.0, nan, nan]
    """
    distinct, places = _distinct(cells)
    fields, clock = _read_few(distinct, form) or _read_many(distinct, form)
    return np.append(fields.days(form.first_year) * 86400.0 + clock, np.nan)[places]


def _read_many(texts: pa.Array, form: DateFormat) -> tuple[_Fields, Floats]:
    dates, clock = _parts(texts)
    return _fields(dates, form), clock


def _read_few(texts: pa.Array, form: DateFormat) -> tuple[_Fields, Floats] | None:
    """Return what `_read_many` returns for a few texts; None if there are many, or others than plain dates."""
    if len(texts) > _FEW or "mmm" in form.pattern:
        return None
    plain = [re.match(_PLAIN, text.lower(), re.ASCII) for text in texts.to_pylist()]
    if not all(plain):
        return None
    regex = re.compile(_date_regex(form), re.ASCII)
    found = [regex.fullmatch(match["date"]) for match in plain if match]
    dates = [match.groupdict() if match else {} for match in found]
    year, month, day = (
        np.array([int(date.get(name, default)) for date in dates], np.int64)
        for name, default in (("year", 0), ("month", 1), ("day", 1))
    )
    times = [match.groupdict("0") for match in plain if match]
    hour, minute, second = (
        np.array([float(time[name].replace(",", ".")) for time in times], np.float64)
        for name in ("hour", "minute", "second")
    )
    valid = np.array([match is not None for match in found], bool)
    fields = _checked(year, month, day, valid, np.zeros(len(valid), bool), form)
    return fields, np.where(_is_time(hour, minute, second), hour * 3600 + minute * 60 + second, np.nan)


@dataclass(frozen=True)
class _Fields:
    """The fields of N dates: numbers as written, int64 (N,); which dates exist, and which name a weekday, bool (N,)."""

    year: Ints
    month: Ints
    day: Ints
    valid: Bools
    on_weekday: Bools

    def days(self, first_year: int | None) -> Floats:
        """Return days since 1970, float64 (N,), NaN for dates that do not exist."""
        year = self.year if first_year is None else first_year + (self.year - first_year) % 100
        months = (year - 1970) * 12 + self.month - 1
        start, end = (
            each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
            for each in (months, months + 1)
        )
        days = start + self.day - 1
        return np.where(self.valid & (self.day >= 1) & (days < end), days.astype(np.float64), np.nan)


def _distinct(cells: pd.Series | pa.Array | Sequence[str | None]) -> tuple[pa.Array, Ints]:
    """Return the distinct texts, and the place of each cell among them, -1 for missing and blank cells."""
    texts = pa.array(cells, pa.large_string(), from_pandas=True)
    texts = pc.utf8_trim_whitespace(texts)
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), None, texts))
    return encoded.dictionary, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _parts(texts: pa.Array) -> tuple[pa.Array, Floats]:
    """Return the dates of texts in few spellings, and their times in seconds, float64 (N,), NaN for wrong ones."""
    texts = pc.if_else(pc.greater(pc.utf8_length(texts), _MOST_CHARACTERS), "", texts)
    if not pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        texts = normal_texts(pc.utf8_normalize(texts, "NFKC"))
    texts = pc.utf8_lower(texts)
    plain = pc.all(pc.match_substring_regex(texts, _PLAIN), min_count=0).as_py()
    for pattern, text in () if plain else _REWRITTEN:
        texts = pc.replace_substring_regex(texts, pattern, text)
    time = pc.extract_regex(texts, _TIME)
    timed = pc.is_valid(time).to_numpy(zero_copy_only=False)
    around = [pc.struct_field(time, name) for name in ("before", "after")]
    dates = pc.if_else(
        pc.is_valid(time), pc.binary_join_element_wise(*around, pa.scalar(" ", pa.large_string())), texts
    )
    dates = pc.replace_substring_regex(dates, r"(\d)t\s*$|[\s.,;-]+$|^[\s.,;]+", r"\1")
    dates = pc.replace_substring_regex(dates, r"[\s.,;-]*\s[\s.,;]*|[\s.,;-]+$", " ")
    clock = np.where(timed, _clock(time), 0.0) if timed.any() else np.zeros(len(texts))
    return pc.utf8_trim_whitespace(dates), clock


def _clock(time: pa.Array) -> Floats:
    """Return seconds since midnight, UTC, float64 (N,); NaN for times that do not exist."""

    def numbers(name: str) -> Floats:
        values = pc.replace_substring(pc.struct_field(time, name), ",", ".")
        values = pc.if_else(pc.equal(values, ""), "0", values)
        return np.asarray(pc.fill_null(values, "0").cast(pa.float64()))

    hour, minute, second = map(numbers, ("hour", "minute", "second"))
    early, late = (pc.struct_field(time, name) for name in ("early", "late"))
    half = np.maximum(*(_mapped(each, lambda word: _HALVES.get(word or "", -1)) for each in (early, late)))
    valid = _is_time(hour, minute, second) & ((half < 0) | ((hour > 0) & (hour <= 12)))
    hour = np.where(half < 0, hour, hour % 12 + half)
    shift = _mapped(pc.struct_field(time, "zone"), lambda zone: 60 * _ZONES.get(zone or "", 0))
    shift += _mapped(pc.struct_field(time, "shift"), _minutes)
    return np.where(valid, hour * 3600 + (minute - shift) * 60 + second, np.nan)


def _is_time(hour: Floats, minute: Floats, second: Floats) -> Bools:
    return (hour < 24) & (minute < 60) & (second < 61)


def _minutes(shift: str | None) -> int:
    """Return the minutes of "+0130" or "-05:00"."""
    shift = shift or "+00"
    digits = re.sub(r"\D", "", shift).ljust(4, "0")
    return (-1 if shift[0] == "-" else 1) * (60 * int(digits[:2]) + int(digits[2:]))


def _mapped(words: pa.Array, value: Callable[[str | None], int]) -> Ints:
    """Return a whole number for each word, int64 (N,); it is computed once for equal ones."""
    encoded = pc.dictionary_encode(words, null_encoding="encode")
    numbers: Ints = np.array([*map(value, encoded.dictionary.to_pylist())], np.int64)
    return numbers.take(np.asarray(encoded.indices))


def _fields(dates: pa.Array, form: DateFormat) -> _Fields:
    """Return the fields of dates in a pattern."""
    fields = pc.extract_regex(dates, rf"^(?:(?P<first>{_WORD}) )?{_date_regex(form)}(?: (?P<last>{_WORD}))?$")
    names = {field.name for field in fields.type}

    def number(name: str, default: int) -> Ints:
        if name not in names:
            return np.full(len(dates), default)
        digits = pc.fill_null(pc.struct_field(fields, name), "0")
        return np.asarray(digits.cast(pa.int64()))

    known = _names(form.language or "en")
    year, month, day = number("year", 0), number("month", 1), number("day", 1)
    if "name" in names:
        month = _mapped(pc.struct_field(fields, "name"), known.month)
    weekdays = [_mapped(pc.struct_field(fields, name), known.weekday) for name in ("first", "last")]
    valid = pc.is_valid(fields).to_numpy(zero_copy_only=False) & (np.minimum(*weekdays) >= 0)
    return _checked(year, month, day, valid, np.maximum(*weekdays) > 0, form)


def _date_regex(form: DateFormat) -> str:
    return "".join(_FIELDS.get(part, re.escape(part)) for part in _PART.findall(form.pattern))


def _checked(
    year: Ints, month: Ints, day: Ints, valid: Bools, on_weekday: Bools, form: DateFormat
) -> _Fields:
    """Return fields of which those that are dates of the calendar are valid."""
    valid = valid & (month >= 1) & (month <= 12)
    if "yyyy" in form.pattern:
        valid &= (year >= FIRST_YEAR) & (year <= LAST_YEAR)
    year, month, day = (np.where(valid, values, 1) for values in (year, month, day))
    one = _Fields(year, month, day, valid, valid & on_weekday)
    return replace(one, valid=np.isfinite(one.days(None if "yyyy" in form.pattern else 2000)))


class _Names:
    """The names of months and weekdays of a language; a beginning of three letters that only one month has names it."""

    def __init__(self, language: str) -> None:
        from babel import localedata  # slow to import

        data: Any = localedata.load(language)  # Babel keeps it, so all of its users load the same
        self.months = dict(_QUARTERS) | _EXTRA_NAMES.get(language, {})
        self.weekdays: set[str] = set()
        for kind in ("format", "stand-alone"):
            for width in ("wide", "abbreviated"):
                for number, name in _plain(data, "months", kind, width).items():
                    self.months.setdefault(_folded(name), number)
            for width in ("wide", "abbreviated", "short"):
                self.weekdays |= {_folded(name) for name in _plain(data, "days", kind, width).values()}

    def month(self, word: str | None) -> int:
        """Return the number of a month, 0 for another word."""
        folded = _folded(word or "")
        if folded in self.months or len(folded) < 3:
            return self.months.get(folded, 0)
        numbers = {number for name, number in self.months.items() if name.startswith(folded)}
        return numbers.pop() if len(numbers) == 1 else 0

    def weekday(self, word: str | None) -> int:
        """Return 1 for a weekday or its beginning, 0 for no word, -1 for another word."""
        folded = _folded(word or "")
        if not folded:
            return 0
        return 1 if len(folded) > 1 and any(name.startswith(folded) for name in self.weekdays) else -1


_names = lru_cache(maxsize=None)(_Names)


def _plain(data: Any, kind: str, context: str, width: str) -> dict[int, str]:
    """Return the names that a language has of its own."""
    for name in (kind, context, width):
        data = data.get(name, {}) if isinstance(data, Mapping) else {}
        data = data[1] if isinstance(data, tuple) else data  # an alias, and what the language adds to it
    return dict(data) if isinstance(data, Mapping) else {}


def _folded(word: str) -> str:
    """Return a word in small letters, without accents, dots and apostrophes; the vowel signs of other scripts stay."""
    letters = unicodedata.normalize("NFKD", word.lower())
    return re.sub(r"[\u0300-\u036f.'’׳॰]", "", letters)


def _shapes(dates: pa.Array, rows: Ints) -> Counter[str]:
    """Return the most frequent dates that may fit a pattern, with 0 for each digit, and the rows of each."""
    shapes = pc.replace_substring_regex(dates, r"\d", "0")
    encoded = pc.dictionary_encode(shapes)
    counts = np.bincount(np.asarray(encoded.indices), weights=rows, minlength=len(encoded.dictionary))
    most = np.argsort(-counts, kind="stable")[:_MOST_SHAPES]
    names = encoded.dictionary.take(pa.array(most)).to_pylist()
    found = zip(names, counts[most].astype(int).tolist(), strict=True)
    return Counter({shape: count for shape, count in found if _may_fit(shape)})


def _may_fit(shape: str) -> bool:
    """Return whether a shape fits a pattern, perhaps without its first or last word, if that is a weekday."""
    return any(_orders(one) for one in (shape, shape.partition(" ")[2], shape.rpartition(" ")[0]))


def _language(shapes: Counter[str]) -> str | None:
    """Return the language that knows the most words; None if there are no words that one knows."""
    words: Counter[str] = Counter()
    for shape, count in shapes.items():
        words.update(dict.fromkeys(set(_NAME.findall(shape)) - {"q"}, count))
    words = Counter(dict(words.most_common(_MOST_WORDS)))
    best, most = None, (0, 0)
    for language in _LANGUAGES.split() if words else ():
        names = _names(language)
        months = sum(rows for word, rows in words.items() if names.month(word))
        days = sum(rows for word, rows in words.items() if not names.month(word) and names.weekday(word) > 0)
        if (months + days, months) > most:
            best, most = language, (months + days, months)
        if months and months + days == words.total():
            break
    return best


def _patterns(shapes: Counter[str], language: str | None) -> list[str]:
    """Return patterns that may fit, the most usual first for each shape."""
    names = _names(language or "en")
    counts: Counter[tuple[str, ...]] = Counter()
    for shape, count in shapes.items():
        for head, _, rest in (shape.partition(" "), shape.rpartition(" ")[::-1]):
            if names.weekday(head) > 0 and (not names.month(head) or _NAME.search(rest)):
                shape = rest
        counts[_orders(shape)] += count
    patterns = [pattern for orders, _ in counts.most_common(9) for pattern in orders]
    return list(dict.fromkeys(patterns))


def _orders(shape: str) -> tuple[str, ...]:
    """Return the patterns of a date with 0 for each digit: "00.00.00" gives "d.m.yy", "m.d.yy" and "yy.m.d"."""
    before, *parts = re.split(r"(0+|a)", _NAME.sub("a", shape.replace("q0", "q")))
    after = parts.pop() if parts else before
    kinds, signs = ["0" if part == "00" else part for part in parts[::2]], parts[1::2]
    if before or after or not _SEPARATORS.issuperset(signs):
        return ()
    orders = _PATTERNS.get(" ".join(kinds), ())
    if kinds == ["a", "0"] and signs == [" "]:
        return ()  # a month and a day, or a month and a year
    if "/" in signs:
        orders = tuple(sorted(orders, key=lambda order: not order.startswith("m")))
    if "年" in signs:
        orders = tuple(order for order in orders if order.startswith("y"))
    if "." in signs and len(kinds) == 2:
        orders = tuple(re.sub(r"\bm\b", "mm", order) for order in orders)  # 2024.5 is a number
    return tuple("".join(map("".join, zip(order.split(), [*signs, ""], strict=True))) for order in orders)


def _log_chance(fields: _Fields, rows: Ints) -> float:
    """Return how likely days and years are, as the log of a probability.

    Days are spread over the month, or most are the first one or the last ones; years are few: those of earlier rows
    are expected again (a Dirichlet-multinomial distribution). Months are spread alike in each order.
    """
    day, year = fields.day[fields.valid], fields.year[fields.valid]
    rows = rows[fields.valid]
    at_start, at_end = ((rows * place).sum() for place in (day == 1, day >= 28))
    n = rows.sum()
    spread = -n * math.log(31)
    first = at_start * math.log(0.9) + (n - at_start) * math.log(0.1 / 30)
    last = at_end * math.log(0.9 / 4) + (n - at_end) * math.log(0.1 / 27)
    counts = np.bincount(np.unique(year, return_inverse=True)[1], weights=rows)
    weight = 0.1
    years = math.lgamma(100 * weight) - math.lgamma(100 * weight + n)
    years += sum(math.lgamma(weight + count) - math.lgamma(weight) for count in counts)
    return float(max(spread, first - 5, last - 5) + years)


def _window(years: Ints) -> int:
    """Return the first of the hundred years, 1900 to 1950, in which two-digit years lie, ascending int64 (M,)."""

    def gap(border: int) -> int:
        place = int(np.searchsorted(years, border))
        return int((years[place:].min(initial=years[0] + 100)) - (years[:place].max(initial=years[-1] - 100)))

    usual = WINDOW_START % 100
    border = usual if gap(usual) >= _CLEAR_GAP else max(range(usual + 1), key=lambda one: (gap(one), one))
    return WINDOW_START - usual + border
