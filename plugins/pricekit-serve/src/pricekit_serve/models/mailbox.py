"""Results of other threads, brought to the event loop together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import Any


class Mailbox:
    """Brings results of other threads to an event loop.

    The loop is woken once for all results that come before it has a look. `asyncio.wrap_future` wakes it for each one,
    and each time the thread that prices and the loop exchange Python's lock.

    Args:
        loop: of the requests.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._come: deque[Callable[[], None]] = deque()

    def receive(self, result: Future[Any]) -> asyncio.Future[Any]:
        """Return what the loop may await for a result of another thread. If one of both is cancelled, the other is."""
        waiter: asyncio.Future[Any] = self._loop.create_future()
        result.add_done_callback(lambda _: self._post(lambda: _copy(result, waiter)))
        waiter.add_done_callback(lambda _: result.cancel())
        return waiter

    def _post(self, deliver: Callable[[], None]) -> None:
        with self._lock:
            self._come.append(deliver)
            first = len(self._come) == 1
        if first:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            come, self._come = self._come, deque()
        for deliver in come:
            deliver()


def _copy(result: Future[Any], waiter: asyncio.Future[Any]) -> None:
    if waiter.done():
        return
    if result.cancelled():
        waiter.cancel()
    elif error := result.exception():
        waiter.set_exception(error)
    else:
        waiter.set_result(result.result())


@lru_cache(maxsize=1)
def _mailbox(loop: asyncio.AbstractEventLoop) -> Mailbox:
    return Mailbox(loop)


def received(result: Future[Any]) -> asyncio.Future[Any]:
    """Return what the running event loop may await for a result of another thread."""
    return _mailbox(asyncio.get_running_loop()).receive(result)
