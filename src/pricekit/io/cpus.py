"""The CPUs that this process may use, from its affinity and the quota of its control group, and the free memory."""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_PROC, _CGROUP = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")

CPUS = "PRICEKIT_CPUS"
"""The environment variable that limits the number of CPUs."""


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, at least 1.

    A container limits a process by affinity (`docker run --cpuset-cpus`) or by quota (`--cpus`, a Kubernetes limit).
    A quota of 1.5 CPUs counts as 2. The environment variable `PRICEKIT_CPUS` may lower the number, for example to what
    a cluster's scheduler has assigned.

    >>> usable_cpus() >= 1
    True
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(CPUS, "")
    limits = cpu_quota(_PROC, _CGROUP), int(limit) if limit.isdecimal() else math.inf
    return max(1, math.ceil(min(cpus, *limits)))


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Yield `function(item)` of each item, in order, computed by some threads; None: one for each usable CPU.

    At most one item more than threads is read ahead. Work gains by it if most of it releases Python's global lock.

    Example:
        >>> list(in_threads(len, ["tea", "ink pen"]))
        [3, 7]
    """
    from concurrent.futures import ThreadPoolExecutor

    threads = threads or usable_cpus()
    if threads == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for future in read_ahead((pool.submit(function, item) for item in items), threads):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def read_ahead(items: Iterable[Item], count: int) -> Iterator[Item]:
    """Yield items in order, and read up to `count` items ahead."""
    waiting: deque[Item] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def cpu_quota(membership: Path, root: Path) -> float:
    """Return the smallest CPU quota of the process's control groups, in CPUs; infinity if there is none.

    A group inherits the quotas of the groups above it. Version 2 stores them in `cpu.max`, version 1 in
    `cpu.cfs_quota_us` and `cpu.cfs_period_us` (Linux, Documentation/admin-guide/cgroup-v2.rst and
    Documentation/scheduler/sched-bwc.rst).

    Args:
        membership: the file `/proc/self/cgroup`.
        root: the folder `/sys/fs/cgroup`.
    """
    return min((_quota(folder) for folder in _groups(membership, root)), default=math.inf)


def _groups(membership: Path, root: Path) -> Iterator[Path]:
    """Yield the folders that may contain a quota. In a container, only the root of the hierarchy may be visible."""
    try:
        lines = membership.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        group = top / path.lstrip("/")
        yield from (group, *(above for above in group.parents if above.is_relative_to(top)))


def _quota(group: Path) -> float:
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text("utf-8").split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text("utf-8")
            period = (group / "cpu.cfs_period_us").read_text("utf-8")
        return float(quota) / float(period) if float(quota) > 0 else math.inf
    except (OSError, ValueError):  # "max" is no number: no quota
        return math.inf


def available_memory() -> float:
    """Return the bytes that programs can take without swapping; infinity where the system does not tell.

    >>> available_memory() > 0
    True
    """
    try:
        lines = _MEMORY.read_text("utf-8").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # another system, or Linux before 3.14
        return math.inf


def used_memory() -> float:
    """Return the largest number of bytes that this process has used so far; 1 GB where the system does not tell.

    >>> used_memory() > 0
    True
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 1e9
    kilobytes = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobytes)


def limit_spinning() -> None:
    """Let waiting OpenMP threads sleep after spinning for a few microseconds.

    Call it before torch is imported. Otherwise, GNU's OpenMP library, which torch ships for Linux, lets a waiting
    thread occupy its CPU for milliseconds. If another process needs that CPU, both threads hardly make progress.
    `OMP_WAIT_POLICY` or `GOMP_SPINCOUNT` in the environment override it (libgomp manual, "GOMP_SPINCOUNT").
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
