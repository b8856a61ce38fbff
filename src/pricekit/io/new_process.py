"""A function in a new Python process, which shares nothing with this one but its files and its environment."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from pricekit.errors import PluginError
from pricekit.wording import shorten

SECONDS = 600
"""Time for the whole process."""

_SEED = "PYTHONHASHSEED"
_START = "import sys; sys.path[:] = sys.argv[2:]; from pricekit.io.new_process import main; main(sys.argv[1])"


def in_new_process(function: str, argument: Any, *, elsewhere: bool = False) -> Any:
    """Return what a function returns in a new process, whose `hash` of texts differs from that of this process.

    Argument and result pass through files without a name, so nothing remains of them when a process is killed. The
    user's script is not run again. Processes that the function starts end with its own.

    Args:
        function: such as "pricekit.features.repeated:fresh_columns"; its result can be pickled.
        argument: what can be pickled.
        elsewhere: the current folder of the process is an empty one.

    Raises:
        Exception: the function raises it.
        PluginError: the process ended without a result.
    """
    environment = {**os.environ, _SEED: "1" if os.environ.get(_SEED) != "1" else "2"}
    command = [sys.executable, "-P", "-c", _START, function, *map(os.path.abspath, sys.path)]
    with (
        TemporaryFile() as pickled,
        TemporaryFile() as output,
        TemporaryFile() as log,
        TemporaryDirectory() as empty,
    ):
        pickle.dump(argument, pickled)
        pickled.seek(0)
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            command,
            stdin=pickled,
            stdout=output,
            stderr=log,
            env=environment,
            cwd=empty if elsewhere else None,
            start_new_session=True,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise PluginError(f"it did not end within {SECONDS} seconds") from None
        finally:
            _end(process)
        output.seek(0)
        try:
            failed, result = pickle.load(output)  # noqa: S301 (of our own process)
        except Exception:
            log.seek(0)
            reason = (log.read().decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
            raise PluginError(
                f"it ended without a result (exit code {process.returncode}): {shorten(reason, 300)}"
            ) from None
    if failed:
        raise result
    return result


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    with suppress(OSError, AttributeError):  # they have ended, or the system has no groups of processes
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def main(function: str) -> None:
    """Call a function with the argument from stdin, and write the pickled result, or error, to stdout."""
    argument = pickle.load(sys.stdin.buffer)  # noqa: S301 (of our own process)
    result_file = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a plugin may print, and a library in C
    module, _, name = function.partition(":")
    failed = False
    try:
        result = getattr(import_module(module), name)(argument)
    except Exception as error:
        failed, result = True, error
    try:
        content = pickle.dumps((failed, result))
    except Exception:  # an error of the plugin's own class
        content = pickle.dumps((True, RuntimeError(f"{type(result).__name__}: {result}")))
    result_file.write(content)
    result_file.flush()
    os._exit(0)  # a thread of a plugin may not end
