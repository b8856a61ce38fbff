"""The Spark session of a runner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pricekit.plugin import ConfigError, PluginError, usable_cpus
from pricekit_spark.parcel import is_connect, last_words
from pricekit_spark.quiet import about_pandas, on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 4
"""How often a local session starts a task whose Python process dies, as clusters do by default."""

THERE = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Settings of a session on a cluster."""

_LOG = Path(__file__).with_name("log4j2.properties")

HERE = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
}
"""Settings of a session on this machine."""


@contextmanager
def session_of(address: str | None, workers: int | None) -> Iterator[SparkSession]:
    """Yield the active session, or start one and stop it at the end.

    Args:
        address: of a master, such as spark://host:7077 or yarn, or of a Connect server, sc://host:15002; None: the
            active session, or one on this machine.
        workers: the number of tasks at a time; None: as many as suit.

    Raises:
        ConfigError: a session with another address is active.
        PluginError: Spark cannot be started.
    """
    with about_pandas():
        from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        _check_address(active, address)
        yield active
        return
    spark = _started(address, workers)
    try:
        yield spark
    finally:
        spark.stop()


def _check_address(spark: SparkSession, address: str | None) -> None:
    if address is None or is_connect(spark):
        return
    if (found := spark.sparkContext.master) != address:
        raise ConfigError(
            f"a Spark session with the address {found} is active, but {address} is requested; stop it, or leave the "
            "address out",
            parameters=("address",),
        )


def _started(address: str | None, workers: int | None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("pricekit predict")
    if address is None:
        builder, settings = builder.master(f"local[{workers or usable_cpus()},{ATTEMPTS}]"), HERE
    elif address.startswith("sc://"):
        builder, settings = builder.remote(address), {}
    else:
        builder, settings = builder.master(address), THERE
    if workers is not None and (address or "").startswith("spark://"):
        settings = {**settings, "spark.cores.max": str(workers)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with about_pandas(), on_this_machine() if address is None else nullcontext():
            return builder.getOrCreate()
    except Exception as error:
        raise PluginError(
            f"Spark cannot be started at {address or 'this machine'}: {last_words(error)}. Check the address, and "
            "install Java 17 or later",
            parameters=("address",),
        ) from error
