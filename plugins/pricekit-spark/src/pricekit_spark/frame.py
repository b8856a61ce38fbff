"""Prices of a Spark DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pricekit.plugin import DataError
from pricekit.plugin.runners import (
    RELEASE,
    Job,
    PathLike,
    Uncertainty,
    UncertaintyOptions,
    open_predictor,
    table_of,
    with_options,
)
from pricekit_spark.parcel import check_workers, parcel_of
from pricekit_spark.quiet import about_pandas
from pricekit_spark.rows import PriceRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@with_options(UncertaintyOptions)
def predict(
    df: DataFrame,
    bundle: PathLike,
    *,
    engine: str = "ort-cpu",
    replace: bool = False,
    **uncertainty: Unpack[UncertaintyOptions],
) -> DataFrame:
    """Return a DataFrame with a price for each row; Spark computes it when it is used.

    The workers need pricekit and this package. They receive the bundle from here. Before this function returns, one of
    them opens the bundle.

    Args:
        df: with the text columns of the model, and any other columns.
        bundle: the folder of the bundle, its address, or the object that `export` returned.
        engine: the engine that runs the bundle in the workers.
        replace: replace columns that have the names of the new ones.
        **options: see below.

    Returns:
        The columns of `df`, `price`, and the columns of the options: `release` is boolean, the others are float.

    Raises:
        DataError: a text column is missing, or a column has the name of a new one.
        ConfigError: the model is no bundle, or was calibrated on too few rows for the interval, a quantile or the
            confidence.
        BundleError: the bundle is damaged, or workers have another one.
        PluginError: the workers lack pricekit, a plugin or the engine.

    Example:
        >>> import pricekit_spark
        >>> priced = pricekit_spark.predict(spark.read.parquet("new"), "bundle")  # doctest: +SKIP
    """
    from pyspark.sql.types import BooleanType, FloatType, StructField, StructType

    job = Job.of(open_predictor(bundle, engine), uncertainty=Uncertainty.of(**uncertainty))
    names = ("price", *job.uncertainty.names)
    df = _without(df, names, replace)
    with about_pandas():
        job.model().check_uncertainty(job.uncertainty)
        table_of(_no_rows(df), job.model().columns)
    parcel = parcel_of(df.sparkSession, job)
    check_workers(df.sparkSession, parcel)
    added = [StructField(name, BooleanType() if name == RELEASE else FloatType()) for name in names]
    schema = StructType([*df.schema.fields, *added])
    with about_pandas():
        return df.mapInArrow(PriceRows(parcel), schema)


def _without(df: DataFrame, names: tuple[str, ...], replace: bool) -> DataFrame:
    """Return a DataFrame without columns of these names, which Spark compares without case."""
    taken = [name for name in df.columns if name.lower() in names]
    if taken and not replace:
        raise DataError(
            f"the DataFrame has a column {taken[0]!r} already, the name of a new one; rename it, or set replace",
            parameters=("replace",),
            column=taken[0],
        )
    return df.drop(*taken)


def _no_rows(df: DataFrame) -> pa.Table:
    """Return the columns of a DataFrame without rows, as workers see them; raises DataError."""
    from pyspark.errors import PySparkException

    try:
        return df.sparkSession.createDataFrame([], df.schema).toArrow()
    except PySparkException as error:
        raise DataError(
            f"Spark cannot send the columns of this DataFrame to Python: {error}. Drop or cast the column.",
            parameters=("df",),
        ) from error
