"""Cut texts into cells: the contents of the labelled lines that most texts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.features.labelled_lines import Bytes, Ints, Texts, byte_table, numpy_of

LABEL_BYTES = 80
"""A colon further into a line does not end a label."""

MIN_SHARE = 0.05
"""Minimum share of the texts that have a label."""

MOST_LABELS = 32

FIRST_BYTES = 64
"""The rest of a longer first word is not read."""

_IN_WORD = byte_table(bytes(code for code in range(256) if code >= 128 or chr(code).isalnum()))
"""Whether a byte belongs to a word: an ASCII letter, a digit, or a part of another character."""


@dataclass(frozen=True)
class Cells:
    """The cells of N texts under L labels: byte ranges of one buffer.

    Attributes:
        data: the bytes of all texts, uint8.
        start, end: the range of each cell, without surrounding blanks, int64 (N, L); equal for a missing cell.
    """

    data: Bytes
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def column(self, label: int, most_bytes: int | None = None) -> pa.LargeStringArray:
        """Return the cells of one label as strings, (N,), cut after `most_bytes` at the end of a character."""
        start, end = self.start[:, label], self.end[:, label]
        if most_bytes is not None:
            end = self._at_character(start, np.minimum(end, start + most_bytes), end)
        return slices(self.data, start, end)

    def first_words(self) -> Cells:
        """Return the first word of each cell, up to `FIRST_BYTES`: letters and digits, without marks."""
        start = self._moved(self.start, self.end, ~_IN_WORD)
        return Cells(
            self.data, start, self._moved(start, np.minimum(self.end, start + FIRST_BYTES), _IN_WORD)
        )

    def _moved(self, position: Ints, end: Ints, over: npt.NDArray[np.bool_]) -> Ints:
        """Move positions over some bytes, bool (256,), at most to the end of their cells."""
        moved, end = position.ravel().copy(), end.ravel()
        left = np.flatnonzero(moved < end)
        while len(left):
            left = left[over[self.data[moved[left]]]]
            moved[left] += 1
            left = left[moved[left] < end[left]]
        return moved.reshape(position.shape)

    def _at_character(self, start: Ints, cut: Ints, end: Ints) -> Ints:
        """Move cuts back to the beginning of a character."""
        for _ in range(3):
            inside = (
                (cut > start)
                & (cut < end)
                & ((self.data[np.minimum(cut, len(self.data) - 1)] & 0xC0) == 0x80)
            )
            cut = cut - inside
        return cut


def slices(data: Bytes, start: Ints, end: Ints) -> pa.LargeStringArray:
    """Return byte ranges as strings, (M,); each must begin and end between characters."""
    length = end - start
    offset = np.concatenate([[0], np.cumsum(length)])
    where = np.arange(offset[-1]) + np.repeat(start - offset[:-1], length)
    buffers = [None, pa.py_buffer(offset), pa.py_buffer(data[where])]
    return pa.Array.from_buffers(pa.large_string(), len(start), buffers)


def find_labels(texts: Texts) -> list[str]:
    """Return the labels of at least `MIN_SHARE` of the texts, in the order in which they follow in a text.

    "" stands for what comes before the first of the others, or for a whole text without labels.
    """
    line, label = _labelled_lines(texts)
    coded = label.dictionary_encode()
    of, kinds = numpy_of(coded.indices), len(coded.dictionary)
    row = _row_of(texts, line.start)
    once, first = np.unique(row * max(kinds, 1) + of, return_index=True)
    rows = np.bincount(once % max(kinds, 1), minlength=kinds)
    place = np.bincount(
        once % max(kinds, 1), weights=line.start[first] - texts.offset[row[first]], minlength=kinds
    )
    common = [
        code
        for code in np.argsort(-rows, kind="stable")[:MOST_LABELS]
        if rows[code] >= MIN_SHARE * len(texts)
    ]
    common.sort(key=lambda code: place[code] / rows[code])
    labels = ["", *coded.dictionary.take(pa.array(common, pa.int64())).to_pylist()]
    cells = cut(texts, labels)
    unlabelled = np.count_nonzero(cells.end[:, 0] > cells.start[:, 0])
    return labels if unlabelled >= MIN_SHARE * max(1, len(texts)) else labels[1:]


def cut(texts: Texts, labels: Sequence[str]) -> Cells:
    """Cut texts into the cells of some labels; a cell reaches to the next of these labels.

    Of several lines with one label, the first counts. Lines with other labels belong to the cell before them.
    """
    line, label = _labelled_lines(texts)
    place = numpy_of(pc.fill_null(pc.index_in(label, pa.array(labels, pa.large_string())), -1))
    known = np.flatnonzero(place >= 0)
    row = _row_of(texts, line.start[known])
    text_end = texts.offset[1:] - 1
    follows = np.append(line.start[known], len(texts.data))[1:] - 1  # the line break before the next label
    start = np.zeros((len(texts), len(labels)), np.int64)
    end = np.zeros_like(start)
    _, first = np.unique(row * len(labels) + place[known], return_index=True)
    at = row[first], place[known[first]]
    start[at] = line.colon[known[first]] + 1
    end[at] = np.minimum(follows, text_end[row])[first]
    if "" in labels:
        before = labels.index("")
        start[:, before] = texts.offset[:-1]
        label = np.append(line.start[known], len(texts.data))[
            np.searchsorted(line.start[known], texts.offset[:-1])
        ]
        end[:, before] = np.maximum(np.minimum(label - 1, text_end), start[:, before])
    return _trimmed(texts.data, start, end)


@dataclass(frozen=True)
class _LabelledLines:
    start: Ints
    colon: Ints


def _labelled_lines(texts: Texts) -> tuple[_LabelledLines, pa.LargeStringArray]:
    """Return the lines that have a colon near their beginning, and what comes before it, each (K,)."""
    data = texts.data
    end = np.flatnonzero(data == ord("\n"))
    start = np.concatenate([[0], end + 1])[: len(end)]
    colons = np.append(np.flatnonzero(data == ord(":")), len(data))
    colon = colons[np.searchsorted(colons, start)]
    labelled = (colon < np.minimum(end, start + LABEL_BYTES)) & (colon > start)
    start, colon = start[labelled], colon[labelled]
    return _LabelledLines(start, colon), slices(data, start, colon)


def _row_of(texts: Texts, position: Ints) -> Ints:
    return np.searchsorted(texts.offset, position, side="right") - 1


def _trimmed(data: Bytes, start: Ints, end: Ints) -> Cells:
    """Remove a few blanks at both ends of the cells."""
    blank: npt.NDArray[np.bool_] = np.append(data, np.uint8(0)) <= ord(" ")
    blank[-1] = False
    for _ in range(4):
        start = start + ((start < end) & blank[start])
        end = end - ((start < end) & blank[end - 1])
    return Cells(data, start, end)
