"""Price a whole Ray Data dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa
import ray

import pricekit as pk
from pricekit.plugin import Columns, ConfigError, logger, read_frame
from pricekit.plugin.runners import Job, Uncertainty, UncertaintyOptions, open_predictor, with_options
from pricekit_ray.actor import Predict, check_free
from pricekit_ray.cluster import check_worker, cluster_cpus

if TYPE_CHECKING:
    from ray.data import Dataset


@with_options(UncertaintyOptions)
def predict(
    dataset: Dataset,
    bundle: str | Path | pk.Model,
    *,
    engine: str = "ort-cpu",
    workers: int | None = None,
    cpus: int = 1,
    batch_size: int = 8192,
    **uncertainty: Unpack[UncertaintyOptions],
) -> Dataset:
    """Return a dataset with a column `price`, and those that say how sure it is; its other columns are unchanged.

    The columns and one worker are checked at once; if Ray does not know the columns yet, it computes the first rows.
    Rows are priced when the dataset is read or written. The bundle is sent to the workers. Ray keeps no order of rows,
    so let an id be among the columns.

    Args:
        dataset: with the columns that the model reads.
        bundle: its folder or its address, as this process sees it; or a `pricekit.Model`.
        engine: the engine, for a path or an address.
        workers: the number of actors, each with a copy of the model; None: as many as the cluster's CPUs suffice for,
            while one CPU is left for the tasks that read the table.
        cpus: the CPUs of each actor.
        batch_size: the rows that are priced together.
        **options: see below.

    Raises:
        DataError: the dataset lacks a column, or has one of the names of the new ones.
        BundleError: the bundle is damaged.
        ConfigError: the model is no bundle, or was calibrated on too few rows for the interval, a quantile or the
            confidence; or a number is invalid.
        PluginError: a worker cannot import pricekit, lacks the engine or a plugin, or has another version.

    Example:
        >>> import pricekit as pk, pricekit_ray, ray
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> products = ray.data.from_pandas(pk.make_catalog(200).drop(columns="price"))
        >>> pricekit_ray.predict(products, "bundle").columns()
        ['sample_id', 'catalog_content', 'price']
    """
    from ray.data import ActorPoolStrategy

    for name, value in (("workers", workers), ("cpus", cpus), ("batch_size", batch_size)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; expected at least 1", parameters=(name,))
    predictor = open_predictor(bundle, engine)
    job = Job.of(predictor, uncertainty=Uncertainty.of(**uncertainty))
    predictor.check_uncertainty(job.uncertainty)
    _check_columns(dataset, predictor.columns, job.uncertainty)
    size = _workers(workers, cpus)
    sent = ray.put(job.shipped())
    check_worker(sent, cpus)
    return dataset.map_batches(
        Predict,
        fn_constructor_kwargs={"bundle": sent},
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=cpus,
        compute=ActorPoolStrategy(size=size),
        udf_modifying_row_count=False,
    )


def _check_columns(dataset: Dataset, columns: Columns, uncertainty: Uncertainty) -> None:
    """Raise DataError unless the dataset has the columns of the model; one without rows may have no columns."""
    names = dataset.columns()
    if names:
        empty = pa.table({name: pa.array([], pa.string()) for name in names})
        read_frame(empty, replace(columns, price=None))
        check_free(names, uncertainty)


def _workers(workers: int | None, cpus: int) -> int:
    """Return the number of actors: if they reserved all CPUs, the tasks that read the table would wait forever."""
    have = cluster_cpus()
    if workers is None and have <= cpus:
        raise ConfigError(
            f"the cluster has {have} CPUs, but a worker takes {cpus}, and one more must be left to read the table. "
            "Start Ray with more CPUs; or, if the cluster grows, name the number of workers",
            parameters=("cpus", "workers"),
        )
    if workers is not None and workers * cpus >= have:
        logger.warning(
            f"{workers} workers with {cpus} CPUs each reserve all {have} CPUs of the cluster. Unless it grows, the "
            "tasks that read the table wait forever: use fewer workers"
        )
    return workers or (have - 1) // cpus
