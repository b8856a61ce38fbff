"""The `pricekit` logger: INFO for actions, WARNING for problems that the user should know about, DEBUG for details.

The library only logs. Without a handler, Python prints warnings to stderr. The command line installs its own handler
(`pricekit.cli.terminal`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("pricekit")

RUNTIME_SEVERITY = 4
"""What ONNX Runtime itself may log: only fatal errors.

Its messages contain names from graphs, unescaped. All that it calls errors are also exceptions, which pricekit reports.
"""


def onnx_runtime() -> Any:
    """Return the module of ONNX Runtime, which from now on writes to none of this process's streams.

    Raises:
        ImportError: it is not installed.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(
        RUNTIME_SEVERITY
    )  # of sessions without their own, and of providers
    return onnxruntime


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
