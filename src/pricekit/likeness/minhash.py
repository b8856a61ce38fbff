"""MinHash of many texts at once (Broder 1997).

A text is the set of its pairs of neighbouring words, each hashed to 32 bits; a number counts as a word "0".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from pricekit.likeness.words import Ints, NormalWords

PERMUTATIONS = 128
MIN_PAIRS = 6
"""Texts with fewer different word pairs have no signature."""

Hashes = npt.NDArray[np.uint32]

_BLOCK = 1 << 15
"""Hashes that are permuted at a time, which fit into a CPU's cache."""


def signatures(words: NormalWords) -> tuple[Ints, Hashes]:
    """Return the rows that have a signature, int64 (S,), ascending, and their signatures, uint32 (S, 128)."""
    factor, offset = _permutations()
    pairs, count = _word_pairs(words)
    rows = np.flatnonzero(count >= MIN_PAIRS)
    start = np.cumsum(count) - count
    mixed, found = _mixed(pairs), np.empty((len(rows), PERMUTATIONS), np.uint32)
    for some in _blocks(count[rows]):
        first, length = start[rows[some]], count[rows[some]]
        within = np.minimum(
            np.arange(length.max())[:, None], length - 1
        )  # the last pair fills a shorter text
        block = mixed[first + within]
        permuted, least = np.empty_like(block), np.empty((PERMUTATIONS, len(some)), np.uint32)
        for number in range(PERMUTATIONS):
            np.multiply(block, factor[number], out=permuted)
            np.add(permuted, offset[number], out=permuted)
            np.minimum.reduce(permuted, axis=0, out=least[number])
        found[some] = least.T
    return rows, found


def _permutations() -> tuple[Hashes, Hashes]:
    """Return what permutes the numbers of 32 bits, factor·h + offset; an odd factor gives no two the same number."""
    random = np.random.RandomState(1)  # its numbers never change with numpy
    half = random.randint(1 << 31, size=PERMUTATIONS, dtype=np.uint32)
    return 2 * half + np.uint32(1), random.randint(1 << 32, size=PERMUTATIONS, dtype=np.uint32)


def _blocks(length: Ints) -> Iterator[Ints]:
    """Yield texts of similar length, in blocks of about `_BLOCK` hashes."""
    order = np.argsort(length, kind="stable")
    start = 0
    while start < len(order):
        most = length[order[min(len(order) - 1, start + _BLOCK // length[order[start]])]]
        end = start + max(1, _BLOCK // most)
        yield order[start:end]
        start = end


def _word_pairs(words: NormalWords) -> tuple[Hashes, Ints]:
    """Return the different pairs of neighbouring words of each text, text after text, and their number, int64 (N,)."""
    plain = pc.replace_substring_regex(words.known, r"\pN+", "0").to_pylist()
    code = np.array([zlib.crc32(word.encode()) for word in plain], np.uint64)
    filled = np.array([word != "" for word in plain], np.bool_)[words.word]
    row = np.repeat(np.arange(len(words.ends) - 1), np.diff(words.ends))[filled]
    hashed = code[words.word[filled]]
    pair = hashed[:-1] * np.uint64(0x9E3779B1) + hashed[1:]
    pair = (pair ^ (pair >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    same = row[1:] == row[:-1]
    keys = np.sort((row[1:][same].astype(np.uint64) << np.uint64(32)) | pair[same])
    keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    count = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(words.ends) - 1)
    return keys.astype(np.uint32), count


def _mixed(values: Hashes) -> Hashes:
    """Spread values over all 32 bits by the finalizer of MurmurHash3, so that similar values become different ones."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))
