"""Bundles that a stranger wrote: valid hashes, hostile contents."""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path

import pricekit
from pricekit.errors import PricekitError
from pricekit.wording import printable
from tests.faults.campaign import Case
from tests.faults.commands import Command
from tests.faults.grammar import spoil
from tests.faults.models import write_table

TRIALS, SHORT = 400, 40
REQUIREMENT = "no code, no outside access, at most 2 GB and 10 s, no traceback, one paragraph"

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"
MEMORY = 2_100 << 20
"""Bytes: 2 GiB, and what the limit of a process cannot count, such as pages shared with others."""
SECONDS_TO_INSPECT = 40
"""10 seconds in the sandbox, and the start of its process on a busy machine."""
LONGEST_PARAGRAPH = 2_500

_ONLY_SANDBOX = ("ends the process", "takes more than", "memory")
"""What only the sandbox survives: predict runs a graph without limits."""


def trial(case: Case) -> str:
    """Spoil a bundle, inspect it, and predict with it unless only the sandbox survives it."""
    bundle = Path(shutil.copytree(GOLDEN, case.folder / "bundle"))
    os.mkfifo(case.folder / "secret")  # whoever opens it waits for ever
    os.chdir(case.folder)
    spoil(bundle, case.number, case.random)
    message = _inspect(bundle)
    _check_untouched(case.folder, "bundle", "secret")
    if any(words in message for words in _ONLY_SANDBOX):
        return "stopped by the sandbox"
    code = _predict(case.folder)
    _check_untouched(case.folder, "bundle", "secret", "table.csv", *(["prices.csv"] if code == 0 else []))
    assert (code == 0) <= (message == ""), f"predict used what inspect refused: {message}"
    return "refused" if message else "harmless" if code == 0 else "refused by predict only"


def _inspect(bundle: Path) -> str:
    """Inspect a bundle; return the paragraph about it, "" if it can be used."""
    began = time.perf_counter()
    try:
        message = pricekit.bundles.inspect(bundle).note
    except PricekitError as error:
        message = str(error)
    seconds = time.perf_counter() - began
    assert seconds < SECONDS_TO_INSPECT, f"{seconds:.0f} s"
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        most = resource.getrusage(who).ru_maxrss * 1024
        assert most < MEMORY, f"{most / 1e6:,.0f} MB"
    assert printable(message) == message
    assert "\n" not in message, message
    assert len(message) < LONGEST_PARAGRAPH, message
    return message


def _predict(folder: Path) -> int:
    """Price a table under a limit of memory; return the exit code of a command that explains itself."""
    write_table(folder / "table.csv", 40)
    words = ["predict", "bundle", "table.csv", "--out", "prices.csv", "--engine", "ort-cpu"]
    before = "tests.faults.hostile_bundles:limit"
    ended = Command(*words, folder=folder, before=before, value=MEMORY).wait(SECONDS_TO_INSPECT)
    if ended.code:
        ended.check_explained()
    for output in folder.glob(".output-*"):
        output.unlink()
    return ended.code


def limit(memory: int) -> None:
    """Limit the memory that this process may take from now on."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))


def _check_untouched(folder: Path, *expected: str) -> None:
    found = {file.name for file in folder.iterdir()}
    assert found == set(expected), f"found {sorted(found)}, expected {sorted(expected)}"
