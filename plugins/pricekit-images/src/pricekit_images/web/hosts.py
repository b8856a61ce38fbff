"""Hosts that stop answering: their downloads pause, and one request at a time finds out whether they answer again.

Without that, an outage of seconds would fail all links that are read meanwhile. A host that has never answered gets no
pause, because nothing says that it ever will.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from pricekit.plugin import logger
from pricekit_images.unusable import UnusableError

SILENT = 20
"""Failed connections to a host, without one that succeeds, after which its downloads pause."""
PAUSE_SECONDS = 60.0
"""How long downloads wait for a host that has answered before; then they fail."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
"""Seconds before the first request to a host that is silent, and between later ones at most."""
GONE_SECONDS = 60.0
"""Seconds for which links of a host fail at once, after it has not answered in time."""
LOOK_SECONDS = 0.05
"""Seconds between looks at a host that others wait for."""
MOST_HOSTS = 10_000
"""Hosts that are remembered."""


class GoneError(UnusableError):
    """The host of a link does not answer; further attempts would only cost time."""

    def __init__(self) -> None:
        super().__init__("the host does not answer", final=False)


@dataclass
class _Host:
    """What is known of a host.

    Attributes:
        answered: it has answered, and has not been given up since.
        failed: connections in a row that failed.
        asked: a request finds out whether it answers again.
        pause: seconds between such requests.
        due: when the next one may start.
        ends: until when downloads wait.
    """

    answered: bool = False
    failed: int = 0
    asked: bool = False
    pause: float = 0.0
    due: float = 0.0
    ends: float = 0.0


class Hosts:
    """Decides when a request may start; several threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[str, _Host] = OrderedDict()

    @contextmanager
    def turn(self, name: str, pause: Callable[[float], None]) -> Iterator[Callable[[], None]]:
        """Wait until a request to a host may start; yield a function to call when the host has answered.

        An UnusableError of the block that is not final, before that call, counts as a failed connection.

        Args:
            name: of the host.
            pause: waits for some seconds; its errors end the turn.

        Raises:
            GoneError: the host does not answer.
        """
        host, alone = self._enter(name, pause)
        told = False

        def answered() -> None:
            nonlocal told
            told = True
            with self._lock:
                host.answered, host.failed = True, 0

        try:
            yield answered
        except UnusableError as error:
            if not told and not error.final:
                self._fail(name, host, alone)
            raise
        finally:
            if alone:
                host.asked = False

    def pauses(self, name: str) -> bool:
        """Return whether downloads wait for a host."""
        with self._lock:
            host = self._known.get(name)
            return host is not None and host.failed >= SILENT and time.monotonic() < host.ends

    def forget(self) -> None:
        """Ask all hosts again, as if nothing were known of them."""
        with self._lock:
            self._known.clear()

    def _enter(self, name: str, pause: Callable[[float], None]) -> tuple[_Host, bool]:
        """Return the host, and whether this request is the one that finds out whether it answers again."""
        while True:
            with self._lock:
                host = self._known.setdefault(name, _Host())
                self._known.move_to_end(name)
                if len(self._known) > MOST_HOSTS:
                    self._known.popitem(last=False)
                now = time.monotonic()
                if host.failed < SILENT:
                    return host, False
                if not host.asked:
                    if now >= host.due:
                        host.asked = True
                        return host, True
                    if now >= host.ends:
                        raise GoneError
            pause(LOOK_SECONDS)

    def _fail(self, name: str, host: _Host, alone: bool) -> None:
        """Count a failed connection."""
        with self._lock:
            now = time.monotonic()
            host.failed += 1
            if host.failed == SILENT and host.answered:
                host.pause = FIRST_PAUSE
                host.due, host.ends = now + host.pause, now + PAUSE_SECONDS
                logger.info(
                    f"{name} has stopped answering; its images wait for it, at most {PAUSE_SECONDS:.0f} s"
                )
            elif host.failed == SILENT or alone:
                host.pause = min(2 * host.pause, LONGEST_PAUSE)
                host.due = now + host.pause
                if host.due >= host.ends:
                    host.answered, host.ends, host.due = False, now, now + GONE_SECONDS
