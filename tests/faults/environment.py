"""Unusual environments: each command once in each, as a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.campaign import Case
from tests.faults.commands import succeed
from tests.faults.models import command_of, write_table

_CLOCK = """
import itertools, time
real, jumps = time.time, itertools.cycle([0, -86_400, 3_600, -10**9])
time.time = lambda: real() + next(jumps)
"""
_NO_SEMAPHORES = """
import _multiprocessing
def refuse(*_, **__): raise OSError(38, "Function not implemented")
_multiprocessing.SemLock = refuse
"""


@dataclass(frozen=True)
class Environment:
    """What differs from usual: variables (None unsets one), shell words around the command, Python code before it."""

    variables: dict[str, str | None] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    code: str = ""


ENVIRONMENTS = {
    "clock that jumps": Environment(code=_CLOCK),
    "locale C": Environment({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "unknown TZ": Environment({"TZ": "Nowhere/Zone"}),
    "umask 077": Environment(before="umask 077;"),
    "read-only home": Environment({"HOME": "/proc/1", "XDG_CACHE_HOME": None}),
    "no home": Environment({"HOME": None, "XDG_CACHE_HOME": None, "USER": None, "LOGNAME": None}),
    "no semaphores": Environment(code=_NO_SEMAPHORES),
    "64 files": Environment(before="ulimit -n 64;"),
    "1 GB": Environment(before="ulimit -v 1000000;"),
    "4 GB": Environment(before="ulimit -v 4000000;"),
    "8 GB": Environment(before="ulimit -v 8000000;"),
    "read-only folder": Environment(before="cd /proc;"),
    "safe path": Environment({"PYTHONSAFEPATH": "1"}),
    "closed streams": Environment(after=">&- 2>&- <&-"),
    "full stdout": Environment(after="> /dev/full"),
    "full stderr": Environment(after="2> /dev/full"),
    "broken pipe": Environment(after="2>&1 | head -c 1; exit ${PIPESTATUS[0]}"),
    "no TMPDIR": Environment({"TMPDIR": "/nonexistent"}),
    "dumb terminal": Environment({"TERM": "dumb", "COLUMNS": "1"}),
}
COMMANDS = {
    **{kind: command_of(kind) for kind in ("train", "export", "ensemble", "predict")},
    "check": ["check", "table.csv"],
    "evaluate": ["evaluate", "run"],
    "compare": ["compare", "run", "cv"],
    "inspect": ["bundle", "inspect", "bundle"],
    "config": ["config", "show"],
    "plugins": ["plugins", "list"],
}
PAIRS = [(environment, command) for command in COMMANDS for environment in ENVIRONMENTS]
TRIALS, SHORT = len(PAIRS), 10
REQUIREMENT = "works, or one paragraph"
INPUTS = ("table.csv", "more.csv", "run", "cv", "bundle")


def prepare(folder: Path) -> None:
    """Make the tables and models that the commands read."""
    write_table(folder / "table.csv")
    write_table(folder / "more.csv", seed=1)
    for kind in ("train", "cv", "export"):
        succeed(*command_of(kind), folder=folder)


def trial(case: Case) -> str:
    """Run one command in one environment."""
    name, command = PAIRS[case.number * 37 % len(PAIRS)]  # a short form reaches all parts of the list
    environment = ENVIRONMENTS[name]
    variables = {**os.environ, **environment.variables}
    words = shlex.join(
        [sys.executable, "-c", f"{environment.code}\nfrom pricekit.__main__ import run; run()"]
    )
    arguments = shlex.join(_arguments(COMMANDS[command], case))
    done = subprocess.run(
        ["bash", "-c", f"{environment.before} {words} {arguments} {environment.after}"],
        cwd=case.folder,
        env={key: value for key, value in variables.items() if value is not None},
        capture_output=True,
        check=False,
        timeout=150,
    )
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    for word in ("Traceback", "unexpected error", "Exception ignored", "Warning:"):
        assert word not in output, f"{command} with {name}:\n{output}"
    if done.returncode == 0:
        return "worked"
    assert 0 < done.returncode <= 4, f"{command} with {name}: {done.returncode}\n{output}"
    assert "pricekit: " in output or name in ("closed streams", "full stderr", "broken pipe"), output
    return "explained"


def _arguments(words: list[str], case: Case) -> list[str]:
    """Return the words of a command with absolute paths: of the inputs, and of the output after --out."""
    command, *rest = words
    return [
        command,
        *(
            str(case.folder / word)
            if before == "--out"
            else str(case.shared / word)
            if word in INPUTS
            else word
            for before, word in zip(words, rest, strict=False)
        ),
    ]
