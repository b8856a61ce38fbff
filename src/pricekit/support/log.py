"""The `pricekit` logger: INFO for what was done, WARNING for what the user should know, DEBUG for details.

The library only logs. Without a handler Python prints warnings to stderr; the command line installs a handler of its
own (`pricekit.cli.terminal`).
"""

from __future__ import annotations

import logging

logger = logging.getLogger("pricekit")


def silence() -> None:
    """Log nothing from now on in this process: in distributed training only the main process logs."""
    logger.setLevel(logging.CRITICAL + 1)
