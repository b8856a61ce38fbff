"""A real client of S3 against a server whose requests fail: time out, end with 503, or are cut within a part."""

import os

import pytest

from pricekit.errors import DataError
from pricekit.io.storage import (
    Address,
    check_bucket,
    exists,
    fetch,
    files_below,
    fingerprint,
    is_folder,
    matching,
    published,
    read_text,
    write_text,
)
from tests.io.s3_server import s3_server

X = Address("s3://shop/in/x.csv")


@pytest.fixture(scope="module")
def server():
    with s3_server() as found:
        yield found


@pytest.fixture
def s3(server):
    """The file system of a bucket with one file, and the faults of the server."""
    system, faults = server
    faults.fault_of = lambda number, method: None
    if system.exists("shop/in"):
        system.rm("shop/in", recursive=True)
    system.pipe("shop/in/x.csv", b"id,price\n")
    return system, faults


def test_files_folders_and_patterns(s3):
    system, _ = s3
    system.pipe("shop/in/a/y.csv", b"")
    for folder in ("in/", "in/a/"):  # as the console of S3 makes folders
        system.call_s3("put_object", Bucket="shop", Key=folder, Body=b"")
    assert exists(X)
    assert not exists(Address("s3://shop/in/z.csv"))
    assert is_folder(Address("s3://shop/in"))
    assert not is_folder(X)
    assert [str(file) for file in files_below(Address("s3://shop/in"))] == [
        "s3://shop/in/a/y.csv",
        "s3://shop/in/x.csv",
    ]
    assert matching(Address("s3://shop/in/*.csv")) == [X]
    assert len(matching(Address("s3://shop/in/**/*.csv"))) == 2


def test_a_fingerprint_is_the_entity_tag(s3):
    before = fingerprint(X)
    write_text(X, "id,price\r")
    assert fingerprint(X)[:2] == before[:2]
    assert fingerprint(X) != before


@pytest.mark.parametrize("fault", ["503", "cut", "reset"])
def test_every_second_request_may_fail(s3, fault):
    faults = s3[1]
    faults.every(2, fault)
    write_text(X, "tea,3\n" * 1000)
    assert read_text(X) == "tea,3\n" * 1000
    assert faults.failed >= 2


def test_a_request_that_times_out_is_repeated(s3):
    faults = s3[1]
    faults.every(10**9)
    faults.fault_of = lambda number, method: "timeout" if number == 2 else None
    assert read_text(X) == "id,price\n"
    assert faults.failed == 1


def test_a_connection_that_is_cut_within_a_part_loses_only_this_part(s3, monkeypatch):
    system, faults = s3
    content = os.urandom(300_000)
    system.pipe("shop/in/x.csv", content)
    monkeypatch.setattr("pricekit.io.storage.PART_BYTES", 10_000)
    faults.every(3, "cut", "503", "reset")
    copy = fetch(X)
    assert copy.path.read_bytes() == content
    assert 10 < faults.failed < faults.requests / 2


def test_a_large_file_is_uploaded_in_parts_of_which_some_fail(s3, monkeypatch):
    system, faults = s3
    content = os.urandom(11 << 20)
    monkeypatch.setitem(options_of_uploads(), "s3", {"chunksize": 5 << 20, "max_concurrency": 2})
    faults.every(3, "reset", "503", "cut")
    with published(X) as local:
        local.write_bytes(content)
    assert faults.failed >= 2
    faults.every(1000)
    assert system.cat("shop/in/x.csv") == content


def options_of_uploads():
    from pricekit.io import storage

    return storage._OPTIONS


def test_an_upload_that_fails_leaves_the_old_file(s3, monkeypatch, raises):
    system, faults = s3
    monkeypatch.setitem(options_of_uploads(), "s3", {"chunksize": 5 << 20, "max_concurrency": 2})
    faults.fault_of = lambda number, method: "403" if method == "PUT" else None
    with raises(DataError, "out"), published(X) as local:
        local.write_bytes(bytes(11 << 20))
    faults.every(1000)
    assert system.cat("shop/in/x.csv") == b"id,price\n"
    assert system.find("shop/in") == ["shop/in/x.csv"]
    assert system.call_s3("list_multipart_uploads", Bucket="shop").get("Uploads", []) == []


def test_a_missing_bucket_is_one_sentence(s3, raises):
    missing = Address("s3://nobucket/x.csv")
    with raises(DataError, "table"):
        fetch(missing)
    for write in (check_bucket, lambda address: write_text(address, "a")):
        with raises(DataError, "out"):
            write(missing)


@pytest.mark.parametrize(
    ("work", "parameters"),
    [(fetch, ()), (exists, ()), (lambda address: write_text(address, "a"), ("out",))],
)
def test_denied_access_is_one_sentence(s3, work, parameters, raises):
    s3[1].fault_of = lambda number, method: "403"
    with raises(DataError, *parameters):
        work(X)
