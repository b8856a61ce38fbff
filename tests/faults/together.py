"""Signals and kill -9 for one or both of two processes that train together; the command is repeated and must agree."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from tests.faults.campaign import Case
from tests.faults.commands import Command, Ended, start_together
from tests.faults.models import assert_equal_runs, assert_nothing_left, command_of, write_table

TRIALS, SHORT = 60, 6
REQUIREMENT = "both end, and say why once; resumed, they end as without a fault"

KINDS = (
    *((signal.SIGTERM, (0, 1)), (signal.SIGINT, (0,)), (signal.SIGTERM, (1,))),
    *((signal.SIGKILL, (0,)), (signal.SIGKILL, (1,)), (signal.SIGKILL, (0, 1))),
)
"""The signal of a trial, and the processes that it reaches."""

LATE = 30.0
"""Seconds after which a launcher kills processes that it has asked to end."""


def prepare(folder: Path) -> None:
    """Train without a fault, and note how long it takes."""
    write_table(folder / "table.csv")
    train(folder)  # starts the server
    began = time.perf_counter()
    assert all(ended.code == 0 for ended in train(folder, "--overwrite"))
    (folder / "seconds.json").write_text(json.dumps(time.perf_counter() - began))


def trial(case: Case) -> str:
    """Send the signal at a random moment, then repeat the command and compare."""
    number, ranks = KINDS[case.number % len(KINDS)]
    (case.folder / "table.csv").symlink_to(case.shared / "table.csv")
    seconds = json.loads((case.shared / "seconds.json").read_text())
    commands = start_together(2, *command_of("train"), folder=case.folder)
    time.sleep(case.random.uniform(0.03, 0.9) * seconds)
    began = time.perf_counter()
    for rank in ranks:
        commands[rank].send(number)
    end_the_rest(commands)
    ended = [command.wait() for command in commands]
    assert time.perf_counter() - began < LATE, ended
    for one in ended:
        check(one, number)
    complete = all(one.code == 0 for one in ended)
    if not complete:
        ended = train(case.folder, "--resume")
        assert all(one.code == 0 for one in ended), ended
    assert_equal_runs(case.folder / "run", case.shared / "run")
    assert_nothing_left(case.folder)
    return f"{number.name} to {len(ranks)} " + ("ended before" if complete else "continued")


def end_the_rest(commands: list[Command]) -> None:
    """Do as a launcher does when a process has ended before it joined the other one, which waits for it."""
    end = time.monotonic() + LATE / 2
    while any(command.running for command in commands) and time.monotonic() < end:
        time.sleep(0.01)
    for command in commands:
        if "waiting for all of the 2 processes" in command.output:
            command.send(signal.SIGTERM)


def check(ended: Ended, number: signal.Signals) -> None:
    """Assert that a process ended as it should: at once, interrupted, complete, or because the other one is lost."""
    assert ended.code in (0, 1, 130, -number), ended
    if ended.code in (1, 130):
        ended.check_explained(ended.code)
    if ended.code == 1:
        assert "another of the processes" in ended.output or not ended.output.strip(), ended


def train(folder: Path, *options: str) -> list[Ended]:
    """Train in two processes to the end."""
    commands = start_together(2, *command_of("train"), *options, folder=folder)
    return [command.wait() for command in commands]
