"""A function in a process of its own with limits on time and memory: for files that anybody may have made.

How libraries written in C++ and Rust treat odd values is only known after a trial. A crash or an endless computation
ends the child. What it returns is JSON and bytes; nothing is pickled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from pricekit.errors import PricekitError
from pricekit.io.causes import NO_MEMORY, causes, lacks_memory, lacks_threads
from pricekit.wording import shorten

CPUS = 2
"""CPUs that the child uses: each thread takes address space."""

START, MEMORY, TIME, UNEXPECTED = "start", "memory", "time", "unexpected"
"""The kinds of failures besides errors of this package."""

_START_SECONDS = 120
_STARTED, _LESS = b"\0started\n", b"\0less\n"
"""What the child writes when the limits begin, the second if the system allows it less memory; any failure before is
not the file's fault."""
_MESSAGE_CHARACTERS = 1_000
_BEGIN = "import sys; sys.path[:] = sys.argv[6:]; from pricekit.io.sandbox import main; main(*sys.argv[1:6])"
_OF_LIBRARIES = ("PRICEKIT_", "LD_", "TOKENIZERS_")
"""Beginnings of the environment variables that the child gets: the choice of plugins, and where libraries are."""


@dataclass(frozen=True)
class Outcome:
    """How a function in a sandbox ended.

    Attributes:
        failure: "" if it returned; otherwise the class of its `PricekitError`, `START` if the sandbox failed, `MEMORY`
            or `TIME` if it exceeded a limit or crashed, or `UNEXPECTED` for other errors.
        message: what failed, as the end of a sentence.
        facts: the JSON value that it returned.
        content: the bytes that it returned.
        less: the system allowed it less memory than the limit.
    """

    failure: str
    message: str = ""
    facts: Any = None
    content: bytes | memoryview = field(default=b"", repr=False)
    less: bool = False


def in_sandbox(
    prepare: str,
    function: str,
    arguments: Sequence[str],
    *,
    seconds: int,
    memory: int,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Return how a function ended in a new process, whose current folder is empty, and which writes no file.

    The environment of this process is hidden from it. Only Linux limits the memory, and only systems with POSIX signals
    the time of a function apart from that of the start.

    Args:
        prepare: such as "pricekit.table.workbook:load_library"; it is called before the limits begin.
        function: it is called with the arguments, and returns a plain JSON value and bytes.
        arguments: texts.
        seconds: time for the function.
        memory: bytes of memory in all.
        environment: additional variables of the environment.
    """
    paths = map(os.path.abspath, sys.path)
    words = [prepare, function, str(seconds), str(memory), json.dumps(list(arguments)), *paths]
    with tempfile.TemporaryDirectory(prefix="pricekit-") as home:
        try:
            child = subprocess.run(  # noqa: S603
                [sys.executable, "-I", "-c", _BEGIN, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=home,
                env=_environment(home) | dict(environment or {}),
                start_new_session=True,
                timeout=_START_SECONDS + seconds,
                check=False,
            )
            output, code = child.stdout, child.returncode
        except subprocess.TimeoutExpired as error:
            output, code = error.output or b"", -_signal("SIGALRM")
    return _outcome(output, code, seconds, memory)


def _environment(home: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name.startswith((*_OF_LIBRARIES, "SYSTEMROOT"))
    }
    threads = {"OMP_NUM_THREADS": str(CPUS), "RAYON_NUM_THREADS": str(CPUS), "MALLOC_ARENA_MAX": "2"}
    return {**kept, **threads, "HOME": home, "TMPDIR": home, "XDG_CACHE_HOME": home}


def _signal(name: str) -> int:
    return int(getattr(signal, name, 0)) or 1  # Windows has few


def _outcome(output: bytes, code: int, seconds: int, memory: int) -> Outcome:
    """Return the outcome that the child wrote, or one about how the child ended."""
    places = [(place, marker) for marker in (_STARTED, _LESS) if (place := output.find(marker)) >= 0]
    place, marker = min(places, default=(0, b""))
    less, started = marker == _LESS, bool(marker)
    first = place + len(marker)
    end = output.find(b"\n", first)
    try:
        report: dict[str, Any] = json.loads(output[first : max(first, end)])
        content = memoryview(output)[end + 1 :]  # it may be large, and is not copied
        return Outcome(**report, content=content, less=less)
    except ValueError:
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    late = code in (-_signal("SIGALRM"), -_signal("SIGXCPU"))
    if not started:
        state = f"did not start within {_START_SECONDS} seconds" if late else f"ended at its start ({ended})"
        return Outcome(START, f"the sandbox {state}, which is no fault of the file; try again")
    if late:
        return Outcome(TIME, f"it takes more than {seconds} seconds")
    return Outcome(MEMORY, f"it ends the process that opens it ({ended}), or {_needs(memory)}", less=less)


def _needs(memory: int) -> str:
    return f"needs more than {memory >> 20:,} MiB of memory"


def main(prepare: str, function: str, seconds: str, memory: str, arguments: str) -> None:
    """Call a function under limits, and write what it returns; the child's main function."""
    sys.stdout = sys.stderr  # stdout is for the outcome
    try:
        if sys.platform == "linux":
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CPUS])
        _named(prepare)()
        work = _named(function)
        less = _set_limits(int(seconds), int(memory))
    except Exception as error:
        own = isinstance(error, PricekitError)
        reason = ("" if own else f"{type(error).__name__}: ") + shorten(str(error), _MESSAGE_CHARACTERS)
        _end(Outcome(type(error).__name__ if own else START, f"the sandbox cannot start: {reason}"))
    _write(_LESS if less else _STARTED)
    too_much = Outcome(MEMORY, f"it {_needs(int(memory))}")
    try:
        facts, content = work(*json.loads(arguments))
        outcome = Outcome("", "", facts, content)
    except BaseException as error:  # a panic of a library is no Exception
        message = shorten(str(error), _MESSAGE_CHARACTERS)
        if NO_MEMORY.search(message) or any(lacks_memory(one) or lacks_threads(one) for one in causes(error)):
            outcome = too_much
        elif isinstance(error, PricekitError):
            outcome = Outcome(type(error).__name__, message)
        else:
            outcome = Outcome(UNEXPECTED, f"{type(error).__name__}: {shorten(message, 300)}")
    _end(outcome)


def _named(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def _end(outcome: Outcome) -> NoReturn:
    """Write an outcome, and end the process, in which threads of libraries may still compute."""
    line = {"failure": outcome.failure, "message": outcome.message, "facts": outcome.facts}
    _write(json.dumps(line).encode() + b"\n")
    _write(outcome.content)
    os._exit(0)


def _write(content: bytes | memoryview) -> None:
    stdout: Any = sys.__stdout__.buffer  # type: ignore[union-attr]
    stdout.write(content)
    stdout.flush()


def _set_limits(seconds: int, memory: int) -> bool:
    """Limit the process from now on: its memory to `memory` bytes in all, its time, and files that it writes.

    Return whether the system allows it less memory.
    """
    less = False
    if sys.platform == "linux":
        import resource

        page = resource.getpagesize()
        size, resident = (int(pages) * page for pages in Path("/proc/self/statm").read_text().split()[:2])
        for limit, most in (
            (resource.RLIMIT_AS, size + max(0, memory - resident)),
            (resource.RLIMIT_CPU, int(time.process_time()) + seconds * CPUS + 1),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(limit)[1]  # of the user, who may have limited this process
            if hard != resource.RLIM_INFINITY and hard < most:
                less, most = less or limit == resource.RLIMIT_AS, hard
            resource.setrlimit(limit, (most, most))
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    return less
