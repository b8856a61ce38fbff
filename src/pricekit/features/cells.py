"""The cells of a text: contents of the labelled lines that most texts share, and what each label yields.

One description serves all readers of numbers, amounts and categories, among them the feature `columns`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field, model_validator

from pricekit.config import Section
from pricekit.core.contracts import Feature
from pricekit.io.packing import Strict, interned
from pricekit.table import Table
from pricekit.text.dates import WINDOW_START, DateFormat, date_format, parse_dates
from pricekit.text.labelled_lines import (
    FEW_TEXTS,
    Block,
    Bools,
    Bytes,
    Codes,
    Floats,
    Ints,
    LastOpened,
    Strings,
    Texts,
    as_strings,
    batches,
    concatenated,
    evenly,
    join_texts,
    joined_texts,
    lines_and_colons,
    lower_case,
    numpy_of,
    shared,
    slices,
)
from pricekit.text.numbers import marks_code, numbers_of_cell, plain_bytes, plain_text, read_numbers
from pricekit.text.units import NONE, NOTHING, Totals, measure, measures_of_cell, total_of_cell, totals
from pricekit.text.words import in_words
from pricekit.wording import counted

LABEL_BYTES = 80
"""A colon further into a line does not end a label."""

MIN_SHARE = 0.05
"""Minimum share of the texts that have a label."""

MOST_LABELS = 32

FIRST_BYTES = 64
"""The rest of a longer first word is not read."""

_IN_WORD = in_words(np.arange(256, dtype=np.uint8))

_LABELLED = re.compile(rb"^([^\n:]{1,%d}):" % (LABEL_BYTES - 1), re.MULTILINE)
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")
"""The bytes of `_IN_WORD`."""
_TRIMMED_BLANKS = 4


@dataclass(frozen=True)
class Cells:
    """The cells of N texts under L labels: byte ranges of one buffer.

    Attributes:
        data: the bytes of all texts, uint8.
        start, end: the range of each cell, without surrounding blanks, int64 (N, L); equal for a missing cell.
    """

    data: Bytes
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def column(self, label: int, most_bytes: int | None = None) -> Strings:
        """Return the cells of one label as strings, (N,), cut after `most_bytes` at the end of a character."""
        start, end = self.start[:, label], self.end[:, label]
        if most_bytes is not None:
            end = self._at_character(start, np.minimum(end, start + most_bytes), end)
        return slices(self.data, start, end)

    def first_words(self) -> Cells:
        """Return the first word of each cell, up to `FIRST_BYTES`: letters and digits, without marks."""
        start = self._moved(self.start, self.end, ~_IN_WORD)
        return Cells(
            self.data, start, self._moved(start, np.minimum(self.end, start + FIRST_BYTES), _IN_WORD)
        )

    def _moved(self, position: Ints, end: Ints, over: Bools) -> Ints:
        """Move positions over some bytes, bool (256,), at most to the end of their cells."""
        moved, end = position.ravel().copy(), end.ravel()
        left = np.flatnonzero(moved < end)
        while len(left):
            left = left[over[self.data[moved[left]]]]
            moved[left] += 1
            left = left[moved[left] < end[left]]
        return moved.reshape(position.shape)

    def _at_character(self, start: Ints, cut: Ints, end: Ints) -> Ints:
        """Move cuts back to the beginning of a character."""
        for _ in range(3):
            inside = (
                (cut > start)
                & (cut < end)
                & ((self.data[np.minimum(cut, len(self.data) - 1)] & 0xC0) == 0x80)
            )
            cut = cut - inside
        return cut


def find_labels(texts: Texts) -> list[str]:
    """Return the labels of at least `MIN_SHARE` of the texts, in the order in which they follow in a text.

    "" stands for what comes before the first of the others, or for a whole text without labels.
    """
    start, _, label = _labelled_lines(texts)
    coded = label.dictionary_encode()
    kinds = len(coded.dictionary)
    row = _row_of(texts, start)
    once, first = np.unique(row * max(kinds, 1) + numpy_of(coded.indices), return_index=True)
    of = once % max(kinds, 1)
    rows = np.bincount(of, minlength=kinds)
    place = np.bincount(of, weights=start[first] - texts.offset[row[first]], minlength=kinds)
    common = np.argsort(-rows, kind="stable")[:MOST_LABELS].tolist()
    common = [code for code in common if rows[code] >= MIN_SHARE * len(texts)]
    common.sort(key=lambda code: place[code] / rows[code])
    labels = ["", *coded.dictionary.take(pa.array(common, pa.int64())).to_pylist()]
    cells = cut(texts, labels)
    unlabelled = np.count_nonzero(cells.end[:, 0] > cells.start[:, 0])
    return labels if unlabelled >= MIN_SHARE * max(1, len(texts)) else labels[1:]


def cut(texts: Texts, labels: Sequence[str]) -> Cells:
    """Cut texts into the cells of some labels; a cell reaches to the next of these labels.

    Of several lines with one label, the first counts. Lines with other labels belong to the cell before them.
    """
    line, colon, label = _labelled_lines(texts)
    place = numpy_of(pc.fill_null(pc.index_in(label, pa.array(labels, pa.large_string())), -1))
    known = np.flatnonzero(place >= 0)
    line, colon, place = line[known], colon[known], place[known]
    row, text_end = _row_of(texts, line), texts.offset[1:] - 1
    follows = np.append(line, len(texts.data))  # ends with the end of the last text
    start = np.zeros((len(texts), len(labels)), np.int64)
    end = np.zeros_like(start)
    _, first = np.unique(row * len(labels) + place, return_index=True)
    at = row[first], place[first]
    start[at] = colon[first] + 1
    end[at] = np.minimum(follows[1:] - 1, text_end[row])[first]  # before the line break
    if "" in labels:
        before = labels.index("")
        start[:, before] = texts.offset[:-1]
        label_start = follows[np.searchsorted(line, texts.offset[:-1])]
        end[:, before] = np.maximum(np.minimum(label_start - 1, text_end), start[:, before])
    return _trimmed(texts.data, start, end)


def _labelled_lines(texts: Texts) -> tuple[Ints, Ints, Strings]:
    """Return start, colon and label of the lines that have a colon near their beginning, each (K,)."""
    start, end, colon = lines_and_colons(texts.data)
    labelled = (colon < np.minimum(end, start + LABEL_BYTES)) & (colon > start)
    start, colon = start[labelled], colon[labelled]
    return start, colon, slices(texts.data, start, colon)


def _row_of(texts: Texts, position: Ints) -> Ints:
    return np.searchsorted(texts.offset, position, side="right") - 1


def _trimmed(data: Bytes, start: Ints, end: Ints) -> Cells:
    """Remove a few blanks at both ends of the cells."""
    blank: Bools = np.append(data, np.uint8(0)) <= ord(" ")
    blank[-1] = False
    for _ in range(_TRIMMED_BLANKS):
        start = start + ((start < end) & blank[start])
        end = end - ((start < end) & blank[end - 1])
    return Cells(data, start, end)


def cut_text(data: bytes, places: Mapping[bytes, int]) -> dict[int, tuple[int, int]]:
    """Return where the cells of one text begin and end, by the place of their labels, as `cut` finds them.

    Args:
        data: the bytes of the text, and a newline.
        places: of the labels.
    """
    lines = [
        (match.start(), match.end(), place)
        for match in _LABELLED.finditer(data)
        if (place := places.get(match[1])) is not None
    ]
    follows = [line for line, _, _ in lines] + [len(data)]
    before = places.get(b"")
    cells = {} if before is None else {before: _trimmed_cell(data, 0, max(follows[0] - 1, 0))}
    for (_, start, place), end in zip(lines, follows[1:], strict=True):
        if place not in cells:
            cells[place] = _trimmed_cell(data, start, end - 1)
    return cells


def _trimmed_cell(data: bytes, start: int, end: int) -> tuple[int, int]:
    for _ in range(_TRIMMED_BLANKS):
        start += start < end and data[start] <= ord(" ")
        end -= start < end and data[end - 1] <= ord(" ")
    return start, end


FIT_ROWS = 20_000
"""Maximum number of texts, spread over the table, that are profiled."""

PART_BYTES = 1 << 20
"""Of the texts that are read together; the work arrays take ten times the bytes, and fit into the processor's cache."""

PLACES = 3
"""Numbers of a cell that are columns of their own."""

MIN_ROWS = 10
"""Minimum number of cells that have a category, an amount or a number at a place."""

_NEARLY_ALL = 0.9

MIN_DISTINCT = 3
"""Minimum number of distinct values of a column; tokens distinguish two equally well."""

MOST_CATEGORIES = 256
CATEGORY_BYTES = 60
"""A longer cell is no category."""

CELLS_AT_ONCE = 1 << 16
"""Cells in which categories are looked up together."""

LONG_BYTES = 30
"""Cells that are longer on average have their length as a column."""


DATE_BYTES = 320
"""Longer cells are not dates."""

DATE_VALUES = ("age in days", "month", "weekday")
"""What a date yields. The newest date of the training rows has the age 0, January and Monday are 1."""

_SAMPLED_CELLS = 200
"""Cells that show whether a column may hold dates."""

_MAYBE_DATE = (
    r"[0-9]([^0-9,:]|, )[^0-9,:]*[0-9]|(^|[^0-9])([0-9]{4}|[0-9]{6}|[0-9]{8}|[0-9]{12}|[0-9]{14})([^0-9]|$)"
    r"|[^ 0-9][-/.'][0-9]{2}$"
)
"""All dates have two numbers, or one that is a year or a whole date; most cells of other columns do not."""

_SECONDS_OF_DAY = 86_400

_ISO = DateFormat("yyyy-m-d")
"""Programs write dates so, and no other order has this shape: it is read in every column of dates."""

_Category = Annotated[str, Field(max_length=FIRST_BYTES)]


class Dates(Strict):
    """How the cells of a column write dates, see `DateFormat`.

    Attributes:
        newest: the newest date of the training rows, days since 1970, UTC.
    """

    pattern: str = Field(max_length=40)
    language: str | None
    first_year: int | None = Field(ge=WINDOW_START - 50, le=WINDOW_START)
    newest: float = Field(ge=-1e6, le=1e6)

    @model_validator(mode="after")
    def _is_known(self) -> Dates:
        if (self.first_year is None) is not ("yyyy" in self.form.pattern):
            raise ValueError("years of two digits have a first year, and others have none")
        return self

    @property
    def form(self) -> DateFormat:
        """The format that reads the cells."""
        return DateFormat(self.pattern, self.language, self.first_year)

    def values(self, cells: Strings) -> Floats:
        """Return `DATE_VALUES` of cells, float64 (N, 3); NaN for what a cell does not state."""
        form = self.form
        days = parse_dates(cells, form) / _SECONDS_OF_DAY
        if form.pattern != _ISO.pattern and (unread := np.isnan(days)).any():
            days[unread] = parse_dates(cells.filter(pa.array(unread)), _ISO) / _SECONDS_OF_DAY
        known = np.isfinite(days)
        day = np.floor(np.where(known, days, 0)).astype("datetime64[D]")
        month = day.astype("datetime64[M]").astype(np.int64) % 12 + 1
        weekday = (day.astype(np.int64) + 3) % 7 + 1  # 1970 began on a Thursday
        values = np.column_stack(
            [self.newest - days, month, weekday if form.has_days else np.full(len(day), np.nan)]
        )
        values[~known] = np.nan
        return values


class Column(Strict):
    """What the cells of one label yield.

    Attributes:
        label: the name of the column; "" for text before the first label.
        share: the share of texts that have the cell.
        dot_groups, comma_groups: see `numbers.marks_code`.
        places: how many numbers of a cell are read, at most `PLACES`.
        measured: cells state amounts with units.
        cells: frequent whole cells, most frequent first.
        words: frequent first words of cells.
        long: cells are prose; their length is a column.
        dates: how cells write dates; they then yield nothing else. None for other columns.
    """

    label: str = Field(max_length=LABEL_BYTES)
    share: float = Field(ge=0, le=1)
    dot_groups: bool
    comma_groups: bool
    places: int = Field(ge=0, le=PLACES)
    measured: bool
    cells: list[_Category] = Field(max_length=MOST_CATEGORIES)
    words: list[_Category] = Field(max_length=MOST_CATEGORIES)
    long: bool
    dates: Dates | None

    @model_validator(mode="after")
    def _yields_one_kind(self) -> Column:
        if self.dates and (self.places or self.measured or self.cells or self.words or self.long):
            raise ValueError("a column of dates yields something else, too")
        return self

    def describe(self) -> str:
        """Describe what the cells yield in a few words, such as "2 numbers, amounts, 8 categories"."""
        if self.dates:
            return f"dates, written as {self.dates.pattern}"
        parts = [counted(self.places, "number")] if self.places else []
        if self.measured:
            parts.append("amounts")
        if self.cells:
            parts.append("1 category" if len(self.cells) == 1 else f"{len(self.cells)} categories")
        elif self.words:
            parts.append(counted(len(self.words), "frequent first word"))
        return ", ".join(parts) or "words"


@dataclass(frozen=True)
class Values:
    """The values of N texts under L labels.

    Attributes:
        cells: the cells.
        number: the numbers of each cell by place, in their common measure where they have a unit; NaN without a number,
            float64 (N, L, `PLACES`).
        unit: the classes of their units, int8 (N, L, `PLACES`).
        total: the amounts of the cells, in order of the cells (N x L).
        dates: by label, `DATE_VALUES` of the cells of each column of dates, float64 (N, 3).
    """

    cells: Cells
    number: Floats
    unit: Codes
    total: Totals
    dates: dict[int, Floats] = field(default_factory=dict)


def fit_texts(texts: Strings) -> Texts:
    """Return large strings without nulls, of more than `FIT_ROWS` some that are spread evenly, end to end."""
    return join_texts(texts.take(pa.array(np.arange(0, len(texts), -(-len(texts) // FIT_ROWS) or 1))))


def profile_columns(texts: Strings) -> list[Column]:
    """Find the labels of texts, (N,) large strings without nulls, and what each of them yields.

    Example:
        >>> texts = pa.array(["tea\\nsize: 250 g", "jam\\nsize: 1 kg"] * 10, pa.large_string())
        >>> [(column.label, column.places, column.measured) for column in profile_columns(texts)]
        [('', 0, False), ('size', 1, True)]
    """
    joined = fit_texts(texts)
    labels = find_labels(joined)
    cells = cut(joined, labels)
    groups = [_separators(cells.column(label)) for label in range(len(labels))]
    values = _read(joined, labels, [marks_code(dot=dot, comma=comma) for dot, comma in groups])
    columns = [_column(label, values, place, *groups[place]) for place, label in enumerate(labels)]
    return columns if len(joined) == len(texts) else _with_newest(columns, texts)


def columns_of(texts: pd.Series) -> list[Column]:
    """Return `profile_columns` of a table's texts, which several features share."""
    return shared(texts, profile_columns, lambda: profile_columns(as_strings(texts)))


def values_of(texts: pd.Series, columns: Sequence[Column]) -> Values:
    """Read the cells of a table's texts, (N,), which several features share."""
    labels = [column.label for column in columns]
    marks = [marks_code(dot=column.dot_groups, comma=column.comma_groups) for column in columns]

    def read() -> Values:
        few = len(texts) <= FEW_TEXTS
        joined = joined_texts(texts)
        values = _read_few(joined, labels, marks) if few else _read(joined, labels, marks)
        dates = {
            place: column.dates.values(values.cells.column(place, DATE_BYTES + 1))
            for place, column in enumerate(columns)
            if column.dates
        }
        return replace(values, dates=dates)

    return shared(texts, (values_of, columns), read)


class Categories:
    """The frequent cells and first words of columns, to be found among the cells of texts.

    Args:
        columns: of the texts.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        lists = [known for column in columns for known in (column.cells, column.words)]
        self.counts = [len(known) for known in lists]
        """Of each column the numbers of its frequent cells and of its frequent first words, in turn."""
        number: dict[str, int] = {}
        for name in itertools.chain.from_iterable(lists):
            number.setdefault(name, len(number))
        self._places = [
            {name: place for place, name in reversed([*enumerate(known, 1)])} | {"": 0} for known in lists
        ]
        self._names = pa.array(list(number), pa.large_string())
        self._place = np.repeat(np.array(self.counts, np.int64)[:, None], len(number) + 1, axis=1)
        for of, known in zip(self._place, lists, strict=True):
            for place, name in reversed(list(enumerate(known))):
                of[number[name]] = place

    def codes(self, cells: Cells) -> Ints:
        """Return the places of cells among the known ones, int64 (N, positions in `counts`).

        A place counts from 1. It is 0 if the cell is empty or no cells of the column are known, and the number of known
        ones plus 1 for other cells. All columns are looked up together, because each call of Arrow takes a while; of
        many texts, one after the other; those of a few texts in Python.
        """
        which = [position for position, count in enumerate(self.counts) if count]
        if len(cells) <= FEW_TEXTS:
            return self._codes_of_few(cells, which)
        words, at_once = cells.first_words(), max(1, CELLS_AT_ONCE // max(1, len(cells)))
        codes = np.zeros((len(cells), len(self.counts)), np.int64)
        for begin in range(0, len(which), at_once):
            some = which[begin : begin + at_once]
            chosen = [((words if position % 2 else cells), position // 2) for position in some]
            start = np.concatenate([of.start[:, label] for of, label in chosen])
            end = np.concatenate([of.end[:, label] for of, label in chosen])
            lower = whole(Cells(cells.data, start[:, None], end[:, None]), 0)
            number = numpy_of(pc.fill_null(pc.index_in(lower, self._names), len(self._names)))
            place = self._place[np.repeat(some, len(cells)), number] + 1
            place[numpy_of(pc.binary_length(lower)) == 0] = 0
            codes[:, some] = place.reshape(len(some), -1).T
        return codes

    def _codes_of_few(self, cells: Cells, which: Sequence[int]) -> Ints:
        data, codes = cells.data.tobytes(), []
        for start, end in zip(cells.start.tolist(), cells.end.tolist(), strict=True):
            row = [0] * len(self.counts)
            for position in which:
                label, of = position // 2, self._places[position]
                name = _category(data, start[label], end[label], first_word=position % 2 == 1)
                row[position] = of.get(name, self.counts[position] + 1)
            codes.append(row)
        return np.array(codes, np.int64).reshape(len(cells), len(self.counts))


def _category(data: bytes, start: int, end: int, *, first_word: bool) -> str:
    """Return a cell as of `whole`, or its first word."""
    if first_word:
        word = _WORD.search(data, start, end)
        start, end = word.span() if word else (start, start)
    return lower_case(data[start : min(end, start + CATEGORY_BYTES + 1)].decode("utf-8", "ignore"))


def whole(cells: Cells, label: int) -> Strings:
    """Return the cells of a label in lower case, (N,), cut to the length of a category."""
    return pc.utf8_lower(cells.column(label, CATEGORY_BYTES + 1))


def _read(texts: Texts, labels: Sequence[str], marks: Sequence[int]) -> Values:
    """Read the cells in parts of the texts, whose work arrays are small."""
    parts = texts.parts(PART_BYTES)
    values = [_read_part(part, labels, marks) for part in parts]
    before = np.cumsum([0, *(len(part.data) for part in parts[:-1])])  # bytes before each part
    pairs = list(zip(values, before, strict=True))
    return Values(
        Cells(
            texts.data,
            np.concatenate([one.cells.start + begin for one, begin in pairs]),
            np.concatenate([one.cells.end + begin for one, begin in pairs]),
        ),
        np.concatenate([one.number for one in values]),
        np.concatenate([one.unit for one in values]),
        concatenated([one.total for one in values]),
    )


def _read_part(texts: Texts, labels: Sequence[str], marks: Sequence[int]) -> Values:
    cells = cut(texts, labels)
    start, end, shape = cells.start.ravel(), cells.end.ravel(), (*cells.start.shape, PLACES)
    filled = np.flatnonzero(end > start)
    filled = filled[np.argsort(start[filled], kind="stable")]
    plain = plain_bytes(cells.data)
    codes = np.array(marks, np.int8)
    numbers = read_numbers(plain, start[filled], end[filled], codes[filled % max(len(labels), 1)])
    place = numbers.place
    numbers = replace(numbers, cell=filled[numbers.cell])
    measures = measure(plain, numbers, start, end)
    number, unit = np.full((len(start), PLACES), np.nan), np.zeros((len(start), PLACES), np.int8)
    kept = np.flatnonzero(place < PLACES)
    at = numbers.cell[kept], place[kept]
    number[at], unit[at] = (numbers.value * measures.size)[kept], measures.kind[kept]
    return Values(cells, number.reshape(shape), unit.reshape(shape), totals(numbers, measures, len(start)))


def _read_few(texts: Texts, labels: Sequence[str], marks: Sequence[int]) -> Values:
    """Read the cells of a few texts one by one."""
    places = {label.encode(): place for place, label in enumerate(labels)}
    shape = len(texts), len(labels)
    start, end = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    number, unit = np.full((*shape, PLACES), np.nan), np.zeros((*shape, PLACES), np.int8)
    total = [NOTHING] * (len(texts) * len(labels))
    for row, (begin, behind) in enumerate(itertools.pairwise(texts.offset.tolist())):
        data = texts.data[begin:behind].tobytes()
        plain = plain_text(data)
        for place, (first, last) in cut_text(data, places).items():
            start[row, place], end[row, place] = begin + first, begin + last
            numbers = numbers_of_cell(plain, first, last, marks[place]) if last > first else []
            if not numbers:
                continue
            measures = measures_of_cell(plain, numbers, first, last)
            total[row * len(labels) + place] = total_of_cell(numbers, measures)
            for nth, (read, measured) in enumerate(zip(numbers[:PLACES], measures, strict=False)):
                number[row, place, nth] = read.value * measured.size
                unit[row, place, nth] = measured.kind
    cells = Cells(texts.data, start, end)
    kind, amount, pack = zip(*total, strict=True) if total else ((), (), ())
    return Values(
        cells, number, unit, Totals(np.array(kind, np.int8), np.array(amount, float), np.array(pack, float))
    )


def _column(label: str, values: Values, place: int, dots: bool, commas: bool) -> Column:
    cells = values.cells
    length = cells.end[:, place] - cells.start[:, place]
    filled = np.count_nonzero(length)
    share = round(filled / max(1, len(cells)), 4)
    dates = _dates(cells.column(place, DATE_BYTES + 1).filter(pa.array(length > 0)))
    if dates:
        return Column(
            label=label,
            share=share,
            dot_groups=False,
            comma_groups=False,
            places=0,
            measured=False,
            cells=[],
            words=[],
            long=False,
            dates=dates,
        )
    per_place = np.count_nonzero(~np.isnan(values.number[:, place]), axis=0)
    kinds = values.total.kind.reshape(-1, values.number.shape[1])[:, place]
    measured = bool(np.count_nonzero(kinds != NONE) >= MIN_ROWS)
    numeric = measured and per_place[0] >= _NEARLY_ALL * filled  # "1 kg" is no other category than "1000 g"
    text = whole(cells, place)
    short = text.filter(pa.array((length > 0) & (length <= CATEGORY_BYTES)))
    return Column(
        label=label,
        share=share,
        dot_groups=dots,
        comma_groups=commas,
        places=int(np.count_nonzero(per_place >= MIN_ROWS)),
        measured=measured,
        cells=[] if numeric else _frequent(short),
        words=[] if numeric else _frequent(whole(cells.first_words(), place)),
        long=bool(filled and length.sum() / filled > LONG_BYTES),
        dates=None,
    )


def _dates(cells: Strings) -> Dates | None:
    """Return how filled cells write dates; None unless nearly all do."""
    sample = (
        cells.take(pa.array(evenly(len(cells), _SAMPLED_CELLS)))
        if len(cells) >= MIN_ROWS
        else cells.slice(0, 0)
    )
    maybe = numpy_of(pc.match_substring_regex(sample, _MAYBE_DATE)) & numpy_of(
        pc.less(pc.binary_length(sample), DATE_BYTES)
    )
    if not len(sample) or np.count_nonzero(maybe) < _NEARLY_ALL * len(sample):
        return None
    if (form := date_format(sample)) is None or np.isfinite(parse_dates(sample, form)).mean() < _NEARLY_ALL:
        return None
    if (form := date_format(cells)) is None:
        return None
    times = parse_dates(cells, form)
    times = times[np.isfinite(times)]
    if len(times) < _NEARLY_ALL * len(cells) or len(np.unique(times)) < MIN_DISTINCT:
        return None
    newest = float(times.max() / _SECONDS_OF_DAY)
    return Dates(pattern=form.pattern, language=form.language, first_year=form.first_year, newest=newest)


def _with_newest(columns: Sequence[Column], texts: Strings) -> list[Column]:
    """Return columns of dates with the newest date of all texts, not only of a sample; the others as they are."""
    labels = [column.label for column in columns]
    newest = {place: column.dates.newest for place, column in enumerate(columns) if column.dates}
    for part in batches(texts) if newest else ():
        cells = cut(join_texts(part), labels)
        for place in newest:
            dates = columns[place].dates
            assert dates is not None
            ages = dates.values(cells.column(place, DATE_BYTES + 1))[:, 0]
            newest[place] = max(newest[place], dates.newest - np.nanmin(np.append(ages, 0)))
    return [
        column.model_copy(update={"dates": column.dates.model_copy(update={"newest": float(newest[place])})})
        if column.dates
        else column
        for place, column in enumerate(columns)
    ]


def _frequent(cells: Strings) -> list[str]:
    """Return strings that occur in at least `MIN_ROWS` cells, the most frequent first; [] if there is only one."""
    counts = cells.filter(pc.greater(pc.binary_length(cells), 0)).value_counts()
    rows = numpy_of(pc.struct_field(counts, "counts"))
    order = np.argsort(-rows, kind="stable")[:MOST_CATEGORIES]
    frequent: list[str] = (
        pc.struct_field(counts, "values").take(pa.array(order[rows[order] >= MIN_ROWS])).to_pylist()
    )
    return frequent if len(rows) > 1 else []


def _separators(cells: Strings) -> tuple[bool, bool]:
    """Decide from the unambiguous numbers of a column whether dots and commas separate its thousands."""

    def count(expression: str) -> int:
        return int(pc.sum(pc.match_substring_regex(cells, expression)).as_py() or 0)

    comma_decimal = count(r"[0-9],[0-9]{1,2}([^0-9.,]|$)|(^|[^0-9.,])0,[0-9]")
    dot_decimal = count(r"[0-9]\.[0-9]{1,2}([^0-9.,]|$)|(^|[^0-9.,])0\.[0-9]|[0-9]\.[0-9]{4}")
    comma_groups = count(r"[0-9],[0-9]{3}([^0-9]|$)")
    dot_groups = count(r"[0-9]\.[0-9]{3}(,[0-9]|\.[0-9]{3}([^0-9.]|$))")
    round_dots = count(r"(^|[^0-9.,])[1-9][0-9]{0,2}\.[0-9]00([^0-9.,]|$)")
    dotted = count(r"(^|[^0-9.,])[1-9][0-9]{0,2}\.[0-9]{3}([^0-9.,]|$)")
    dots = dot_groups > dot_decimal or (not dot_decimal and (comma_decimal > 0 or 2 * round_dots > dotted))
    return dots, comma_groups >= comma_decimal


def to_json(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return columns as plain JSON values."""
    return [column.model_dump() for column in columns]


def _have_distinct_labels(columns: list[Column]) -> list[Column]:
    if len({column.label for column in columns}) < len(columns):
        raise ValueError("two columns have the same label")
    return list(map(interned, columns))  # several features compare theirs for each call


StoredColumns = Annotated[
    list[Column], Field(max_length=MOST_LABELS + 1), AfterValidator(_have_distinct_labels)
]
"""What `to_json` returns, as a field of a state."""


BOUND = 1e12

TOTAL, PACK, DATE = PLACES, PLACES + 1, PLACES + 2
"""Places of the amount, of the packs and of the first of `DATE_VALUES` of a cell, behind those of its numbers."""


class ChosenCells(Strict):
    """The state of `columns`: what each label yields, and label and place of each chosen value."""

    columns: StoredColumns
    chosen: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]]

    @model_validator(mode="after")
    def _has_chosen_columns(self) -> ChosenCells:
        for label, place in self.chosen:
            if label >= len(self.columns) or place >= DATE + len(DATE_VALUES):
                raise ValueError("a chosen value has no column or no place")
            if (place >= DATE) is not (self.columns[label].dates is not None):
                raise ValueError("a column of dates yields values of dates, and others do not")
        return self


class CellNumbers(Feature):
    """The numbers of each column by their position, and its amounts: "2.0 l / 163 hp" has two numbers.

    Numbers with a unit are in its common measure, so that "1 kg" and "500 g" compare. A value is 0 where the cell is
    missing or has no number. Dates yield their age in days, month and weekday (`DATE_VALUES`). The values that most
    texts have come first.
    """

    class Options(Section):
        """Options of `columns`."""

        columns: int = Field(16, ge=1, le=256, description="maximum number of values")

    def __init__(self, options: Options) -> None:
        self.names = tuple(f"column_{n}" for n in range(1, options.columns + 1))
        self._open = LastOpened(ChosenCells.model_validate)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise ValueError unless a state is a `ChosenCells` with at most one value for each column."""
        if len(self._open(state).chosen) > len(self.names):
            raise ValueError(f"it has more than {len(self.names)} values")

    def describe(self, state: dict[str, Any]) -> dict[str, str]:
        """Return which number of which column each value is, such as "age in days of listed_on"."""
        opened = self._open(state)
        words = {}
        for name, (label, place) in zip(self.names, opened.chosen, strict=False):
            column = opened.columns[label]
            if place >= DATE:
                words[name] = f"{DATE_VALUES[place - DATE]} of {column.label or 'the date'}"
                continue
            which = {TOTAL: "amount", PACK: "number of packs"}.get(place)
            which = which or ("number" if column.places == 1 else f"number {place + 1}")
            words[name] = f"{which} in {column.label or 'the text'}"
        return words

    def fit(self, table: Table) -> dict[str, Any]:
        """Choose the values: {"columns": see `to_json`, "chosen": [[label, place], ...]}."""
        columns = columns_of(table.text)
        return {
            "columns": to_json(columns),
            "chosen": _choose(values_of(table.text, columns), columns, len(self.names)),
        }

    def transform(self, table: Table, state: dict[str, Any]) -> Block:
        """Return the values, float32 (N, `columns`); a row does not depend on other rows."""
        block = np.zeros((len(table), len(self.names)))
        opened = self._open(state)
        values = values_of(table.text, opened.columns)
        for number, (label, place) in enumerate(opened.chosen):
            block[:, number] = _value(values, label, place)
        return np.clip(np.nan_to_num(block), -BOUND, BOUND).astype(np.float32)


def _value(values: Values, label: int, place: int) -> Floats:
    """Return a number, an amount, a number of packs or a value of dates of each text, float64 (N,); NaN where there is
    none.
    """
    if place >= DATE:
        return values.dates[label][:, place - DATE]
    if place < PLACES:
        return values.number[:, label, place]
    total = values.total
    of = slice(label, None, values.number.shape[1])
    values_of_label = total.amount[of] if place == TOTAL else total.pack[of]
    return np.where(values_of_label > (place == PACK), values_of_label, np.nan)


def _choose(values: Values, columns: Sequence[Column], most: int) -> list[list[int]]:
    """Return label and place of the values that most texts have."""
    candidates = []
    for label, column in enumerate(columns):
        amounts = (TOTAL, PACK) if column.measured else ()
        dates = range(DATE, DATE + len(DATE_VALUES)) if column.dates else ()
        for place in (*range(column.places), *amounts, *dates):
            value = _value(values, label, place)
            known = value[~np.isnan(value)]
            same = place == TOTAL and np.array_equal(
                known, (first := values.number[:, label, 0])[~np.isnan(first)]
            )
            if len(np.unique(known)) >= MIN_DISTINCT and not same:
                candidates.append((-len(known), label, place))
    return [[label, place] for _, label, place in sorted(candidates)[:most]]
