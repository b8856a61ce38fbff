"""Signals that end a training with a checkpoint, in all processes after the same step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pricekit.support.interrupts import SIGNALS, finish_first
from pricekit.support.log import logger
from pricekit.training.parallel import Processes


class Interrupts:
    """Whether a signal has reached this process, or one of those that train with it.

    Args:
        noticed: is set when a signal reaches this process.
        processes: that train together.
    """

    def __init__(self, noticed: threading.Event, processes: Processes) -> None:
        self.noticed = noticed
        self.processes = processes
        self._answer: Callable[[], bool] | None = None

    def after_step(self) -> bool:
        """Return whether to stop after this step; several processes agree on it one step later.

        So none of them waits for an answer, and all of them stop after the same step.
        """
        if self.processes.count == 1:
            return self.noticed.is_set()
        answer, self._answer = self._answer, self.processes.any_later(self.noticed.is_set())
        return answer is not None and answer()

    def agreed(self) -> bool:
        """Return whether to stop now; waits for the other processes, which all must ask."""
        return self.processes.any(self.noticed.is_set())


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
