"""The program: `pricekit`, `python -m pricekit`, and `torchrun -m pricekit`."""

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn

from pricekit.io.interrupts import end_soon
from pricekit.training.launched import launched_rank, quiet_torch
from pricekit.training.time_budget import count_from_process_start

INTERRUPTED, PLUGIN_FAILED = 130, 3

THREAD_SECONDS = 60
"""How long the program waits for threads of plugins at its end, after it has named them."""


def run() -> None:
    """Run the command line as a program, which an interrupt ends within about two seconds, without a traceback."""
    count_from_process_start()
    _open_streams()
    quiet_torch()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # before the slow imports
    code: int | str | None = INTERRUPTED
    waits = False
    try:
        try:
            with end_soon(_end_now):
                from pricekit.cli.main import main

                main()
                code = 0
        except SystemExit as ended:
            code = ended.code
        waits = bool(_running_threads())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL if waits else lambda *_: _leave(INTERRUPTED))
    except KeyboardInterrupt:  # it came before main could report it, or after it had ended
        code = INTERRUPTED
        _say_interrupted()
    if code == INTERRUPTED:  # do not wait for threads that still compute
        _leave(code)
    if waits:
        sys.stdout = sys.stderr  # they may print
        threading.Thread(target=_end_without_threads, args=(code,), daemon=True).start()
    sys.exit(code)


def _running_threads() -> list[threading.Thread]:
    """Return the other threads for which Python waits at its end."""
    return [one for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]


def _end_without_threads(code: int | str | None) -> None:
    """End the process if a thread still runs some time after its end has begun, when idle pools have ended theirs."""
    from pricekit.cli.terminal import warn_at_end

    time.sleep(1)
    if not (threads := _running_threads()):
        return
    running = Counter(map(_described, threads))
    listed = ", ".join(one + f" × {count}" * (count > 1) for one, count in running.items())
    warn_at_end(
        "the command has finished, but threads of a plugin are still running. It must end them, or start them with "
        f"daemon=True. The program ends without them in {THREAD_SECONDS} seconds, with exit code "
        f"{PLUGIN_FAILED}: {listed}"
    )
    deadline = time.monotonic() + THREAD_SECONDS
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    if _running_threads():
        _leave(PLUGIN_FAILED if not code else code if isinstance(code, int) else 1)


def _described(thread: threading.Thread) -> str:
    function = getattr(thread, "_target", None) or thread.run
    code = getattr(function, "__code__", None)
    return f"'{re.sub(r'-[0-9]+', '', thread.name)}'" + (
        f" ({function.__qualname__} in {code.co_filename})" if code else ""
    )


def _leave(code: int) -> NoReturn:
    """End the process at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _open_streams() -> None:
    """Make the standard streams usable: closed ones are discarded, and characters that they lack are escaped.

    Otherwise a file that the program opens would take the number of a closed stream, and receive its output. What
    libraries in C and other processes print on stdout goes to stderr, see `pricekit.io.stdout`.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    encoding = sys.stdout.encoding if sys.stdout else "utf-8"
    sys.stdout = open(os.dup(1), "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.dup2(2, 1)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _end_now() -> None:
    """End the process from another thread, without the locks that the main thread may hold."""
    _say_interrupted()
    os._exit(INTERRUPTED)


def _say_interrupted() -> None:
    if launched_rank():  # the first of several processes says it
        return
    show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # progress bars hide it
    with suppress(OSError):
        os.write(2, f"{show_cursor}\npricekit: interrupted\n".encode())


if __name__ == "__main__":
    run()
