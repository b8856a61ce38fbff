"""The program: `pricekit`, `python -m pricekit`, and `torchrun -m pricekit`."""

import os
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper

from pricekit.io.interrupts import end_soon
from pricekit.training.launched import launched_rank, quiet_torch
from pricekit.training.time_budget import count_from_process_start

INTERRUPTED = 130


def run() -> None:
    """Run the command line as a program, which an interrupt ends within about two seconds, without a traceback."""
    count_from_process_start()
    _open_streams()
    quiet_torch()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # before the slow imports
    code: int | str | None = INTERRUPTED
    try:
        with end_soon(_end_now):
            from pricekit.cli.main import main

            main()
            code = 0
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:  # it came before main could report it, or after it had ended
        _say_interrupted()
    if code == INTERRUPTED:  # do not wait for threads that still compute
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _open_streams() -> None:
    """Make the standard streams usable: closed ones are discarded, and characters that they lack are escaped.

    Otherwise a file that the program opens would take the number of a closed stream, and receive its output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
