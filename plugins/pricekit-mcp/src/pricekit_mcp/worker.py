"""Each call in a process of its own. It ends with all processes that it has started, at the latest at the time limit.

The process sees a private folder, its current one, and few variables of the environment. It reads one line of JSON on
stdin, and ends when stdin does, so it does not outlive the server. It writes lines of JSON: progress, then the outcome.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import psutil
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from pricekit.plugin import PricekitError, logger, shorten
from pricekit_mcp.limits import Limits

_START = "import sys; sys.path[:] = sys.argv[1:]; from pricekit_mcp.worker import main; main()"
_KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "SYSTEMROOT",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "PRICEKIT_CPUS",
    "PRICEKIT_LOAD_PLUGINS",
    "PRICEKIT_PLUGIN_FILES",
)
"""Variables that a call needs. All others may be secrets, which no code of a call can tell then."""
_LONGEST_LINE = 10_000_000
_NOTES = 20
_PAUSE = 0.5
"""Seconds between two messages about progress."""

Report = Callable[[str], Awaitable[None]]


async def run(
    tool: str, arguments: dict[str, Any], work: Path, home: Path, limits: Limits, hidden: Path, report: Report
) -> dict[str, Any]:
    """Run a tool in a new process, and return its answer.

    Args:
        tool: its name.
        arguments: plain JSON; paths are relative to `work`.
        work: a private folder, its current one.
        home: a private folder for temporary files.
        limits: of the call.
        hidden: a folder from which the process imports nothing, because others may write into it.
        report: is called with what the tool does.

    Raises:
        PricekitError: the tool fails, takes too long, or its process ends.
    """
    untrusted = {str(hidden), str(Path.cwd())}
    paths = [path for path in map(os.path.abspath, sys.path) if os.path.realpath(path) not in untrusted]
    process = await anyio.open_process(
        [sys.executable, "-I", "-c", _START, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        cwd=work,
        env=_environment(home),
        start_new_session=True,
    )
    request = {"tool": tool, "arguments": arguments, "limits": asdict(limits)}
    assert process.stdin is not None
    assert process.stdout is not None
    watched = psutil.Process(process.pid)
    try:
        with anyio.fail_after(limits.time_limit):
            await process.stdin.send(json.dumps(request).encode() + b"\n")
            outcome = await _outcome(process.stdout, report)
    except TimeoutError:
        raise PricekitError(
            f"{tool} took more than {limits.time_limit:g} seconds, the limit of this server; use a smaller table, or "
            "less training"
        ) from None
    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
        raise PricekitError(
            f"the process of {tool} ended without an answer; the machine may lack memory for this table"
        ) from None
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_end, watched)
            await process.aclose()
    if "error" in outcome:
        raise PricekitError(outcome["error"])
    return dict(outcome["answer"])


async def _outcome(stdout: ByteReceiveStream, report: Report) -> dict[str, Any]:
    lines = BufferedByteReceiveStream(stdout)
    while True:
        message = json.loads(await lines.receive_until(b"\n", _LONGEST_LINE))
        if "progress" not in message:
            return dict(message)
        await report(message["progress"])


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a call: it loads no package of plugins, unless the user of the server names some."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME"), str(home))
    return {"PRICEKIT_LOAD_PLUGINS": "", "HF_HUB_OFFLINE": "1", **kept, **places}


def _end(process: psutil.Process) -> None:
    """End a process and all that it has started, also those in sessions of their own."""
    family: dict[psutil.Process, None] = {process: None}  # in the order of their starts
    with suppress(psutil.Error):
        _suspend(process)  # it starts no more
        while started := [one for one in process.children(recursive=True) if one not in family]:
            for one in started:
                _suspend(one)
            family |= dict.fromkeys(started)
    for one in reversed(family):  # this process itself at last
        with suppress(psutil.Error):
            one.kill()
    with suppress(OSError):  # those whose parents have ended
        os.killpg(process.pid, signal.SIGKILL)


def _suspend(process: psutil.Process) -> None:
    if process.pid != os.getpid():
        with suppress(psutil.Error):
            process.suspend()


def main() -> None:
    """Run the tool that stdin names; the main function of the process."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print
    sys.stdout = sys.stderr
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    messages = _Messages(output)
    from pricekit import use_reporter
    from pricekit_mcp.tools import TOOLS

    notes = _Notes()
    logger.addHandler(notes)
    logger.propagate = False
    tool = TOOLS[request["tool"]]
    try:
        with use_reporter(messages):
            answer = tool.run(tool.takes.model_validate(request["arguments"]), Limits(**request["limits"]))
        outcome = answer.model_dump(mode="json")
        outcome["notes"] = [shorten(note, 500) for note in [*outcome["notes"], *notes.texts]][:_NOTES]
        messages.send({"answer": outcome})
    except PricekitError as error:
        messages.send({"error": shorten(str(error), 1000)})
    except Exception as error:
        traceback.print_exc()  # for the user of the server
        messages.send({"error": f"{request['tool']} failed unexpectedly ({type(error).__name__})"})
    os._exit(0)  # threads of libraries may still compute


def _end_with_server() -> None:
    sys.stdin.buffer.read()
    _end(psutil.Process())


class _Notes(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.texts) < _NOTES:
            self.texts.append(record.getMessage())


class _Messages:
    """Writes messages, and shows progress as such."""

    def __init__(self, output: Any) -> None:
        self._output, self._lock, self._last = output, threading.Lock(), 0.0

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._output.write(json.dumps(message, allow_nan=False).encode() + b"\n")
            self._output.flush()

    @contextmanager
    def bar(self, title: str, total: float, done: float) -> Iterator[Any]:
        """Report a stage from time to time."""
        now_done = done

        def advance(units: float, note: str = "") -> None:
            nonlocal now_done
            now_done += units
            if (now := time.monotonic()) - self._last >= _PAUSE:
                self._last = now
                self.send({"progress": f"{title}: {min(1.0, now_done / total):.0%}"})

        yield advance
