"""The causes behind a library's error that are no fault of its own: an interrupt, a full disk, too little memory."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_TEMPORARY = FULL | {
    errno.EAGAIN,
    errno.EBUSY,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOLCK,
    errno.ENOMEM,
    errno.ETXTBSY,
}
_OF_THE_MACHINE = _TEMPORARY | {errno.EIO, errno.EROFS}
_LOCKED_ON_WINDOWS = frozenset({32, 33})
"""ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION."""

_RUST = re.compile(r"\(os error (\d+)\)")
"""How libraries in Rust, such as safetensors, write an error of the system."""
NO_MEMORY = re.compile(
    r"bad_alloc|can(?:'t|not) allocate memory|failed to (?:allocate|map segment)", re.IGNORECASE
)
"""What libraries in C++ and the loader of libraries say."""
_NO_THREAD = "can't start new thread"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the chain of its causes."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


@contextmanager
def named_in_errors(path: object, temporary: Path | None = None) -> Iterator[None]:
    """Name a file or folder in errors of the system that name none, as for a full disk, or a temporary one."""
    try:
        yield
    except OSError as error:
        if not error.filename or (temporary and str(temporary) in f"{error.filename} {error.filename2}"):
            error.filename = str(path)
            if error.filename2:
                error.filename2 = str(path)
        raise


def is_temporary(error: BaseException) -> bool:
    """Return whether an error may disappear without a change of the command: a full or locked disk, too little memory,
    a network that fails.

    Its causes do not count.
    """
    locked = getattr(error, "winerror", None) in _LOCKED_ON_WINDOWS or type(error).__name__ == "Timeout"
    cut = isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError)
    match = _RUST.search(str(error)) if isinstance(error, Exception) else None
    number = error.errno if isinstance(error, OSError) else int(match[1]) if match else None
    return locked or cut or lacks_memory(error) or lacks_threads(error) or number in _TEMPORARY


def raise_outside_cause(error: BaseException) -> None:
    """Raise the interrupt, the lack of memory or the failing disk behind an error; return if there is none.

    Call it before an error is reported as the fault of a plugin or a model.
    """
    for cause in causes(error):
        machine = isinstance(cause, OSError) and cause.errno in _OF_THE_MACHINE
        if machine or isinstance(cause, KeyboardInterrupt) or lacks_memory(cause) or lacks_threads(cause):
            raise cause


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out; its causes do not count."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and bool(NO_MEMORY.search(str(error)))


def lacks_threads(error: BaseException) -> bool:
    """Return whether an error means that the system refuses to start a thread."""
    return isinstance(error, RuntimeError) and _NO_THREAD in str(error)
