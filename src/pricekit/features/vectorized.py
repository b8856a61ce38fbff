"""Many texts parsed together, with Arrow.

A batch costs about 20 ms, mostly to compile regular expressions, and then about 40 µs per text. `rowwise` parses
a few texts faster, with the same results.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.features import brand_category, quantity
from pricekit.features.labelled_lines import Ints, Lines, Texts, join_texts, numpy_of, split_lines
from pricekit.features.quantity import Amounts, Packs
from pricekit.features.words import Words, split_words
from pricekit.support.locks import renewed_in_child


@renewed_in_child
class VectorizedTexts:
    """N parsed texts, see `columns.ParsedTexts`; each attribute is computed on first use."""

    def __init__(
        self, texts: pa.LargeStringArray, state: brand_category.State, words: list[Words] | None = None
    ) -> None:
        self.state = state
        self._words = words
        self._strings = texts
        self.texts: Texts = join_texts(texts)

    @cached_property
    def words(self) -> list[Words]:
        """The words of the texts, in parts."""
        return split_words(self.texts) if self._words is None else self._words

    @cached_property
    def lines(self) -> Lines:
        """The lines of the texts."""
        return split_lines(self.texts)

    @cached_property
    def name(self) -> pa.LargeStringArray:
        """The item names as written, (N,)."""
        return self.lines.titles(self.state["label"])

    @cached_property
    def title(self) -> pa.LargeStringArray:
        """The item names in ASCII lower case and with ASCII fractions, (N,)."""
        return quantity.clean_title(self.name)

    @cached_property
    def sized(self) -> pa.LargeStringArray:
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

    def has_content(self, kind: str) -> npt.NDArray[np.bool_]:
        """Return whether the first line of a kind has content, (N,)."""
        return numpy_of(pc.not_equal(self.lines.find(kind), ""))

    def contains(self, strings: Any, expression: str) -> npt.NDArray[np.bool_]:
        """Return whether an expression matches anywhere in each name or title, (N,)."""
        return numpy_of(pc.match_substring_regex(strings, expression))

    def count(self, strings: Any, expression: str) -> Ints:
        """Count the matches of an expression in each name or title, (N,)."""
        return numpy_of(pc.count_substring_regex(strings, expression))
