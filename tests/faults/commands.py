"""Commands of pricekit as processes of their own, which signals can reach.

They fork from a server that has imported torch and pricekit, so that one starts in milliseconds instead of seconds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.faults.warm"])

SECONDS = 120
"""A command that takes longer hangs."""


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code (negative: the signal that killed it) and everything that it printed."""

    code: int
    output: str

    def check_explained(self, code: int | None = None) -> None:
        """Assert that the command failed, with one paragraph and without a traceback."""
        assert self.code > 0 if code is None else self.code == code, (self.code, self.output)
        assert "Traceback" not in self.output, self.output
        assert "unexpected error" not in self.output, self.output


class Command:
    """A running command.

    Args:
        arguments: as after `pricekit`.
        folder: the working folder; it also receives the output.
        environment: variables to set.
        before: the name of a function, "module:function", to call with `value` in the process before the command,
            such as one that sets a limit or makes a call fail.
        value: its argument.
    """

    def __init__(
        self,
        *arguments: str | os.PathLike[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        before: str | None = None,
        value: object = None,
    ) -> None:
        number = len(list(folder.glob(".output-*")))
        self._output = folder / f".output-{number}"
        self._output.touch()
        words = [os.fspath(word) for word in arguments]
        given = (words, folder, self._output, dict(environment or {}), before, value)
        self._process: BaseProcess = _SERVER.Process(target=_run, args=given)
        self._process.start()

    @property
    def output(self) -> str:
        """What the command has printed so far, on stdout and stderr."""
        return self._output.read_text("utf-8", "replace")

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process still lives."""
        if self._process.pid and self.running:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self._process.pid, number)

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for the end; AssertionError if it hangs."""
        self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
            raise AssertionError(f"the command hangs after:\n{self.output}")
        return Ended(int(self._process.exitcode or 0), self.output)

    def wait_for(self, text: str, seconds: float = SECONDS) -> None:
        """Wait until the command has printed a text, or has ended."""
        end = time.monotonic() + seconds
        while text not in self.output and self.running and time.monotonic() < end:
            time.sleep(0.002)


def start_together(
    count: int,
    *arguments: str | os.PathLike[str],
    folder: Path,
    before: str | None = None,
    value: object = None,
) -> list[Command]:
    """Start a command in processes that train together, with the environment of launchers on as many machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    launcher |= {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "ACCELERATE_USE_CPU": "true",
    }
    return [
        Command(
            *arguments,
            folder=folder,
            environment=launcher | {"RANK": str(rank)},
            before=before,
            value=value,
        )
        for rank in range(count)
    ]


def run(
    *arguments: str | os.PathLike[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command to its end."""
    return Command(*arguments, folder=folder, environment=environment).wait()


def succeed(*arguments: str | os.PathLike[str], folder: Path) -> str:
    """Run a command that must succeed; return what it printed."""
    ended = run(*arguments, folder=folder)
    assert ended.code == 0, ended
    return ended.output


def _run(
    words: list[str],
    folder: Path,
    output: Path,
    environment: Mapping[str, str],
    before: str | None,
    value: object,
) -> None:
    """Become the command: the target of the forked process."""
    from importlib import import_module

    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    os.environ |= {"TERM": "dumb", "COLUMNS": "200", **environment}
    os.chdir(folder)
    handle = os.open(output, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["pricekit", *words]
    if before is not None:
        module, _, function = before.partition(":")
        getattr(import_module(module), function)(value)
    from pricekit.__main__ import run as run_program

    try:
        run_program()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
