"""The connection to a Ray cluster, and its workers: their CPUs, and whether they can work."""

from __future__ import annotations

import math
import os
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from pricekit import __version__
from pricekit.plugin import (
    CPUS,
    ConfigError,
    PluginError,
    PricekitError,
    logger,
    raise_outside_cause,
    shorten,
    usable_cpus,
)

WAIT_SECONDS = 30.0
"""After so long without a free worker, the user learns what pricekit waits for."""

CONNECT_SECONDS = 10.0
"""After so long without an answer, a cluster counts as missing."""

_REMEDY = (
    "Install pricekit[cpu], pricekit-ray and the packages of the model's plugins, in the same versions as here, in the "
    "Python environment of each worker"
)
_LOCAL = "local"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # pricekit sends nothing to anyone
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # or Ray warns that it will change this default
}


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect this process to a cluster, unless it is connected; disconnect at the end.

    Args:
        address: of the cluster; None: that of `RAY_ADDRESS`, or a new one with the CPUs that this process may use,
            which ends with the block.

    Raises:
        ConfigError: no cluster answers, or it has another version of Ray or Python.
    """
    if ray.is_initialized():
        yield
        return
    _connect(address or os.environ.get("RAY_ADDRESS") or _LOCAL)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address == _LOCAL:
        options |= {"num_cpus": usable_cpus(), "include_dashboard": False}
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        _reach(address)
        ray.init(address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"the Ray cluster {address} cannot be used: {shorten(str(error), 400)}. Check the address, and install the "
            "cluster's versions of Python and ray",
            parameters=("address",),
        ) from error


def _reach(address: str) -> None:
    """Raise OSError if nothing answers at an address such as host:6379 or ray://host:10001: Ray tries for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


def cluster_cpus() -> int:
    """Return the number of CPUs that the cluster has now."""
    return int(ray.cluster_resources().get("CPU", 0))


def use_assigned_cpus() -> None:
    """Let the model that this process opens next use the CPUs that Ray has assigned to its task or actor.

    Ray counts CPUs, but limits nobody to them. A process that is no worker keeps all its CPUs.
    """
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return
    cpus = str(max(1, math.ceil(context.get_assigned_resources().get("CPU", 1))))
    os.environ |= {CPUS: cpus, "RAYON_NUM_THREADS": cpus}


def check_worker(job: ray.ObjectRef, cpus: int = 1) -> None:
    """Let one worker open the model of a job.

    Raises:
        PluginError: it lacks pricekit, another package, or has another version of pricekit.
        BundleError, ConfigError: it cannot use the model.
    """
    answer = ray.remote(num_cpus=cpus, max_retries=1)(_probe()).remote([job])
    if not ray.wait([answer], timeout=WAIT_SECONDS)[0]:
        logger.warning(f"waiting for a worker of the Ray cluster with {cpus} free CPUs")
    try:
        host, version, problem = ray.get(answer)
    except RayError as error:
        raise unusable(error) from error
    if isinstance(problem, PricekitError):
        raise problem
    if problem is None and version != __version__:
        problem = f"it has pricekit {version}, and this process {__version__}"
    if problem is not None:
        raise PluginError(
            f"the worker on {host} cannot price rows: {problem}. {_REMEDY}",
            parameters=("runner",),
        )


def _probe() -> Callable[[list[ray.ObjectRef]], tuple[str, str, PricekitError | str | None]]:
    """Return a function for a worker. A function inside of another one is sent with its code, so that it can tell
    that pricekit is missing.
    """
    host_of = platform.node

    def probe(jobs: list[ray.ObjectRef]) -> tuple[str, str, PricekitError | str | None]:
        version = ""
        problem: PricekitError | str | None = None
        try:
            import pricekit
            from pricekit.plugin import PricekitError

            version = pricekit.__version__
            from pricekit_ray.cluster import use_assigned_cpus

            use_assigned_cpus()
            try:
                ray.get(jobs[0]).check()
            except PricekitError as error:
                problem = error
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        return host_of(), version, problem

    return probe


def unusable(error: RayError) -> PluginError:
    """Return the error for a worker that fails with an unexpected one; raises its cause if that is the machine's."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    raise_outside_cause(cause)
    lines = str(cause).strip().splitlines() or [""]
    return PluginError(
        f"a worker of the Ray cluster failed with {type(cause).__name__}: {shorten(lines[0], 300)}. {_REMEDY}",
        parameters=("runner",),
    )
