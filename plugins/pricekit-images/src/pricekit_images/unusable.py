"""Images that cannot be used: why, and one warning about all of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from threading import Lock

from pricekit.plugin import logger, shorten

MOST_KNOWN = 100_000
"""Sources that are remembered, so that each is counted once."""
MOST_REASONS = 4
"""Reasons in a warning."""


class UnusableError(Exception):
    """An image cannot be used, and counts as missing.

    Attributes:
        reason: a few words, equal for equal problems.
        final: another attempt would fail, too.
        lasting: the link leads to nothing, whatever the limits are, so that it need not be tried again for a day.
        pause: seconds to wait before another attempt, at least.
    """

    def __init__(self, reason: str, *, final: bool = True, lasting: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.final, self.lasting, self.pause = reason, final, lasting, pause


class Report:
    """Warns about unusable images: when there are the first ones, and each time that their number has doubled."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: set[str] = set()
        self._reasons: Counter[str] = Counter()
        self._first = ("", "")
        self._images = self._warned = 0

    def add(self, images: int, failures: Sequence[tuple[str, str]]) -> None:
        """Count images, and those that cannot be used.

        Args:
            images: the number of different images, usable or not.
            failures: source and reason of those that cannot be used.
        """
        if not logger.isEnabledFor(logging.WARNING):  # in a part of something that is quiet
            return
        with self._lock:
            self._images += images
            for source, reason in failures:
                if source in self._known or len(self._known) >= MOST_KNOWN:
                    continue
                self._first = self._first if self._known else (source, reason)
                self._known.add(source)
                self._reasons[reason] += 1
            failed = len(self._known)
            if failed < max(1, 2 * self._warned):
                return
            self._warned = failed
            message = self._message(failed)
        logger.warning(message)

    def _message(self, failed: int) -> str:
        source, reason = self._first
        common = self._reasons.most_common(MOST_REASONS)
        counts = ", ".join(f"{why}: {count:,}" for why, count in common)
        more = f" ({counts})" if failed > 1 else ""
        return (
            f"{failed:,} of {max(failed, self._images):,} images cannot be used and count as missing{more}; the first "
            f"is {shorten(repr(source), 200)}: {reason}"
        )
