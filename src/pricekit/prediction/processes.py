"""New processes that work for this one, each on one CPU."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any

from pricekit.support.cpus import CPUS
from pricekit.support.log import silence

_ONE_CPU = {CPUS: "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
"""Several processes with several threads each would wait for each other's CPUs."""


@contextmanager
def in_new_processes(
    processes: int, prepare: Callable[..., object], *given: object
) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of new processes, which end with the block, or when this process ends.

    Args:
        processes: their number.
        prepare: called once in each process with `given`; a function of a module.
        given: what can be pickled; each process receives a copy.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    pool = ProcessPoolExecutor(processes, context, _begin, (prepare, given))
    try:
        with _for_children():
            for _ in range(processes):  # a process starts when there is work and no other one is idle
                pool.submit(int)
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(prepare: Callable[..., object], given: tuple[object, ...]) -> None:
    """Make this process a worker: it logs nothing, and ends with its parent."""
    silence()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True, name="parent").start()
    prepare(*given)


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@contextmanager
def _for_children() -> Iterator[None]:
    """Start processes in the block with one CPU each, without the user's script, and deaf to Ctrl-C.

    A new process would import the script again, and a script without `if __name__ == "__main__"` would start to work
    a second time. What pricekit sends to its processes needs nothing from it. A terminal sends Ctrl-C to all
    processes, and only this one handles it.
    """
    before = {name: os.environ.get(name) for name in _ONE_CPU}
    script: Any = sys.modules["__main__"]
    handles = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if handles else None
    os.environ |= _ONE_CPU
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
