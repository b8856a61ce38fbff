"""Words of texts, on their UTF-8 bytes: statistics, hashes, and counts of known words.

A word is a maximal run of ASCII letters, digits and non-ASCII characters: "Ken's 12oz" has three words, as does
"a-b c". ASCII letters are compared case-insensitively, other characters exactly.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pricekit.io.locks import renewed_in_child
from pricekit.text.kernel import ScannedWords, kernel
from pricekit.text.labelled_lines import (
    FEW_TEXTS,
    Bools,
    Bytes,
    Floats,
    Ints,
    Texts,
    as_strings,
    join_texts,
    joined_texts,
    numpy_of,
    offsets_of,
    ranges,
    run_edges,
    shared,
)

LETTERS = re.compile(r"[^\W\d_]{1,40}")
"""A word of letters only, as "oz" in "12oz"; a longer one is cut."""
PART_BYTES = 1 << 19
"""The work arrays take many times the bytes of the words; a part and its arrays fit into the processor's cache."""
WORD_BYTES = 64
"""Words that agree in this many bytes are the same word for vocab_richness."""

ODD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio in 64 bits, the multiplier of Fibonacci hashing
_ODD, _64_BITS = int(ODD), (1 << 64) - 1
_ROW_BITS = np.uint64(20)
_WORD = re.compile(rb"[0-9a-z\x80-\xff]+")
"""Of ASCII lower case, as of `in_words`."""
_SENTENCE_END = re.compile(rb"[.!?](?=[\t-\r ])")

Hashes = npt.NDArray[np.uint64]


def _among(data: Bytes, first: str, last: str) -> Bools:
    """Report which bytes lie between two ASCII characters; uint8 wraps around, so one comparison is enough."""
    return (data - np.uint8(ord(first))) <= ord(last) - ord(first)


def in_words(data: Bytes) -> Bools:
    """Report which bytes belong to words: ASCII letters, digits, and parts of other characters."""
    return _among(data | np.uint8(32), "a", "z") | _among(data, "0", "9") | (data >= 128)


@renewed_in_child
class Words:
    """Word statistics of N texts, fewer than 2**20; shared arrays are computed on first use.

    A kernel, or `_scan` for a few texts, computes most of them in one pass, with the same results.
    """

    def __init__(self, texts: Texts) -> None:
        """Store the texts."""
        self._texts = texts

    @cached_property
    def _scanned(self) -> ScannedWords | None:
        """What is found in one pass; None for many texts without a kernel."""
        if (compiled := kernel()) is not None:
            return compiled.words(self._texts)
        return _scan(self._texts) if len(self._texts) <= FEW_TEXTS else None

    @cached_property
    def _lower(self) -> Bytes:
        data = self._texts.data
        return data | (_among(data, "A", "Z").view(np.uint8) << np.uint8(5))

    @cached_property
    def _edges(self) -> Ints:
        """Byte positions where words begin and end, alternating; the newline after each text ends its last word."""
        edges = None if self._scanned is None else self._scanned.edges
        return run_edges(in_words(self._lower)) if edges is None else edges

    def word(self, number: int) -> str:
        """Return one of the words, in ASCII lower case."""
        return self._lower[self._edges[2 * number] : self._edges[2 * number + 1]].tobytes().decode()

    def row(self) -> Ints:
        """Return the text of each word, (W,)."""
        return np.repeat(np.arange(len(self.count)), self.count)

    @cached_property
    def count(self) -> Ints:
        """The number of words of each text, (N,)."""
        return self._texts.count(self._edges[::2]) if self._scanned is None else self._scanned.count

    def first_lines(self, most: int) -> tuple[Ints, Ints]:
        """Return the words of the texts' first lines, at most `most` of each.

        Returns:
            Their numbers, ascending, and how many each text has, (N,).
        """
        count = np.minimum(self._first_line, most)
        return ranges(offsets_of(self.count)[:-1], count), count

    @cached_property
    def _first_line(self) -> Ints:
        """The number of words of each text's first line, (N,)."""
        if self._scanned is not None:
            return self._scanned.first_line
        line_end = np.flatnonzero(self._lower == ord("\n"))
        line_end = line_end[np.searchsorted(line_end, self._texts.offset[:-1])]
        count: Ints = np.searchsorted(self._edges[::2], line_end) - offsets_of(self.count)[:-1]
        return count

    def mean_length(self) -> Floats:
        """Return the average number of characters per word, 0 without words, (N,)."""
        if self._scanned is None:
            total = offsets_of(self._edges[1::2] - self._edges[::2])
            inside = np.diff(total[offsets_of(self.count)])
        else:
            inside = self._scanned.letters
        # The extra bytes of non-ASCII characters are inside words; the newline is outside.
        beyond = np.diff(self._texts.offset) - 1 - self._texts.characters
        mean: Floats = (inside - beyond) / np.maximum(self.count, 1)
        return mean

    def richness(self) -> Floats:
        """Return distinct words divided by words, 0 without words, (N,)."""
        if (compiled := kernel()) is not None:
            return compiled.distinct(self.hashes, self.count) / np.maximum(self.count, 1)
        rows = len(self._texts)
        if rows <= FEW_TEXTS:
            keys = np.split(self.hashes >> _ROW_BITS, np.cumsum(self.count)[:-1])
            return np.array([len({*key.tolist()}) for key in keys]) / np.maximum(self.count, 1)
        row = np.repeat(np.arange(rows, dtype=np.uint64) << (np.uint64(64) - _ROW_BITS), self.count)
        key = self.hashes >> _ROW_BITS | row
        key.sort()
        new = np.concatenate([np.ones(min(len(key), 1), bool), key[1:] != key[:-1]])
        first = (key[new] >> (np.uint64(64) - _ROW_BITS)).astype(np.int64)
        return np.bincount(first, minlength=rows) / np.maximum(self.count, 1)

    def sentences(self) -> Ints:
        """Count full stops, question and exclamation marks before whitespace; at least 1 if there are words, (N,)."""
        if self._scanned is not None:
            return self._scanned.sentences
        data = self._lower
        mark = np.flatnonzero((data == ord(".")) | (data == ord("!")) | (data == ord("?")))
        follows = data[mark + 1]  # never out of bounds: the last byte is a newline
        ends = mark[_among(follows, "\t", "\r") | (follows == ord(" "))]
        return np.maximum(self._texts.count(ends), np.minimum(self.count, 1))

    def commas(self) -> Ints:
        """Return the number of commas of each text, (N,)."""
        if self._scanned is not None:
            return self._scanned.commas
        return self._texts.count(np.flatnonzero(self._lower == ord(",")))

    @cached_property
    def hashes(self) -> Hashes:
        """A hash of each word, (W,), of at most `WORD_BYTES` bytes, which does not depend on case in ASCII."""
        if self._scanned is not None:
            return self._scanned.hashes
        # Eight bytes at a time; few words are longer, so later rounds are short.
        padded = np.concatenate([self._lower, np.zeros(8, np.uint8)])
        eight = np.ndarray(len(self._lower) + 1, "<u8", padded, strides=(1,))  # from each position
        start = self._edges[::2]
        length = self._edges[1::2] - start
        code = _word_mixed(eight[start], length)
        for k in range(8, WORD_BYTES, 8):
            longer = np.flatnonzero(length > k)
            if not len(longer):
                break
            code[longer] = code[longer] * ODD ^ _word_mixed(eight[start[longer] + k], length[longer] - k)
        return code


def _scan(texts: Texts) -> ScannedWords:
    """Find the words of a few texts."""
    scanned = []
    for first, last in pairwise(texts.offset.tolist()):
        data = texts.data[first:last].tobytes().lower()
        words = _WORD.findall(data)
        bytes_of_words, title = sum(map(len, words)), len(_WORD.findall(data, 0, data.index(b"\n")))
        ends = max(len(_SENTENCE_END.findall(data)), min(len(words), 1))
        scanned.append((words, len(words), bytes_of_words, ends, data.count(b","), title))
    words_of_texts, *counts = zip(*scanned, strict=True) if scanned else ([],) * 6
    hashes = np.frombuffer(b"".join(map(_hash_of, itertools.chain.from_iterable(words_of_texts))), "<u8")
    count, letters, sentences, commas, first_line = (np.array(each, np.int64) for each in counts)
    return ScannedWords(None, hashes, count, letters, sentences, commas, first_line)


@lru_cache(maxsize=1 << 16)
def _hash_of(word: bytes) -> bytes:
    """Return the hash of one word in lower case, as of `Words.hashes`, in eight bytes."""
    code = 0
    for begin in range(0, min(len(word), WORD_BYTES), 8):
        piece = word[begin : begin + 8]
        number = _mixed_number(int.from_bytes(piece, "little") << 8 * (8 - len(piece)))
        code = code * _ODD & _64_BITS ^ number if begin else number
    return code.to_bytes(8, "little")


def _mixed_number(code: int) -> int:
    """Return what `mixed` returns of one number."""
    code = code * _ODD & _64_BITS
    return (code ^ code >> 32) * _ODD & _64_BITS


def words_of(texts: pd.Series) -> list[Words]:
    """Return the words of texts, (N,), in parts; several features share them."""
    return shared(texts, words_of, lambda: split_words(joined_texts(texts)))


def split_words(texts: Texts) -> list[Words]:
    """Return the words of texts in parts of about `PART_BYTES`."""
    return [Words(part) for part in texts.parts(PART_BYTES)]


def _word_mixed(piece: Hashes, length: Ints) -> Hashes:
    """Drop the bytes after the end of a word (no byte of a word is 0) and mix the others over all 64 bits."""
    return mixed(piece << (8 * np.maximum(8 - length, 0)).astype(np.uint64))


def mixed(code: Hashes) -> Hashes:
    """Spread the information of numbers over all their 64 bits."""
    code = code * ODD
    code ^= code >> np.uint64(32)
    return code * ODD


MOST_WORDS = (1 << 15) - 1


def common_words(parts: Sequence[Words], most: int, least_rows: int) -> list[str]:
    """Return the words that occur in the most texts, in lower case, the most frequent first.

    Args:
        parts: the words of the training rows.
        most: maximum number of words.
        least_rows: minimum number of texts that have the word.
    """
    begin = np.cumsum([0, *(len(part.count) for part in parts)])
    row = np.concatenate([start + part.row() for start, part in zip(begin, parts, strict=False)])
    coded = pa.array(np.concatenate([part.hashes for part in parts])).dictionary_encode()
    kind = numpy_of(coded.indices).astype(np.int64)  # numbered as they first occur
    first = np.flatnonzero(np.diff(np.maximum.accumulate(kind), prepend=-1))
    texts = int(row[-1]) + 1 if len(row) else 1
    word_of_text = np.sort(kind * texts + row)
    once = np.diff(word_of_text, prepend=-1) > 0
    frequency = np.bincount(word_of_text[once] // texts, minlength=len(first))
    order = np.argsort(-frequency, kind="stable")[:most]
    begin = np.cumsum([0, *(len(part.hashes) for part in parts)])
    of = np.searchsorted(begin, first[order], side="right") - 1
    return [
        parts[part].word(number - begin[part])
        for part, number, rows in zip(of, first[order], frequency[order], strict=True)
        if rows >= least_rows
    ]


class WordTable:
    """The numbers of V known words by hash."""

    def __init__(self, words: Sequence[str]) -> None:
        """Store at most `MOST_WORDS` words; each must be one word in lower case, and no two the same."""
        if len(words) > MOST_WORDS:
            raise ValueError(f"expected at most {MOST_WORDS:,} words, found {len(words):,}")
        parts = split_words(join_texts(as_strings(pd.Series(list(words), dtype=object))))
        if np.concatenate([part.count for part in parts]).tolist() != [1] * len(words):
            raise ValueError("expected texts of one word each")
        hashes = np.concatenate([part.hashes for part in parts])
        index = pd.Index(hashes)
        if not index.is_unique:
            raise ValueError("expected different words")
        self._index = index
        self._number = {code: number for number, code in enumerate(hashes.tolist())}
        self._index.get_indexer(np.zeros(1, np.uint64))  # builds the hash table, before threads share it
        compiled = kernel()
        self._compiled = None if compiled is None else compiled.finder(hashes)

    def find(self, words: Words) -> tuple[Ints, Ints]:
        """Return the text, ascending, and the number of each occurrence of a known word, int64 (K,) each."""
        if self._compiled is not None:
            return self._compiled(words.hashes, words.count)
        if len(words.count) <= FEW_TEXTS:
            number = np.array([self._number.get(code, -1) for code in words.hashes.tolist()], np.int64)
        else:
            number = self._index.get_indexer(words.hashes)
        known = np.flatnonzero(number >= 0)
        return words.row()[known], number[known]


def find_words(parts: Sequence[Words], table: WordTable) -> tuple[Ints, Ints]:
    """Find the known words of N texts: the text, ascending, and the number of each occurrence, int64 (K,) each."""
    rows, numbers, start = [], [], 0
    for part in parts:
        row, number = table.find(part)
        rows.append(start + row)
        numbers.append(number)
        start += len(part.count)
    return np.concatenate(rows), np.concatenate(numbers)
