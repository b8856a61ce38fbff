"""Settings for requests to MLflow: short timeouts, and no passwords in messages."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pricekit.plugin import PricekitError

DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Defaults for variables that the user has not set. MLflow's own retry for minutes, print, and send telemetry."""

_NOISE = ".*(An input example was not provided|Any type hint is inferred as AnyType)"
"""Warnings of MLflow about models in general; a bundle brings a signature of its own."""

IMPATIENT = ("MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES")
"""Those that keep training from waiting."""


@contextmanager
def client_settings(
    failed: str = "logging of this run to MLflow stopped", *, patient: bool = False
) -> Iterator[None]:
    """Apply the defaults while the block runs; raise its failure as a RuntimeError with a one-line message.

    Args:
        failed: begins the message.
        patient: leave timeouts and retries to MLflow, where nothing waits for the block.
    """
    chosen = {name: value for name, value in DEFAULTS.items() if not (patient and name in IMPATIENT)}
    ours = {name: value for name, value in chosen.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _NOISE, UserWarning)
            yield
    except PricekitError:
        raise
    except Exception as error:
        message = without_password(f"{type(error).__name__}: {error}")
        raise RuntimeError(f"{failed}: {message}") from None
    finally:
        for name in ours:
            os.environ.pop(name, None)


def without_password(text: str) -> str:
    """Return a text with users and passwords removed from its URLs."""
    return re.sub(r"://[^/\s]*@", "://", text)
