"""Standard output, which is for data: prices, tables of results, JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_data: TextIO | None = None
"""Standard output, while `sys.stdout` is something else."""


def stdout() -> TextIO:
    """Return the stream for data, also in a block of `kept_for_data`.

    Example:
        >>> stdout() is sys.stdout
        True
    """
    return _data or sys.stdout


@contextmanager
def kept_for_data() -> Iterator[None]:
    """Send to stderr what is printed while the block runs, in any thread: plugins and libraries may print.

    Example:
        >>> with kept_for_data():
        ...     print("this goes to stderr")
        ...     _ = stdout().write("this goes to stdout")
        this goes to stdout
    """
    global _data
    before = _data, sys.stdout
    _data, sys.stdout = stdout(), sys.stderr
    try:
        yield
    finally:
        _data, sys.stdout = before
