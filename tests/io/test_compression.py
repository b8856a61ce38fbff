"""Compressed files: what is written is read, and nothing that a file says about itself fills the memory."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.io import compression
from pricekit.io.compression import (
    NAMES,
    TooMuchError,
    compression_of,
    is_larger,
    open_bytes,
    open_packed,
    suffixes_of,
)

ROWS = "title,price\n" + "".join(f"Tea {n} g,{n % 97}.50\n" for n in range(5000))


def packed(path: Path, content: bytes) -> Path:
    _, suffix = suffixes_of(path)
    with open_packed(path, suffix, path.name.removesuffix(suffix)) as file:
        file.write(content)
    return path


def unpacked(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read()


def archive(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name.replace("__", "."), content)
    return path


@pytest.mark.parametrize("suffix", ["", *NAMES])
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_what_is_written_is_read(tmp_path_factory, suffix, parts):
    path = tmp_path_factory.mktemp("packed") / f"x.csv{suffix}"
    with open_packed(path, suffix, "x.csv") as file:
        for part in parts:
            file.write(part)
    assert unpacked(path) == b"".join(parts)
    assert compression_of(path.read_bytes()) == suffix or not suffix


@pytest.mark.parametrize("suffix", NAMES)
def test_equal_content_makes_equal_files(tmp_path, suffix):
    first, second = (packed(tmp_path / f"x.csv{suffix}", ROWS.encode()).read_bytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_files_of_other_programs(tmp_path, suffix, compress):
    path = tmp_path / f"x.csv{suffix}"
    path.write_bytes(compress(b"a,b\n") + compress(b"1,2\n") + bytes(8))  # two streams, as pigz and cat write
    assert unpacked(path) == b"a,b\n1,2\n"


@pytest.mark.parametrize("suffix", NAMES)
@pytest.mark.parametrize("damage", ["cut", "other", "part"])
def test_a_damaged_file_is_one_error(tmp_path, suffix, damage, raises):
    path = packed(tmp_path / f"x.csv{suffix}", ROWS.encode())
    content = path.read_bytes()
    path.write_bytes(
        {"cut": content[:-9], "part": content[: len(content) // 2], "other": ROWS.encode()}[damage]
    )
    with raises(DataError, "table"):
        unpacked(path)


@pytest.mark.parametrize("suffix", ["", *NAMES])
def test_more_bytes_than_expected_are_not_read(tmp_path, suffix):
    path = packed(tmp_path / f"x.csv{suffix}", b"a,b\n" * (1 << 17))
    with open_bytes(path) as file:
        file.raw.expect(1 << 18)
        assert len(file.read(1 << 17)) == 1 << 17
        with pytest.raises(TooMuchError):
            file.read(1 << 18)
    with open_bytes(path) as file:
        file.raw.expect(1 << 20, b",", 1 << 15)
        with pytest.raises(TooMuchError):
            file.read(1 << 18)


@pytest.mark.parametrize("suffix", NAMES)
def test_content_that_is_much_larger_than_the_file_is_refused(tmp_path, suffix, monkeypatch, raises):
    monkeypatch.setattr(compression, "FREE_BYTES", 1 << 20)
    small = packed(tmp_path / f"small.csv{suffix}", bytes(1 << 19) + b"\n")
    assert len(unpacked(small)) == (1 << 19) + 1  # any file may have so many bytes
    large = packed(tmp_path / f"large.csv{suffix}", bytes(1 << 24))
    with raises(DataError, "table"):
        unpacked(large)
    rows = packed(tmp_path / f"rows.csv{suffix}", b"0\n" * (1 << 18))  # rows take memory, too
    with raises(DataError, "table"):
        unpacked(rows)


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_many_empty_streams_are_read(tmp_path, suffix, compress):
    path = tmp_path / f"x.csv{suffix}"
    path.write_bytes(compress(b"") * 10_000 + compress(b"a,b\n"))
    assert unpacked(path) == b"a,b\n"


def test_the_name_in_a_gzip_header_may_be_long(tmp_path):
    plain = gzip.compress(b"a,b\n")
    path = tmp_path / "x.csv.gz"
    path.write_bytes(plain[:3] + b"\x08" + plain[4:10] + b"x" * 1_000_000 + b"\0" + plain[10:])
    assert unpacked(path) == b"a,b\n"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_uses_deflate(tmp_path, method, raises):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.csv", ROWS)
    with raises(DataError, "table"):
        unpacked(path)


def test_the_memory_that_an_xz_file_asks_for_is_bounded(tmp_path, raises):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    path = tmp_path / "x.csv.xz"
    path.write_bytes(lzma.compress(b"a,b\n", filters=filters))
    with raises(DataError, "table"):
        unpacked(path)


def test_the_directory_of_an_archive_is_bounded(tmp_path, raises):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(20_000):
            file.writestr(f"{number}.csv", "")
    with raises(DataError, "table"):
        unpacked(path)


def test_an_archive_has_one_table(tmp_path, raises):
    readable = archive(
        tmp_path / "a.zip",
        data__csv="a,b\n",
        readme__txt="Read me.",
        LICENSE="MIT",
        **{"__MACOSX/._data__csv": "x", "folder/": ""},
    )
    assert unpacked(readable) == b"a,b\n"
    assert unpacked(archive(tmp_path / "b.zip", **{"folder/data__txt": "a,b\n"})) == b"a,b\n"
    for number, files in enumerate(
        [
            {},
            {"a__csv": "", "b__csv": ""},
            {"a__parquet": ""},
            {f"{n}__csv": "" for n in range(9)},
            {"[Content_Types]__xml": "", "xl/workbook__xml": ""},
        ]
    ):
        with raises(DataError, "table"):
            unpacked(archive(tmp_path / f"{number}.zip", **files))


def test_an_encrypted_archive_is_named_so(tmp_path, raises):
    path = archive(tmp_path / "x.zip", data__csv="a,b\n")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    content[6] |= 1
    path.write_bytes(content)
    with raises(DataError, "table"):
        unpacked(path)


@pytest.mark.parametrize("suffix", ["", *NAMES])
def test_the_unpacked_size_is_compared(tmp_path, suffix):
    path = packed(tmp_path / f"x.csv{suffix}", bytes(1000))
    assert is_larger(path, 999)
    assert not is_larger(path, 1000)
