"""Ctrl-C and SIGTERM wait for the end of a step, so that a checkpoint can be written first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pricekit.log import logger

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_interrupts(*, enabled: bool) -> Iterator[threading.Event]:
    """Set the yielded event at the first signal; the second signal raises KeyboardInterrupt.

    Args:
        enabled: False leaves the signals alone, as with several processes, which a signal reaches at different steps.
    """
    interrupted = threading.Event()
    if not enabled or threading.current_thread() is not threading.main_thread():  # only it receives signals
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        logger.warning("stopping after this step with a checkpoint; interrupt again to stop at once")

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
