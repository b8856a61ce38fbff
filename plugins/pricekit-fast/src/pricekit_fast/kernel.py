"""The kernel: functions of kernel.c, called with numpy's arrays."""

from __future__ import annotations

import ctypes
import secrets
import weakref
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.plugin import Kernel, PluginError, ScannedWords

ABI = 1
"""The version of the library's functions, as of `pricekit_fast_abi`."""

Array = npt.NDArray[Any]

NO_MEMORY = -2
CHARACTERS, MOST_UNKNOWN = 0x110000, 4096
WORD_LEAVES = 64
"""Leaves of a tree in a word of its set."""

CUT = np.dtype([("threshold", "f4"), ("word", "i4"), ("kept", "u8")])
"""A `Cut` of kernel.c."""


@cache
def library() -> Any:
    """Return the library; raises PluginError if it cannot be loaded, or is of another version."""
    files = sorted(Path(__file__).parent.glob("_kernel.*"))
    if not files:
        raise PluginError(
            "pricekit-fast has no compiled library, because it was not built for this platform. Install one of its "
            "wheels, or a C compiler and the package from its sources"
        )
    try:
        loaded = ctypes.CDLL(str(files[0]))
        version = loaded.pricekit_fast_abi
    except (OSError, AttributeError) as error:
        raise PluginError(
            f"the library of pricekit-fast cannot be loaded: {error}. Install the package again"
        ) from error
    version.restype = ctypes.c_int64
    if (abi := version()) != ABI:
        raise PluginError(
            f"the library of pricekit-fast has version {abi}, expected {ABI}. Install the package again"
        )
    return loaded


def call(name: str, *arguments: Array | int | ctypes.c_void_p) -> int:
    """Call a function of the library with arrays, which become pointers, whole numbers and pointers.

    Raises:
        ValueError: its arguments contradict each other.
        MemoryError: there is too little memory.
    """
    function = getattr(library(), name)
    function.restype = ctypes.c_int64
    state = int(function(*map(_argument, arguments)))
    if state == NO_MEMORY:
        raise MemoryError(f"{name} needs more memory")
    if state < 0:
        raise ValueError(f"{name}: sizes or offsets contradict each other")
    return state


def _argument(value: Array | int | ctypes.c_void_p) -> ctypes.c_void_p | ctypes.c_int64:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_int64(value) if isinstance(value, int) else value


def ints(values: Array) -> Array:
    """Return values as an array of int64 in C's order, the same one if it is."""
    return np.ascontiguousarray(values, np.int64)


class FastKernel(Kernel):
    """Functions of pricekit in C, which one processor computes several times as fast as Python."""

    version = 1

    def __init__(self) -> None:
        library()

    def words(self, texts: Any) -> ScannedWords:
        """Find the words of texts."""
        data, offset = np.ascontiguousarray(texts.data, np.uint8), ints(texts.offset)
        size, rows = len(data), len(offset) - 1
        words = call("pricekit_count_words", data, size, offset, rows)
        edges, hashes = np.empty(2 * words, np.int64), np.empty(words, np.uint64)
        each = [np.empty(rows, np.int64) for _ in range(5)]
        call("pricekit_words", data, size, offset, rows, words, edges, hashes, *each)
        return ScannedWords(edges, hashes, *each)

    def distinct(self, hashes: Array, count: Array) -> Array:
        """Return the number of different words of each text."""
        hashes, count = np.ascontiguousarray(hashes, np.uint64), ints(count)
        distinct = np.empty(len(count), np.int64)
        call("pricekit_distinct", hashes, len(hashes), count, len(count), distinct)
        return distinct

    def sum_words(self, table: Array, hashes: Array, count: Array) -> Array:
        """Return the sum over the words and word pairs of each text."""
        table, hashes, count = ints(table), np.ascontiguousarray(hashes, np.uint64), ints(count)
        sums = np.empty(len(count), np.int64)
        call("pricekit_sum_words", table, _bits(table), hashes, len(hashes), count, len(count), sums)
        return sums

    def sum_crosses(
        self, table: Array, hashes: Array, count: Array, first: Array, categories: Array
    ) -> Array:
        """Return the sum over the crosses of each text."""
        table, hashes = ints(table), np.ascontiguousarray(hashes, np.uint64)
        count, first, categories = ints(count), ints(first), ints(categories)
        _same_length(count, first, categories)
        sums, columns = np.empty(len(count), np.int64), categories.shape[1]
        call(
            "pricekit_sum_crosses",
            table,
            _bits(table),
            hashes,
            len(hashes),
            count,
            first,
            len(count),
            categories,
            columns,
            sums,
        )
        return sums

    def odd_texts(self, data: Array, offset: Array, kind: Array) -> tuple[Array, Array]:
        """Find texts that may have another normal form."""
        data, offset, kind = (
            np.ascontiguousarray(data, np.uint8),
            ints(offset),
            np.ascontiguousarray(kind, np.uint8),
        )
        if len(kind) != CHARACTERS:
            raise ValueError(f"expected the kinds of {CHARACTERS:,} characters, found {len(kind):,}")
        rows, unknown = len(offset) - 1, np.empty(MOST_UNKNOWN, np.int32)
        odd = np.empty(rows, np.uint8)
        unknowns = call("pricekit_odd_texts", data, len(data), offset, rows, kind, len(unknown), unknown, odd)
        return odd, unknown[: min(unknowns, len(unknown))]

    def word_ids(self, most_words: int, most_bytes: int) -> WordIds:
        """Return what keeps the ids of words."""
        return WordIds(most_words, most_bytes)

    def pad(self, ids: Array, offset: Array, rows: Array, pad_id: int, length: int) -> tuple[Array, Array]:
        """Return the padded ids and the mask of some texts."""
        ids, offset, rows = np.ascontiguousarray(ids, np.int32), ints(offset), ints(rows)
        padded, mask = (np.empty((len(rows), length), np.int64) for _ in range(2))
        call(
            "pricekit_pad",
            ids,
            len(ids),
            offset,
            len(offset) - 1,
            rows,
            len(rows),
            pad_id,
            length,
            padded,
            mask,
        )
        return padded, mask

    def finder(self, known: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Return a function that finds known words."""
        known = np.ascontiguousarray(known, np.uint64)
        bits = max(4, (4 * len(known)).bit_length())
        key, number = np.empty(1 << bits, np.uint64), np.empty(1 << bits, np.int32)
        call("pricekit_index", known, len(known), bits, key, number)

        def find(hashes: Array, count: Array) -> tuple[Array, Array]:
            hashes, count = np.ascontiguousarray(hashes, np.uint64), ints(count)
            row, place = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
            matches = call(
                "pricekit_find", hashes, len(hashes), count, len(count), key, number, bits, row, place
            )
            return row[:matches], place[:matches]

        return find

    def trees(
        self, columns: int, feature: Array, value: Array, right: Array, roots: Array
    ) -> Callable[[Array, Array, Array], Array]:
        """Return a function that sums the leaves of each row over the trees."""
        return Cuts(columns, feature, value, right, roots)


class WordIds:
    """The ids of words, in memory of the library; calls take turns."""

    def __init__(self, most_words: int, most_bytes: int) -> None:
        self._limits = most_words, most_bytes
        new = library().pricekit_cache_new
        new.restype = ctypes.c_void_p
        address = new(ctypes.c_uint64(secrets.randbits(64)))  # nobody may choose words that collide
        if not address:
            raise MemoryError("the words need more memory")
        self._cache = ctypes.c_void_p(address)
        weakref.finalize(self, library().pricekit_cache_free, self._cache)

    def __call__(
        self,
        data: Array,
        offset: Array,
        most: int,
        characters: int,
        short: int,
        tokenize: Callable[[list[str]], tuple[Array, Array]],
    ) -> tuple[Array, Array]:
        """Return the ids of texts, and how many each has."""
        data, offset = np.ascontiguousarray(data, np.uint8), ints(offset)
        texts, cache = len(offset) - 1, self._cache
        new = call(
            "pricekit_cache_find", cache, data, len(data), offset, texts, characters, short, *self._limits
        )
        if new:
            ids, ends = tokenize(self._waiting(new))
            ids, ends = np.ascontiguousarray(ids, np.int32), ints(ends)
            if len(ends) != new + 1:
                raise ValueError(f"expected the ids of {new:,} words, found those of {len(ends) - 1:,}")
            call("pricekit_cache_fill", cache, new, ends, ids, len(ids))
        lengths = np.empty(texts, np.int64)
        ids = np.empty(call("pricekit_cache_lengths", cache, texts, most, lengths), np.int32)
        call("pricekit_cache_ids", cache, texts, lengths, len(ids), ids)
        return ids, lengths

    def _waiting(self, new: int) -> list[str]:
        """Return the words whose ids are not known yet."""
        start = np.empty(new + 1, np.int64)
        words = np.empty(
            call("pricekit_cache_waiting", self._cache, new, start, 0, np.empty(0, np.uint8)), np.uint8
        )
        call("pricekit_cache_waiting", self._cache, new, start, len(words), words)
        content = words.tobytes()
        return [content[first:last].decode() for first, last in pairwise(start.tolist())]


class Cuts:
    """Trees column by column, see kernel.c; arguments as of `pricekit.plugin.Kernel.trees`."""

    def __init__(self, columns: int, feature: Array, value: Array, right: Array, roots: Array) -> None:
        feature, value, right = ints(feature), np.ascontiguousarray(value, np.float32), ints(right)
        _same_length(feature, value, right)
        self._columns, roots, nodes = columns, ints(roots), len(feature)
        start, end = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
        call("pricekit_leaf_ranges", feature, value, right, nodes, columns, roots, len(roots), start, end)
        self._leaf = value[feature < 0].astype(np.int64)
        self._first_leaf = np.append(start[roots], len(self._leaf))
        self._first_word = np.append(0, np.cumsum(-(-np.diff(self._first_leaf) // WORD_LEAVES)))
        inner = np.flatnonzero(feature >= 0)
        tree = np.searchsorted(roots, inner, side="right") - 1
        # A node cuts some leaves of its tree out of the set, in one or several words.
        first, last = start[inner] - self._first_leaf[tree], end[inner] - self._first_leaf[tree]
        words = (last - 1) // WORD_LEAVES - first // WORD_LEAVES + 1
        cut = np.repeat(np.arange(len(inner)), words)
        nth = np.arange(len(cut)) - np.repeat(np.cumsum(words) - words, words)
        word = first[cut] // WORD_LEAVES + nth
        low, high = (np.clip(end[cut] - WORD_LEAVES * word, 0, WORD_LEAVES) for end in (first, last))
        column, cuts = feature[inner[cut]], np.empty(len(cut), CUT)
        cuts["threshold"], cuts["word"] = value[inner[cut]], self._first_word[tree[cut]] + word
        cuts["kept"] = ~(_ONES[high] & ~_ONES[low])
        order = np.lexsort((cuts["threshold"], column))
        self._cuts = cuts[order]
        self._first_cut = ints(np.searchsorted(column[order], np.arange(columns + 1)))

    def __call__(self, dense: Array, row: Array, word: Array) -> Array:
        """Return the sums."""
        dense, row, word = np.ascontiguousarray(dense, np.float32), ints(row), ints(word)
        _same_length(row, word)
        sums = np.empty(len(dense), np.int64)
        call(
            "pricekit_leaves",
            *(self._cuts, self._first_cut, self._columns, len(self._cuts)),
            *(self._first_word, self._first_leaf, len(self._first_word) - 1, self._leaf, len(self._leaf)),
            *(dense, *dense.shape, row, word, len(row), sums),
        )
        return sums


_ONES = np.append(np.uint64(0), ~np.uint64(0) >> np.arange(WORD_LEAVES - 1, -1, -1, dtype=np.uint64))
"""Numbers with 0 to 64 lowest bits set."""


def _bits(table: Array) -> int:
    """Return the b of a table of 2^b + 1 numbers; raises ValueError for another one."""
    bits = (len(table) - 1).bit_length() - 1
    if len(table) != (1 << bits) + 1:
        raise ValueError(f"expected a table of 2^b + 1 numbers, found {len(table):,}")
    return bits


def _same_length(*arrays: Array) -> None:
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"expected arrays of one length, found {[len(array) for array in arrays]}")
