"""The runner `spark`: tasks of Spark price the files of a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pricekit.plugin import PricekitError
from pricekit.plugin.runners import Job, Outcome, Part
from pricekit_spark.parcel import (
    Parcel,
    call,
    check_workers,
    parcel_of,
    problem_of,
    raise_problem,
)
from pricekit_spark.session import session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 64
"""Files that Spark may price at a time, if no number is named. It starts as many of them as it has CPUs for."""


@dataclass(frozen=True)
class Task:
    """Prices one part, in a worker.

    Attributes:
        parcel: the job.
        part: the file.
    """

    parcel: Parcel
    part: Part

    def __call__(self, _: int) -> str:
        """Return the outcome as JSON, or an error that another attempt would repeat."""
        try:
            return json.dumps(asdict(self.parcel()(self.part)))
        except PricekitError as error:
            return problem_of(error, "a worker of Spark")


def run(job: Job, parts: Sequence[Part], *, address: str | None, workers: int | None) -> Iterator[Outcome]:
    """Price parts in the tasks of Spark; yield each outcome when its task ends.

    Each part is a Spark job with one task. So outcomes arrive one by one, Spark repeats the task of a process that
    died, and an error of one task does not end the others' work.

    Args:
        job: of a bundle.
        parts: whose paths the workers see.
        address: as of `session_of`.
        workers: the number of parts at a time.

    Raises:
        ConfigError: the model is no bundle, or another session is active.
        PluginError: Spark cannot be started, or its workers cannot work.
        BundleError: a worker has another bundle.
    """
    with session_of(address, workers) as spark:
        parcel = parcel_of(spark, job)
        try:
            check_workers(spark, parcel)
            yield from _outcomes(spark, [Task(parcel, part) for part in parts], workers or MOST)
        finally:
            if not isinstance(parcel.content, Job):
                parcel.content.destroy()


def _outcomes(spark: SparkSession, tasks: Sequence[Task], most: int) -> Iterator[Outcome]:
    tag = f"pricekit-{uuid4().hex}"
    with ThreadPoolExecutor(min(most, len(tasks)), initializer=spark.addTag, initargs=(tag,)) as pool:
        waiting = [pool.submit(_outcome, spark, task) for task in tasks]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            unfinished = [future for future in waiting if not future.cancel() and not future.done()]
            if unfinished:
                spark.interruptTag(tag)


def _outcome(spark: SparkSession, task: Task) -> Outcome:
    answer = call(spark, task)
    raise_problem(answer)
    return Outcome(**answer)
