"""The fault campaign: runs every fault's trials and prints one table.

    python -m tests.faults.campaign                          # the short form, a few minutes
    python -m tests.faults.campaign --trials full            # the counts of docs/reliability.md
    python -m tests.faults.campaign --fault kill --trials 20 --seed 7
    python -m tests.faults.campaign --fault kill --number 13 --seed 7    # one trial again, with its traceback

A fault is a module in this folder with

    TRIALS, SHORT      numbers of trials: in the whole campaign, and in the short form
    REQUIREMENT        what every trial checks, in a few words
    trial(case)        makes the fault once; returns its outcome in a word or two, such as "resumed";
                       raises AssertionError if pricekit breaks the requirement
    prepare(folder)    optional: makes, once per worker, what all trials read

A trial depends only on the seed, the name of the fault and the number of the trial, so each one can be repeated alone.
Outcomes are counted in the table: they show what the trials reached.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

FAULTS = (
    *("states", "kill", "signals", "together", "concurrent", "full_disk"),
    *("damage", "nonfinite", "memory"),
    *("hostile_bundles", "manifests"),
    *("tables", "table_bombs", "settings", "environment"),
)
"""The modules, in the order of the table."""

SECONDS = 180
"""A trial that takes longer hangs."""

CHUNKS = 40
"""Parts into which the trials of a fault are divided, at most: a worker prepares once and takes part after part."""


@dataclass(frozen=True)
class Case:
    """One trial.

    Attributes:
        number: of the trial, from 0.
        random: its random numbers.
        folder: an empty folder, deleted afterwards.
        shared: the folder that `prepare` filled; trials only read it.
    """

    number: int
    random: random.Random
    folder: Path
    shared: Path


@dataclass(frozen=True)
class Result:
    """The end of one trial: its outcome, or the failure."""

    fault: str
    number: int
    outcome: str = ""
    failure: str = ""
    seconds: float = 0.0


_PREPARED: dict[str, Path] = {}
"""The folders that this worker has prepared, by fault."""


def run_part(fault: str, numbers: Sequence[int], seed: int, root: str) -> list[Result]:
    """Run some trials of a fault in this process."""
    module = import_module(f"tests.faults.{fault}")
    if fault not in _PREPARED:
        folder = Path(tempfile.mkdtemp(prefix=f"{fault}-shared-", dir=root))
        if hasattr(module, "prepare"):
            module.prepare(folder)
        _PREPARED[fault] = folder
    return [_run_trial(module, fault, number, seed, root) for number in numbers]


def _run_trial(module: ModuleType, fault: str, number: int, seed: int, root: str) -> Result:
    folder = Path(tempfile.mkdtemp(prefix=f"{fault}-{number}-", dir=root))
    case = Case(number, random.Random(f"{seed}/{fault}/{number}"), folder, _PREPARED[fault])
    began, outcome, failure = time.perf_counter(), "", ""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(getattr(module, "SECONDS", SECONDS))
    try:
        outcome = str(module.trial(case))
    except BaseException as error:  # a panic of a library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        failure = "".join(traceback.format_exception(error))
    finally:
        signal.alarm(0)
        os.chdir(root)
        shutil.rmtree(folder, ignore_errors=True)
    return Result(fault, number, outcome, failure, time.perf_counter() - began)


def _too_long(*_: object) -> None:
    raise TimeoutError("the trial hangs")


def run_faults(faults: Sequence[str], trials: str, seed: int, jobs: int) -> Iterator[Result]:
    """Run the trials of faults in worker processes; yield each result."""
    # Workers are started afresh: a fork of this process would share its threads and its random state.
    with (
        tempfile.TemporaryDirectory(prefix="faults-") as root,
        ProcessPoolExecutor(jobs, get_context("spawn"), _start_worker, (root,)) as pool,
    ):
        parts = [
            pool.submit(run_part, fault, numbers, seed, root)
            for fault in faults
            for numbers in _parts(range(count_of(fault, trials)))
        ]
        for part in as_completed(parts):
            yield from part.result()


def _start_worker(root: str) -> None:
    os.environ |= {
        "XDG_CACHE_HOME": str(Path(root, "cache")),
        "PRICEKIT_LOAD_PLUGINS": "",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _parts(numbers: range) -> list[range]:
    size = -(-len(numbers) // CHUNKS) or 1
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def count_of(fault: str, trials: str) -> int:
    """Return how many trials of a fault "short", "full" or a number asks for."""
    module = import_module(f"tests.faults.{fault}")
    named = {"short": module.SHORT, "full": module.TRIALS}
    return int(named.get(trials) or trials)


def summary(results: Sequence[Result], fault: str) -> dict[str, Any]:
    """Return the numbers of a fault: trials, failures, minutes, and how often each outcome came."""
    own = [one for one in results if one.fault == fault]
    outcomes = Counter(one.outcome for one in own if not one.failure)
    return {
        "fault": fault,
        "requirement": import_module(f"tests.faults.{fault}").REQUIREMENT,
        "trials": len(own),
        "failed": [one.number for one in own if one.failure],
        "minutes": round(sum(one.seconds for one in own) / 60, 1),
        "outcomes": dict(outcomes.most_common()),
    }


def show(results: Sequence[Result], faults: Sequence[str], seed: int) -> None:
    """Print one line for each fault, and its failures with the command that repeats them."""
    from rich.console import Console
    from rich.table import Table

    table = Table("fault", "trials", "failed", "minutes", "outcomes", "requirement")
    for fault in faults:
        found = summary(results, fault)
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in found["outcomes"].items())
        numbers = f"{found['trials']:,}", str(len(found["failed"])), f"{found['minutes']:.1f}"
        table.add_row(fault, *numbers, outcomes, found["requirement"])
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    for one in (one for one in results if one.failure):
        again = f"python -m tests.faults.campaign --fault {one.fault} --number {one.number} --seed {seed}"
        console.print(
            f"\n{one.fault} {one.number}: {again}\n{one.failure[-3000:]}", markup=False, highlight=False
        )


def write_json(path: Path, results: Sequence[Result], faults: Sequence[str], seed: int) -> None:
    """Write the seed, the machine, the date and the numbers of each fault."""
    from pricekit import __version__

    facts = {
        "pricekit_version": __version__,
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "faults": [summary(results, fault) for fault in faults],
    }
    path.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the campaign; the exit code is 1 if a trial failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fault", nargs="*", default=FAULTS, choices=FAULTS, help="run these faults only")
    parser.add_argument("--trials", default="short", help="short, full, or a number for each fault")
    parser.add_argument("--number", type=int, help="run this trial alone, in this process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="also write the table into this file")
    options = parser.parse_args()
    if options.number is not None:
        with tempfile.TemporaryDirectory(prefix="faults-") as root:
            _start_worker(root)
            results = run_part(options.fault[0], [options.number], options.seed, root)
    else:
        from rich.progress import track

        total = sum(count_of(fault, options.trials) for fault in options.fault)
        found = run_faults(options.fault, options.trials, options.seed, options.jobs)
        shown = sys.stderr.isatty()
        results = list(track(found, f"seed {options.seed}", total=total, disable=not shown))
    print(f"seed {options.seed}")
    show(results, options.fault, options.seed)
    if options.json:
        write_json(options.json, results, options.fault, options.seed)
    sys.exit(any(one.failure for one in results))


if __name__ == "__main__":
    main()
