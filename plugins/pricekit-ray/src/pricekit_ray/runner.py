"""The runner `ray`: tasks of a Ray cluster price the files of a folder, one file each, on one CPU."""

from __future__ import annotations

import platform
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from pricekit.plugin import PricekitError, logger
from pricekit.plugin.runners import Job, Location, Outcome, Part
from pricekit_ray.cluster import check_worker, cluster_cpus, connected, unusable, use_assigned_cpus

ATTEMPTS = 3
"""How often a file is priced whose worker is killed each time, as for lack of memory."""

AHEAD = 2
"""Tasks for each CPU that run or wait, so that no CPU is idle, and a cluster that can grow sees the demand."""

KILLED = (LocalRayletDiedError, NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)
"""What a task ends with that can succeed elsewhere or later."""


def run(job: Job, parts: Sequence[Part], *, address: str | None, workers: int | None) -> Iterator[Outcome]:
    """Price the files with a Ray cluster; yield what became of each, as they finish.

    The bundle is sent to the workers. Tables and prices must be on a disk that all of them share, or at remote
    addresses.

    Args:
        job: its model is a bundle.
        parts: the files.
        address: of the cluster, unless this process is connected to one; None: that of `RAY_ADDRESS`, or a new one on
            this machine, which ends with the work.
        workers: the most files that are priced at a time; None: one for each CPU of the cluster.

    Raises:
        ConfigError: the model is no bundle, or no cluster answers.
        PluginError: a worker lacks a package, or has another version of pricekit.
    """
    shipped = job.shipped()
    with connected(address):
        sent = ray.put(shipped)
        check_worker(sent)
        yield from _outcomes(sent, parts, workers)


def _outcomes(job: ray.ObjectRef, parts: Sequence[Part], workers: int | None) -> Iterator[Outcome]:
    task = ray.remote(num_cpus=1, max_retries=0)(_price)  # killed ones are counted here
    waiting, running = deque(map(_absolute, parts)), dict[ray.ObjectRef, Part]()
    attempts = Counter[str]()
    try:
        while waiting or running:
            while waiting and len(running) < (workers or max(1, AHEAD * cluster_cpus())):
                part = waiting.popleft()
                running[task.remote([job], part)] = part
            (done, *_), _ = ray.wait(list(running))
            part = running.pop(done)
            attempts[part.name] += 1
            outcome = _outcome(done, part, attempts[part.name])
            if outcome is None:
                waiting.append(part)
            else:
                yield outcome
    finally:
        _cancel(list(running))


def _cancel(tasks: list[ray.ObjectRef]) -> None:
    """End tasks. Ray can miss one whose worker only starts, so those that go on are ended again, for two seconds."""
    for _ in range(4):
        for task in tasks:
            ray.cancel(task, force=True)
        if tasks:
            _, tasks = ray.wait(tasks, num_returns=len(tasks), timeout=0.5)


def _outcome(done: ray.ObjectRef, part: Part, attempt: int) -> Outcome | None:
    """Return what became of a part; None if it must be priced again."""
    try:
        found = ray.get(done)
    except KILLED as error:
        if attempt < ATTEMPTS:
            logger.warning(f"the worker that priced {part.name} was killed; another one prices it again")
            return None
        return Outcome(
            part.name,
            problem=f"the workers that priced it were killed, {attempt} times, at last with {type(error).__name__}. "
            "The memory of their machines may not suffice: use fewer workers",
        )
    except RayError as error:
        raise unusable(error) from error
    if isinstance(found, Outcome):
        return found
    raise found


def _absolute(part: Part) -> Part:
    """Return a part with absolute paths, because workers have other working directories."""

    def absolute(location: Location) -> Location:
        return location.absolute() if isinstance(location, Path) else location

    return replace(
        part, source=absolute(part.source), target=absolute(part.target), record=absolute(part.record)
    )


_jobs: dict[str, Job] = {}
"""The last job of this process, if it is a worker, by its reference."""


def _price(jobs: Sequence[ray.ObjectRef], part: Part) -> Outcome | PricekitError | OSError:
    """Price a part in a worker; errors that stop the work are returned, because Ray would wrap them."""
    (sent,) = jobs  # in a list, so that Ray does not copy the bundle for each task
    use_assigned_cpus()
    if unseen := _unseen(part):
        return Outcome(
            part.name,
            problem=f"the worker on {platform.node()} does not see {unseen}. Workers need a disk that all machines "
            "share, at the same path, or an address such as s3://bucket/new",
        )
    try:
        if sent.hex() not in _jobs:
            _jobs.clear()
            _jobs[sent.hex()] = ray.get(sent)
        return _jobs[sent.hex()](part)
    except (PricekitError, OSError) as error:
        return error


def _unseen(part: Part) -> Location | None:
    """Return the table, or the folder of prices, that this machine does not see; None if it sees both."""
    places = [part.source]
    if isinstance(part.target, Path):
        places.append(part.target.parents[len(PurePosixPath(part.name).parts) - 1])
    return next((place for place in places if isinstance(place, Path) and not place.exists()), None)
