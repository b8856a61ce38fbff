"""Interleaved rounds of several contenders: a machine that slows down affects all of them."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Run = Callable[[], object]


@dataclass(frozen=True)
class Timed:
    """The seconds of each round of one contender."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


def interleaved(
    contenders: Mapping[str, Run],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    after_round: Callable[[], None] = lambda: None,
) -> dict[str, Timed]:
    """Run every contender once unmeasured, then `repeats` rounds of all of them in turn.

    Every second round runs in reverse order, so that no contender always follows the same one. A contender
    that returns seconds has timed itself.
    """
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(repeats):
        order = list(contenders.items())
        for name, run in order if number % 2 == 0 else reversed(order):
            synchronize()
            began = clock()
            own_time = run()
            synchronize()
            seconds[name].append(own_time if isinstance(own_time, float) else clock() - began)
        after_round()
    return {name: Timed(tuple(found)) for name, found in seconds.items()}


def ratio(slow: Timed, fast: Timed) -> float:
    """Return the median over rounds of slow / fast: how many times faster the second is."""
    return statistics.median(s / f for s, f in zip(slow.seconds, fast.seconds, strict=True))


def peak_memory(make: Callable[[], Run], device: torch.device) -> tuple[Run, float]:
    """Make a contender, run it once, and return it with its peak memory in GiB.

    On a GPU this is the memory that it allocated, on a CPU the peak resident memory of the process so far.
    """
    if device.type != "cuda":
        run = make()
        run()
        unit = 1 if sys.platform == "darwin" else 1024
        return run, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run = make()
    run()
    return run, (torch.cuda.max_memory_allocated(device) - before) / 2**30


def synchronize() -> None:
    """Wait until the GPU has finished its queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
