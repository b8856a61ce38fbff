"""A job on its way to the workers, and the check that they can do it."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pricekit
from pricekit import errors
from pricekit.errors import PluginError, PricekitError
from pricekit.prediction.folders import Job
from pricekit.support.cpus import CPUS
from pricekit.support.text import shorten
from pricekit_spark.quiet import about_pandas

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

BY_VALUE = 64 * 2**20
"""Bytes of a job that Spark Connect sends inside of a function; one of its messages has at most 128 MB."""


@dataclass(frozen=True)
class Parcel:
    """A job for Spark's workers.

    Attributes:
        content: a broadcast of the job, or the pickled job.
    """

    content: Broadcast[Job] | bytes = field(repr=False)

    def __call__(self) -> Job:
        """Return the job, in a worker; its model uses the CPUs of one task."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is not None:
            cpus = os.environ.setdefault(CPUS, str(task.cpus()))
            os.environ.setdefault("RAYON_NUM_THREADS", cpus)
        content = self.content
        job: Job = pickle.loads(content) if isinstance(content, bytes) else content.value  # noqa: S301  # the driver's
        return job


def parcel_of(spark: SparkSession, job: Job) -> Parcel:
    """Return a job that contains its bundle. With Spark Connect, a large one contains the path of its bundle.

    Raises:
        ConfigError: the model is no bundle.
        BundleError: the bundle has changed since it was loaded.
    """
    shipped = job.shipped()
    if not is_connect(spark):
        return Parcel(spark.sparkContext.broadcast(shipped))
    content = pickle.dumps(shipped)
    return Parcel(content if len(content) <= BY_VALUE else pickle.dumps(job))


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a server through Spark Connect, which has no broadcasts."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_workers(spark: SparkSession, parcel: Parcel) -> None:
    """Let one worker open the model.

    Raises:
        PluginError: the worker lacks pricekit, has another version, or lacks a plugin or the engine.
        BundleError: it has another bundle.
    """
    content, version = parcel.content, pricekit.__version__

    def report(
        _: int,
    ) -> str:  # a nested function is pickled by value, so a worker without pricekit runs it, too
        import json
        import socket
        import sys

        where = f"the Python of Spark's workers, {sys.executable} on {socket.gethostname()},"
        install = "Install pricekit[cpu] and pricekit-spark there, or name another Python with PYSPARK_PYTHON"
        try:
            import pricekit

            if pricekit.__version__ != version:
                problem = (
                    f"{where} has pricekit {pricekit.__version__}, but the driver has {version}. {install}"
                )
                return json.dumps({"kind": "PluginError", "problem": problem})
            from pricekit_spark.parcel import Parcel, problem_of
        except ImportError as error:
            problem = f"{where} cannot import pricekit ({error}). {install}"
            return json.dumps({"kind": "PluginError", "problem": problem})
        try:
            Parcel(content)().check()
        except Exception as error:
            return problem_of(error, where)
        return "{}"

    with about_pandas():
        answer = call(spark, report)
    raise_problem(answer)


def problem_of(error: Exception, where: str) -> str:
    """Return an error of a worker as JSON."""
    kind = type(error).__name__ if isinstance(error, PricekitError) else "PluginError"
    said = str(error) if isinstance(error, PricekitError) else f"{type(error).__name__}: {error}"
    return json.dumps({"kind": kind, "problem": f"{where} cannot price: {said}"})


def raise_problem(answer: dict[str, Any]) -> None:
    """Raise the error of a worker again, if its answer is one."""
    if "kind" in answer:
        kind = getattr(errors, answer["kind"], PluginError)
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
