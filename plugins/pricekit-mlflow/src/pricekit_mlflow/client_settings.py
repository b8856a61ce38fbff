"""Settings for requests to MLflow: short timeouts, and no passwords in messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Defaults for variables that the user has not set. MLflow's own retry for minutes, print, and send telemetry."""


@contextmanager
def client_settings() -> Iterator[None]:
    """Apply the defaults while the block runs; raise its failure as a RuntimeError with a one-line message."""
    ours = {name: value for name, value in DEFAULTS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    except Exception as error:
        message = without_password(f"{type(error).__name__}: {error}")
        raise RuntimeError(f"logging of this run to MLflow stopped: {message}") from None
    finally:
        for name in ours:
            os.environ.pop(name, None)


def without_password(text: str) -> str:
    """Return a text with users and passwords removed from its URLs."""
    return re.sub(r"://[^/\s]*@", "://", text)
