"""Parsed texts: many together, with Arrow, or a few one by one, in plain Python, with the same results.

Arrow takes about 20 ms for a batch, mostly to compile regular expressions, and then about 40 µs per text. Plain
Python takes about 80 µs per text. Both use the same regular expressions, and the word statistics of `words`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from math import floor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from pricekit.core.contracts import State
from pricekit.features import brand_category
from pricekit.io.locks import renewed_in_child
from pricekit.text import quantity
from pricekit.text.labelled_lines import (
    KINDS,
    LABEL_BYTES,
    TITLE_CHARACTERS,
    Bools,
    Ints,
    Lines,
    Strings,
    as_list,
    join_texts,
    joined_texts,
    numpy_of,
    split_lines,
)
from pricekit.text.quantity import DENOMINATORS, MAX_PACK, MAX_TOTAL, MAX_VALUE, UNITS, Amounts, Packs
from pricekit.text.units import COUNT, NONE, VOLUME, WEIGHT
from pricekit.text.words import Words, split_words, words_of


@renewed_in_child
class VectorizedTexts:
    """N parsed texts; each attribute is computed on first use."""

    def __init__(self, texts: Strings, state: State, words: list[Words] | None = None) -> None:
        self.state = state
        self._words = words
        self._strings = texts
        self.texts = join_texts(texts)

    @cached_property
    def words(self) -> list[Words]:
        """The words of the texts, in parts."""
        return split_words(self.texts) if self._words is None else self._words

    @cached_property
    def lines(self) -> Lines:
        """The lines of the texts."""
        return split_lines(self.texts)

    @cached_property
    def name(self) -> Strings:
        """The item names as written, (N,)."""
        return self.lines.titles(self.state["label"])

    @cached_property
    def title(self) -> Strings:
        """The item names in ASCII lower case and with ASCII fractions, (N,)."""
        return quantity.clean_title(self.name)

    @cached_property
    def sized(self) -> Strings:
        """The sizes that other columns state, and the titles, (N,)."""
        return quantity.sized(self._strings, self.title, self.state.get("sizes", []))

    @cached_property
    def packs(self) -> Packs:
        """The pack sizes."""
        return quantity.packs(self.sized)

    @cached_property
    def amounts(self) -> Amounts:
        """The quantities."""
        return quantity.amounts(self.lines, self.sized, self.packs)

    @cached_property
    def brand_rows(self) -> Ints:
        """Training rows of each text's brand, (N,)."""
        return brand_category.brand_rows(self.lines, self.title, self.state["brand"])

    @cached_property
    def category_rows(self) -> Ints:
        """Training rows of each text's category, (N,)."""
        return brand_category.category_rows(self.lines, self.title, self.state["category"])

    def line_count(self, kind: str) -> Ints:
        """Count the lines of a kind in each text, (N,)."""
        return self.lines.count(kind)

    def has_content(self, kind: str) -> Bools:
        """Return whether the first line of a kind has content, (N,)."""
        return numpy_of(pc.not_equal(self.lines.find(kind), ""))

    def contains(self, strings: Any, expression: str) -> Bools:
        """Return whether an expression matches anywhere in each name or title, (N,)."""
        return numpy_of(pc.match_substring_regex(strings, expression))

    def count(self, strings: Any, expression: str) -> Ints:
        """Count the matches of an expression in each name or title, (N,)."""
        return numpy_of(pc.count_substring_regex(strings, expression))


FEW = 128
"""Texts up to which parsing one by one is faster."""

WHITESPACE = " \t\n\r\v\f"
_Amount = tuple[float, int, float]
"""Value, class of its unit, and total in the common measure."""


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII)


def _lower(text: str) -> str:
    return text.encode().lower().decode()  # bytes have ASCII letters only


class Row:
    """One parsed text.

    Attributes:
        lines: the trimmed contents of the labelled lines, by kind.
        name: the item name as written.
        title: the item name in ASCII lower case and with ASCII fractions.
        sized: the sizes that other columns state, and the title.
        packs: packs that `sized` states, and the pack size.
    """

    def __init__(self, text: str, state: State) -> None:
        label = state["label"]
        self.lines: dict[str, list[str]] = {}
        first = ""
        for number, line in enumerate(text.split("\n")):
            kind, content = _labelled(line)
            self.lines.setdefault(kind, []).append(content)
            if number == 0:
                first = content[: TITLE_CHARACTERS + LABEL_BYTES]
        if label and first.startswith(f"{label}:"):
            first = first[len(label) + 1 :].lstrip(" \t")
        self.name = self.lines.get("title", [first])[0][:TITLE_CHARACTERS]
        self.title = _clean(self.name)
        self.sized = _sized(text, self.title, state.get("sizes", []))
        self.packs = _packs(self.sized)

    def first(self, kind: str) -> str:
        """Return the first line of a kind, "" without one."""
        return self.lines.get(kind, [""])[0]

    def last(self, kind: str) -> str:
        """Return the last line of a kind, "" without one."""
        return self.lines.get(kind, [""])[-1]

    def amount(self) -> _Amount:
        """Read the quantity by the rule of `quantity`."""
        unit = _lower(self.last("unit"))
        match = _compiled(quantity.VALUE_LINE).match(_lower(self.last("value")))
        value, kind, total = _read(match, None if unit in ("", "none") else unit)
        if kind not in (NONE, COUNT):
            return value, kind, total
        named = _named(self.sized, self.packs[0])
        if value <= 0:
            return named
        return (value, *named[1:]) if named[1] in (WEIGHT, VOLUME) else (value, kind, total)

    def brand_rows(self, counts: Mapping[str, int]) -> int:
        """Return the count of the brand line, or else of the longest known beginning of the name."""
        if stated := _short(_lower(self.first("brand"))):
            return counts.get(stated, 0)
        match = _compiled(brand_category.LEADING).search(self.title)
        leading = [word for word in match.groups() if word] if match else []
        known = (counts.get(_short(" ".join(leading[:n])), 0) for n in range(len(leading), 0, -1))
        return next(filter(None, known), 0)

    def category_rows(self, counts: Mapping[str, int]) -> int:
        """Return the count of the category line, or else of the head word of the name."""
        category = _short(_lower(self.first("category")))
        if not category:
            match = _compiled(brand_category.HEAD).search(
                _compiled(brand_category.PACK_PHRASE).sub("", self.title)
            )
            category = _compiled(brand_category.PLURAL).sub(r"\1", _short(match["name"])) if match else ""
        return counts.get(category, 0)


@renewed_in_child
class RowwiseTexts:
    """N parsed texts; each attribute is that of `VectorizedTexts`."""

    def __init__(self, texts: pd.Series, state: State) -> None:
        self.state = state
        self.texts = joined_texts(texts)
        self.words = words_of(texts)
        self.rows = [Row(text, state) for text in as_list(texts)]
        self.name = [row.name for row in self.rows]
        self.title = [row.title for row in self.rows]

    @cached_property
    def packs(self) -> Packs:
        """The pack sizes."""
        stated, size = np.array([row.packs for row in self.rows], np.float64).reshape(-1, 2).T
        return Packs(stated, size)

    @cached_property
    def amounts(self) -> Amounts:
        """The quantities."""
        value, kind, total = np.array([row.amount() for row in self.rows], np.float64).reshape(-1, 3).T
        return Amounts(value, kind.astype(np.int64), total)

    @cached_property
    def brand_rows(self) -> Ints:
        """Training rows of each text's brand, (N,)."""
        return np.array([row.brand_rows(self.state["brand"]) for row in self.rows], np.int64)

    @cached_property
    def category_rows(self) -> Ints:
        """Training rows of each text's category, (N,)."""
        return np.array([row.category_rows(self.state["category"]) for row in self.rows], np.int64)

    def line_count(self, kind: str) -> Ints:
        """Count the lines of a kind in each text, (N,)."""
        return np.array([len(row.lines.get(kind, ())) for row in self.rows], np.int64)

    def has_content(self, kind: str) -> Bools:
        """Return whether the first line of a kind has content, (N,)."""
        return np.array([row.first(kind) != "" for row in self.rows], np.bool_)

    def contains(self, strings: list[str], expression: str) -> Bools:
        """Return whether an expression matches anywhere in each name or title, (N,)."""
        return np.array([_compiled(expression).search(text) is not None for text in strings], np.bool_)

    def count(self, strings: list[str], expression: str) -> Ints:
        """Count the matches of an expression in each name or title, (N,)."""
        return np.array([len(_compiled(expression).findall(text)) for text in strings], np.int64)


ParsedTexts = RowwiseTexts | VectorizedTexts
"""The input of the columns of `catalog`; names and titles are in the parser's own form."""


def _labelled(line: str) -> tuple[str, str]:
    """Return a line's kind, "" without a known label, and its trimmed content."""
    label, colon, content = line.partition(":")
    kind = _kind(label) if colon and len(label.encode()) < LABEL_BYTES else ""
    return kind, (content if kind else line).strip(WHITESPACE)


@lru_cache(maxsize=1024)
def _kind(label: str) -> str:
    name = _lower(label).strip(WHITESPACE)
    return next((kind for kind, expression in KINDS.items() if _compiled(expression).search(name)), "")


def _short(name: str) -> str:
    return name[: brand_category.NAME_CHARACTERS]


def _clean(name: str) -> str:
    title = _lower(name).replace("_", " ")
    for sign, ascii_form in quantity.VULGAR.items():
        title = title.replace(sign, ascii_form)
    return title


def _sized(text: str, title: str, labels: Sequence[str]) -> str:
    """Return what `quantity.sized` returns for one text."""
    for label in labels:
        match = _compiled(quantity.size_line(label)).search(text)
        title = (_clean(match["cell"]) if match else "") + quantity.BETWEEN + title
    return title


def _packs(title: str) -> tuple[float, float]:
    stated = 1.0
    for expression in quantity.STATED_PACKS:
        match = _compiled(expression).search(title)
        if match and 1 <= int(match["pack"]) <= MAX_PACK:
            stated = float(match["pack"])
            break
    pieces = _read(_compiled(quantity.PIECES).search(title))[2]
    return stated, float(floor(pieces if stated == 1 and 1 <= pieces <= MAX_PACK else stated))


def _named(title: str, packs: float) -> _Amount:
    """Read an item name: a weight or volume, else a length, else pieces, else packs."""
    title = _compiled(quantity.NUTRIENT).sub("", title)
    for expression in (quantity.SIZE, quantity.EXTENT, quantity.PIECES):
        value, kind, total = _read(_compiled(expression).search(title))
        if value > 0:
            return min(value * packs, MAX_VALUE), kind, min(total * packs, MAX_TOTAL)
    return (packs, COUNT, packs) if packs > 1 else (0.0, NONE, 0.0)


def _read(match: re.Match[str] | None, unit: str | None = None) -> _Amount:
    """Convert a match to an amount, as in `quantity`; `unit` replaces the unit that matched."""
    if match is None:
        return 0.0, NONE, 0.0
    value = float(_compiled(quantity.THOUSANDS).sub(r"\1\2", match["number"]).replace(",", "."))
    divisor = int(match["under"] or 0)
    if divisor in DENOMINATORS and value < divisor:
        value = value / divisor + int(match["whole"] or 0)
    elif divisor >= 1:
        value *= divisor
    value = min(value, MAX_VALUE)
    spelling = _compiled("[ .-]").sub("", (match["unit"] or "") if unit is None else unit)
    kind, size = UNITS.get(spelling, (NONE, 1.0))
    return value, kind if value > 0 else NONE, min(value * size, MAX_TOTAL)
