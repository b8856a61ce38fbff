"""A function in a new Python process, which shares nothing with this one but its files and its environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np

from pricekit.errors import PluginError, PricekitError
from pricekit.wording import shorten

SECONDS = 600
"""Time for the whole process."""

Arrays = Mapping[str, np.ndarray]

_FACTS, _ERROR = "facts", "error"
_SEED = "PYTHONHASHSEED"
_START = "import sys; sys.path[:] = sys.argv[2:]; from pricekit.io.new_process import main; main(sys.argv[1])"


def in_new_process(
    function: str, facts: Any, arrays: Arrays, *, elsewhere: bool = False
) -> tuple[Any, dict[str, np.ndarray]]:
    """Return what a function returns in a new process, whose `hash` of texts differs from that of this process.

    Arguments and results pass through files without a name, so nothing remains of them when a process is killed. The
    user's script is not run again. Processes that the function starts end with its own.

    Args:
        function: such as "pricekit.features.repeated:fresh_columns"; it is called with facts and arrays, and returns
            both.
        facts: plain JSON values.
        arrays: by name, without objects.
        elsewhere: the current folder of the process is an empty one.

    Raises:
        PluginError: the function raises an error, or the process ends without a result.
    """
    environment = {**os.environ, _SEED: "1" if os.environ.get(_SEED) != "1" else "2"}
    command = [sys.executable, "-P", "-c", _START, function, *map(os.path.abspath, sys.path)]
    with (
        TemporaryFile() as arguments,
        TemporaryFile() as output,
        TemporaryFile() as log,
        TemporaryDirectory() as empty,
    ):
        _write(arguments, facts, arrays)
        arguments.seek(0)
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            command,
            stdin=arguments,
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
            result, columns = _read(output)
        except (EOFError, OSError, ValueError, BadZipFile):
            log.seek(0)
            reason = (log.read().decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
            raise PluginError(
                f"it ended without a result (exit code {process.returncode}): {shorten(reason, 300)}"
            ) from None
    if _ERROR in columns:
        raise PluginError(result)
    return result, columns


def _write(file: BinaryIO, facts: Any, arrays: Arrays) -> None:
    contents: dict[str, Any] = {_FACTS: np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays}
    np.savez(file, **contents)


def _read(file: BinaryIO) -> tuple[Any, dict[str, np.ndarray]]:
    """Return facts and arrays; raises EOFError, OSError, ValueError or BadZipFile if the file has none."""
    with np.load(file, allow_pickle=False) as loaded:
        arrays = dict(loaded)
    return json.loads(arrays.pop(_FACTS).tobytes()), arrays


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    with suppress(OSError, AttributeError):  # they have ended, or the system has no groups of processes
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def main(function: str) -> None:
    """Call a function with what stdin contains, and write to stdout what it returns, or its error."""
    facts, arrays = _read(sys.stdin.buffer)
    output = os.fdopen(os.dup(1), "w+b")
    os.dup2(2, 1)  # a plugin may print, and a library in C
    module, _, name = function.partition(":")
    try:
        facts, arrays = getattr(import_module(module), name)(facts, arrays)
    except Exception as error:
        is_ours = isinstance(error, PricekitError)
        facts, arrays = str(error) if is_ours else f"{type(error).__name__}: {error}", {_ERROR: np.ones(1)}
    _write(output, facts, arrays)
    output.flush()
    os._exit(0)  # a thread of a plugin may not end
