"""Interrupts end a program soon, whatever it does.

Python handles a signal only between two operations of its main thread. One operation of a library may take minutes,
threads that compute are waited for, and some libraries swallow a KeyboardInterrupt. So a thread of its own learns of
each signal from the system, and ends the process if it still runs after `GRACE` seconds. That is safe at any moment:
files are published by renaming, as for a process that is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pricekit.io.log import logger

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 2.0
"""Seconds that an interrupted program has to end by itself."""
_PAUSE = 0.05

_patient = 0


@contextmanager
def finish_first() -> Iterator[None]:
    """Let the block end by itself after a signal, however long that takes: it handles signals."""
    global _patient
    _patient += 1
    try:
        yield
    finally:
        _patient -= 1


@contextmanager
def defer_interrupts(*, alone: bool = True) -> Iterator[threading.Event]:
    """Set the yielded event at the first signal; the second signal raises KeyboardInterrupt.

    In another thread than the main one, which alone receives signals, the event is never set.

    Args:
        alone: False ignores further signals. With several processes a launcher sends one to each of them, often beside
            the system, and a process that stops at once leaves the others without a checkpoint.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        if not interrupted.is_set():
            interrupted.set()
            again = "; interrupt again to stop at once" if alone else ""
            logger.warning(f"stopping after this step with a checkpoint{again}")
        elif alone:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        with finish_first():
            yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def end_soon(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` if the block still runs `GRACE` seconds after SIGINT or SIGTERM, outside blocks of `finish_first`.

    Only the main thread can use it.

    Args:
        end: ends the process. Another thread calls it, so it must not wait for the main thread.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_leave_signals_to_parent)
    threading.Thread(target=_watch, args=(reading, end), daemon=True, name="interrupts").start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writing.close()


def _watch(reading: socket.socket, end: Callable[[], object]) -> None:
    """Wait for a signal, then for the end of the block, which closes the other socket."""
    while received := reading.recv(64):
        if set(received) & set(SIGNALS):
            break
    left = GRACE
    reading.settimeout(_PAUSE)
    while received and left > 0:
        with suppress(TimeoutError):
            received = reading.recv(64)
            time.sleep(_PAUSE)
        left = GRACE if _patient else left - _PAUSE
    if received:
        end()
    reading.close()


def _leave_signals_to_parent() -> None:
    """Keep the signals of a forked process from its parent's thread."""
    with suppress(ValueError):  # another thread forked
        signal.set_wakeup_fd(-1)
