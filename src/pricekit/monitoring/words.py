"""The distinct words of texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_CHARACTERS = 32_768
"""Longer texts are cut, as features do."""
LONGEST_WORD = 40
"""Characters of a word; longer ones are several words."""

_WORD = re.compile(rf"[^\W\d_]{{1,{LONGEST_WORD}}}")


@dataclass(frozen=True)
class Documents:
    """The distinct words of N texts, in lower case; a word is a run of letters.

    Attributes:
        count: the number of texts, N.
        vocabulary: the V distinct words of all texts.
        row: the text of each of the W pairs of a text and a word that it has, int64 (W,), ascending.
        word: the word of each pair, its number in the vocabulary, int64 (W,).
    """

    count: int
    vocabulary: list[str]
    row: np.ndarray
    word: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        """The number of texts that have each word, int64 (V,)."""
        return np.bincount(self.word, minlength=len(self.vocabulary))

    def outside(self, known: Collection[str]) -> np.ndarray:
        """Return which pairs have a word that is not among those that are known, bool (W,)."""
        unknown = np.array([word not in known for word in self.vocabulary], bool)
        found: np.ndarray = unknown[self.word]
        return found

    def words_of(self, row: int) -> list[str]:
        """Return the distinct words of a text, in their order."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return [self.vocabulary[word] for word in self.word[first:last]]


def documents_of(texts: Sequence[str]) -> Documents:
    """Return the distinct words of texts, (N,).

    Example:
        >>> found = documents_of(["Green tea, 20 count", "Tea 12oz"])
        >>> found.vocabulary, found.rows.tolist(), found.words_of(1)
        (['green', 'tea', 'count', 'oz'], [1, 2, 1, 1], ['tea', 'oz'])
    """
    numbers: dict[str, int] = {}
    words: list[int] = []
    counts = np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts):
        found = dict.fromkeys(_WORD.findall(text[:MOST_CHARACTERS].lower()))
        words += [numbers.setdefault(word, len(numbers)) for word in found]
        counts[row] = len(found)
    row_of_pair = np.repeat(np.arange(len(texts)), counts)
    return Documents(len(texts), list(numbers), row_of_pair, np.array(words, np.int64))
