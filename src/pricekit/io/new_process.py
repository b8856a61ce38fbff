"""A function in a new Python process, which shares nothing with this one but its files and its environment."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib import import_module
from typing import Any

from pricekit.errors import PluginError
from pricekit.wording import shorten

SECONDS = 600
"""Time for the whole process."""

_SEED = "PYTHONHASHSEED"
_START = "import sys; sys.path[:] = sys.argv[2:]; from pricekit.io.new_process import main; main(sys.argv[1])"


def in_new_process(function: str, argument: Any) -> Any:
    """Return what a function returns in a new process, whose `hash` of texts differs from that of this process.

    Argument and result pass through pipes, so nothing remains of them when a process is killed. The user's script is
    not run again.

    Args:
        function: such as "pricekit.features.fitted_feature:fresh_columns"; its result can be pickled.
        argument: what can be pickled.

    Raises:
        Exception: the function raises it.
        PluginError: the process ended without a result.
    """
    seed = "1" if os.environ.get(_SEED) != "1" else "2"
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter)
            [sys.executable, "-P", "-c", _START, function, *map(os.path.abspath, sys.path)],
            input=pickle.dumps(argument),
            capture_output=True,
            env={**os.environ, _SEED: seed},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PluginError(f"it did not end within {SECONDS} seconds") from None
    try:
        failed, result = pickle.loads(done.stdout)  # noqa: S301 (of our own process)
    except Exception:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
        raise PluginError(
            f"it ended without a result (exit code {done.returncode}): {shorten(reason, 300)}"
        ) from None
    if failed:
        raise result
    return result


def main(function: str) -> None:
    """Call a function with the argument from stdin, and write the pickled result, or error, to stdout."""
    argument = pickle.load(sys.stdin.buffer)  # noqa: S301 (of our own process)
    stdout, sys.stdout = sys.stdout.buffer, sys.stderr  # a plugin may print
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
    stdout.write(content)
    stdout.flush()
    os._exit(0)  # a thread of a plugin may not end
