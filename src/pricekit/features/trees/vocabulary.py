"""Counts of known words in many texts.

A word is a run of ASCII letters, digits and other characters, see `pricekit.features.words`, whose hashes serve here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pricekit.features.labelled_lines import as_strings, join_texts, numpy_of
from pricekit.features.words import Words, split_words

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

MOST_WORDS = (1 << 15) - 1
SLOTS_PER_WORD = 16  # so that few words share a slot; the slots of 1,000 words take 32 kB
SHORTEST = 64  # slots


def common_words(parts: Sequence[Words], most: int, least_rows: int) -> list[str]:
    """Return the words that occur in the most texts, in lower case, the most frequent first.

    Args:
        parts: the words of the training rows.
        most: maximum number of words.
        least_rows: minimum number of texts that have the word.
    """
    hashes, row = _joined([part.hashes() for part in parts], np.uint64), _rows(parts)
    kind = numpy_of(pa.array(hashes).dictionary_encode().indices).astype(
        np.int64
    )  # numbered as they first occur
    first = np.flatnonzero(np.diff(np.maximum.accumulate(kind), prepend=-1))
    texts = int(row[-1]) + 1 if len(row) else 1
    word_of_text = np.sort(kind * texts + row)
    once = np.diff(word_of_text, prepend=-1) > 0
    frequency = np.bincount(word_of_text[once] // texts, minlength=len(first))
    order = np.argsort(-frequency, kind="stable")[:most]
    begin = np.cumsum([0, *(len(part.hashes()) for part in parts)])
    of = np.searchsorted(begin, first[order], side="right") - 1
    return [
        parts[part].word(number - begin[part])
        for part, number, rows in zip(of, first[order], frequency[order], strict=True)
        if rows >= least_rows
    ]


def _joined(parts: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts])


def _rows(parts: Sequence[Words]) -> Ints:
    """Return the text of each word, (W,)."""
    begin = np.cumsum([0, *(len(part.count()) for part in parts)])
    return _joined([start + part.row() for start, part in zip(begin, parts, strict=False)], np.int64)


class WordTable:
    """The numbers of V known words by hash: an open-addressed hash table in numpy."""

    def __init__(self, words: Sequence[str]) -> None:
        """Store at most `MOST_WORDS` words; each must be one word in lower case."""
        if len(words) > MOST_WORDS:
            raise ValueError(f"expected at most {MOST_WORDS:,} words, found {len(words):,}")
        parts = split_words(join_texts(as_strings(pd.Series(list(words), dtype=object))))
        if words and np.concatenate([part.count() for part in parts]).tolist() != [1] * len(words):
            raise ValueError("expected texts of one word each")
        hashes = _joined([part.hashes() for part in parts], np.uint64)
        bits = math.ceil(math.log2(max(SHORTEST, SLOTS_PER_WORD * len(words))))
        self._shift = np.uint64(64 - bits)
        self._hash = np.concatenate([np.zeros(1, np.uint64), hashes])  # number 0 is an empty slot
        self._slot = np.zeros((1 << bits) + len(words) + 1, np.int16)
        self._probes = 1
        for number, place in enumerate(self._places(hashes).tolist(), start=1):
            free = place
            while self._slot[free]:
                free += 1
            self._slot[free] = number
            self._probes = max(self._probes, free - place + 1)

    def find(self, hashes: Hashes) -> npt.NDArray[np.int16]:
        """Return the number of each word from 1, 0 for unknown words, (W,)."""
        place = self._places(hashes)
        number = self._slot.take(place)
        same = self._hash.take(number) == hashes
        left = np.flatnonzero((number > 0) & ~same)  # words whose slot another word has taken
        found: npt.NDArray[np.int16] = number * same
        for probe in range(1, self._probes):
            number = self._slot.take(place[left] + probe)
            same = self._hash.take(number) == hashes[left]
            found[left[same]] = number[same]
            left = left[(number > 0) & ~same]
        return found

    def _places(self, hashes: Hashes) -> Ints:
        return (hashes >> self._shift).astype(np.int64)


def find_words(parts: Sequence[Words], table: WordTable) -> tuple[Ints, Ints]:
    """Find the known words of N texts: the text, ascending, and the number of each occurrence, int64 (K,) each."""
    rows, numbers, start = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for part in parts:
        found = table.find(part.hashes())
        known = np.flatnonzero(found)
        rows.append(start + part.row()[known])
        numbers.append(found[known].astype(np.int64) - 1)
        start += len(part.count())
    return np.concatenate(rows), np.concatenate(numbers)
