"""Encodings of text files: byte order marks, UTF-8 by decoding the whole file, others by their frequent letters."""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from pricekit.errors import DataError
from pricekit.io.compression import Unpacked, open_bytes, suffixes_of
from pricekit.table.table import Notices

_BLOCK = 1 << 16
"""Bytes per block. For larger ones the system clears fresh memory each time, which takes three times as long."""
_SAMPLE = 1 << 16
_BAD = re.compile("[\udc80-\udcff]")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")
_GOOD_PER_BAD = 10
_ENOUGH_BAD = 10_000

# The most frequent letters beyond ASCII in texts of each encoding, most frequent first in alphabets. If the bytes are
# valid in several encodings, the one whose text looks most like its languages wins.
_COMMON = {
    "cp1252": "éèêëàâäáåãæçíîïñóôöòøœúùûüßÉÈÀÄÅÆÇÑÖØÜÓÁÍÚÔÊÂÃÕõ–—‘’“”„•…€£®©™°´«»·½¼²³¥§¿¡ºª×±µ",
    "cp1250": "ąćęłńóśźżĄĆĘŁŃÓŚŹŻáčďéěíňřšťúůýžÁČÉŘŠŽÚÝőűŐŰöüăâîţşđľ–—’“”„•…€®™°",
    "iso8859_2": "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ",
    "cp1251": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэёОЕАИНТСРВЛКМДПіїє",
    "koi8_r": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэёОЕАИНТСРВЛКМДП",
    "cp866": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэёОЕАИНТСРВЛКМДП",
    "cp1253": "αοιετσνάρκόίλπυςμέύδηθώγφήχβζξψΑΕΟΙΚΠΣΤΝ",
    "cp1254": "ışğçöüİŞĞÇÖÜ–—’“”•…€®™°",
    "cp1255": "יוהלאתרבשמנדכחעקפםטגצזסןךףץ",
    "cp1256": "اليمنرتوبةدسعفكهأحقجشصخطزضثذغظإئىءؤآچپگژ",
    "cp874": "าร่นกอเ้งมยลวดสทตคใิัีะไแ็์ปพ",
    "cp1257": "āēīšļņģķčžųėęįąūšžĀŠŽČ–—’“”€",
}
# Letters that are common only in some contexts: pão, coração, nº 5. Elsewhere they indicate a wrong encoding.
_ODD = {
    "cp1252": re.compile(
        r"ã(?=[^\W\d_oesiz])|õ(?!e)|(?<![0-9nN])[ºª]|(?<=[^\W\d_])[±¶¼½¾¿¡×¥§]|³(?=[^\W\d_])|(?<=[^\W\d_m])³"
        r"|¿(?![^\n]*\?)",
        re.IGNORECASE,
    ),
    "cp1250": re.compile("ăo|őe|ç", re.IGNORECASE),
}
_ALPHABETS = ("cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp874")
_CAPITAL = 0.8
"""The weight of a capital relative to its small letter: texts in capitals are rare."""
_LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257")
_NEXT_TO_ASCII = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f]|[^\x00-\x7f](?=[A-Za-z])")
_KANA, _HANGUL = re.compile("[ぁ-んァ-ヶー、。]"), re.compile("[가-힣]")
_WIDE = {"cp932": _KANA, "euc_jp": _KANA, "cp949": _HANGUL}
_HAN = {"gb18030": "gb2312", "big5": "big5"}
_CANDIDATES = (*_COMMON, *_WIDE, *_HAN)
_WIDE_SHARE = 0.2

# UTF-32 comes first, because its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_NOT_TEXT = (
    (b"PK\x03\x04", "a zip archive, perhaps an Excel workbook"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"(\xb5/\xfd", "a zstandard archive"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"<?xml", "an XML document"),
    (b"version https://git-lfs", "a pointer of Git LFS instead of the file"),
)


BYTES = "latin-1"
"""The encoding in which each byte is a character."""


@dataclass(frozen=True)
class Charset:
    """An encoding, and how to handle bytes that are invalid in it, as the `errors` argument of `open`."""

    name: str
    errors: str = "strict"


def detect_charset(path: Path, kind: str, encoding: str | None, notices: Notices) -> Charset:
    """Return the encoding of a file: that of its byte order mark, else `encoding`, else the detected one.

    A detected encoding other than UTF-8 is reported.

    Args:
        path: the file, which may be compressed.
        kind: its format, of which only "jsonl" may begin with JSON.
        encoding: what the user says.
        notices: receives sentences for the user.

    Raises:
        DataError: the file is not text.
    """
    with open_bytes(path) as file:
        head = file.read(_SAMPLE)
    suffix = "".join(suffixes_of(path))
    if other := _other_kind(head, kind):
        raise DataError(
            f"{path} is {other}, not text as its suffix {suffix!r} suggests. Correct the suffix, or save it as "
            "CSV.",
            parameters=("table",),
            kind=other,
        )
    if marked := next((name for mark, name in _MARKS if head.startswith(mark)), encoding):
        return Charset(marked)
    name = wide_encoding(head)
    if name is None:
        bad = _first_bad_byte(path, "utf-8")
        if bad is None:
            return Charset("utf-8")
        place, reason = bad
        # A file that was cut off inside its last character is otherwise UTF-8.
        if reason == "unexpected end of data" or _is_mostly_utf8(path):
            notices(
                f"{path} is UTF-8 except for some bytes, the first of which is byte {place:,} of the file; they "
                "are read as '\ufffd'. Set encoding if the file is in a different one."
            )
            return Charset("utf-8", "replace")
        name = other_encoding(path)
    notices(
        f"{path} is not UTF-8 but looks like {name}, and is read as {name}. Set encoding if that is wrong."
    )
    return Charset(name)


def check_readable(path: Path) -> None:
    """Raise DataError unless there is a readable file at `path`."""
    folder = False
    try:
        folder = path.is_dir()
        if path.exists() and not path.is_file() and not folder:
            raise DataError(
                f"{path} is a pipe or a device, which cannot be read twice. Read standard input as -, or save "
                "the output to a file first.",
                parameters=("table",),
            )
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: the name contains a NUL
        why = getattr(error, "strerror", None) or error
        reason = "is a folder, not a file" if folder else f"cannot be read: {why}"
        raise DataError(f"{path} {reason}. Name an existing table.", parameters=("table",)) from None


@contextmanager
def open_text(
    path: Path, charset: Charset, newline: str, *, undecoded: bool = False
) -> Iterator[TextIOWrapper]:
    """Open a text file.

    Args:
        path: the file.
        charset: its encoding.
        newline: as of `open`.
        undecoded: each byte is a character, and the caller decodes.

    Raises:
        DataError: the file is not in this encoding, or the encoding is unknown.
    """
    file = open_bytes(path)
    name, errors = (BYTES, "strict") if undecoded else (charset.name, charset.errors)
    try:
        stream = TextIOWrapper(file, name, errors, newline)
    except (LookupError, ValueError):  # ValueError: the name contains a NUL
        file.close()
        raise DataError(
            f"unknown encoding {charset.name!r}. Use a name such as utf-8, latin-1 or cp1252.",
            parameters=("encoding",),
            encoding=charset.name,
        ) from None
    with stream:
        try:
            yield stream
        except UnicodeError as error:
            encoding = charset.name if undecoded else stream.encoding
            offset, _ = _first_bad_byte(path, encoding) or (None, "")
            where = "" if offset is None else f" (byte {offset:,} of the file)"
            raise DataError(
                f"{path} is not {encoding.removesuffix('-sig')} text: {getattr(error, 'reason', error)}{where}. "
                "Name the encoding that it was saved in, for example latin-1 or cp1252.",
                parameters=("encoding",),
                encoding=encoding,
                position=offset,
            ) from None


def bytes_of(stream: TextIOWrapper) -> Unpacked:
    """Return the bytes of a text that `open_text` opened; they are read up to a block ahead of the text."""
    return cast(Unpacked, cast(Any, stream.buffer).raw)


def _other_kind(head: bytes, kind: str) -> str | None:
    """Return the kind of a file from its first bytes; None if it may be a table of a kind of texts."""
    line = head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0].rstrip()
    if kind != "jsonl":
        if re.match(rb"\[\s*(\{|$)", line) or line == b"{":
            return "a JSON document"
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(line), dict):
                return "JSON lines"
    if line.lower().startswith((b"<!doctype html", b"<html", b"<table")):
        return "a web page"
    return next((what for magic, what in _NOT_TEXT if head.startswith(magic)), None)


def _first_bad_byte(path: Path, encoding: str) -> tuple[int, str] | None:
    """Return the position in the file of the first undecodable byte, and the reason; None if all can be decoded."""
    decoder = codecs.getincrementaldecoder(encoding)()
    done = 0
    for block in _blocks(path):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            return done - held + error.start, error.reason
        except UnicodeError:
            return None
        done += len(block)
    return None


def wide_encoding(head: bytes) -> str | None:
    """Return UTF-16 with its byte order for the beginning of a UTF-16 file without a byte order mark, else None."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    # One byte of each ASCII character is 0, and delimiters, digits and line ends are ASCII in every language.
    if max(even, odd) < len(head) / 2 * _WIDE_SHARE or min(even, odd) * 10 > max(even, odd) or not head:
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


def other_encoding(path: Path) -> str:
    """Return the most likely encoding of a file that is not UTF-8.

    Raises:
        DataError: the file is not text.
    """
    from charset_normalizer import from_bytes

    sample = _non_ascii_lines(path)
    odd = sum(sample.count(code) for code in range(32) if code not in b"\t\n\r\f\x1a\x1b\x1c\x1d\x1e\x1f")
    if odd * 50 > len(sample):
        raise DataError(
            f"{path} is binary data, not text. A table in CSV, TSV, JSON lines or Parquet is expected.",
            parameters=("table",),
        )
    matches = from_bytes(sample, cp_isolation=[*_CANDIDATES], threshold=0.3, enable_fallback=False)
    least = {name: match.chaos for match in reversed(list(matches)) for name in match.could_be_from_charset}
    lowest = min(least.values(), default=0.0)
    calm = {name for name in least if least[name] <= lowest + 0.1}
    likely = [name for name in _CANDIDATES if name in calm or _is_perfect(sample, name)]
    if not likely:
        return "cp1252" if _decodes(sample, "cp1252") else "latin-1"
    best = max(likely, key=lambda name: (_plausible(sample, name), name in calm))
    if best in _ALPHABETS:  # these use the same bytes; the frequencies of letters distinguish them
        alphabets = [name for name in likely if name in _ALPHABETS]
        best = max(alphabets, key=lambda name: _plausible(sample, name) + _typical(sample, name))
    return best


def _is_mostly_utf8(path: Path) -> bool:
    """Return whether few bytes are not UTF-8 among the characters beyond ASCII; `_ENOUGH_BAD` of them are enough."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    bad = good = 0
    for block in _blocks(path):
        text = decoder.decode(block, final=not block)
        invalid = len(_BAD.findall(text))
        bad, good = bad + invalid, good + len(_BEYOND_ASCII.findall(text)) - invalid
        if bad > _ENOUGH_BAD:
            break
    return good >= bad * _GOOD_PER_BAD


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file; the last block is empty."""
    with open_bytes(path) as file:
        while block := file.read(_BLOCK):
            yield block
    yield b""


def _non_ascii_lines(path: Path) -> bytes:
    """Return lines with bytes beyond ASCII from the whole file, without splitting a character."""
    sample: list[bytes] = []
    size = 0
    begun = b""
    for block in _blocks(path):
        end = block.rfind(b"\n") + 1
        if block and not end and len(begun) <= _SAMPLE:
            begun += block
            continue
        whole, begun = (begun + block[:end], block[end:]) if end else (begun, block)
        for line in () if whole.isascii() else whole.split(b"\n"):
            if not line.isascii() and size < _SAMPLE:
                if len(line) > _SAMPLE:  # no encoding uses a space or a comma inside another character
                    line = line[:_SAMPLE]
                    line = line[: max(line.rfind(b" "), line.rfind(b",")) + 1] or line
                sample.append(line + b"\n")
                size += len(line)
        if size >= _SAMPLE:
            break
    return b"".join(sample)


def _decodes(sample: bytes, name: str) -> bool:
    try:
        sample.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _is_perfect(sample: bytes, name: str) -> bool:
    """Return whether all letters are common ones; charset-normalizer considers many accents or few words chaotic."""
    letters = name in _LATIN or name in _ALPHABETS
    return letters and _decodes(sample, name) and _plausible(sample, name) == 1.0


def _plausible(sample: bytes, name: str) -> float:
    """Return the share of the characters beyond ASCII that are common in the languages of an encoding."""
    text = sample.decode(name, "ignore")
    beyond = _BEYOND_ASCII.findall(text)
    if name in _WIDE:
        bonus = 0.3 if _WIDE[name] is _KANA else 0.0  # about half of Japanese is Han, hardly any of Korean
        return len(_WIDE[name].findall(text)) / max(len(beyond), 1) + bonus
    if name in _HAN:
        return sum(_is_common_han(character, _HAN[name]) for character in beyond) / max(len(beyond), 1)
    common = frozenset(_COMMON[name])
    if name in _ALPHABETS:
        beyond = [character.lower() for character in beyond]
    count = sum(character in common for character in beyond)
    if name in _ODD:
        odd = _ODD[name].findall(text)
        count -= len(odd) if re.search("[áéíóú]", text) else sum(one not in "õÕ" for one in odd)  # Estonian
    if name not in _LATIN:  # no word mixes two alphabets
        count -= len(_NEXT_TO_ASCII.findall(text))
    return count / max(len(beyond), 1)


def _typical(sample: bytes, name: str) -> float:
    """Return how frequent the letters beyond ASCII are in the languages of an encoding: about 0.6; misread, 0.4."""
    letters = _COMMON[name]
    weight = {
        letter: 5 / (rank + 3) for rank, letter in reversed(list(enumerate(letters)))
    }  # falls like letter frequencies
    text = sample.decode(name, "ignore")
    beyond = _BEYOND_ASCII.findall(text)
    usual = sum(weight.get(letter.lower(), 0.0) * (_CAPITAL if letter.isupper() else 1) for letter in beyond)
    swapped = sum(
        a.islower() and b.isupper() for a, b in itertools.pairwise(text)
    )  # KOI8 misread in another encoding
    return (usual - swapped) / max(len(beyond), 1)


def _is_common_han(character: str, name: str) -> bool:
    """Return whether a character is in the first level of its standard, which contains the common ones."""
    try:
        code = character.encode(name)
    except UnicodeEncodeError:
        return False
    first, last = (0xB0, 0xD7) if name == "gb2312" else (0xA4, 0xC6)
    return len(code) == 2 and (first <= code[0] <= last or character in "，。、；：（）！？％＋－")
