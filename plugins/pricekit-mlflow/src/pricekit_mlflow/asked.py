"""Asking MLflow without waiting for it long, and without telling its passwords."""

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
"""Where the user has set nothing; MLflow's own try for minutes, print on stdout and report its use to its authors."""


@contextmanager
def asked() -> Iterator[None]:
    """Set the defaults while the block asks MLflow; its failure ends as a RuntimeError of one line."""
    ours = {name: value for name, value in DEFAULTS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    except Exception as error:
        said = without_password(f"{type(error).__name__}: {error}")
        raise RuntimeError(f"nothing more of this run is logged to MLflow: {said}") from None
    finally:
        for name in ours:
            os.environ.pop(name, None)


def without_password(text: str) -> str:
    """Return a text whose URLs have neither user nor password."""
    return re.sub(r"://[^/\s]*@", "://", text)
