"""Texts that are equal whatever their case and punctuation, and pairs of nearly equal texts.

Texts are compared by their words in lower case and Unicode's NFKC. Most of the work is done once for each different
run of letters, digits and characters beyond ASCII, of which a part of a table has few. Pairs are found by MinHash and
banding (Leskovec et al., Mining of Massive Datasets, chapter 3).
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.io.cpus import in_threads
from pricekit.io.mapped import map_file, rows_read, scratch_file
from pricekit.io.progress import progress
from pricekit.text.labelled_lines import (
    Ints,
    batches,
    bytes_of,
    data_of,
    distinct,
    in_parts,
    numpy_of,
    offsets_of,
    ranges,
)
from pricekit.text.words import ODD, in_words

PART_BYTES = 4 << 20
"""Of the texts that are compared at a time; the work arrays take about ten times as much."""

_FOLDED = r"[\pP\pS\pZ\pC]+"
"""Punctuation, symbols, white space and control characters; letters, marks and digits stay."""

_LABEL_SHARE = 0.2

PERMUTATIONS = 128
MIN_PAIRS = 6
"""Texts with fewer different word pairs have no signature."""

_FIRST_PAIRS = 16
"""The pairs of a text in which different ones are looked for first."""

Hashes = npt.NDArray[np.uint32]

_BLOCK = 1 << 15
"""About as many hashes are permuted at a time, which fit into a CPU's cache."""

_BAND = 8
"""Values of a band: with 16 bands, texts of similarity 0.85 share one with probability 0.994."""

_BANDS_AT_ONCE = 2
"""Bands that are compared at the same time: 30 bytes of memory for a text and a band."""

_PAIRS_AT_ONCE = 100_000
_TEXTS_AT_ONCE = 1 << 16


def equal_texts(texts: pd.Series) -> np.ndarray:
    """Return a number from 0 for each text, int64 (N,); texts of the same `normal_words` share a number.

    Texts without words, such as "!!", are equal only if all their characters are. A row takes 8 bytes, see
    `NormalWords.hashes`.

    Example:
        >>> equal_texts(pd.Series(["Green Tea", "ink", "green  tea!"])).tolist()
        [0, 1, 0]
    """
    if (known := _numbers.of(texts)) is not None:
        return known
    hashes = in_threads(lambda cells: normal_words(cells).hashes(cells), text_parts(texts))
    return _numbers.add(texts, numbered(np.concatenate([np.zeros(0, np.int64), *hashes])))


class _Numbers:
    """What `equal_texts` returned for texts that still exist: a split, its folds and each feature ask for it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Ints]] = {}

    def of(self, texts: pd.Series) -> Ints | None:
        """Return the numbers of texts, int64 (N,), which nobody may change; None if they are not known."""
        data = data_of(texts)
        known = self._known.get(id(data))
        return known[1] if known is not None and known[0]() is data else None

    def add(self, texts: pd.Series, numbers: Ints) -> Ints:
        """Remember the numbers of texts; return them."""
        data = data_of(texts)
        key = id(data)
        numbers.flags.writeable = False
        self._known[key] = weakref.ref(data, lambda _: self._known.pop(key, None)), numbers
        return numbers


_numbers = _Numbers()


def numbered(hashes: np.ndarray) -> np.ndarray:
    """Return a number for each hash, int64 (N,), from 0 in the order in which different ones first appear."""
    return np.asarray(pd.factorize(hashes)[0], np.int64)


def few_distinct(groups: np.ndarray) -> bool:
    """Return whether texts are labels, each for many products: fewer than a fifth are distinct.

    Args:
        groups: as `equal_texts` returns them, int64 (N,).
    """
    return bool(len(groups)) and int(groups.max()) + 1 < _LABEL_SHARE * len(groups)


@dataclass(frozen=True)
class Compared:
    """Which of N texts are equal, and the signatures of the others: 512 bytes for each, of many texts in a mapped file.

    Attributes:
        same: as of `equal_texts`, int64 (N,); U different numbers.
        number: the different texts that have a signature, int64 (S,), ascending.
        signature: uint32 (R, 128); a text that occurs again has more than one.
        place: where the signature of each of these texts is, int64 (S,).
    """

    same: Ints
    number: Ints
    signature: Hashes
    place: Ints

    def similarity(self, pairs: Ints) -> npt.NDArray[np.float64]:
        """Estimate the Jaccard similarity of pairs of the S texts, int64 (P, 2); the standard error is up to 0.044."""
        similarity = [np.zeros(0)]
        for part in np.array_split(pairs, 1 + len(pairs) // _PAIRS_AT_ONCE):
            one, other = (self.signature[self.place[part[:, side]]] for side in (0, 1))
            similarity.append((one == other).mean(axis=1))
            rows_read(part.size)
        return np.concatenate(similarity)


def compare(texts: pd.Series, *, folder: Path | None = None) -> Compared:
    """Compare texts, (N,).

    Args:
        texts: (N,).
        folder: where a file for the signatures of texts is written; None: where temporary files are. The file has
            no name and disappears with the result.

    Raises:
        OSError: the file cannot be written; the error names the folder.
    """
    hashes, rows, start = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    with scratch_file(folder) as signed:
        with progress("searching for near-duplicates", len(texts)) as advance:
            for hashed, some, part in in_threads(_fingerprints, text_parts(texts)):
                signed.write(part.data)
                hashes.append(hashed)
                rows.append(start + some)
                start += len(hashed)
                advance(len(hashed))
        signature = np.frombuffer(map_file(signed), np.uint32).reshape(-1, PERMUTATIONS)
    same, row = _numbers.add(texts, numbered(np.concatenate(hashes))), np.concatenate(rows)
    first = np.diff(np.maximum.accumulate(np.append(-1, same))) > 0  # numbers rise where a text is new
    place = np.flatnonzero(first[row])
    return Compared(same, same[row[place]], signature, place)


def _fingerprints(cells: pa.LargeStringArray) -> tuple[Ints, Ints, Hashes]:
    """Return a hash of each text, the rows that have a signature, and their signatures."""
    words = normal_words(cells)
    return words.hashes(cells), *signatures(words)


def similar_pairs(compared: Compared) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return pairs of different texts that agree in a band, int64 (P, 2), and their estimated similarity, (P,)."""
    bands = range(0, PERMUTATIONS, _BAND)
    agreeing = in_threads(lambda start: _pairs_of_equal(_band_keys(compared, start)), bands, _BANDS_AT_ONCE)
    both = distinct(np.concatenate(list(agreeing)))
    pairs = np.stack(np.divmod(both, max(1, len(compared.place))), 1)
    return compared.number[pairs], compared.similarity(pairs)


def _band_keys(compared: Compared, start: int) -> npt.NDArray[np.uint64]:
    """Return a hash of the values of a band, uint64 (S,)."""
    keys = np.zeros(len(compared.place), np.uint64)
    for first in range(0, len(compared.place), _TEXTS_AT_ONCE):
        some = slice(first, first + _TEXTS_AT_ONCE)
        values = compared.signature[compared.place[some], start : start + _BAND]
        for part in np.ascontiguousarray(values).view(np.uint64).T:
            keys[some] = (keys[some] ^ (keys[some] >> np.uint64(32)) ^ part) * ODD
        rows_read(len(values))
    return keys


def _pairs_of_equal(key: npt.NDArray[np.uint64]) -> Ints:
    """Return the pairs of equal keys, one number for each: a text with the first such text and the previous one.

    All pairs of a bucket would be too many if thousands of texts share a template.
    """
    order = np.argsort(key, kind="stable")
    rising = key[order]
    same = np.zeros(len(key) + 1, bool)
    np.equal(rising[1:], rising[:-1], out=same[1:-1])
    del rising
    within = np.flatnonzero(same[1:] | same[:-1])  # in the order of keys, those that are not alone
    again, texts = same[within], order[within]
    head = texts[np.maximum.accumulate(np.where(again, 0, np.arange(len(texts))))]
    one, before, other = head[again], texts[np.flatnonzero(again) - 1], texts[again]
    return distinct(np.append(one * len(order) + other, before * len(order) + other))


def signatures(words: NormalWords) -> tuple[Ints, Hashes]:
    """Return the rows that have a signature, int64 (S,), ascending, and their signatures, uint32 (S, 128)."""
    factor, offset = _permutations()
    pairs, count = _word_pairs(words)
    enough = _have_enough(pairs, count)
    rows = np.flatnonzero(enough)
    signature = np.empty((len(rows), PERMUTATIONS), np.uint32)
    mixed, start = _mixed(pairs[np.repeat(enough, count)]), offsets_of(count[rows])
    for first, last in in_parts(count[rows], _BLOCK) if len(rows) else ():
        block = mixed[start[first] : start[last]]
        for number in range(PERMUTATIONS):
            permuted = block * factor[number] + offset[number]
            signature[first:last, number] = np.minimum.reduceat(permuted, start[first:last] - start[first])
    return rows, signature


def _permutations() -> tuple[Hashes, Hashes]:
    """Return what permutes the numbers of 32 bits, factor·h + offset; an odd factor gives no two the same number."""
    random = np.random.RandomState(1)  # its numbers never change with numpy
    half = random.randint(1 << 31, size=PERMUTATIONS, dtype=np.uint32)
    return 2 * half + np.uint32(1), random.randint(1 << 32, size=PERMUTATIONS, dtype=np.uint32)


def _word_pairs(words: NormalWords) -> tuple[Hashes, Ints]:
    """Return the pairs of neighbouring words of each text, text after text, and their number, int64 (N,)."""
    plain = pc.replace_substring_regex(words.known, r"\pN+", "0").to_pylist()
    code = np.array([zlib.crc32(word.encode()) for word in plain], np.uint64)
    filled = np.array([word != "" for word in plain], np.bool_)[words.word]
    row = np.repeat(np.arange(len(words.ends) - 1), np.diff(words.ends))[filled]
    hashed = code[words.word[filled]]
    pair = hashed[:-1] * np.uint64(0x9E3779B1) + hashed[1:]
    pair = pair ^ (pair >> np.uint64(32))
    same = row[1:] == row[:-1]
    return pair[same].astype(np.uint32), np.bincount(row[1:][same], minlength=len(words.ends) - 1)


def _have_enough(pairs: Hashes, count: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each text has at least `MIN_PAIRS` different pairs, bool (N,): most have them at their start."""
    enough, start = np.zeros(len(count), np.bool_), offsets_of(count)[:-1]
    for most in (_FIRST_PAIRS, int(count.max(initial=0))):
        rows = np.flatnonzero(~enough & (count >= MIN_PAIRS))
        each = np.minimum(count[rows], most)
        row = np.repeat(rows, each)
        keys = np.sort(row.astype(np.uint64) << np.uint64(32) | pairs[ranges(start[rows], each)])
        new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        different = np.bincount((keys[new] >> np.uint64(32)).astype(np.int64), minlength=len(count))
        enough |= different >= MIN_PAIRS
    return enough


def _mixed(values: Hashes) -> Hashes:
    """Spread values over all 32 bits by the finalizer of MurmurHash3, so that similar values become different ones."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


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
        hashes = [hash(every[start:end]) for start, end in pairwise((8 * self.ends).tolist())]
        for row in np.flatnonzero(np.diff(self.ends) == 0).tolist():
            hashes[row] = hash(cells[row].as_py())
        return np.array(hashes, np.int64)


def text_parts(texts: pd.Series) -> Iterator[pa.LargeStringArray]:
    """Yield texts, (N,), in consecutive parts of about `PART_BYTES`, without copying."""
    column = pa.array(texts)
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for part in batches(chunk.cast(pa.large_string()), PART_BYTES):
            yield part
            rows_read(len(part))


def normal_words(cells: pa.LargeStringArray) -> NormalWords:
    """Return the words of texts, (N,) large strings without nulls.

    Example:
        >>> words = normal_words(pa.array(["Green TEA!", "", "tea–pot"], pa.large_string()))
        >>> words.known.take(pa.array(words.word)).to_pylist(), words.ends.tolist()
        (['green', 'tea', 'tea', 'pot'], [0, 2, 2, 4])
    """
    runs, run, ends = _runs(cells)
    words, count = _words_of(runs)
    each = count[run]
    coded = words.dictionary_encode()
    word = coded.indices.to_numpy()[ranges(offsets_of(count)[run], each)]
    return NormalWords(coded.dictionary, word.astype(np.int64), offsets_of(each)[ends])


def _runs(cells: pa.LargeStringArray) -> tuple[pa.LargeStringArray, Ints, Ints]:
    """Return the different runs, the place of each run among them, and where each text begins and ends among all."""
    limits, data = bytes_of(cells)
    inside = in_words(data)
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
    count = pc.list_value_length(words).to_numpy() * numpy_of(pc.not_equal(folded, ""))
    return words.filter(pa.array(count > 0)).flatten(), count
