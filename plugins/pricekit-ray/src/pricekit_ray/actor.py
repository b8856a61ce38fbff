"""A class whose actors price the batches of a Ray Data dataset."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa
import ray

import pricekit as pk
from pricekit.plugin import ConfigError, DataError
from pricekit.plugin.runners import Job, Uncertainty, UncertaintyOptions, open_predictor, table_of
from pricekit_ray.cluster import use_assigned_cpus

Batch = TypeVar("Batch", pa.Table, pd.DataFrame)


def check_free(names: Collection[object], uncertainty: Uncertainty) -> None:
    """Raise DataError if a table has columns with the names of those that prices add."""
    taken = [name for name in ("price", *uncertainty.names) if name in names]
    if taken:
        raise DataError(
            f"the dataset has a column {taken[0]!r}, which is the name of the predictions; rename or drop it",
            parameters=("dataset",),
            column=taken[0],
        )


class Predict:
    """Prices the batches of `Dataset.map_batches`: each actor opens the bundle once, and uses the CPUs of its request.

    `pricekit_ray.predict` also checks columns and workers before the job runs.

    Args:
        bundle: its folder, which the actor's machine sees; or its address; or a `pricekit.Model`.
        engine: the engine, for a path or an address.
        **uncertainty: `interval`, `quantiles`, `within` and `confidence`, as of `pricekit_ray.predict`.

    Raises:
        BundleError: the bundle is damaged.
        PluginError: a feature or an engine is missing.
        ConfigError: the model was calibrated on too few rows for the interval, a quantile or the confidence.

    Example:
        >>> import pricekit as pk
        >>> from pricekit_ray import Predict
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> Predict("bundle")(pk.make_catalog(200).drop(columns="price")).columns.tolist()
        ['sample_id', 'catalog_content', 'price']
    """

    def __init__(
        self,
        bundle: str | Path | pk.Model | ray.ObjectRef,
        engine: str = "ort-cpu",
        **uncertainty: Unpack[UncertaintyOptions],
    ) -> None:
        use_assigned_cpus()
        if isinstance(bundle, ray.ObjectRef):
            bundle = ray.get(bundle)
        if isinstance(bundle, Job):  # it was checked before it was sent
            self._model, self._uncertainty = bundle.model(), bundle.uncertainty
        else:
            self._model, self._uncertainty = open_predictor(bundle, engine), Uncertainty.of(**uncertainty)
            self._model.check_uncertainty(self._uncertainty)

    def __call__(self, rows: Batch) -> Batch:
        """Return a batch, a pyarrow Table or a pandas frame, with the columns of prices, float32, and `release`, bool.

        Raises: DataError if it lacks a column of the model, or has a column of that name.
        """
        if not isinstance(rows, pa.Table | pd.DataFrame):
            raise ConfigError(
                f"the batch is a {type(rows).__name__}; set batch_format to 'pyarrow' or 'pandas'",
                parameters=("batch_format",),
            )
        check_free(
            list(rows.columns if isinstance(rows, pd.DataFrame) else rows.column_names), self._uncertainty
        )
        prices = self._prices(rows)
        if isinstance(rows, pd.DataFrame):
            return rows.assign(**prices)
        for name, values in prices.items():
            rows = rows.append_column(name, pa.array(values))
        return rows

    def _prices(self, rows: pa.Table | pd.DataFrame) -> dict[str, np.ndarray]:
        if not len(rows):  # an empty block may have no columns
            return {"price": np.empty(0, np.float32), **self._uncertainty.of_no_rows()}
        return self._model.price_columns(table_of(rows, self._model.columns), self._uncertainty)
