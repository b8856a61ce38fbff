"""The loader of MLflow's flavor `python_function` for bundles: `mlflow.pyfunc.load_model` calls it.

The model of MLflow contains the bundle as it is. Nothing is pickled, and every file is checked against its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import pricekit as pk
from pricekit.plugin.runners import Predictor, open_predictor

CONFIG = {"engine": "auto", "trust": ""}
"""The settings that `mlflow.pyfunc.load_model(model_config=)` may change: the engine, and a file with a public key that
must have signed the bundle; "" is none."""


class BundleModel:
    """A bundle with the interface of an MLflow model.

    Args:
        predictor: the open bundle.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> np.ndarray | pd.DataFrame:
        """Return the price of each row, as `pricekit.load(bundle).predict` does.

        Args:
            model_input: a frame with the columns of the training table, or texts.
            params: `interval`, `quantiles`, `within` and `confidence`, as of `pricekit.Model.predict`; an empty list,
                MLflow's default of a list, is None.
        """
        options = {name: None if np.size(value) == 0 else value for name, value in (params or {}).items()}
        prices: np.ndarray | pd.DataFrame = self.predictor.predict(model_input, **options)
        return prices


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> BundleModel:
    """Open the bundle in a folder; MLflow demands this name."""
    config = CONFIG | dict(model_config or {})
    return BundleModel(open_predictor(pk.load(path, config["engine"], trust=config["trust"] or None)))
