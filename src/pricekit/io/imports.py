"""Imports of many modules at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from pricekit.io.progress import progress


@contextmanager
def uncollected() -> Iterator[None]:
    """Do not search for unreachable objects in the block.

    What the import of a library creates lives until the end; searches among it take a tenth of the time of the import.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def slow_import(module: str) -> ModuleType:
    """Import a module that takes seconds, such as one that imports torch, under a progress bar.

    Example:
        >>> slow_import("pricekit.metrics").__name__
        'pricekit.metrics'
    """
    with progress("loading libraries", 1), uncollected():
        return import_module(module)
