import errno
import io
import sys

import pytest

from pricekit.errors import DataError
from pricekit.io.storage import Address, delete, exists, published, read_text, working_path, write_text

X = Address("memory://b/x.csv")


@pytest.fixture(params=["local", "memory"])
def target(request, tmp_path):
    return tmp_path / "x.csv" if request.param == "local" else X


def test_a_file_appears_when_the_block_ends(target):
    write_text(target, "old")
    with published(target) as temporary:
        temporary.write_text("new")
        assert temporary.suffix in (".csv", ".tmp")
        assert read_text(target) == "old"
    assert read_text(target) == "new"
    assert not temporary.exists()


def test_nothing_appears_if_the_block_fails(target):
    with pytest.raises(ZeroDivisionError), published(target) as temporary:
        temporary.write_text(str(1 / 0))
    assert not exists(target)


def test_a_file_is_deleted_and_may_be_missing(target):
    write_text(target, "a")
    delete(target)
    delete(target)
    assert not exists(target)


@pytest.mark.parametrize("method", ["put_file", "mv"])
def test_an_upload_is_repeated_and_leaves_nothing_else(failing, memory, method):
    failing(method, {1, 2, 3})
    write_text(X, "new")
    assert list(memory.store) == ["/b/x.csv"]
    assert read_text(X) == "new"


@pytest.mark.parametrize("method", ["put_file", "mv"])
def test_a_failed_upload_leaves_no_part(failing, memory, method, raises):
    failing(method, range(100))
    with raises(DataError, "out"):
        write_text(X, "new")
    assert list(memory.store) == []


def test_a_missing_bucket_or_denied_access_is_one_sentence(failing, raises):
    failing("put_file", range(100), PermissionError("403"))
    with raises(DataError, "out"):
        write_text(X, "new")


def test_another_writer_is_noticed(memory, monkeypatch, raises):
    monkeypatch.setattr(type(memory), "mv", lambda system, source, target: system.pipe(target, b"other"))
    with raises(DataError, "out"):
        write_text(X, "new")


def test_a_reader_that_has_enough_is_no_error_of_a_file(monkeypatch):
    class Closed(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Closed()))
    with working_path(Address("-")), pytest.raises(BrokenPipeError) as stopped:
        write_text(Address("-"), "a,b\n")
    assert stopped.value.filename is None


def test_a_stream_gets_the_content(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    write_text(Address("-"), "a,b\n")
    assert stream.buffer.getvalue() == b"a,b\n"
