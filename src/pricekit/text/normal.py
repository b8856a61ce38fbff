"""One form for texts that look equal: NFC, one kind of space, no format characters, ASCII digits.

Tables from spreadsheets and web pages have no-break and double spaces, full-width or Persian digits, letters that are
followed by their accents (NFD), and zero-width characters. Every text is brought into one form when it is read, before
features, tokens, near-duplicates and comparables see it.

- Unicode's canonical composition, NFC (Unicode Standard Annex 15).
- Characters of the category Cf (format) are removed.
- Decimal digits of all scripts (category Nd) become ASCII digits.
- A space that breaks no line, a thin one, or the Arabic sign for thousands between groups of three digits is removed.
- The decimal marks of Arabic and full-width digits become points.
- Other spaces, tabs and their kin become one space; those at the ends of a line are removed. Lines stay.

Of ASCII texts, only spaces and the ends of lines change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.text.kernel import Kernel, kernel
from pricekit.text.labelled_lines import (
    FEW_TEXTS,
    Bools,
    Bytes,
    Ints,
    Strings,
    batches,
    bytes_of,
    in_parts,
    numpy_of,
    offsets_of,
)

_PART_BYTES = 1 << 18
"""Of the texts that are searched together; the work arrays fit into the processor's cache."""

_GROUP_MARKS = "\u00a0\u2009\u202f\u066c"
_GROUPS = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_GROUP_MARKS}]\d{{3}})+(?!\d)")
_BETWEEN_GROUPS = re.compile(f"[{_GROUP_MARKS}]")
_MARKS = {"\u066b": ".", "\uff0e": ".", "\u066c": ","}
_BREAK, _RETURN = ord("\n"), ord("\r")


class PlainCharacters(dict[int, str]):
    """A table for `str.translate`, filled as characters come: plain spaces and digits, and no format characters."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        digit = unicodedata.decimal(character, None)
        category = unicodedata.category(character)
        plain = _MARKS.get(character, character)
        if digit is not None:
            plain = str(digit)
        elif category == "Cf":
            plain = ""
        elif category in ("Zl", "Zp"):
            plain = "\n"
        elif category == "Zs" or character == "\x85":
            plain = " "
        self[code] = plain
        return plain


_CHARACTERS = PlainCharacters()
_KNOWN, _ODD = 1, 2
_kind = np.zeros(0x110000, np.uint8)
"""Of the characters that occurred, `_KNOWN`, and `_ODD` if a text with one may change."""


def normal_text(text: str) -> str:
    """Return a text in the one form of texts that look equal; it is itself its own form.

    Example:
        >>> [normal_text(text) for text in ("Te\\u0301  vert\\u00a0: \\uff12 kg ", "1\\u00a0500 W", "USB 3.0")]
        ['Té vert : 2 kg', '1500 W', 'USB 3.0']
    """
    if not text.isascii():
        odd = {character for character in set(text) if _CHARACTERS[ord(character)] != character}
        if not odd.isdisjoint(_GROUP_MARKS):
            text = _GROUPS.sub(lambda number: _BETWEEN_GROUPS.sub("", number[0]), text)
        for character in odd:
            text = text.replace(character, _CHARACTERS[ord(character)])
        text = unicodedata.normalize("NFC", text)
    return _single_spaces(text)


def _single_spaces(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join([" ".join(line.split()) for line in lines])


def normal_texts(texts: Strings) -> Strings:
    """Return texts, (N,) large strings without nulls, each as `normal_text` returns it.

    Only texts with characters that may change are looked at one by one.
    """
    if len(texts) <= FEW_TEXTS:
        written = texts.to_pylist()
        plain = list(map(normal_text, written))
        return texts if plain == written else pa.array(plain, pa.large_string())
    compiled = kernel()
    blanks, characters = _odd_texts(texts) if compiled is None else _compiled_odd_texts(compiled, texts)
    blanks &= ~characters
    changed = texts
    if blanks.any():
        parts = batches(texts.filter(pa.array(blanks)), _PART_BYTES)
        spaced = pa.concat_arrays([_many_single_spaces(part) for part in parts])
        changed = pc.replace_with_mask(texts, pa.array(blanks), spaced)
    odd = np.flatnonzero(characters)
    if not len(odd):
        return changed
    return with_texts(changed, odd, list(map(normal_text, texts.take(pa.array(odd)).to_pylist())))


def _many_single_spaces(texts: Strings) -> Strings:
    """Return texts, (N,) without blanks beyond ASCII, each as `_single_spaces` returns it."""
    line_break, nothing = (pa.scalar(text, pa.large_string()) for text in ("\n", ""))
    offset, data = bytes_of(pc.binary_join_element_wise(texts, line_break, nothing))
    removed = np.zeros(len(data), bool)
    removed[offset[1:] - 1] = True
    is_break = data == _BREAK
    if len(returns := np.flatnonzero(data == _RETURN)):
        is_break[returns[~is_break[returns + 1] | removed[returns + 1]]] = True
    is_blank = (data - np.uint8(0x09) < 5) | (data - np.uint8(0x1C) < 5)
    is_space = is_blank & ~is_break
    # Of each run of spaces, the last one stays, unless a line begins before the run or ends behind it.
    removed[:-1] |= is_space[:-1] & is_blank[1:]
    removed[0] |= is_space[0]
    last = is_space & ~removed
    removed[1:] |= last[1:] & is_break[:-1]
    later = np.flatnonzero(last[1:] & is_space[:-1]) + 1
    if len(later):
        first = np.flatnonzero(is_space & ~np.concatenate([[False], is_space[:-1]]))
        before = first[np.searchsorted(first, later, side="right") - 1] - 1
        removed[later[(before < 0) | is_break[before]]] = True
    kept = ~removed
    if np.count_nonzero(is_blank) > np.count_nonzero(data == ord(" ")) + np.count_nonzero(data == _BREAK):
        data = np.where(is_break, np.uint8(_BREAK), np.where(is_space, np.uint8(ord(" ")), data))
    sizes = np.add.reduceat(kept, offset[:-1], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets_of(sizes)), pa.py_buffer(data[kept])]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def _odd_texts(texts: Strings) -> tuple[Bools, Bools]:
    """Return which texts may have other blanks, and which other characters, in their normal form, (N,)."""
    lengths = numpy_of(pc.binary_length(texts))
    blanks, characters = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    for first, last in in_parts(lengths, _PART_BYTES):
        offset, data = bytes_of(texts.slice(first, last - first))
        blanks[first + _rows_of(offset, _odd_blanks(data, offset))] = True
        characters[first + _rows_of(offset, _odd_characters(data))] = True
    return blanks, characters


def _compiled_odd_texts(compiled: Kernel, texts: Strings) -> tuple[Bools, Bools]:
    offset, data = bytes_of(texts)
    odd, unknown = compiled.odd_texts(data, offset, _kind)
    while len(unknown):
        _learn(unknown)
        odd, unknown = compiled.odd_texts(data, offset, _kind)
    return odd & 1 > 0, odd & 2 > 0


def with_texts(texts: Strings, rows: Ints, replacements: Sequence[str]) -> Strings:
    """Return texts, (N,), with others in some rows, which ascend, (M,)."""
    replaced = np.zeros(len(texts), bool)
    replaced[rows] = True
    return pc.replace_with_mask(texts, pa.array(replaced), pa.array(replacements, texts.type))


def _rows_of(offset: Ints, position: Ints) -> Ints:
    """Return the texts in which some bytes are, of texts that begin and end at `offset`, (N + 1,)."""
    return np.searchsorted(offset, position, side="right") - 1


def _odd_blanks(data: Bytes, offset: Ints) -> Ints:
    """Return where bytes of N texts are blanks that may change: all but line breaks and single spaces between words."""
    blank = data <= ord(" ")
    pair = np.flatnonzero(blank[1:] & blank[:-1])
    pair = pair[(data[pair] != _BREAK) | (data[pair + 1] != _BREAK)]
    filled = np.flatnonzero(np.diff(offset))
    ends = np.concatenate([offset[filled], offset[filled + 1] - 1])
    odd = [pair, ends[data[ends] == ord(" ")]]
    if np.count_nonzero(data < ord(" ")) > np.count_nonzero(data == _BREAK):
        odd.append(np.flatnonzero((data - np.uint8(ord("\t")) < ord(" ") - ord("\t")) & (data != _BREAK)))
    return np.concatenate(odd)


def _odd_characters(data: Bytes) -> Ints:
    """Return where characters beyond ASCII are that may change."""
    if not len(data) or data.max() < 0xC0:
        return np.zeros(0, np.int64)
    start = np.flatnonzero(data >= 0xC0)
    padded = np.append(data, np.zeros(3, np.uint8))
    lead = data[start].astype(np.int32)
    code = np.where(lead >= 0xF0, lead & 0x07, np.where(lead >= 0xE0, lead & 0x0F, lead & 0x1F))
    for place, least in ((1, 0xC0), (2, 0xE0), (3, 0xF0)):
        code = np.where(lead >= least, code << 6 | (padded[start + place] & 0x3F), code)
    kinds = _kind[code]
    if not kinds.all():
        _learn(code[kinds == 0])
        kinds = _kind[code]
    return start[kinds & _ODD > 0]


def _learn(codes: npt.NDArray[Any]) -> None:
    """Note the kinds of characters, (K,)."""
    for new in np.unique(codes).tolist():
        _kind[new] = _KNOWN | (_ODD if _may_change(chr(new)) else 0)


def _may_change(character: str) -> bool:
    """Return whether a text with a character may change: it does itself, or may join the character before it."""
    plain = unicodedata.normalize("NFC", _CHARACTERS[ord(character)])
    selects = "\ufe00" <= character <= "\ufe0f"  # a form of the character before it, as of many emoji
    joins = not selects and unicodedata.category(character)[0] == "M"
    hangul = (
        "\u1160" <= character <= "\u11ff"
    )  # vowels and final consonants that compose with what precedes them
    return plain != character or joins or hangul
