"""Feature `numbers`: the numbers of labelled lines such as "horsepower: 158"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pricekit.config import Section
from pricekit.features.parsed import FEW
from pricekit.table import Table
from pricekit.text.labelled_lines import (
    Block,
    Floats,
    Ints,
    Strings,
    as_list,
    as_strings,
    batches,
    numpy_of,
)

FIT_ROWS = 20_000
"""Maximum number of rows, spread over the table, that `fit` searches for labels."""

MIN_SHARE = 0.2
"""Minimum share of these rows in which a label has a number."""

MIN_DISTINCT = 3
"""Minimum number of distinct numbers of a label; tokens distinguish two equally well."""

MAX_LINE_BYTES = 200
"""Longer lines are prose."""

BOUND = 1e12

_ANY_LABEL = "[^:]{1,40}"
_NUMBER = (
    r":[ \t]*(?:\p{L}{1,2}\.|[^-0-9:., \t\n\f\r]{0,3})"  # Rs.500, but $.75
    r"(?:(?P<grouped>-?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?)|"
    r"(?P<plain>-?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)(?:[eE][-+]?[0-9]{1,2})?))[^0-9]{0,20}$"
)
_ASCII_NUMBER = re.compile(_NUMBER.replace(r"\p{L}", "[A-Za-z]"))


class Numbers:
    """The numbers of labelled lines, such as a year, a size or a number of stars.

    Each label has a column, the most frequent label first. The value is 0 in a text without that line, and in columns
    without a label. "150,000km" is 150000, "0,125 l" is 0.125, and "." is always a decimal mark.
    """

    class Options(Section):
        """Options of `numbers`."""

        columns: int = Field(8, ge=1, le=256, description="maximum number of labels")

    def __init__(self, options: Options) -> None:
        self.names = tuple(f"number_{n}" for n in range(1, options.columns + 1))

    def fit(self, table: Table) -> dict[str, Any]:
        """Find the labels that have a number in at least a fifth of the rows; return {"labels": [label, ...]}."""
        texts = as_strings(table.text.iloc[:: -(-len(table) // FIT_ROWS) or 1])
        found = _concat(list(_find_in_parts(texts, _ANY_LABEL)))
        coded = found.label.dictionary_encode()
        of, kinds = numpy_of(coded.indices), max(1, len(coded.dictionary))
        rows = np.bincount(np.unique(found.row * kinds + of) % kinds, minlength=kinds)
        frequent = [
            code
            for code in np.argsort(-rows, kind="stable")[: len(coded.dictionary)]
            if rows[code] >= MIN_SHARE * len(texts)
            and len(np.unique(found.value[of == code])) >= MIN_DISTINCT
        ]
        chosen = pa.array(frequent[: len(self.names)], pa.int64())
        return {"labels": coded.dictionary.take(chosen).to_pylist()}

    def transform(self, table: Table, state: dict[str, Any]) -> Block:
        """Return the columns, float32 (N, `columns`); a row does not depend on other rows."""
        block = np.zeros((len(table), len(self.names)), np.float32)
        if not state["labels"]:
            return block
        if len(table) <= FEW:
            _fill_rowwise(block, as_list(table.text), state["labels"])
            return block
        labels = pa.array(state["labels"], pa.large_string())
        for found in _find_in_parts(as_strings(table.text), _any_of(state["labels"])):
            place = numpy_of(pc.fill_null(pc.index_in(found.label, labels), -1))
            known = np.flatnonzero(place >= 0)[::-1]  # the first line of a label wins
            block[found.row[known], place[known]] = found.value[known]
        return block


@dataclass(frozen=True)
class _Found:
    """L lines that consist of a label and a number.

    Attributes:
        row: the text of each line, int64 (L,).
        label: large strings, (L,).
        value: float64 (L,).
    """

    row: Ints
    label: Strings
    value: Floats


def _concat(parts: list[_Found]) -> _Found:
    return _Found(
        np.concatenate([np.zeros(0, np.int64), *(part.row for part in parts)]),
        pa.concat_arrays([pa.array([], pa.large_string()), *(part.label for part in parts)]),
        np.concatenate([np.zeros(0), *(part.value for part in parts)]),
    )


def _find_in_parts(texts: Strings, label: str) -> Iterator[_Found]:
    """Find lines batch by batch, because the search needs many times the bytes of a text."""
    start = 0
    for part in batches(texts):
        found = _find(part, label)
        yield replace(found, row=found.row + start)
        start += len(part)


def _find(texts: Strings, label: str) -> _Found:
    """Find the lines whose label matches a regular expression."""
    split = pc.split_pattern(texts, "\n")
    line, row = split.flatten(), pc.list_parent_indices(split)
    short = pc.less_equal(pc.binary_length(line), MAX_LINE_BYTES)
    parts, row = pc.extract_regex(line.filter(short), f"^(?P<label>{label}){_NUMBER}"), row.filter(short)
    there = parts.is_valid()
    parts, row = parts.filter(there), row.filter(there)
    grouped = pc.replace_substring(pc.struct_field(parts, "grouped"), ",", "")
    plain = pc.replace_substring(pc.struct_field(parts, "plain"), ",", ".")
    value = numpy_of(pc.cast(pc.if_else(pc.equal(grouped, ""), plain, grouped), pa.float64()))
    labels = pc.struct_field(parts, "label").cast(pa.large_string())
    return _Found(numpy_of(row).astype(np.int64), labels, np.clip(value, -BOUND, BOUND))


def _any_of(labels: list[str]) -> str:
    return "|".join(map(re.escape, labels))


def _fill_rowwise(block: Block, texts: list[str], labels: list[str]) -> None:
    """Fill in the numbers of a few texts in plain Python; for one text, this takes a hundredth of the time."""
    for row, text in enumerate(texts):
        places = {label: place for place, label in enumerate(labels)}
        for line in text.split("\n"):
            label = line.partition(":")[0]
            if label not in places or len(line.encode()) > MAX_LINE_BYTES:
                continue
            value = _number(line, len(label), labels)
            if value is not None:
                block[row, places.pop(label)] = value  # the first line of a label wins


def _number(line: str, label_end: int, labels: list[str]) -> float | None:
    """Return the number of a line that begins with a label and a colon, if it has one."""
    if not line.isascii():  # Python's `re` has no class of all letters
        found = _find(pa.array([line], pa.large_string()), _any_of(labels)).value
        return float(found[0]) if len(found) else None
    match = _ASCII_NUMBER.match(line, label_end)
    if match is None:
        return None
    grouped, plain = match["grouped"], match["plain"]
    value = float(grouped.replace(",", "") if grouped else plain.replace(",", "."))
    return min(max(value, -BOUND), BOUND)
