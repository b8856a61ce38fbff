"""The bytes of files, those of compressed ones as they are unpacked, and compressed outputs.

Nothing is unpacked to disk or as a whole, so what a file says about its size is never used.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Protocol, cast

from pricekit.errors import DataError
from pricekit.wording import shorten

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstandard", ".zip": "zip"}
"""The compressions by their suffixes."""
PACKED = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")
"""The suffixes of formats that are read and written compressed; all others are compressed inside."""

MAX_RATIO = 200
"""So many bytes a compressed byte may stand for; tables stand at 3 to 50."""
FREE_BYTES = 64 << 20
"""So many bytes any file may contain, whatever its ratio."""
ROW_BYTES = 64
"""What a row takes besides its cells: each line counts as so many bytes more."""

_BLOCK = 1 << 16
_PACKED_BLOCK = 1 << 13
"""Bytes that are unpacked at a time: what follows a stream in them is copied, and a file may have many tiny streams."""
_XZ_MEMORY = 128 << 20
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python unpacks the tables of other methods without a limit on memory."""
_ZIP_DIRECTORY = 1 << 20
_SHOWN = 5
_MAGIC = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zst": b"(\xb5/\xfd",
    ".zip": b"PK\x03\x04",
}
_DAMAGE = (
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member of an archive
    NotImplementedError,
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


class Named(Protocol):
    """A path or an address."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def suffix(self) -> str:
        """The suffix of the last part."""


def suffixes_of(path: Named) -> tuple[str, str]:
    """Return the suffix of a file's format and that of its compression, "" if it has none, in small letters.

    Example:
        >>> suffixes_of(Path("New.CSV.gz")), suffixes_of(Path("new.csv")), suffixes_of(Path("new.zip"))
        (('.csv', '.gz'), ('.csv', ''), ('', '.zip'))
    """
    suffix = path.suffix.lower()
    return (PurePath(path.name).with_suffix("").suffix.lower(), suffix) if suffix in NAMES else (suffix, "")


def compression_of(head: bytes) -> str:
    """Return the suffix of the compression that the first bytes of a file show, "" for none."""
    return next((suffix for suffix, magic in _MAGIC.items() if head.startswith(magic)), "")


def open_bytes(path: Path, compression: str | None = None) -> BinaryIO:
    """Open a file to read its bytes, those of a compressed file as they are unpacked.

    Args:
        path: the file.
        compression: a suffix in `NAMES`, or ""; None: that of the path.

    Raises:
        OSError: the system refuses to open it.
        DataError: now or while it is read: it is damaged, has not exactly one table, is not what its suffix says, or is
            more than `MAX_RATIO` times smaller than its content.
    """
    compression = suffixes_of(path)[1] if compression is None else compression
    return io.BufferedReader(Unpacked(path, compression), _BLOCK)


class TooMuchError(Exception):
    """More bytes than `Unpacked.expect` allows."""


def member_of(path: Path) -> str:
    """Return the name of the table in a zip archive; raises DataError, OSError."""
    with _Bounded(path) as file, _explained(path, ".zip"), zipfile.ZipFile(file) as archive:
        return _table_in(path, archive).filename


def is_larger(path: Path, size: int) -> bool:
    """Return whether a file has more bytes than `size`, unpacked; raises DataError, OSError."""
    if not suffixes_of(path)[1]:
        return path.stat().st_size > size
    with open_bytes(path) as file:
        return any((size := size - len(block)) < 0 for block in iter(partial(file.read, _BLOCK), b""))


class Unpacked(io.RawIOBase):
    """The bytes of a file, those of a compressed one as they are unpacked.

    Args:
        path: the file.
        compression: a suffix in `NAMES`, or "".
    """

    def __init__(self, path: Path, compression: str) -> None:
        self._path, self._compression = path, compression
        self._size = 0
        self._left: int | None = None
        self._mark, self._marks_left = b"", 0
        self._open = ExitStack()
        with ExitStack() as stack:
            self._file = stack.enter_context((_Bounded if compression else io.FileIO)(path))
            with _explained(path, compression):
                self._read = self._opened(stack)
            self._open = stack.pop_all()

    def _opened(self, stack: ExitStack) -> Callable[[int], bytes]:
        """Return a function that returns at most so many of the next bytes, none at the end."""
        if self._compression == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(self._file))
            return stack.enter_context(archive.open(_table_in(self._path, archive))).read
        if self._compression == ".zst":
            import pyarrow as pa

            stream: BinaryIO = stack.enter_context(pa.CompressedInputStream(self._file, "zstd"))
            return stream.read
        new = {".gz": _Gzip, ".bz2": bz2.BZ2Decompressor, ".xz": _new_xz}.get(self._compression)
        return self._file.read if new is None else partial(_read, self._file, [new()], new)

    def readable(self) -> bool:
        """Return True."""
        return True

    def expect(self, size: int, mark: bytes = b"", marks: int = 0) -> None:
        """Allow at most `size` bytes to be read until the next call, among them the byte `mark` at most `marks` times.

        Reading more raises `TooMuchError`: the row is too large.
        """
        self._left, self._mark, self._marks_left = size, mark, marks

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return the number of bytes, 0 at the end; raises DataError, TooMuchError."""
        if not self._compression:
            size = cast(int, self._file.readinto(buffer))
            block = buffer[:size]
        else:
            with _explained(self._path, self._compression):
                block = self._read(len(buffer))
            size = len(block)
            buffer[:size] = block
            self._size += size + ROW_BYTES * max(block.count(b"\n"), block.count(b"\r"))
            if self._size > FREE_BYTES + MAX_RATIO * self.position:
                raise too_packed(self._path)
        if self._left is not None:
            self._left -= size
            if self._mark:
                self._marks_left -= bytes(block).count(self._mark)
            if self._left < 0 or self._marks_left < 0:
                raise TooMuchError
        return size

    @property
    def position(self) -> int:
        """The bytes of the compressed file that were read."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._open.close()


def too_packed(path: Path) -> DataError:
    """Return the error for a file whose content is much larger than the file."""
    return DataError(
        f"{path}: its content is more than {MAX_RATIO} times larger than the file, as in files that are made to fill "
        "the memory. If you trust it, write it as a CSV file, without compression.",
        parameters=("table",),
    )


def _read(file: BinaryIO, current: list[Any], new: Callable[[], Any], size: int) -> bytes:
    """Return at most `size` bytes of a file of one or several streams, whose decompressor is `current[0]`."""
    while True:
        packed = b""
        if current[0].eof:  # zeros may follow, and another stream
            packed = current[0].unused_data.lstrip(b"\0")
            while not packed and (block := file.read(_PACKED_BLOCK)):
                packed = block.lstrip(b"\0")
            if not packed:
                return b""
            current[0] = new()
        elif current[0].needs_input and not (packed := file.read(_PACKED_BLOCK)):
            raise EOFError("it ends too early")
        if block := current[0].decompress(packed, size):
            return cast(bytes, block)


class _Gzip:
    """A stream of gzip, with the interface of `bz2.BZ2Decompressor`.

    `gzip.GzipFile` reads the name in a header byte by byte, and a name may be as long as the file.
    """

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, packed: bytes, size: int) -> bytes:
        block = self._stream.decompress(self._stream.unconsumed_tail + packed, size)
        self.needs_input = len(block) < size and not self._stream.unconsumed_tail
        return block


def _new_xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


class _Bounded(io.FileIO):
    """A file of which a small part is read at a time: the directory of an archive says itself how large it is."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = _ZIP_DIRECTORY
        if size > _ZIP_DIRECTORY:
            raise OSError("its directory is too large")
        return super().read(size) or b""


def _table_in(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the only table in an archive; raises DataError."""
    names = [one.filename for one in archive.infolist()]
    if "[Content_Types].xml" in names or "mimetype" in names:
        raise DataError(
            f"{path} is a workbook or another document. Name it .xlsx, .xlsb or .ods if it is a workbook.",
            parameters=("table",),
        )
    files = [one for one in archive.infolist() if not _is_hidden(PurePath(one.filename)) and not one.is_dir()]
    tables = [one for one in files if PurePath(one.filename).suffix.lower() in PACKED]
    tables = [one for one in tables if not one.filename.lower().endswith(".txt")] or tables  # "readme.txt"
    if len(tables) != 1:
        shown = ", ".join(shorten(one.filename, 60) for one in (tables or files)[:_SHOWN]) or "no file"
        more = "" if len(tables or files) <= _SHOWN else ", …"
        raise DataError(
            f"{path} contains {len(tables)} tables: {shown}{more}. Exactly one file {', '.join(PACKED)} is expected; "
            "unpack it, and name its tables.",
            parameters=("table",),
            tables=len(tables),
        )
    if tables[0].flag_bits & 1:
        raise DataError(f"{path} is encrypted. Unpack it with its password first.", parameters=("table",))
    if tables[0].compress_type not in _ZIP_METHODS:
        raise DataError(
            f"{path} is packed with method {tables[0].compress_type} of zip; deflate is expected. Unpack it first.",
            parameters=("table",),
        )
    return tables[0]


def _is_hidden(name: PurePath) -> bool:
    """Return whether a file in an archive is one that systems add."""
    return any(part.startswith((".", "__MACOSX")) for part in name.parts)


@contextmanager
def _explained(path: Path, compression: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        with open(path, "rb") as file:
            is_other = not file.read(8).startswith(_MAGIC[compression])
        kind = NAMES[compression]
        if is_other:
            problem = f"is not compressed with {kind}, as its suffix {compression!r} says"
            remedy = "If it is unpacked already, leave out this suffix"
        else:
            problem = f"cannot be unpacked with {kind}: {str(error).rstrip('.') or type(error).__name__}"
            remedy = "It may be incomplete or damaged; get it again"
        raise DataError(f"{path} {problem}. {remedy}.", parameters=("table",)) from None


@contextmanager
def open_packed(path: Path, compression: str, name: str) -> Iterator[BinaryIO]:
    """Open a file to write bytes, which are compressed. Equal bytes make equal files.

    Args:
        path: the file.
        compression: a suffix in `NAMES`, "" to write the bytes as they are.
        name: the name of the file in a zip archive.
    """
    with ExitStack() as stack:
        if compression == ".xz":
            yield cast(BinaryIO, stack.enter_context(lzma.open(path, "wb")))
            return
        file = stack.enter_context(open(path, "wb"))
        if compression == ".gz":
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        elif compression == ".bz2":
            yield cast(BinaryIO, stack.enter_context(bz2.open(file, "wb")))
        elif compression == ".zst":
            import pyarrow as pa

            yield cast(BinaryIO, stack.enter_context(pa.CompressedOutputStream(file, "zstd")))
        elif compression == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            yield cast(BinaryIO, stack.enter_context(archive.open(member, "w", force_zip64=True)))
        else:
            yield file
