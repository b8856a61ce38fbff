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
    "check": "pricekit.api.tables",
    "comparables": "pricekit.api.insight",
    "compare": "pricekit.api.models",
    "compute_features": "pricekit.api.tables",
    "cross_validate": "pricekit.api.training",
    "drift": "pricekit.api.insight",
    "ensemble": "pricekit.api.training",
    "evaluate": "pricekit.api.models",
    "explain": "pricekit.api.insight",
    "export": "pricekit.api.models",
    "importance": "pricekit.api.insight",
    "leaderboard": "pricekit.api.models",
    "load": "pricekit.api.models",
    "make_catalog": "pricekit.datasets",
    "predict": "pricekit.api.models",
    "pretrain": "pricekit.api.training",
    "read_table": "pricekit.table",
    "report": "pricekit.api.models",
    "smape": "pricekit.metrics",
    "train": "pricekit.api.training",
    "tune": "pricekit.api.training",
    "use_plugins": "pricekit.core.loader",
    "use_reporter": "pricekit.support.progress",
    "worst_rows": "pricekit.api.models",
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
