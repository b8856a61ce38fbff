"""The words of texts as they are compared: in lower case and Unicode's NFKC, without punctuation.

Most of the work is done once for each different run of letters, digits and characters beyond ASCII, of which a part of
a table has few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.mapped import rows_read

Ints = npt.NDArray[np.int64]

PART_BYTES = 4 << 20
"""Of the texts that are compared at a time; the work arrays take about ten times as much."""

_FOLDED = r"[\pP\pS\pZ\pC]+"
"""Punctuation, symbols, white space and control characters; letters, marks and digits stay."""

_IN_RUN = bytes(chr(byte).isalnum() or byte >= 128 for byte in range(256))
"""For each byte, 1 if it belongs to a run: an ASCII letter, a digit, or a part of another character."""


@dataclass(frozen=True)
class NormalWords:
    """The words of N texts, W in all.

    Attributes:
        known: the different words, large strings (D,).
        word: the place of each word among them, int64 (W,).
        ends: where each text begins and ends among the words, int64 (N + 1,).
    """

    known: pa.LargeStringArray
    word: Ints
    ends: Ints

    def hashes(self, cells: pa.LargeStringArray) -> Ints:
        """Return a hash of each text, int64 (N,), equal for texts of the same words; `cells` are the texts.

        A text without words is compared as it is. The hashes hold in this process only. Of a million different texts,
        two have the same hash with a probability of 3e-8.
        """
        every = np.array([hash(word) for word in self.known.to_pylist()], np.int64)[self.word].tobytes()
        found = [hash(every[start:end]) for start, end in pairwise((8 * self.ends).tolist())]
        for row in np.flatnonzero(np.diff(self.ends) == 0).tolist():
            found[row] = hash(cells[row].as_py())
        return np.array(found, np.int64)


def text_parts(texts: pd.Series) -> Iterator[pa.LargeStringArray]:
    """Yield texts, (N,), in consecutive parts of about `PART_BYTES`, without copying."""
    column = pa.array(texts)
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        cells = chunk.cast(pa.large_string())
        part = np.cumsum(pc.binary_length(cells).to_numpy(zero_copy_only=False)) // PART_BYTES
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(cells)]):
            yield cells.slice(start, end - start)
            rows_read(end - start)


def normal_words(cells: pa.LargeStringArray) -> NormalWords:
    """Return the words of texts, (N,) large strings without nulls.

    Example:
        >>> words = normal_words(pa.array(["Green TEA!", "", "tea–pot"], pa.large_string()))
        >>> words.known.take(pa.array(words.word)).to_pylist(), words.ends.tolist()
        (['green', 'tea', 'tea', 'pot'], [0, 2, 2, 4])
    """
    runs, run, ends = _runs(cells)
    words, count = _words_of(runs)
    first = np.cumsum(count) - count
    each = count[run]
    place = np.concatenate([[0], np.cumsum(each)])
    within = np.arange(place[-1]) - np.repeat(place[:-1], each)
    coded = words.dictionary_encode()
    word = coded.indices.to_numpy()[np.repeat(first[run], each) + within]
    return NormalWords(coded.dictionary, word.astype(np.int64), place[ends])


def _runs(cells: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Ints, Ints]:
    """Return the different runs, the place of each run among them, and where each text begins and ends among all."""
    limits, data = _bytes_of(cells)
    inside = np.frombuffer(data.tobytes().translate(_IN_RUN), np.bool_)
    begins, stops = inside.copy(), inside.copy()
    begins[1:] &= ~inside[:-1]
    stops[:-1] &= ~inside[1:]
    filled = np.flatnonzero(np.diff(limits))  # a run ends with its text
    begins[limits[filled]] = inside[limits[filled]]
    stops[limits[filled + 1] - 1] = inside[limits[filled + 1] - 1]
    start = np.flatnonzero(begins)
    # Runs and what is between them, alternately, are strings over the same bytes.
    offsets = np.empty(2 * len(start) + 1, np.int64)
    offsets[:-1:2], offsets[1::2], offsets[-1] = start, np.flatnonzero(stops) + 1, len(data)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    coded = pa.Array.from_buffers(pa.large_string(), 2 * len(start), buffers).dictionary_encode()
    return coded.dictionary, coded.indices.to_numpy()[::2].astype(np.int64), np.searchsorted(start, limits)


def _words_of(runs: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Ints]:
    """Return the words of all runs, and their number in each run."""
    spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(runs, _FOLDED, " "))
    folded = pc.utf8_lower(pc.utf8_normalize(spaced, form="NFKC"))
    words = pc.split_pattern(folded, " ")  # NFKC makes a space of a few letters, and so an empty word
    count = pc.list_value_length(words).to_numpy() * pc.not_equal(folded, "").to_numpy(zero_copy_only=False)
    return words.filter(pa.array(count > 0)).flatten(), count


def _bytes_of(cells: pa.LargeStringArray) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return where texts begin and end in their bytes, int64 (N + 1,), and these bytes."""
    _, offsets, data = cells.buffers()
    if not len(cells) or data is None:
        return np.zeros(len(cells) + 1, np.int64), np.zeros(0, np.uint8)
    limits = np.frombuffer(offsets, np.int64, len(cells) + 1, 8 * cells.offset)
    return limits - limits[0], np.frombuffer(data, np.uint8)[limits[0] : limits[-1]]
