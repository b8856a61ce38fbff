"""Pairs of nearly equal texts, by MinHash and banding (Leskovec et al., Mining of Massive Datasets, chapter 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from pricekit.likeness.equal import numbered
from pricekit.likeness.minhash import PERMUTATIONS, Hashes, signatures
from pricekit.likeness.words import Ints, normal_words, text_parts
from pricekit.support.cpus import in_threads
from pricekit.support.progress import progress

_BAND = 8
"""Values of a band: with 16 bands, texts of similarity 0.85 share one with probability 0.994."""

_PAIRS_AT_ONCE = 100_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Compared:
    """Which of N texts are equal, and the signatures of the others: 520 bytes of memory for each text.

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
        return np.concatenate(found)


def compare(texts: pd.Series, *, shown: bool = True) -> Compared:
    """Compare texts, (N,); `shown`: show a progress bar."""
    hashes, rows, start, used = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0, 0
    signed = np.empty((len(texts), PERMUTATIONS), np.uint32)  # takes memory as it is filled
    with progress("searching for near-duplicates", len(texts), shown=shown) as advance:
        for hashed, some, signature in in_threads(_fingerprints, text_parts(texts)):
            signed[used : used + len(some)] = signature
            hashes.append(hashed)
            rows.append(start + some)
            start, used = start + len(hashed), used + len(some)
            advance(len(hashed))
    same, row = numbered(np.concatenate(hashes)), np.concatenate(rows)
    first = np.diff(np.maximum.accumulate(np.append(-1, same))) > 0  # numbers rise where a text is new
    place = np.flatnonzero(first[row])
    return Compared(same, same[row[place]], signed[:used], place)


def _fingerprints(cells: pa.LargeStringArray) -> tuple[Ints, Ints, Hashes]:
    """Return a hash of each text, the rows that have a signature, and their signatures."""
    words = normal_words(cells)
    return words.hashes(cells), *signatures(words)


def similar_pairs(found: Compared) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return pairs of different texts that agree in a band, int64 (P, 2), and their estimated similarity, (P,)."""
    keys = in_threads(lambda start: _band_pairs(found, start), range(0, PERMUTATIONS, _BAND))
    both = _different(list(keys))
    pairs = np.stack(np.divmod(both, max(1, len(found.place))), 1)
    return found.number[pairs], found.similarity(pairs)


def _band_pairs(found: Compared, start: int) -> Ints:
    """Return the pairs that agree in a band, one number for each: a text with the first such text and the previous one.

    All pairs of a bucket would be too many if thousands of texts share a template.
    """
    band = np.ascontiguousarray(found.signature[found.place, start : start + _BAND]).view(np.uint64)
    key = np.zeros(len(band), np.uint64)
    for part in band.T:
        key = (key ^ (key >> np.uint64(32)) ^ part) * _ODD
    order = np.argsort(key, kind="stable")
    again = key[order[1:]] == key[order[:-1]]
    head = order[np.maximum.accumulate(np.where(np.append(True, ~again), np.arange(len(order)), 0))]
    one, before, other = head[1:][again], order[:-1][again], order[1:][again]
    return _different([one * len(order) + other, before * len(order) + other])


def _different(numbers: Sequence[Ints]) -> Ints:
    """Return the different numbers, ascending; faster than `numpy.unique`."""
    every = np.sort(np.concatenate([np.zeros(0, np.int64), *numbers]))
    different: Ints = every[np.diff(every, prepend=-1) != 0]
    return different
