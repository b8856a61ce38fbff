import sys

import pytest

from pricekit.cli.common import TEMPORARY, exit_code
from pricekit.errors import ConfigError, DataError
from pricekit.io.storage import ATTEMPTS, Address, connect, exists, failure, fetch, repeated

X = Address("memory://b/x.csv")


def test_a_call_is_repeated_after_an_error_that_may_pass(failing, memory):
    memory.pipe("/b/x.csv", b"a")
    failed = failing("cat_file", {1, 2, 3, 4})
    assert fetch(X).path.read_bytes() == b"a"
    assert failed.calls == ATTEMPTS


def test_too_many_failures_are_a_temporary_failure(failing, memory):
    memory.pipe("/b/x.csv", b"a")
    failing("info", range(100), TimeoutError("no answer"))
    with pytest.raises(DataError) as failed:
        fetch(X)
    assert str(failed.value) == "memory://b/x.csv cannot be read: no answer. Try again later."
    assert exit_code(failed.value) == TEMPORARY


@pytest.mark.parametrize("error", [FileNotFoundError(), PermissionError(), ImportError()])
def test_a_final_error_is_not_repeated(error):
    calls = []

    def attempt():
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        repeated(attempt, "test")
    assert len(calls) == 1


def test_denied_access_is_one_sentence(failing):
    failing("info", range(100), PermissionError("Forbidden"))
    with pytest.raises(DataError) as refused:
        exists(X)
    assert str(refused.value) == (
        "memory://b/x.csv cannot be read: access is denied. Check the address, the credentials and their rights."
    )


class NoCredentialsError(Exception):
    """As botocore raises it."""


def test_missing_credentials_are_one_sentence_and_not_repeated(failing, raises):
    failed = failing("info", range(100), NoCredentialsError("Unable to locate credentials"))
    with raises(DataError):
        exists(X)
    assert failed.calls == 1


@pytest.mark.parametrize(("scheme", "module"), [("s3", "s3fs"), ("gs", "gcsfs"), ("abfs", "adlfs")])
def test_a_missing_package_is_named_with_its_command(monkeypatch, scheme, module):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with pytest.raises(ConfigError) as refused:
        connect(Address(f"{scheme}://b/x.csv"))
    assert str(refused.value) == (
        f"{scheme}://b/x.csv needs the package {module}, which is not installed: pip install {module}"
    )


def test_a_missing_bucket_is_one_sentence():
    assert str(failure(X, "written", FileNotFoundError("The specified bucket does not exist"), "out")) == (
        "memory://b/x.csv cannot be written: there is no such bucket or folder. Check the address."
    )
