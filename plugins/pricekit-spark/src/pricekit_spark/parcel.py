"""A job on its way to the workers, and the check that they can do it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pricekit
from pricekit import plugin
from pricekit.plugin import CPUS, PluginError, PricekitError, shorten
from pricekit.plugin.runners import Job, Shipped
from pricekit_spark.quiet import about_pandas

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

BY_VALUE = 64 * 2**20
"""Bytes of a bundle that Spark Connect sends inside of a function; one of its messages has at most 128 MB."""


@dataclass(frozen=True)
class Parcel:
    """A job for Spark's workers.

    Attributes:
        content: a broadcast of the job, or the job itself, which Spark then sends with each function.
    """

    content: Broadcast[Job] | Job = field(repr=False)

    def __call__(self) -> Job:
        """Return the job, in a worker; its model uses the CPUs of one task."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None:
            cpus = os.environ.setdefault(CPUS, str(task.cpus()))
            os.environ.setdefault("RAYON_NUM_THREADS", cpus)
        return self.content if isinstance(self.content, Job) else self.content.value


def parcel_of(spark: SparkSession, job: Job) -> Parcel:
    """Return a job that contains its bundle. With Spark Connect, a large one contains the path of its bundle.

    Raises:
        ConfigError: the model is no bundle.
        BundleError: the bundle has changed since it was loaded.
    """
    shipped = job.shipped()
    if not is_connect(spark):
        return Parcel(spark.sparkContext.broadcast(shipped))
    return Parcel(shipped if _bytes_of(shipped) <= BY_VALUE else job)


def _bytes_of(job: Job) -> int:
    """Return the size of the bundle that a job contains."""
    return sum(map(len, job.model.bundle.files.values())) if isinstance(job.model, Shipped) else 0


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a server through Spark Connect, which has no broadcasts."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_workers(spark: SparkSession, parcel: Parcel) -> None:
    """Let one worker import pricekit, then open the model.

    Raises:
        PluginError: the worker lacks pricekit, has another version, or lacks a plugin or the engine.
        BundleError: it has another bundle.
    """
    content = parcel.content

    def opened(_: int) -> str:
        import sys

        from pricekit_spark.parcel import Parcel, problem_of

        try:
            Parcel(content)().check()
        except Exception as error:
            return problem_of(error, sys.executable)
        return "{}"

    with about_pandas():
        raise_problem(call(spark, _import_check(pricekit.__version__)))
        raise_problem(call(spark, opened))


def _import_check(version: str) -> Callable[[int], str]:
    """Return a check of a worker's pricekit; a nested function is sent by value, so it runs without pricekit, too."""

    def imported(_: int) -> str:
        import json
        import socket
        import sys

        where = f"the Python of Spark's workers, {sys.executable} on {socket.gethostname()},"
        install = "Install pricekit[cpu] and pricekit-spark there, or name another Python with PYSPARK_PYTHON"
        try:
            import pricekit
            import pricekit_spark  # noqa: F401
        except ImportError as error:
            problem = f"{where} cannot import pricekit ({error}). {install}"
        else:
            if pricekit.__version__ == version:
                return "{}"
            problem = f"{where} has pricekit {pricekit.__version__}, but the driver has {version}. {install}"
        return json.dumps({"kind": "PluginError", "problem": problem})

    return imported


def problem_of(error: Exception, python: str) -> str:
    """Return an error of a worker as JSON."""
    where = f"the Python of Spark's workers, {python} on {socket.gethostname()},"
    kind = type(error).__name__ if isinstance(error, PricekitError) else "PluginError"
    said = str(error) if isinstance(error, PricekitError) else f"{type(error).__name__}: {error}"
    return json.dumps({"kind": kind, "problem": f"{where} cannot price: {said}"})


def raise_problem(answer: dict[str, Any]) -> None:
    """Raise the error of a worker again, if its answer is one."""
    if "kind" in answer:
        kind = getattr(plugin, answer["kind"], PluginError)
        raise kind(answer["problem"])


def call(spark: SparkSession, function: Any) -> dict[str, Any]:
    """Call a function of a number in one task, and return the JSON object that it answers; raises PluginError."""
    from pyspark.sql.functions import udf

    try:
        answer = udf(function, "string", useArrow=False)
        ((text,),) = spark.range(0, 1, 1, 1).select(answer("id")).collect()
    except Exception as error:  # of pyspark; of py4j where Java's is none of those that pyspark knows
        raise PluginError(f"a task of Spark failed: {last_words(error)}") from error
    return dict(json.loads(text))


def last_words(error: Exception) -> str:
    """Return what a failed task said last: the last line of Python's traceback, or the first one of Java's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if not line.startswith(("at ", "..."))]
    ends = [place for place, line in enumerate(python) if line.startswith("File ")]
    chosen = python[ends[-1] :] if ends else python
    said = next(
        (line for line in chosen if "Error: " in line or "Exception: " in line), python[0] if python else ""
    )
    return shorten(said.strip(" :.") or type(error).__name__, 500)
