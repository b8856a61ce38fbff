"""The cause behind an error comes first."""

import errno

import pytest
import torch
from safetensors import SafetensorError

from pricekit.cli.common import exit_code, explain
from pricekit.io.causes import is_temporary, lacks_memory, raise_outside_cause


def wrapped(cause):
    """Return an error that a library raised because of another one."""
    try:
        try:
            raise cause
        except BaseException as error:
            raise RuntimeError("step 2 of 3 failed") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "cause",
    [
        KeyboardInterrupt(),
        MemoryError(),
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EMFILE, "too many open files"),
        OSError(errno.EIO, "I/O error"),
    ],
)
def test_the_cause_is_raised_instead_of_the_error(cause):
    with pytest.raises(type(cause)) as raised:
        raise_outside_cause(wrapped(cause))
    assert raised.value is cause


@pytest.mark.parametrize(
    "cause",
    [
        RuntimeError("std::bad_alloc"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        ImportError("libx.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_library_without_memory_or_threads_is_not_to_blame(cause):
    with pytest.raises(type(cause)) as raised:
        raise_outside_cause(wrapped(cause))
    assert raised.value is cause
    assert is_temporary(cause)
    assert exit_code(wrapped(cause)) == 4
    assert "unexpected" not in explain(wrapped(cause))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_errors_of_memory_are_recognised(error, expected):
    assert lacks_memory(error) is expected


@pytest.mark.parametrize("cause", [ValueError("x"), FileNotFoundError(2, "x"), RuntimeError("x")])
def test_an_error_of_the_library_itself_stays(cause):
    raise_outside_cause(wrapped(cause))


def test_a_full_disk_of_safetensors_is_temporary():
    assert is_temporary(SafetensorError("I/O error: No space left on device (os error 28)"))
    assert not is_temporary(SafetensorError("I/O error: No such file (os error 2)"))
