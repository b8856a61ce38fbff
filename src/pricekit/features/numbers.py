"""Feature `numbers`: the numbers of labelled lines such as "horsepower: 158"."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
from pydantic import Field

from pricekit.config import Section
from pricekit.core.contracts import Feature
from pricekit.table import Table
from pricekit.text.labelled_lines import Block, as_list

FIT_ROWS = 20_000
"""Maximum number of rows, spread over the table, that `fit` searches for labels."""

MIN_SHARE = 0.2
"""Minimum share of these rows in which a label has a number."""

MIN_DISTINCT = 3
"""Minimum number of distinct numbers of a label; tokens distinguish two equally well."""

MAX_LINE_BYTES = 200
"""Longer lines are prose."""

BOUND = 1e12

LABEL_CHARACTERS = 40
"""Text longer than this before a number is prose, not a label."""

_BEFORE = r"[^-0-9:., \t\n\f\r]{0,3}"
_LETTERS = r"(?P<letters>[^\W\d_]{1,2})\."  # Rs.500, but $.75
_NUMBER = (
    r"(?:(?P<grouped>-?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?)|"
    r"(?P<plain>-?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)(?:[eE][-+]?[0-9]{1,2})?))[^0-9]{0,20}$"
)
_BEHIND_LETTERS = re.compile(rf"[ \t]*(?:{_LETTERS}|{_BEFORE}){_NUMBER}")
_BEHIND_SIGNS = re.compile(rf"[ \t]*{_BEFORE}{_NUMBER}")


class Numbers(Feature):
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
        texts = as_list(table.text.iloc[:: -(-len(table) // FIT_ROWS) or 1])
        rows: Counter[str] = Counter()
        distinct: defaultdict[str, set[float]] = defaultdict(set)
        for text in texts:
            numbers = list(_numbers(text))
            rows.update(list(dict.fromkeys(label for label, _ in numbers)))
            for label, value in numbers:
                distinct[label].add(value)
        labels = [
            label
            for label, count in rows.most_common()
            if count >= MIN_SHARE * len(texts) and len(distinct[label]) >= MIN_DISTINCT
        ]
        return {"labels": labels[: len(self.names)]}

    def transform(self, table: Table, state: dict[str, Any]) -> Block:
        """Return the columns, float32 (N, `columns`); a row does not depend on other rows."""
        block = np.zeros((len(table), len(self.names)), np.float32)
        for row, text in enumerate(as_list(table.text)):
            places = {label: place for place, label in enumerate(state["labels"])}
            for label, value in _numbers(text, places):
                block[row, places.pop(label)] = value  # the first line of a label wins
        return block


def _numbers(text: str, labels: Container[str] | None = None) -> Iterator[tuple[str, float]]:
    """Yield label and number of the lines that consist of both, of some labels or any."""
    for line in text.split("\n"):
        label, colon, content = line.partition(":")
        known = 0 < len(label) <= LABEL_CHARACTERS if labels is None else label in labels
        if known and colon and len(line.encode()) <= MAX_LINE_BYTES:
            match = _BEHIND_LETTERS.match(content)
            if match and not (match["letters"] or "a").isalpha():  # "½" is in the class, but no letter
                match = _BEHIND_SIGNS.match(content)
            if match:
                grouped, plain = match["grouped"], match["plain"]
                value = float(grouped.replace(",", "") if grouped else plain.replace(",", "."))
                yield label, min(max(value, -BOUND), BOUND)
