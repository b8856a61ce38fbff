"""New processes work on one CPU each, and end with the process that started them."""

import os
import subprocess
import sys

import psutil

from pricekit.io.cpus import usable_cpus
from pricekit.predict.workers import in_new_processes


def test_a_process_uses_one_cpu_and_leaves_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    with in_new_processes(1, int) as pool:
        assert pool.submit(usable_cpus).result() == 1
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
        assert dict(os.environ) == before


KILLED = """
import os, time
from pricekit.predict.workers import in_new_processes
with in_new_processes(1, int) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600)
    time.sleep(600)
"""


def test_a_process_ends_when_its_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as parent:
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    worker.wait(timeout=30)
    assert not worker.is_running()
