"""Ctrl-C and SIGTERM between two steps, so that a checkpoint can be written first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pricekit.log import logger

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noted_interrupts(*, enabled: bool) -> Iterator[threading.Event]:
    """Set the event at the first signal instead of raising KeyboardInterrupt; the second one raises.

    Not with several processes, which a signal reaches at different steps.
    """
    asked = threading.Event()
    if (
        not enabled or threading.current_thread() is not threading.main_thread()
    ):  # signals are the main thread's
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        logger.warning("stopping after this step; a checkpoint is written (once more to stop at once).")

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
