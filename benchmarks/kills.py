"""Kills workers and drivers of a folder's prediction with `kill -9`, and checks that nothing is lost, doubled or left.

    python benchmarks/kills.py BUNDLE TABLE [--runner none|ray|spark] [--workers 20] [--drivers 10]
        [--files 24] [--rows 6000] [--seed 0]

The rows of the table, repeated as needed, become Parquet files in Hive partitions. One process prices them without a
disturbance. In each trial, `pricekit predict` prices them with two processes or workers. At a random moment after the
first file has begun, a worker is killed, or the command itself. If the command did not succeed, it is repeated with
`--resume`. At the end, the folder of prices must equal the undisturbed one: the same files, byte for byte, with the
same records and nothing else, and no process of the command may be left. The exit code is 1 if a trial fails.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from cluster import write_folder

from pricekit.cli.terminal import show_table

PRICES = {"none": "spawn_main", "ray": "ray::(_price|IDLE)", "spark": r"pyspark\.daemon"}
"""A pattern of the command line of a worker."""

HANGS_SECONDS = 240.0
GONE_SECONDS = 10.0
"""After so long, no worker of a killed command may run."""

CLOSED_SECONDS = 90.0
"""After so long, nothing of a command may run: Ray's agents look for their cluster for a minute."""


@dataclass(frozen=True)
class Plan:
    """The command of all trials.

    Attributes:
        words: before the folder of prices.
        worker: a pattern of the command line of a worker.
        files: the number of files to price.
        seconds: between the first file and the last.
    """

    words: list[str]
    worker: str
    files: int
    seconds: float = 0.0

    def start(self, folder: Path, *more: str) -> subprocess.Popen[bytes]:
        """Start the command in a session of its own, by which its processes are found."""
        words = [*self.words, "--out", str(folder / "prices"), *more]
        with folder.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)


@dataclass(frozen=True)
class Trial:
    """What became of a trial.

    Attributes:
        session: of the processes of the command.
        hit: a process was killed before the last file was complete.
        resumed: the command was repeated.
        problem: what is wrong; "" if nothing is.
    """

    session: int
    hit: bool
    resumed: bool
    problem: str


def main() -> None:
    """Parse the command line, run the trials and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--runner", choices=list(PRICES), default="none")
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--drivers", type=int, default=10)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(options.table, folder / "new", options.rows, options.files)
        plan, expected = rehearsed(options, folder)
        chance = random.Random(options.seed)
        kinds = {"worker": (kill_worker, options.workers), "driver": (kill_driver, options.drivers)}
        found = {
            kind: [
                trial(plan, folder / f"{kind}-{number}", kill, expected, chance) for number in range(count)
            ]
            for kind, (kill, count) in kinds.items()
        }
    show_table(
        f"kill -9, runner {options.runner}, {options.files} files",
        ["killed", "trials", "before the last file", "ended without resume", "resumed", "failures"],
        [[kind, *summary(trials)] for kind, trials in found.items()],
        stderr=False,
    )
    trials = [each for some in found.values() for each in some]
    until = time.monotonic() + CLOSED_SECONDS
    late = [left_running(each.session, "", until - time.monotonic()) for each in trials]
    sys.exit("; ".join(filter(None, late)) or any(each.problem for each in trials))


def rehearsed(options: argparse.Namespace, folder: Path) -> tuple[Plan, dict[str, bytes]]:
    """Return the plan, and the files that one process writes; without a kill, the runner must write the same."""
    words = [sys.executable, "-m", "pricekit", "predict", str(options.bundle), str(folder / "new")]
    words += ["--engine", "ort-cpu"]
    alone = Plan([*words, "--processes", "1"], "", options.files)
    more = [] if options.runner == "none" else ["--runner", options.runner]
    plan = Plan([*words, "--processes", "2", *more], PRICES[options.runner], options.files)
    for each, place in ((alone, folder / "expected"), (plan, folder / "undisturbed")):
        if code := ended(each.start(place)):
            sys.exit(f"the command ended with {code}: {place.with_suffix('.log').read_text()}")
    expected = content(folder / "expected")
    if problem := difference(content(folder / "undisturbed"), expected):
        sys.exit(f"without a kill, {problem}")
    times = sorted(file.stat().st_mtime for file in (folder / "undisturbed").rglob("*.json"))
    return Plan(plan.words, plan.worker, plan.files, times[-1] - times[0]), expected


def trial(
    plan: Plan,
    folder: Path,
    kill: Callable[[Plan, int, random.Random], bool],
    expected: dict[str, bytes],
    chance: random.Random,
) -> Trial:
    """Start the command, kill something, resume if necessary, and compare."""
    delay, driver = chance.uniform(0, plan.seconds), plan.start(folder)
    while not any((folder / "prices").rglob("*.parquet*")) and driver.poll() is None:
        time.sleep(0.005)
    time.sleep(delay)
    unfinished = len(list(folder.rglob("*.json"))) < plan.files
    hit = driver.poll() is None and kill(plan, driver.pid, chance) and unfinished
    code = ended(driver)
    resumed = code != 0
    if resumed:
        code = ended(plan.start(folder, "--resume"))
    problem = f"the resumed command ended with {code}" if code else difference(content(folder), expected)
    problem = problem or left_running(driver.pid, plan.worker, GONE_SECONDS)
    said = folder.with_suffix(".log").read_text() if problem else ""
    facts = f"{'killed in time' if hit else 'too late'}, {'resumed' if resumed else 'ended'}"
    print(f"{folder.name}: {facts}: {problem or 'equal'}", said, flush=True)
    return Trial(driver.pid, hit, resumed, problem)


def kill_worker(plan: Plan, driver: int, chance: random.Random) -> bool:
    """Kill one of the processes that price; return whether there was one."""
    workers = {each.pid: each for each in session(driver, plan.worker)}
    with suppress(psutil.NoSuchProcess, IndexError):
        for each in list(workers.values()):
            workers.pop(each.ppid(), None)  # Spark's workers are forks of a process that does not price
        chance.choice(sorted(workers.values(), key=lambda each: each.pid)).kill()
        return True
    return False


def kill_driver(plan: Plan, driver: int, chance: random.Random) -> bool:
    """Kill the command."""
    os.kill(driver, signal.SIGKILL)
    return True


def session(leader: int, pattern: str) -> list[psutil.Process]:
    """Return the living processes of a session, which outlives its leader, whose command lines match a pattern."""
    found = []
    for each in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):  # it has just ended
            if os.getsid(each.pid) == leader and each.status() != psutil.STATUS_ZOMBIE:
                found += [each] if re.search(pattern, " ".join(each.cmdline())) else []
    return found


def ended(driver: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a command; it is killed if it hangs."""
    try:
        return driver.wait(HANGS_SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.wait()
        return 124


def left_running(leader: int, pattern: str, seconds: float) -> str:
    """Return what is wrong if processes of a session do not end soon; kill them."""
    until = time.monotonic() + seconds
    while (left := session(leader, pattern)) and time.monotonic() < until:
        time.sleep(0.1)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    return f"{len(left)} processes still run after {seconds:.0f} s, such as {left[0]}" if left else ""


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, hidden ones, too."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def difference(found: dict[str, bytes], expected: dict[str, bytes]) -> str:
    """Return how the files differ from the expected ones; "" if they do not."""
    kinds = {
        "missing": expected.keys() - found.keys(),
        "left": found.keys() - expected.keys(),
        "different": {name for name in expected.keys() & found.keys() if found[name] != expected[name]},
    }
    return "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in kinds.items() if names)


def summary(trials: list[Trial]) -> list[str]:
    """Return the cells of a line."""
    counts = [
        len(trials),
        sum(each.hit for each in trials),
        sum(not each.resumed for each in trials),
        sum(each.resumed for each in trials),
        sum(bool(each.problem) for each in trials),
    ]
    return list(map(str, counts))


if __name__ == "__main__":
    main()
