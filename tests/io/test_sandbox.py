"""A function in a sandbox returns JSON and bytes, or ends with one sentence, whatever it does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pricekit.errors import DataError
from pricekit.io.sandbox import MEMORY, START, TIME, UNEXPECTED, in_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")
HERE = "tests.io.test_sandbox"


def prepare():
    if "FAIL" in os.environ:
        raise RuntimeError("boom")


def work(what):
    """What a file may do to a library."""
    if what == "return":
        return {"folder": [*map(str, Path().iterdir())], "token": os.environ.get("TOKEN")}, b"\0started\n" * 3
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "sleep":
        time.sleep(60)
    if what == "memory":
        return len(bytearray(1 << 32)), b""
    if what == "write":
        Path("file").write_bytes(b"content")
    if what == "refuse":
        raise DataError("it is damaged")
    raise ValueError("odd")


def run(what, **options):
    return in_sandbox(f"{HERE}:prepare", f"{HERE}:work", [what], seconds=2, memory=1 << 30, **options)


def test_json_and_bytes_are_returned(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    outcome = run("return")
    assert outcome.failure == ""
    assert outcome.facts == {"folder": [], "token": None}
    assert outcome.content == b"\0started\n" * 3


@pytest.mark.parametrize(
    ("what", "failure", "message"),
    [
        (
            "crash",
            MEMORY,
            "it ends the process that opens it (SIGSEGV), or needs more than 1,024 MiB of memory",
        ),
        ("sleep", TIME, "it takes more than 2 seconds"),
        ("memory", MEMORY, "it needs more than 1,024 MiB of memory"),
        ("refuse", "DataError", "it is damaged"),
        ("other", UNEXPECTED, "ValueError: odd"),
    ],
)
def test_failures_are_sentences(what, failure, message):
    outcome = run(what)
    assert (outcome.failure, outcome.message) == (failure, message)


def test_no_file_is_written():
    assert run("write").failure in (MEMORY, UNEXPECTED)


def test_a_failure_before_the_limits_is_told_apart():
    outcome = run("return", environment={"FAIL": "1"})
    assert (outcome.failure, outcome.message) == (START, "the sandbox cannot start: RuntimeError: boom")


def test_limits_of_the_user_are_kept():
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from pricekit.io.sandbox import _set_limits; _set_limits(60, 1 << 40); print(r.getrlimit(r.RLIMIT_AS))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{(4 << 30, 4 << 30)}\n"
