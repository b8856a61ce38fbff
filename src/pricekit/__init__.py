"""pricekit prices products from catalogue text.

The public names are lazy: importing pricekit imports neither torch nor transformers nor onnxruntime.
"""

import os
from importlib import import_module
from typing import Any

from pricekit import moved

__version__ = "0.1.0"

# Since 1.29 ONNX Runtime tells a server what runs in it, unless this is set before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_PUBLIC = {
    "Columns": "pricekit.table",
    "Predictor": "pricekit.prediction.predictor",
    "PricekitError": "pricekit.errors",
    "RunConfig": "pricekit.config",
    "Table": "pricekit.table",
    "hookimpl": "pricekit.core.hookspecs",
    "make_catalog": "pricekit.datasets",
    "read_table": "pricekit.table",
    "smape": "pricekit.metrics",
}

__all__ = ["__version__", *_PUBLIC]


moved.install()


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pricekit' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
