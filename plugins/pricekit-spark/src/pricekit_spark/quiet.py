"""What Spark says without a need."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

PYTHON, HOST = "PYSPARK_PYTHON", "SPARK_LOCAL_IP"
"""The environment variables that name the Python of the workers, and the address of this machine."""


@contextmanager
def about_pandas() -> Iterator[None]:
    """Silence pyspark's warning about pandas 3: this package does not use pyspark's conversion to pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def on_this_machine() -> Iterator[None]:
    """While Spark starts: workers use this Python, unless another one is named, and no other host is looked up.

    Spark's default is python3, which may be another Python.
    """
    added = {PYTHON: sys.executable, HOST: "127.0.0.1"}
    added = {name: value for name, value in added.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
