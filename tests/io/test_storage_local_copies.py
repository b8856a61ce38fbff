import errno
import io
import os
import shutil
import sys
from collections import namedtuple

import pytest

from pricekit.cli.common import TEMPORARY, exit_code
from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.io.storage import Address, fetch

module = sys.modules["pricekit.io.storage"]
X = Address("memory://b/x.csv")
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    """The folder of temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(module.tempfile, "tempdir", str(folder))
    return folder


def test_a_local_file_stands_for_itself(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a")
    copy = fetch(file)
    assert copy.path == file
    del copy
    assert file.exists()


def test_a_copy_is_deleted_with_its_object(memory, temporary):
    memory.pipe("/b/x.csv", b"id,price\n")
    copy = fetch(X)
    assert copy.path.suffix == ".csv"
    assert copy.path.read_bytes() == b"id,price\n"
    del copy
    assert list(temporary.iterdir()) == []


def test_a_forked_child_does_not_delete_the_copy(memory, monkeypatch):
    memory.pipe("/b/x.csv", b"a")
    path = fetch(X).path
    assert not path.exists()
    copy = fetch(X)
    path, process = copy.path, os.getpid()
    monkeypatch.setattr(module.os, "getpid", lambda: process + 1)
    del copy
    assert path.exists()


def test_a_file_arrives_in_parts_whatever_fails(memory, monkeypatch, failing):
    content = bytes(range(256)) * 10
    memory.pipe("/b/x.csv", content)
    monkeypatch.setattr(module, "PART_BYTES", 100)
    failed = failing("cat_file", set(range(1, 60, 2)))
    assert fetch(X).path.read_bytes() == content
    assert failed.calls > 40


def test_a_part_that_is_too_short_is_an_error(memory, monkeypatch, temporary, raises):
    memory.pipe("/b/x.csv", b"0123456789")
    monkeypatch.setattr(type(memory), "cat_file", lambda *args, **options: b"012")
    with raises(DataError):
        fetch(X)
    assert list(temporary.iterdir()) == []


def test_a_file_that_is_replaced_meanwhile_is_an_error(memory, monkeypatch, temporary):
    memory.pipe("/b/x.csv", b"0123456789")
    original = type(memory).cat_file

    def replace(system, *args, **options):
        found = original(system, *args, **options)
        memory.pipe("/b/x.csv", b"9876543210")
        return found

    monkeypatch.setattr(type(memory), "cat_file", replace)
    with pytest.raises(DataError) as refused:
        fetch(X)
    assert str(refused.value) == (
        "memory://b/x.csv was replaced while it was read; try again when nothing writes it."
    )
    assert list(temporary.iterdir()) == []


def test_a_missing_file_is_one_sentence():
    with pytest.raises(DataError) as refused:
        fetch(X)
    assert str(refused.value) == (
        "memory://b/x.csv cannot be read: there is no such file or bucket. Check the address."
    )
    assert refused.value.parameters == ("table",)


def test_a_folder_is_no_file(memory, raises):
    memory.pipe("/b/x.csv/y", b"a")
    with raises(DataError, "table"):
        fetch(X)


def test_too_small_a_disk_is_known_before_the_download(memory, monkeypatch, temporary, failing, raises):
    memory.pipe("/b/x.csv", b"0123456789")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(9, 9, 9))
    calls = failing("cat_file", ())
    with raises(DataError) as refused:
        fetch(X)
    assert exit_code(refused.value) == TEMPORARY
    assert calls.calls == 0
    assert list(temporary.iterdir()) == []


def test_a_disk_that_becomes_full_is_one_sentence(memory, monkeypatch, temporary, raises):
    class Full(io.BytesIO):
        def write(self, part):
            raise OSError(errno.ENOSPC, "No space left on device")

    memory.pipe("/b/x.csv", b"0123456789")
    monkeypatch.setattr(module, "open", lambda *args: Full(), raising=False)
    with raises(DataError) as refused:
        fetch(X)
    assert exit_code(refused.value) == TEMPORARY
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "content", "suffix"),
    [
        ("-", b"id,price\n1,2\n", ".csv"),
        ("-", b'\xef\xbb\xbf \n{"id": 1}\n', ".jsonl"),
        ("-", b"", ".csv"),
        ("-", b"PAR1...", ".parquet"),
        ("-.tsv", b"{a\tb\n", ".tsv"),
    ],
)
def test_standard_input_is_read_once_and_its_format_detected(monkeypatch, given, content, suffix):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    copy = fetch(Address(given))
    assert copy.path.suffix == suffix
    assert copy.path.read_bytes() == content
    assert fetch(Address(given)) is copy


def test_large_downloads_are_announced(memory, monkeypatch, caplog):
    memory.pipe("/b/x.csv", b"0123456789")
    monkeypatch.setattr(module, "_ANNOUNCED_BYTES", 10)
    with caplog.at_level("INFO", logger.name):
        fetch(X)
    assert caplog.messages == ["fetching memory://b/x.csv: 0 MB"]
