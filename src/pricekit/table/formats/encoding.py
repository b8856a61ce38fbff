"""Decode text files: byte order marks, other encodings, and files that are not text."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from pricekit.errors import DataError
from pricekit.table.formats.detect import other_encoding, utf8_flaw, wide_encoding
from pricekit.table.model import Notices

_BLOCK = 1 << 20
_HEAD = 1 << 16

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
_JSON_SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Charset:
    """An encoding, and how to handle bytes that are invalid in it, as the `errors` argument of `open`."""

    name: str
    errors: str = "strict"


def detect_charset(path: Path, given: str | None, notices: Notices) -> Charset:
    """Return the encoding of a file: that of its byte order mark, else the one given, else the detected one.

    A detected encoding other than UTF-8 is reported.

    Raises:
        DataError: the file is missing, not readable or not text.
    """
    check_readable(path)
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if kind := _kind_by_content(head, path.suffix.lower()):
        raise DataError(
            f"{path} is {kind}, not text as its suffix {path.suffix!r} suggests. Unpack it, save it as CSV, or "
            "correct the suffix.",
            parameters=("table",),
            kind=kind,
        )
    if marked := next((name for mark, name in _MARKS if head.startswith(mark)), given):
        return Charset(marked)
    return _detected(path, notices)


def _kind_by_content(head: bytes, suffix: str) -> str | None:
    """Return the kind of a file from its first bytes; None if it may be a table in a text format."""
    line = head.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0].rstrip()
    if suffix not in _JSON_SUFFIXES:
        if re.match(rb"\[\s*(\{|$)", line) or line == b"{":
            return "a JSON document"
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(line), dict):
                return "JSON lines"
    if line.lower().startswith((b"<!doctype html", b"<html", b"<table")):
        return "a web page"
    return next((what for magic, what in _NOT_TEXT if head.startswith(magic)), None)


def _detected(path: Path, notices: Notices) -> Charset:
    name = wide_encoding(path)
    if name is None:
        flaw = utf8_flaw(path)
        if flaw is None:
            return Charset("utf-8")
        if flaw == "damaged":
            position = _first_bad_byte(path, "utf-8")
            notices(
                f"{path} is UTF-8 except for some bytes, the first of which is byte {position:,} of the file; they "
                "are read as '\ufffd'. Set encoding if the file is in a different one."
            )
            return Charset("utf-8", "replace")
        name = other_encoding(path)
    notices(
        f"{path} is not UTF-8 but looks like {name}, and is read as {name}. Set encoding if that is wrong."
    )
    return Charset(name)


@contextmanager
def open_text(path: Path, charset: Charset, newline: str) -> Iterator[TextIOWrapper]:
    """Open a text file.

    Raises:
        DataError: the file is not in this encoding, or the encoding is unknown.
    """
    with _open(path, charset, newline) as stream:
        try:
            yield stream
        except UnicodeError as error:
            raise _not_decodable(path, stream.encoding, error) from None


def bytes_read(stream: TextIOWrapper) -> int:
    """Return the position in the file in bytes, up to a block ahead of the text."""
    return cast(BinaryIO, stream.buffer).tell()


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
        reason = "is a folder, not a file" if folder else _why(error)
        raise DataError(f"{path} {reason}. Name an existing table.", parameters=("table",)) from None


def _why(error: OSError | ValueError) -> str:
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def _open(path: Path, charset: Charset, newline: str) -> TextIOWrapper:
    try:
        return open(path, encoding=charset.name, errors=charset.errors, newline=newline)
    except (LookupError, ValueError):  # ValueError: the name contains a NUL
        raise DataError(
            f"unknown encoding {charset.name!r}. Use a name such as utf-8, latin-1 or cp1252.",
            parameters=("encoding",),
            encoding=charset.name,
        ) from None


def _not_decodable(path: Path, encoding: str, error: UnicodeError) -> DataError:
    offset = _first_bad_byte(path, encoding)
    where = "" if offset is None else f" (byte {offset:,} of the file)"
    reason = getattr(error, "reason", str(error))
    return DataError(
        f"{path} is not {encoding.removesuffix('-sig')} text: {reason}{where}. Name the encoding that it was saved "
        "in, for example latin-1 or cp1252.",
        parameters=("encoding",),
        encoding=encoding,
        position=offset,
    )


def _first_bad_byte(path: Path, encoding: str) -> int | None:
    """Return the position of the first undecodable byte in the file; the stream only knows it within a block."""
    decoder = codecs.getincrementaldecoder(encoding)()
    done = 0
    with open(path, "rb") as file:
        while True:
            block = file.read(_BLOCK)
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return done - held + error.start
            except UnicodeError:
                return None
            if not block:
                return None
            done += len(block)
