"""Labelled lines: find the title, Value, Unit, brand and category of each text.

A text consists of lines of the form "Label: content" ("Item Name: ...", "brand_name: ...") or is plain text. The
lines of a batch are cut without copying: each piece is a pair of offsets into one buffer that holds all texts.
"""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int8]
"""Small whole numbers, such as kinds of lines and classes of units."""
Strings: TypeAlias = pa.LargeStringArray
Block = npt.NDArray[np.float32]
"""The type of the columns of features."""

BATCH_BYTES = 8 << 20  # large, because regular expressions are compiled again for each batch
LABEL_BYTES = 40  # a colon further into the line does not end a label
TITLE_CHARACTERS = 300  # item names, and plain text without lines, are cut here
TEXT_CHARACTERS = 32_768  # longer texts are cut, so that one huge cell cannot exhaust the memory
FEW_TEXTS = 24
"""Texts up to which Python, one by one, is faster than numpy and Arrow for all together."""
SHARED_BYTES = 64 << 20
"""Of larger series of texts, nothing is kept."""

Result = TypeVar("Result")
Parts = TypeVar("Parts", bound=Any)

# Kinds of lines by label, matched in ASCII lower case; the first match counts.
KINDS = {
    "bullet": r"^bullet[ _]?points?[ _]?[0-9]*$",
    "description": r"description|^desc$",
    "value": r"^value$",
    "unit": r"^units?$",
    "brand": r"brand|^(?:manufacturer|maker|winery)$",
    "category": r"categor|^(?:product[ _.-]?)?type$|^(?:variety|department|genre)$",
    "title": r"^(?:(?:item|product)[ _.-]?)?(?:name|title)$",
}
KIND_CODES = {name: code for code, name in enumerate(KINDS, start=1)}


def byte_table(signs: bytes) -> Bools:
    """Return whether each byte is one of some, bool (256,); indexed with many bytes, it is faster than `numpy.isin`."""
    table = np.zeros(256, bool)
    table[list(signs)] = True
    return table


def numpy_of(array: Any) -> npt.NDArray[Any]:
    """Return an Arrow array as a numpy array; null becomes NaN or None."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def as_strings(values: object) -> Strings:
    """Return texts as one Arrow array without nulls, each cut to `TEXT_CHARACTERS`.

    Args:
        values: a pandas Series or another sequence of strings, (N,).

    Returns:
        (N,) large strings.
    """
    array = whole_strings(values)
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    return pc.utf8_slice_codeunits(array, 0, TEXT_CHARACTERS) if longest > TEXT_CHARACTERS else array


def whole_strings(values: object) -> Strings:
    """Return texts as one Arrow array without nulls, (N,) large strings."""
    array = pa.array(values, from_pandas=True)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return pc.fill_null(array.cast(pa.large_string()), "")


def as_list(values: pd.Series) -> list[str]:
    """Return the texts of `as_strings` as a list, (N,); faster for a few texts."""
    return [text[:TEXT_CHARACTERS] if isinstance(text, str) else "" for text in values.tolist()]


class _LowerCharacters(dict[int, str]):
    """A table for `str.translate`, filled as characters come: Arrow's lower case, which Python's is not everywhere."""

    def __missing__(self, code: int) -> str:
        self[code] = lower = str(pc.utf8_lower(pa.scalar(chr(code), pa.large_string())).as_py())
        return lower


_LOWER = _LowerCharacters()


def lower_case(text: str) -> str:
    """Return what `pyarrow.compute.utf8_lower` returns of one text."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


class _Latest(threading.local):
    """The texts that a thread used last, and what was computed from them."""

    def __init__(self) -> None:
        self.texts: Callable[[], object] = lambda: None
        self.results: list[tuple[object, Any]] = []


_latest = _Latest()


def shared(texts: pd.Series, key: object, compute: Callable[[], Result]) -> Result:
    """Return `compute()`, or its result of an earlier call with the same texts and an equal key.

    Several features read the same texts in the same way. The results of the latest texts are kept as long as their
    series exists, or a copy of it, for each thread. Nobody may change them. A copy that was changed has other texts.
    """
    data = data_of(texts)
    if _latest.texts() is not data:
        if texts.nbytes > SHARED_BYTES:
            return compute()
        results: list[tuple[object, Any]] = []
        _latest.results = results
        _latest.texts = weakref.ref(data, lambda _: results.clear())
    for known, result in _latest.results:
        if known == key:
            known_result: Result = result
            return known_result
    result = compute()
    _latest.results.append((key, result))
    return result


def data_of(texts: pd.Series) -> Any:
    """Return the object that identifies the content of texts: equal for a copy, another one after a change."""
    # Copies refer to the same Arrow data, which never change: a series that is changed refers to others.
    return texts.array.__arrow_array__() if isinstance(texts.array, pd.arrays.ArrowStringArray) else texts


class LastOpened(Generic[Result]):
    """What a function made of the last state of a feature: reading a state takes longer than computing a few rows."""

    def __init__(self, read: Callable[[dict[str, Any]], Result]) -> None:
        self._read = read
        self._opened: tuple[dict[str, Any], Result] | None = None

    def __call__(self, state: dict[str, Any]) -> Result:
        """Return the result for a state; nobody may change it."""
        opened = self._opened
        if opened is None or opened[0] is not state:
            self._opened = opened = state, self._read(state)
        return opened[1]


def in_parts(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Yield where consecutive parts of items, (N,), begin and end; there is at least one.

    A part is at most `most` larger than its first item.
    """
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // most, prepend=-1)).tolist() or [0]
    return itertools.pairwise([*cuts, len(sizes)])


def batches(texts: Strings, size: int = BATCH_BYTES) -> list[Strings]:
    """Split texts into at least one batch of about `size` bytes, without copying."""
    lengths = numpy_of(pc.binary_length(texts))
    return [texts.slice(first, last - first) for first, last in in_parts(lengths, size)]


@dataclass(frozen=True)
class Texts:
    """N texts end to end in one buffer; a newline after each text ends its last word and line.

    Attributes:
        data: their UTF-8 bytes, uint8.
        offset: the start of each text and the end of the last one, in bytes, (N + 1,).
        characters: code points of each text, without the newline, (N,).
    """

    data: Bytes
    offset: Ints
    characters: Ints

    def __len__(self) -> int:
        return len(self.characters)

    def parts(self, size: int) -> list[Texts]:
        """Split the texts into at least one part of about `size` bytes, without copying."""
        parts = []
        for first, last in in_parts(np.diff(self.offset), size):
            offset = self.offset[first : last + 1]
            data = self.data[offset[0] : offset[-1]]
            parts.append(Texts(data, offset - offset[0], self.characters[first:last]))
        return parts

    def count(self, positions: Ints) -> Ints:
        """Count how many of the sorted byte positions lie in each text, (N,)."""
        return np.diff(np.searchsorted(positions, self.offset))


def join_texts(array: Strings) -> Texts:
    """Return texts, (N,) large strings without nulls, end to end."""
    newline = pa.scalar("\n", array.type)
    offset, data = bytes_of(pc.binary_join_element_wise(array, pa.scalar("", array.type), newline))
    return Texts(data, offset, numpy_of(pc.utf8_length(array)).astype(np.int64))


def joined_texts(texts: pd.Series) -> Texts:
    """Return `join_texts` of a table's texts, which several features share."""
    few = len(texts) <= FEW_TEXTS
    return shared(
        texts, joined_texts, lambda: _join_few(as_list(texts)) if few else join_texts(as_strings(texts))
    )


def _join_few(texts: Sequence[str]) -> Texts:
    parts = [text.encode() + b"\n" for text in texts]
    offset = np.array([0, *itertools.accumulate(map(len, parts))], np.int64)
    return Texts(np.frombuffer(b"".join(parts), np.uint8), offset, np.array([*map(len, texts)], np.int64))


def bytes_of(array: Strings) -> tuple[Ints, Bytes]:
    """Return where texts, (N,), begin and end in their bytes, int64 (N + 1,), and these bytes, without copying."""
    _, offset, data = array.buffers()
    if not len(array) or data is None:
        return np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8)
    limits = np.frombuffer(offset, np.int64, len(array) + 1, 8 * array.offset)
    return limits - limits[0], np.frombuffer(data, np.uint8)[limits[0] : limits[-1]]


def offsets_of(lengths: Ints) -> Ints:
    """Return the offsets, (N + 1,), of consecutive items of these lengths, (N,)."""
    return np.concatenate([[0], np.cumsum(lengths)])


def ranges(start: Ints, length: Ints) -> Ints:
    """Return the concatenated numbers of N ranges: 5, 6 and 9 for 2 from 5 and 1 from 9."""
    offset = offsets_of(length)
    return np.arange(offset[-1]) + np.repeat(start - offset[:-1], length)


def slices(data: Bytes, start: Ints, end: Ints) -> Strings:
    """Return byte ranges as strings, (M,); each must begin and end between characters."""
    length = end - start
    buffers = [None, pa.py_buffer(offsets_of(length)), pa.py_buffer(data[ranges(start, length)])]
    return pa.Array.from_buffers(pa.large_string(), len(start), buffers)


def alternately(data: Bytes, start: Ints, end: Ints) -> Strings:
    """Return byte ranges and those between them, alternately, as strings over the same bytes, (2M,)."""
    offset = np.empty(2 * len(start) + 1, np.int64)
    offset[:-1:2], offset[1::2], offset[-1] = start, end, len(data)
    buffers = [None, pa.py_buffer(offset), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), 2 * len(start), buffers)


def run_edges(inside: Bools) -> Ints:
    """Return where runs of True begin and end, alternately."""
    padded = np.zeros(len(inside) + 2, bool)
    padded[1:-1] = inside
    return np.flatnonzero(padded[1:] != padded[:-1])


def distinct(numbers: Ints) -> Ints:
    """Sort numbers from 0, in place, and return the distinct ones; several times as fast as `numpy.unique`."""
    numbers.sort()
    return numbers[np.diff(numbers, prepend=-1) > 0]


def evenly(count: int, most: int) -> Ints:
    """Return the numbers of all rows, or of a sample of evenly spaced ones, ascending."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def concatenated(parts: Sequence[Parts]) -> Parts:
    """Return one dataclass of arrays that has those of all parts, one after the other."""
    kind = type(parts[0])
    joined: Parts = kind(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(kind))
    )
    return joined


def kinds_of(labels: Strings) -> Codes:
    """Return the kind of each label, a code of `KIND_CODES` or 0; only the distinct ones are matched."""
    encoded = labels.dictionary_encode()
    names = pc.ascii_trim_whitespace(pc.ascii_lower(encoded.dictionary))
    kinds = np.zeros(len(names), np.int8)
    for name, pattern in reversed(KINDS.items()):
        kinds[numpy_of(pc.match_substring_regex(names, pattern))] = KIND_CODES[name]
    return np.take(kinds, numpy_of(encoded.indices))


@dataclass(frozen=True)
class Lines:
    """The lines of N texts, L in all, in order.

    Attributes:
        row: the text of each line, (L,).
        kind: the kind of each line, a code of `KIND_CODES` or 0, (L,).
        first: the index of each text's first line, (N,).
        pieces: the label and the content of each line, (2L,); a line without a known label is only content.
    """

    row: Ints
    kind: Codes
    first: Ints
    pieces: Strings

    def find(self, name: str, *, last: bool = False) -> Strings:
        """Return the trimmed content of each text's first (or last) line of a kind, "" if it has none, (N,)."""
        index = np.full(len(self.first), -1, np.int64)
        lines = np.flatnonzero(self.kind == KIND_CODES[name])
        if not len(lines):
            return pa.repeat(pa.scalar("", self.pieces.type), len(self.first))
        ordered = lines if last else lines[::-1]  # of several assignments to one element the last one wins
        index[self.row[ordered]] = ordered
        return self._content(index)

    def count(self, name: str) -> Ints:
        """Count the lines of a kind in each text, (N,)."""
        return np.bincount(self.row[self.kind == KIND_CODES[name]], minlength=len(self.first))

    def titles(self, label: str) -> Strings:
        """Return the item names: the first line labelled as a name, else the first line without `label`, (N,)."""
        named = np.zeros(len(self.first), bool)
        named[self.row[self.kind == KIND_CODES["title"]]] = True
        line = self.first_lines()
        if label:
            line = pc.replace_substring_regex(line, f"^{re.escape(label)}:[ \\t]*", "")
        return pc.utf8_slice_codeunits(pc.if_else(named, self.find("title"), line), 0, TITLE_CHARACTERS)

    def first_lines(self) -> Strings:
        """Return the beginning of each text's first line, without a known label, (N,)."""
        return pc.utf8_slice_codeunits(self._content(self.first), 0, TITLE_CHARACTERS + LABEL_BYTES)

    def _content(self, index: Ints) -> Strings:
        where = pa.array(2 * index + 1, mask=index < 0)
        return pc.ascii_trim_whitespace(pc.fill_null(self.pieces.take(where), ""))


def lines_and_colons(data: Bytes) -> tuple[Ints, Ints, Ints]:
    """Return where each line begins and ends, and the first colon from its beginning on, each int64 (L,)."""
    end = np.flatnonzero(data == ord("\n"))
    start = np.concatenate([[0], end + 1])[: len(end)]
    colon = np.append(np.flatnonzero(data == ord(":")), len(data))
    return start, end, colon[np.searchsorted(colon, start)]


def split_lines(texts: Texts) -> Lines:
    """Split texts at every newline and recognise the labels; every text has at least one line."""
    data = texts.data
    start, end, colon = lines_and_colons(data)
    labelled = np.flatnonzero(colon < np.minimum(end, start + LABEL_BYTES))
    kind = np.zeros(len(start), np.int8)
    cut = start.copy()
    cut[labelled] = colon[labelled]
    kind[labelled] = kinds_of(alternately(data, start, cut).take(pa.array(2 * labelled)))
    content = np.where(kind > 0, colon + 1, start)
    count = texts.count(start)
    row = np.repeat(np.arange(len(texts)), count)
    return Lines(row, kind, np.cumsum(count) - count, alternately(data, start, content))
