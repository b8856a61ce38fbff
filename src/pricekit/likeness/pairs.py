"""Pairs of nearly equal texts, by MinHash and banding (Leskovec et al., Mining of Massive Datasets, chapter 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pricekit.likeness.equal import numbered
from pricekit.likeness.minhash import PERMUTATIONS, Hashes, signatures
from pricekit.likeness.words import Ints, normal_words, text_parts
from pricekit.mapped import map_file, rows_read, scratch_file
from pricekit.support.cpus import in_threads
from pricekit.support.progress import progress

_BAND = 8
"""Values of a band: with 16 bands, texts of similarity 0.85 share one with probability 0.994."""

_BANDS_AT_ONCE = 2
"""Bands that are compared at the same time: 30 bytes of memory for a text and a band."""

_PAIRS_AT_ONCE = 100_000
_TEXTS_AT_ONCE = 1 << 16
_IN_MEMORY = 1 << 17
"""Signatures of more texts are in a file."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


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
        found = [np.zeros(0)]
        for part in np.array_split(pairs, 1 + len(pairs) // _PAIRS_AT_ONCE):
            one, other = (self.signature[self.place[part[:, side]]] for side in (0, 1))
            found.append((one == other).mean(axis=1))
            rows_read(part.size)
        return np.concatenate(found)


def compare(texts: pd.Series, *, folder: Path | None = None, shown: bool = True) -> Compared:
    """Compare texts, (N,).

    Args:
        texts: (N,).
        folder: where a file for the signatures of many texts is written; None: where temporary files are. The file has
            no name and disappears with the result.
        shown: show a progress bar.

    Raises:
        OSError: the file cannot be written; the error names the folder.
    """
    hashes, rows, start = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    with scratch_file(len(texts) > _IN_MEMORY, folder) as signed:
        with progress("searching for near-duplicates", len(texts), shown=shown) as advance:
            for hashed, some, signature in in_threads(_fingerprints, text_parts(texts)):
                signed.write(signature.data)
                hashes.append(hashed)
                rows.append(start + some)
                start += len(hashed)
                advance(len(hashed))
        signatures = np.frombuffer(map_file(signed), np.uint32).reshape(-1, PERMUTATIONS)
    same, row = numbered(np.concatenate(hashes)), np.concatenate(rows)
    first = np.diff(np.maximum.accumulate(np.append(-1, same))) > 0  # numbers rise where a text is new
    place = np.flatnonzero(first[row])
    return Compared(same, same[row[place]], signatures, place)


def _fingerprints(cells: pa.LargeStringArray) -> tuple[Ints, Ints, Hashes]:
    """Return a hash of each text, the rows that have a signature, and their signatures."""
    words = normal_words(cells)
    return words.hashes(cells), *signatures(words)


def similar_pairs(found: Compared) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return pairs of different texts that agree in a band, int64 (P, 2), and their estimated similarity, (P,)."""
    agreeing: list[Ints] = []
    for start in range(0, PERMUTATIONS, _BANDS_AT_ONCE * _BAND):
        agreeing += in_threads(_pairs_of_equal, _band_keys(found, start))
    both = _different(agreeing)
    pairs = np.stack(np.divmod(both, max(1, len(found.place))), 1)
    return found.number[pairs], found.similarity(pairs)


def _band_keys(found: Compared, start: int) -> npt.NDArray[np.uint64]:
    """Return a hash of each of some bands, uint64 (`_BANDS_AT_ONCE`, S)."""
    keys = np.zeros((_BANDS_AT_ONCE, len(found.place)), np.uint64)
    for first in range(0, len(found.place), _TEXTS_AT_ONCE):
        some = slice(first, first + _TEXTS_AT_ONCE)
        values = found.signature[found.place[some], start : start + _BANDS_AT_ONCE * _BAND]
        bands = np.ascontiguousarray(values).view(np.uint64).reshape(len(values), _BANDS_AT_ONCE, -1)
        key = np.zeros(bands.shape[:2], np.uint64)
        for part in np.moveaxis(bands, 2, 0):
            key = (key ^ (key >> np.uint64(32)) ^ part) * _ODD
        keys[:, some] = key.T
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
    return _different([one * len(order) + other, before * len(order) + other])


def _different(numbers: Sequence[Ints]) -> Ints:
    """Return the different numbers, ascending; faster than `numpy.unique`."""
    every = np.sort(np.concatenate([np.zeros(0, np.int64), *numbers]))
    different: Ints = every[np.diff(every, prepend=-1) != 0]
    return different
