"""Compiled functions that a package may provide: the results of Python's to the bit, in less time.

A kernel is a plugin of the kind `kernel`. It is no choice of a model, as other plugins are: where one is installed, it
is used, and nothing else changes. What a function computes is documented where Python computes it, too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # every command imports this module
    import numpy as np
    import numpy.typing as npt

    from pricekit.text.labelled_lines import Block, Bytes, Ints, Texts

    _Hashes = npt.NDArray[np.uint64]

KERNEL = 1
"""The version of what kernels compute. It is raised when a result changes, or a function is added."""


@dataclass(frozen=True)
class ScannedWords:
    """The W words of N texts, see `pricekit.text.words.Words`.

    Attributes:
        edges: where words begin and end, alternately, int64 (2W,); None where Python scans a few texts.
        hashes: uint64 (W,).
        count: the words of each text, int64 (N,).
        letters: the bytes of its words.
        sentences: its sentences.
        commas: its commas.
        first_line: the words of its first line.
    """

    edges: Ints | None
    hashes: _Hashes
    count: Ints
    letters: Ints
    sentences: Ints
    commas: Ints
    first_line: Ints


class WordIds(Protocol):
    """The token ids of words seen before, see `Kernel.word_ids`; calls take turns."""

    def __call__(
        self,
        data: Bytes,
        offset: Ints,
        most: int,
        characters: int,
        short: int,
        tokenize: Callable[[list[str]], tuple[np.ndarray, Ints]],
    ) -> tuple[np.ndarray, Ints]:
        """Return the ids of N texts, int32 (T,), text after text, and how many each has, int64 (N,).

        Those of a text are the ids of its words, in order. Words are separated by Unicode's white space. Only the first
        characters of a text are read, after its short lines were moved behind the first one.

        Args:
            data: the bytes of the texts, UTF-8.
            offset: where they begin and end, int64 (N + 1,).
            most: maximum number of ids of a text; the others are left out.
            characters: maximum number of characters of a text that are read.
            short: characters of a short line, at most; -1: lines stay where they are.
            tokenize: returns the ids of some words, int32 (K,), and where those of each begin and end, int64 (W + 1,).
        """


class Kernel:
    """The base class of kernels. Threads share a kernel, and a forked process inherits it.

    Each function returns what Python computes, to the bit. Arrays of arguments do not change.
    """

    version: int = 0
    """The `pricekit.plugin.KERNEL` that it was written for; a kernel of another version is not used."""

    def words(self, texts: Texts) -> ScannedWords:
        """Find the words of texts: `Words`."""
        raise NotImplementedError

    def distinct(self, hashes: _Hashes, count: Ints) -> Ints:
        """Return the number of different words of each text, int64 (N,), of hashes without their last 20 bits.

        Args:
            hashes: of all words, text after text, uint64 (W,).
            count: the words of each text, int64 (N,).
        """
        raise NotImplementedError

    def sum_words(self, table: Ints, hashes: _Hashes, count: Ints) -> Ints:
        """Return the sum over the words and word pairs of each text, int64 (N,): `WordTerms.sums`.

        Args:
            table: a number for each of 2^b buckets, and 0 for none, int64 (2^b + 1,).
            hashes: of all words, text after text, uint64 (W,).
            count: the words of each text, int64 (N,).
        """
        raise NotImplementedError

    def sum_crosses(self, table: Ints, hashes: _Hashes, count: Ints, first: Ints, categories: Ints) -> Ints:
        """Return the sum over the crosses of each text, int64 (N,): `CrossTerms.sums`.

        Args:
            table: as of `sum_words`.
            hashes: as of `sum_words`.
            count: as of `sum_words`.
            first: how many of its words are crossed, the first ones, int64 (N,).
            categories: its categories, 0 for none, int64 (N, C).
        """
        raise NotImplementedError

    def odd_texts(self, data: Bytes, offset: Ints, kind: Bytes) -> tuple[Bytes, Ints]:
        """Find texts that may have another normal form: `pricekit.text.normal`.

        Args:
            data: the bytes of N texts, UTF-8.
            offset: where they begin and end, int64 (N + 1,).
            kind: of each character, uint8 (0x110000,): 0 if it is unknown, 2 if a text with it may change.

        Returns:
            For each text, uint8 (N,): 1 if blanks may change, 2 if other characters may, 3 for both, 0 for none. And
            unknown characters, int32 (K,), a few thousand at most; with one, the text may be odd, too.
        """
        raise NotImplementedError

    def word_ids(self, most_words: int, most_bytes: int) -> WordIds:
        """Return what keeps the ids of words.

        Args:
            most_words: it forgets all words before it reads the next texts if they are more,
            most_bytes: or if they have more bytes.
        """
        raise NotImplementedError

    def pad(
        self, ids: np.ndarray, offset: Ints, rows: Ints, pad_id: int, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the padded ids and the mask of some texts, both int64 (B, length): `pricekit.text.tokens.pad_rows`.

        Args:
            ids: of N texts, int32 (T,).
            offset: where those of each begin and end, int64 (N + 1,).
            rows: the texts, int64 (B,); none has more ids than `length`.
            pad_id: fills the rows.
            length: of each row.
        """
        raise NotImplementedError

    def finder(self, known: _Hashes) -> Callable[[_Hashes, Ints], tuple[Ints, Ints]]:
        """Return a function that finds known words: `pricekit.text.words.WordTable`.

        Its arguments are the hashes of all words, text after text, uint64 (W,), and the words of each text, int64 (N,).
        It returns the text and the place among the known words of each occurrence, int64 (K,) each.

        Args:
            known: different hashes, uint64 (V,).
        """
        raise NotImplementedError

    def trees(
        self, columns: int, feature: Ints, value: Block, right: Ints, roots: Ints
    ) -> Callable[[Block, Ints, Ints], Ints]:
        """Return a function that sums the leaves of each row over the trees: `Forest.predict`.

        Its arguments are the first columns, float32 (N, D), and the rows, ascending, and the words of occurrences,
        int64 (K,) each. It returns whole numbers, (N,).

        Args:
            columns: the number F of columns.
            feature: the column that each node compares, -1 for a leaf, int64 (M,), all trees in preorder.
            value: the threshold of each node, or the leaf's whole number, float32 (M,).
            right: the right child of each inner node, int64 (M,).
            roots: the first node of each tree, int64 (T,).
        """
        raise NotImplementedError


@dataclass
class _Offer:
    """What opens the kernel, once, when it is first needed."""

    open: Callable[[], Kernel | None]
    lock: Any = field(default_factory=threading.RLock)
    opened: bool = False
    kernel: Kernel | None = None


_offer = _Offer(lambda: None)


def offer(provide: Callable[[], Kernel | None]) -> None:
    """Say what opens the kernel when one is first needed; one that was opened before is no longer used."""
    global _offer
    _offer = _Offer(provide)


def kernel() -> Kernel | None:
    """Return the kernel; None without one, so that Python computes everything."""
    offered = _offer
    if not offered.opened:
        with offered.lock:
            if not offered.opened:
                offered.kernel = offered.open()
                offered.opened = True
    return offered.kernel


@contextmanager
def using(other: Kernel | None) -> Iterator[None]:
    """Use another kernel, or none, in the block, also in other threads: for checks and tests."""
    global _offer
    before, _offer = _offer, _Offer(lambda: other)
    try:
        yield
    finally:
        _offer = before


if hasattr(os, "register_at_fork"):  # another thread may open it
    os.register_at_fork(after_in_child=lambda: setattr(_offer, "lock", threading.RLock()))
