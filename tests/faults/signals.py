"""SIGTERM and SIGINT in every phase: the command ends soon, says so, and can be continued."""

from __future__ import annotations

import json
import signal
import time

from tests.faults import kill
from tests.faults.campaign import Case
from tests.faults.commands import Command, run
from tests.faults.models import assert_nothing_left

TRIALS, SHORT = 60, 8
REQUIREMENT = "exits within 2 s or one step; resumable; correct message"

KINDS = ("train", "cv", "export", "predict", "ensemble", "pretrain")
SOON, LATE = 2.0, 10.0
"""Seconds: the outcome says which trials needed more than the first; the second one fails on any machine."""

prepare = kill.prepare


def trial(case: Case) -> str:
    """Send one signal at a random moment, then repeat the command and compare."""
    kind, number = KINDS[case.number % len(KINDS)], case.random.choice([signal.SIGTERM, signal.SIGINT])
    kill.provide(kind, case)
    seconds = json.loads((case.shared / "seconds.json").read_text())[kind]
    command = Command(*kill.repeated(kind, 0, case.folder), folder=case.folder)
    time.sleep(case.random.uniform(0.03, 0.8) * seconds)
    began = time.perf_counter()
    command.send(number)
    ended = command.wait()
    took = time.perf_counter() - began
    if ended.code == 0:
        kill.compare(kind, case)
        return f"{kind} ended before"
    if ended.code == -number and not ended.output:  # Python had not yet begun to handle signals
        return f"{kind} had not begun"
    ended.check_explained(130)
    assert "interrupted" in ended.output, ended.output
    assert took < LATE, f"{took:.1f} s after {number.name}:\n{ended.output}"
    again = run(*kill.repeated(kind, 1, case.folder), folder=case.folder)
    assert again.code == 0 or kill.is_complete(kind, again), again
    kill.compare(kind, case)
    assert_nothing_left(case.folder)
    return f"{kind} within {SOON:.0f} s" if took < SOON else f"{kind} later"
