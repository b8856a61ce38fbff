"""pricekit prices products from catalogue text.

The public names are lazy: importing pricekit imports neither torch nor transformers nor onnxruntime.
"""

import os
from importlib import import_module
from typing import Any

from pricekit.io.cpus import limit_spinning
from pricekit.io.sources import offer

__version__ = "0.2.0"

# Since 1.29, ONNX Runtime sends usage data to a server unless this is set before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
limit_spinning()
offer(lambda *scheme: import_module("pricekit.core.loader").registry().source(*scheme))

_PUBLIC = {
    "CrossValidation": "pricekit.model",
    "Model": "pricekit.model",
    "Tuning": "pricekit.model",
    "PriceFeatures": "pricekit.estimator",
    "PriceRegressor": "pricekit.estimator",
    "PricekitError": "pricekit.errors",
    "RunConfig": "pricekit.config",
    "check": "pricekit.api",
    "compare": "pricekit.api",
    "cross_validate": "pricekit.api",
    "ensemble": "pricekit.api",
    "load": "pricekit.api",
    "make_catalog": "pricekit.datasets",
    "pretrain": "pricekit.api",
    "read_table": "pricekit.api",
    "smape": "pricekit.metrics",
    "train": "pricekit.api",
    "tune": "pricekit.api",
    "use_plugins": "pricekit.core.loader",
    "use_reporter": "pricekit.io.progress",
}

_MODULES = ("bundles", "plots", "plugin")

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pricekit.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pricekit' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
