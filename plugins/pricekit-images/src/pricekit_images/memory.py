"""Results that are remembered, so that a training reads each image once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from pricekit_images.unusable import UnusableError

MEMORY = 256 << 20
"""Bytes of numbers that are remembered."""
MOST_KEPT = 200_000
"""Images whose numbers, or failures, are remembered."""
FAILURE_SECONDS = 600.0
"""How long it is remembered that an image cannot be used."""
UNUSED_SECONDS = 86_400.0
"""Results that nobody has asked for during this time make room for others."""

Numbers = npt.NDArray[np.float32]


@dataclass(eq=False)
class _Entry:
    """A result.

    Attributes:
        future: the numbers of an image, or its UnusableError.
        ends: until when it is valid.
        size: in bytes.
        used: when it was asked for last.
    """

    future: Future[Numbers]
    ends: float = float("inf")
    size: int = 0
    used: float = 0.0


class Memory:
    """Remembers results by key, and lets one thread compute each.

    When it is full, it keeps what it has, and not what is new. A training reads the same images in the same order
    again and again: if each new result replaced the oldest one, none would still be there when it is needed.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._lock = Lock()
        self._kept: OrderedDict[object, _Entry] = OrderedDict()
        """In the order in which they were asked for last."""

    def get(self, key: object, compute: Callable[[], Numbers]) -> Numbers:
        """Return the result of `compute` for a key; it, or its UnusableError, may be an earlier one.

        Other errors of `compute` reach its caller. A caller that waits for the same key then computes it again.
        """
        while True:
            entry, mine = self._entry(key)
            if mine:
                return self._compute(key, entry, compute)
            error = entry.future.exception()
            if error is None or isinstance(error, UnusableError):
                return entry.future.result()

    def forget_passing(self) -> None:
        """Forget failures that may have passed."""
        with self._lock:
            for key, entry in list(self._kept.items()):
                error = entry.future.exception() if entry.future.done() else None
                if isinstance(error, UnusableError) and not error.final:
                    self._drop(key)

    def _entry(self, key: object) -> tuple[_Entry, bool]:
        """Return the entry of a key, and whether the caller is to compute it."""
        now = time.monotonic()
        with self._lock:
            entry = self._kept.get(key)
            mine = entry is None or (entry.future.done() and entry.ends < now)
            if entry is None or mine:
                entry = self._kept[key] = _Entry(Future())
            entry.used = now
            self._kept.move_to_end(key)
            return entry, mine

    def _compute(self, key: object, entry: _Entry, compute: Callable[[], Numbers]) -> Numbers:
        try:
            found = compute()
        except BaseException as error:
            with self._lock:
                if isinstance(error, UnusableError):
                    entry.ends = time.monotonic() + FAILURE_SECONDS
                    self._make_room(key)
                else:
                    self._drop(key)
            entry.future.set_exception(error)
            raise
        with self._lock:
            entry.size = found.nbytes
            self._bytes += entry.size
            self._make_room(key)
        entry.future.set_result(found)
        return found

    def _make_room(self, key: object) -> None:
        """Drop results that are long unused, or else that of the key, if there are too many."""
        while self._kept and (self._bytes > self._most or len(self._kept) > MOST_KEPT):
            first = next(iter(self._kept))
            unused = self._kept[first].used + UNUSED_SECONDS < time.monotonic()
            self._drop(first if unused else key)
            if not unused:
                return

    def _drop(self, key: object) -> None:
        entry = self._kept.pop(key, None)
        self._bytes -= entry.size if entry else 0
