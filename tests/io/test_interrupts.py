"""A signal ends a program soon, without a traceback, whatever its main thread does."""

import signal
import subprocess
import sys

import pytest

STUBBORN = """
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""
STUBBORN_COMMAND = f"""
import time
import pricekit.cli.main
def main():{STUBBORN}
pricekit.cli.main.main = main
"""
SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "pricekit.cli.main":
            print("ready", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
"""
THREAD = """
import sys, threading, time
import pricekit.cli.main
def main():
    threading.Thread(target=time.sleep, args=(60,)).start()
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(print("pricekit: interrupted", file=sys.stderr) or 130)
pricekit.cli.main.main = main
"""
BEFORE_MAIN_HANDLES_IT = """
import time
import pricekit.cli.main
def logging_to_terminal():
    print("ready", flush=True)
    time.sleep(60)
pricekit.cli.main.logging_to_terminal = logging_to_terminal
"""
RUN = "\nfrom pricekit.__main__ import run; run()"


def start(code):
    """Start a program, and wait until it prints that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell's background jobs ignore it
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "code",
    [STUBBORN_COMMAND, SLOW_IMPORT, THREAD, BEFORE_MAIN_HANDLES_IT],
    ids=["stubborn", "import", "thread", "before"],
)
def test_the_program_ends_with_one_line(code, number):
    process = start(code + RUN)
    process.send_signal(number)
    error = process.communicate(timeout=50)[1]
    assert (process.returncode, error.strip()) == (130, "pricekit: interrupted")


def test_a_block_that_finishes_first_is_waited_for():
    process = start(
        "import os, signal, sys, time\n"
        "from pricekit.io import interrupts\n"
        "interrupts.GRACE = 0.2\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "with interrupts.end_soon(lambda: os._exit(7)):\n"
        "    with interrupts.finish_first():\n"
        "        print('ready', flush=True)\n"
        "        sys.stdin.readline()\n"
        "        time.sleep(1)\n"
        "        print('finished', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process.send_signal(signal.SIGTERM)
    assert process.communicate("\n", timeout=50)[0] == "finished\n"
    assert process.returncode == 7


def test_a_block_that_ends_by_itself_is_not_ended():
    process = start(
        "import os, signal, time\n"
        "from pricekit.io import interrupts\n"
        "interrupts.GRACE = 0.2\n"
        "def stop(*_): raise InterruptedError\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "try:\n"
        "    with interrupts.end_soon(lambda: os._exit(7)):\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "except InterruptedError:\n"
        "    time.sleep(1)\n"
    )
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=50)
    assert process.returncode == 0


def test_a_signal_to_a_forked_process_leaves_its_parent_alone():
    process = start(
        "import os, signal, time\n"
        "from pricekit.io import interrupts\n"
        "interrupts.GRACE = 0.2\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "with interrupts.end_soon(lambda: os._exit(7)):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(1)\n"
    )
    process.communicate(timeout=50)
    assert process.returncode == 0
