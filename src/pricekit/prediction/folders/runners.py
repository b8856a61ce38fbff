"""Runners: who prices the files of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, cast

from pricekit.core.provided import load_provided, provided
from pricekit.errors import PluginError
from pricekit.prediction.folders.job import Job, Outcome
from pricekit.prediction.folders.parts import Part
from pricekit.prediction.processes import in_new_processes
from pricekit.prediction.workers import ended_early
from pricekit.support.text import did_you_mean

GROUP = "pricekit.runners"
"""The entry-point group in which a package names its runner."""

PACKAGES = frozenset({"ray", "spark"})
"""Runners in packages that this project publishes as pricekit-NAME."""


class Runner(Protocol):
    """A function that lets workers price the parts of a folder, and yields what became of each, in any order.

    A package names it in the entry-point group `pricekit.runners`. Each part may be priced more than once, because its
    file is replaced as a whole.
    """

    def __call__(
        self, job: Job, parts: Sequence[Part], *, address: str | None, workers: int | None
    ) -> Iterator[Outcome]:
        """Price the parts.

        Args:
            job: call it with a part, in a worker; pickle it to get there.
            parts: at least one.
            address: of the cluster; None: the usual one.
            workers: the number of workers; None: as many as suit.

        Raises:
            PricekitError: no worker can work, such as one without pricekit, or with another bundle.
        """


def runner_of(name: str) -> Runner:
    """Return the runner that a package provides; raises PluginError."""
    found = provided(GROUP)
    if name not in found:
        names = sorted(found)
        hint = f" Install pricekit-{name}." if name in PACKAGES else did_you_mean(name, names)
        raise PluginError(
            f"there is no runner '{name}'; available: {', '.join(names) or 'none'}.{hint}",
            parameters=("runner",),
            candidates=names,
        )
    return cast(Runner, load_provided(found[name], "runner", ("runner",)))


def in_turn(job: Job, parts: Sequence[Part], processes: int | None) -> Iterator[Outcome]:
    """Price one file after the other; large ones in several processes."""
    for part in parts:
        yield job(part, processes)


def in_processes(job: Job, parts: Sequence[Part], processes: int) -> Iterator[Outcome]:
    """Price several files at a time, each in a process on one CPU; raises PluginError if a process is killed."""
    with in_new_processes(min(processes, len(parts)), _keep, job) as pool:
        waiting = [pool.submit(_price, part) for part in parts]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            raise ended_early() from None


_jobs: list[Job] = []
"""The job of this process, if it is a worker."""


def _keep(job: Job) -> None:
    _jobs[:] = [job]


def _price(part: Part) -> Outcome:
    (job,) = _jobs
    return job(part)
