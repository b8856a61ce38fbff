"""Bytes to text: byte order marks, other encodings, and files that are no text at all."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, cast

from pricekit.errors import DataError

_BLOCK = 1 << 20

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
    (b"PAR1", "a Parquet file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
)


@contextmanager
def open_text(path: Path, encoding: str, newline: str) -> Iterator[TextIOWrapper]:
    """Open a text file; a byte order mark outranks `encoding`.

    Raises:
        DataError: the file is missing or not readable, is no text, is not in this encoding, or
            nobody knows this encoding.
    """
    with _open(path, _true_encoding(path, encoding), newline) as stream:
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
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = "is a folder, not a file" if path.is_dir() else f"cannot be read: {error.strerror or error}"
        raise DataError(f"{path} {reason}. Give the path of a table.") from None


def _true_encoding(path: Path, encoding: str) -> str:
    check_readable(path)
    with open(path, "rb") as file:
        head = file.read(4)
    for magic, what in _NOT_TEXT:
        if head.startswith(magic):
            raise DataError(
                f"{path} is {what}, not the text that its suffix {path.suffix!r} says. "
                "Unpack it, save it as CSV, or give it the suffix of what it is."
            )
    return next((name for mark, name in _MARKS if head.startswith(mark)), encoding)


def _open(path: Path, encoding: str, newline: str) -> TextIOWrapper:
    try:
        return open(path, encoding=encoding, newline=newline)
    except LookupError:
        raise DataError(
            f"{encoding!r} is no known encoding. Give --encoding a name such as utf-8, latin-1 or cp1252."
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
