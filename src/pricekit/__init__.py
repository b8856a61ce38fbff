"""pricekit prices products from catalogue text.

The public names are lazy: importing pricekit imports neither torch nor transformers nor onnxruntime.
"""

import os
from importlib import import_module
from typing import Any

from pricekit.support.cpus import limit_spinning

__version__ = "0.2.0"

# Since 1.29, ONNX Runtime sends usage data to a server unless this is set before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
limit_spinning()

_PUBLIC = {
    "Columns": "pricekit.table",
    "CrossValidation": "pricekit.api.results",
    "PriceRegressor": "pricekit.estimator",
    "Predictor": "pricekit.prediction.predictor",
    "PricekitError": "pricekit.errors",
    "Run": "pricekit.api.results",
    "RunConfig": "pricekit.config",
    "Table": "pricekit.table",
    "Tuning": "pricekit.api.results",
    "check": "pricekit.api",
    "comparables": "pricekit.api",
    "compare": "pricekit.api",
    "compute_features": "pricekit.api",
    "cross_validate": "pricekit.api",
    "drift": "pricekit.api",
    "ensemble": "pricekit.api",
    "evaluate": "pricekit.api",
    "explain": "pricekit.api",
    "export": "pricekit.api",
    "hookimpl": "pricekit.core.hookspecs",
    "importance": "pricekit.api",
    "inspect": "pricekit.api",
    "leaderboard": "pricekit.api",
    "load": "pricekit.api",
    "make_catalog": "pricekit.datasets",
    "predict": "pricekit.api",
    "pretrain": "pricekit.api",
    "pull": "pricekit.api",
    "push": "pricekit.api",
    "read_bundle": "pricekit.prediction.members",
    "read_table": "pricekit.table",
    "report": "pricekit.api",
    "sign": "pricekit.api",
    "smape": "pricekit.metrics",
    "train": "pricekit.api",
    "tune": "pricekit.api",
    "use_plugins": "pricekit.core.loader",
    "use_reporter": "pricekit.support.progress",
    "worst_rows": "pricekit.api",
}

_PACKAGES = ("plots",)

__all__ = ["__version__", *_PUBLIC, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"pricekit.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'pricekit' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
