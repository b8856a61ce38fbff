"""Bytes to text: byte order marks, other encodings, and files that are no text at all."""

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

# UTF-32 first: its little-endian mark begins with that of UTF-16.
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
    """How the bytes of a file become text: the name of an encoding, and what is done with bytes that are none."""

    name: str
    errors: str = "strict"


def charset_of(path: Path, asked: str | None, notices: Notices) -> Charset:
    """Return a file's encoding: that of its byte order mark, else the one asked for, else what is found.

    What was found is said, save UTF-8.

    Raises:
        DataError: the file is missing or not readable, or is no text.
    """
    check_readable(path)
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if what := _other_than_text(head, path.suffix.lower()):
        raise DataError(
            f"{path} is {what}, not the text that its suffix {path.suffix!r} says. "
            "Unpack it, save it as CSV, or give it the suffix of what it is."
        )
    if marked := next((name for mark, name in _MARKS if head.startswith(mark)), asked):
        return Charset(marked)
    return _found(path, notices)


def _other_than_text(head: bytes, suffix: str) -> str | None:
    """Return what a file is by its first bytes, None where it may be a table as text."""
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


def _found(path: Path, notices: Notices) -> Charset:
    name = wide_encoding(path)
    if name is None:
        flaw = utf8_flaw(path)
        if flaw is None:
            return Charset("utf-8")
        if flaw == "damaged":
            at = _first_bad_byte(path, "utf-8")
            notices(
                f"{path} is UTF-8 but for some bytes, the first of them byte {at:,} of the file; '\ufffd' stands in "
                "their place. If it is in another encoding, give --encoding."
            )
            return Charset("utf-8", "replace")
        name = other_encoding(path)
    notices(
        f"{path} is not UTF-8 but looks like {name}, and is read as such. If that is wrong, give --encoding."
    )
    return Charset(name)


@contextmanager
def open_text(path: Path, charset: Charset, newline: str) -> Iterator[TextIOWrapper]:
    """Open a text file.

    Raises:
        DataError: the file is not in this encoding, or nobody knows this encoding.
    """
    with _open(path, charset, newline) as stream:
        try:
            yield stream
        except UnicodeError as error:
            raise _not_decodable(path, stream.encoding, error) from None


def bytes_read(stream: TextIOWrapper) -> int:
    """How far into the file reading has come; a block ahead of the text that was given out."""
    return cast(BinaryIO, stream.buffer).tell()


def check_readable(path: Path) -> None:
    """Raise a DataError where there is no readable file at `path`."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(
                f"{path} is a pipe or a device, which cannot be read twice. Save what comes out of it as a file first."
            )
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = "is a folder, not a file" if path.is_dir() else f"cannot be read: {error.strerror or error}"
        raise DataError(f"{path} {reason}. Give the path of a table.") from None


def _open(path: Path, charset: Charset, newline: str) -> TextIOWrapper:
    try:
        return open(path, encoding=charset.name, errors=charset.errors, newline=newline)
    except LookupError:
        raise DataError(
            f"{charset.name!r} is no known encoding. Give --encoding a name such as utf-8, latin-1 or cp1252."
        ) from None


def _not_decodable(path: Path, encoding: str, error: UnicodeError) -> DataError:
    offset = _first_bad_byte(path, encoding)
    where = "" if offset is None else f" (byte {offset:,} of the file)"
    reason = getattr(error, "reason", str(error))
    return DataError(
        f"{path} is not {encoding.removesuffix('-sig')} text: {reason}{where}. Give the encoding it was "
        "saved in, for instance --encoding latin-1 or --encoding cp1252."
    )


def _first_bad_byte(path: Path, encoding: str) -> int | None:
    """Where decoding fails, from the start of the file; the stream itself counts from its last block."""
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
