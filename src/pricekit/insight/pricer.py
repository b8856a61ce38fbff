"""What explanations, comparables and drift need of an open model."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pricekit.features.preprocess import Inputs, Preprocessor
from pricekit.insight.products import Products
from pricekit.insight.sketch import Sketch
from pricekit.table import Columns, Table


class Pricer(Protocol):
    """An open model: `pricekit.predict.predictor.Predictor`, whose layer is above this one."""

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained with."""

    @property
    def currency(self) -> str | None:
        """The currency of the prices; None if the training table did not show one."""

    @property
    def sketch(self) -> Sketch | None:
        """The sketch of the training table; None for a model without one."""

    @property
    def preprocessor(self) -> Preprocessor:
        """What turns rows into the inputs of the first member, which the sketch describes."""

    def prepare(self, table: Table) -> list[Inputs]:
        """Return each member's inputs of a table's rows."""

    def price(self, inputs: list[Inputs]) -> np.ndarray:
        """Return the prices of such inputs, float32 (N,)."""

    def prices(self, table: Table) -> np.ndarray:
        """Return the price of each row, float32 (N,)."""

    def own_products(self) -> Products | None:
        """Return the products with prices that the model contains, None if none."""
