"""The `pricekit` logger: INFO for actions, WARNING for problems that the user should know about, DEBUG for details.

The library only logs. Without a handler, Python prints warnings to stderr. The command line installs its own handler
(`pricekit.cli.terminal`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("pricekit")


def silence() -> None:
    """Log only errors from now on in this process: of several that train together, the main one speaks."""
    logger.setLevel(logging.ERROR)


@contextmanager
def quiet() -> Iterator[None]:
    """Log only errors while the block runs, unless details are shown: in a part of something larger."""
    before = logger.level
    if not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
